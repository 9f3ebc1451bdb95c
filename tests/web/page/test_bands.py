"""Charts over time: gaps stay gaps, everything is inside, and ranges of an address are bounded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.estimates.ranges import RANGES
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_runtime.settings.model import load_settings
from ragtide_schemas import Headline, Move
from ragtide_schemas.headline import MeanOfAll
from ragtide_web.page.pipeline.screen import MetricPanel, panels, time_span
from ragtide_web.reading.bands import HEIGHT, WIDTH, BandChart, Mark, chart_start

START = datetime(2026, 11, 23, tzinfo=UTC)
STEP = timedelta(minutes=5)
SHARES = st.floats(0, 1)


def point(place: int, mean: float = 0.5, lower: float | None = 0.4, upper: float | None = 0.6) -> HistoryPoint:
    return HistoryPoint(mean, lower, upper, START + place * STEP, START + (place + 1) * STEP, 10, open=False)


def chart(points: list[HistoryPoint], target: float | None = None) -> BandChart:
    return BandChart(points, START, START + 100 * STEP, 0.0, 1.0, target=target)


def places(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def test_nothing_is_drawn_where_no_value_was() -> None:
    drawn = chart([point(place) for place in (0, 1, 2, 7, 8, 20)])
    assert [[int((event.start - START) / STEP) for event in stretch] for stretch in drawn.stretches] == [
        [0, 1, 2],
        [7, 8],
        [20],
    ]
    # A mean holds for its whole stretch: level from its start to its end.
    assert [x for x, _ in places(drawn.line(drawn.stretches[0]))] == [0.0, 4.0, 4.0, 8.0, 8.0, 12.0]
    assert len(places(drawn.band(drawn.stretches[0]))) == 12


@pytest.mark.parametrize("kind", ["began", "deploy", "fires"])
def test_a_change_is_a_step_at_its_time(kind: str) -> None:
    """The point that holds the change is a mean of both sides: it is in the table, and not in the drawing."""
    change = START + 2.5 * STEP
    points = [point(0, 0.9), point(1, 0.9), point(2, 0.6), point(3, 0.2), point(4, 0.2)]
    marks = () if kind == "fires" else (Mark(change, kind, ""),)
    drawn = replace(chart(points), marks=marks, changed_at=change if kind == "fires" else None)
    (stretch,) = drawn.stretches
    corners = places(drawn.line(stretch))
    high, low = drawn.y(0.9), drawn.y(0.2)
    assert corners == [
        (0.0, high),
        (4.0, high),
        (4.0, high),
        (10.0, high),
        (10.0, low),
        (16.0, low),
        (16.0, low),
        (20.0, low),
    ]
    assert [row for row, _ in drawn.rows] == points
    assert [shown is None for _, shown in drawn.rows] == [False, False, True, False, False]
    if kind == "fires":
        assert places(drawn.line(drawn.changed(stretch)))[0] == (10.0, low)


def test_a_point_that_holds_a_change_is_drawn_while_it_is_the_last() -> None:
    drawn = replace(chart([point(0, 0.9), point(1, 0.6)]), changed_at=START + 1.5 * STEP)
    (stretch,) = drawn.stretches
    assert places(drawn.line(stretch))[-1] == (8.0, drawn.y(0.6))
    assert [x for x, _ in places(drawn.line(drawn.changed(stretch)))] == [6.0, 8.0]


@given(
    rows=st.lists(st.tuples(st.integers(0, 99), SHARES, SHARES, SHARES), min_size=1, max_size=20),
    target=st.none() | SHARES,
)
def test_everything_that_is_drawn_is_inside(rows: list[tuple[int, float, float, float]], target: float | None) -> None:
    ordered = {place: sorted(values) for place, *values in rows}
    points = [point(place, mean, lower, upper) for place, (lower, mean, upper) in sorted(ordered.items())]
    drawn = chart(points, target)
    for stretch in drawn.stretches:
        for x, y in (*places(drawn.line(stretch)), *places(drawn.band(stretch))):
            assert 0 <= x <= WIDTH
            assert -0.01 <= y <= HEIGHT + 0.01
    low, high = drawn.limits
    assert 0 <= low < high <= 1 or low == high


def test_a_quantity_without_an_interval_has_a_line_and_no_band() -> None:
    drawn = chart([point(0, 0.5, None, None), point(1, 0.6, None, None)])
    (stretch,) = drawn.stretches
    assert drawn.band(stretch) == ""
    assert len(places(drawn.line(stretch))) == 4
    assert not drawn.cut


def test_a_chart_begins_with_the_first_value_only_if_nothing_is_older() -> None:
    key = EstimateKey("shop", None, None, "trace.adherence", "default", "local", "1")
    for young, start in ((True, START + 50 * STEP), (False, START)):
        assert chart_start(History(key, STEP, (point(50), point(51)), young=young), START) == start
    assert chart_start(None, START) == START


def test_a_narrow_band_fills_the_chart_and_says_so() -> None:
    drawn = chart([point(0, 0.9, 0.88, 0.92), point(1, 0.91, 0.89, 0.93)])
    low, high = drawn.limits
    assert 0.85 < low < 0.88
    assert 0.93 < high < 0.95
    assert drawn.cut


def test_an_interval_far_above_a_number_of_seconds_does_not_press_its_line_flat() -> None:
    points = [point(0, 1.4, 1.2, 1.6), point(1, 1.0, 0.0, 70.0)]
    drawn = BandChart(points, START, START + 100 * STEP, 0.0, 300.0)
    low, high = drawn.limits
    assert (low, drawn.cut) == (0.0, True)
    assert 1.6 < high < 10
    (stretch,) = drawn.stretches
    assert all(0 <= y <= HEIGHT for _, y in places(drawn.band(stretch)))
    assert max(y for _, y in places(drawn.line(stretch))) < 0.9 * HEIGHT
    zero = BandChart([point(0, 0.0, 0.0, 70.0)], START, START + 100 * STEP, 0.0, 300.0)
    assert zero.limits[1] > 70


@pytest.mark.parametrize("name", list(RANGES))
def test_a_range_of_a_button_ends_now(name: str) -> None:
    found = time_span(name, "", "", START)
    assert (found.start, found.end, found.name) == (START - RANGES[name], START, name)


def test_a_range_of_a_drag_is_taken_and_anything_else_is_the_default() -> None:
    found = time_span("1h", "2026-11-22T10:00:00.000Z", "2026-11-22T11:00:00.000Z", START)
    assert (found.start.hour, found.end.hour, found.name) == (10, 11, "")
    for first, last in (
        ("2026-11-22T11:00:00Z", "2026-11-22T10:00:00Z"),
        ("yesterday", "today"),
        ("2026-11-22T10:00:00Z", ""),
        ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
    ):
        assert time_span("nonsense", first, last, START).name == ""


def panel_of(n_of_all: int, **changes: Any) -> MetricPanel:
    """Return the panel of a metric with ten values in each of three panes of the last day, and more before."""
    headline = Headline(
        pipeline="shop",
        metric="trace.adherence",
        lowest=0.0,
        highest=1.0,
        profile="ragbench",
        labeler="local",
        labeler_version="1",
        range="24h",
        n=30,
        estimate=0.5,
        lower=0.4,
        upper=0.6,
        confidence=0.95,
        all_time=MeanOfAll(n=n_of_all, estimate=0.5, lower=0.4, upper=0.6),
        **{"state": "steady", **changes},
    )
    key = EstimateKey("shop", None, None, "trace.adherence", "ragbench", "local", "1")
    history = History(key, STEP, (point(0), point(1), point(2)), young=n_of_all == 30)
    span = time_span("24h", "", "", START + timedelta(hours=1))
    (found,) = panels([headline], {"trace.adherence": [history]}, span)
    return found


def test_the_chart_of_a_new_metric_begins_with_its_first_value() -> None:
    assert panel_of(30).chart.start == START
    assert panel_of(31).chart.start == START + timedelta(hours=1) - timedelta(days=1), "there were values before"


def test_the_rule_of_a_moved_metric_has_the_level_before_as_its_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = Move(began_at=START, found_at=START, direction="fall", before=0.95, after=0.45, n_after=50)
    file = tmp_path / "ragtide.toml"
    file.write_text(panel_of(30, state="moved", move=move).rule, encoding="utf-8")
    monkeypatch.setenv("RAGTIDE_CONFIG", str(file))
    (rule,) = [rule for rule in load_settings().alerts if rule.given_baseline is not None]
    assert (rule.pipeline, rule.metric, rule.baseline) == ("shop", "trace.adherence", 0.95)
