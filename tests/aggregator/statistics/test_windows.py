import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window

HOUR = 3_600_000


@given(st.sampled_from(["1m", "15m", "1h", "24h/1h", "7d/1d", "30s"]), st.integers(0, 10**13))
def test_a_window_covers_the_time_it_is_asked_for_and_is_as_long_as_it_says(name: str, time_ms: int) -> None:
    one = window(name)
    start, end = one.covering(time_ms)
    assert start <= time_ms < end
    assert end - start == one.size_ms
    assert end % one.every_ms == 0
    assert end - one.every_ms <= time_ms


@given(st.lists(st.sampled_from(["1m", "15m", "1h", "24h/1h", "7d/1d"]), min_size=1, max_size=4))
def test_every_window_is_a_whole_number_of_panes(names: list[str]) -> None:
    panes = Panes(tuple(map(window, names)), 60_000)
    for one in panes.windows:
        assert one.every_ms % panes.pane_ms == one.size_ms % panes.pane_ms == 0
        assert panes.kept * panes.pane_ms >= 2 * one.size_ms + panes.lateness_ms


def test_what_comes_after_the_lateness_is_late() -> None:
    panes = Panes((window("1h"),), 10 * 60_000)
    assert not panes.late(HOUR - 1, HOUR + 10 * 60_000 - 1)
    assert panes.late(HOUR - 1, HOUR + 10 * 60_000)
    assert not panes.late(HOUR, HOUR + 10 * 60_000)


@for_each("text", ["", "1", "h", "1w", "0h", "1h/0m", "1h/25m", "-1h", "1.5h"])
def test_what_is_no_window_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="window"):
        window(text)
