"""The keys, the order and the screen of `ragtide watch`, apart from any terminal."""

import asyncio
import os
import pty
import sys
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.metric_events import START, event

from ragtide.cli.running.watching import (
    FILTER_CHARS,
    LiveWatch,
    Sort,
    WatchView,
    by_pipeline,
    chosen_of,
    matching,
    press,
    watch_screen,
)
from ragtide_aggregator.estimates.estimates import metric_means
from ragtide_aggregator.estimates.headline import (
    Choice,
    Circumstances,
    HeadlineNumber,
    headline,
)
from ragtide_aggregator.estimates.ranges import HeadlineRange
from ragtide_aggregator.estimates.view import IntervalMethod
from ragtide_aggregator.events.keys import UNBOUNDED
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.notify.silences import MutedAlerts
from ragtide_runtime.processes.waiting import end
from ragtide_schemas import Headline
from ragtide_schemas.headline import MeanOfAll

NAMES = ["a", "b", "c"]


def pressed(*keys: str, view: WatchView | None = None, names: list[str] | None = None) -> WatchView:
    view = view or WatchView()
    for key in keys:
        view = press(view, key, NAMES if names is None else names)
    return view


def headlines_of(state: AggregatorState, segments: tuple[str | None, ...] = (None,)) -> list[Headline]:
    """Headlines of a state: the second half of its values is that of now."""
    around = Circumstances(START + timedelta(days=400))
    method = IntervalMethod("auto", 0.95)
    return [
        headline([mean], Choice(0), HeadlineNumber(mean, HeadlineRange("24h", None)), around, confidence=0.95)
        for segment in segments
        for mean in metric_means(state, method, segment)
        if mean.key.metric not in UNBOUNDED
    ]


def found(values: dict[str, float], *, segments: bool = False, count: int = 100) -> list[Headline]:
    """Headlines of pipelines whose adherence is 1 over all time, and now the given value."""
    state = AggregatorState(StateOptions())
    number = 0
    for pipeline, value in values.items():
        for _ in range(count):
            number += 1
            more: dict[str, Any] = {"segments": {"lang": "de"}} if segments else {}
            state.apply(event(number, {"trace.adherence": value}, pipeline=pipeline, **more))
    whole = MeanOfAll(n=2 * count, estimate=1.0, lower=0.9, upper=1.0)
    names = (None, "lang=de") if segments else (None,)
    return [each.model_copy(update={"all_time": whole}) for each in headlines_of(state, names)]


def test_the_cursor_moves_and_stays_in_the_list() -> None:
    assert chosen_of(WatchView(), NAMES) == "a"
    assert pressed("down").chosen == "b"
    assert pressed("down", "j", "down", "down").chosen == "c"
    assert pressed("down", "up", "k").chosen == "a"
    assert pressed("down", names=[]).chosen is None


def test_the_cursor_follows_its_pipeline_when_the_order_changes() -> None:
    view = pressed("down")
    assert chosen_of(view, ["b", "c", "a"]) == "b"
    assert chosen_of(view, ["c", "a"]) == "c"


def test_s_goes_through_the_orders_and_begins_again() -> None:
    assert [pressed(*"s" * number).sort for number in range(4)] == [Sort.NAME, Sort.WORST, Sort.CHANGE, Sort.NAME]


def test_a_filter_takes_every_character_until_enter_or_escape() -> None:
    typing = pressed("/", "q", "s", "x", "backspace")
    assert typing == WatchView(text="qs", typing=True)
    assert pressed("enter", view=typing) == WatchView(text="qs")
    assert pressed("escape", view=typing) == WatchView()
    assert pressed("enter", "escape", view=typing) == WatchView()
    assert len(pressed("/", *"y" * 500).text) == FILTER_CHARS


def test_a_pipeline_opens_scrolls_and_closes() -> None:
    opened = pressed("down", "enter")
    assert (opened.chosen, opened.opened) == ("b", True)
    assert pressed("down", "page-down", "up", view=opened).first_line == 10
    assert pressed("up", view=opened).first_line == 0
    assert pressed("down", "right", view=opened) == WatchView(chosen="c", opened=True)
    assert pressed("down", "escape", view=opened) == WatchView(chosen="b")
    assert not pressed("enter", names=[]).opened


def test_q_quits_from_everywhere_but_the_filter() -> None:
    assert pressed("q").closed
    assert pressed("enter", "q").closed
    assert not pressed("/", "q").closed


def test_unknown_keys_change_nothing() -> None:
    assert pressed("ü", "left", "page-up", "backspace") == WatchView()


def test_a_view_names_the_keys_that_have_an_effect() -> None:
    assert "s sort" in WatchView().keys
    assert "Esc remove it" in pressed("/").keys
    assert "Esc back" in pressed("enter").keys


def test_pipelines_are_sorted_by_name_worst_state_and_largest_change() -> None:
    all_found = found({"fine": 1.0, "low": 0.0, "mid": 0.6})
    assert list(by_pipeline(all_found, Sort.NAME)) == ["fine", "low", "mid"]
    fired = [each.model_copy(update={"state": "firing"} if each.pipeline == "mid" else {}) for each in all_found]
    assert list(by_pipeline(fired, Sort.WORST)) == ["mid", "fine", "low"]
    assert list(by_pipeline(all_found, Sort.CHANGE)) == ["low", "mid", "fine"]


def test_a_filter_finds_pipelines_metrics_and_labelers_in_any_case() -> None:
    all_found = found({"shop": 0.5, "search": 0.5})
    assert {headline.pipeline for headline in matching(all_found, "SHO")} == {"shop"}
    assert {headline.pipeline for headline in matching(all_found, "adher")} == {"shop", "search"}
    assert matching(all_found, "[") == []
    assert matching(all_found, "") == all_found


class FakeScreen:
    """The parts of a screen that drawing uses, without Redis."""

    def __init__(self, headlines: list[Headline]) -> None:
        self.headlines = headlines
        self.segments = False
        self.alerts: list[Any] = []
        self.muted = MutedAlerts()
        self.warnings: list[str] = []
        self.counts = Text("ragtide   scored 200")

    async def refresh(self) -> None:
        pass


def drawn(view: WatchView, headlines: list[Headline], *, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height)
    screen: Any = FakeScreen(headlines)
    console.print(watch_screen(screen, view, width, height, segments=False, keys=True))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue().splitlines()


@for_each("width", [80, 100, 120])
@for_each("view", [WatchView(), WatchView(opened=True), WatchView(text="p1"), WatchView(typing=True, text="p")])
def test_the_screen_fits_and_its_last_line_lists_the_keys(view: WatchView, width: int) -> None:
    lines = drawn(view, found({f"p{number}": 0.5 for number in range(12)}, segments=True, count=4), width=width)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith(view.keys)


def test_the_list_shows_worst_state_and_change_beside_each_pipeline_at_80_columns() -> None:
    screen = drawn(WatchView(sort=Sort.CHANGE), found({"fine": 1.0, "low": 0.0}))
    first = next(line for line in screen if line.startswith("›"))
    assert first.split()[1] == "low"
    assert "silent: adherence" in first
    assert "-1.000 adherence" in first


def test_a_pipeline_of_its_own_has_segments_and_the_list_has_none() -> None:
    all_found = found({"shop": 0.5, "search": 0.5}, segments=True)
    listed = "\n".join(drawn(WatchView(chosen="shop"), all_found, height=60))
    assert "pipelines by name" in listed
    assert "lang=de" not in listed
    screen = "\n".join(drawn(WatchView(chosen="shop", opened=True), all_found, height=60))
    assert "Segments: lang=de" in screen
    assert "shop · lang=de" in screen
    assert "No alerts." in screen


def test_a_pipeline_of_its_own_lists_few_segments() -> None:
    state = AggregatorState(StateOptions())
    for number in range(25):
        state.apply(event(number, {"trace.adherence": 0.5}, segments={"topic": f"t{number:02}"}))
    names = tuple(f"topic=t{number:02}" for number in range(25))
    screen = " ".join(" ".join(drawn(WatchView(chosen="shop", opened=True), headlines_of(state, names))).split())
    assert "topic=t19, and 5 more" in screen


def test_long_metrics_and_a_warning_of_two_lines_cost_neither_names_nor_keys() -> None:
    state = AggregatorState(StateOptions())
    for number in range(60):
        state.apply(event(number, {"trace.context_utilization": 1.0 if number < 30 else 0.0}, pipeline="checkout"))
    screen: Any = FakeScreen(headlines_of(state))
    screen.warnings = ["a warning " * 12]
    console = Console(file=StringIO(), width=80, height=24)
    console.print(watch_screen(screen, WatchView(), 80, 24, segments=False, keys=True))
    output = console.file
    assert isinstance(output, StringIO)
    lines = output.getvalue().splitlines()
    assert len(lines) <= 24
    assert any(line.startswith("›  checkout  ") for line in lines)
    assert any("firing" in line for line in lines)
    assert lines[-1].startswith("↑↓ choose")


def test_scrolling_too_far_shows_the_end() -> None:
    all_found = found({"shop": 0.5}, segments=True)
    end = drawn(WatchView(chosen="shop", opened=True, first_line=1000), all_found, height=10)
    assert any("lang=de" in line or "adherence" in line for line in end)
    assert drawn(WatchView(chosen="none", text="zzz"), all_found)[1].startswith("Nothing matches 'zzz'")


async def test_keys_beyond_the_end_do_not_have_to_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, keys = pty.openpty()
    console = Console(file=StringIO(), width=80, height=10, force_terminal=True, legacy_windows=False)
    screen: Any = FakeScreen(found({"shop": 0.5}, segments=True))
    watch = LiveWatch(console, screen, segments=True)

    def frame() -> str:
        assert isinstance(console.file, StringIO)
        return console.file.getvalue().rpartition("\x1b[H")[2]

    with os.fdopen(keys) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        running = asyncio.create_task(watch.run(0.01))
        try:
            await until(lambda: "choose" in frame())
            os.write(terminal, b"\r")
            await until(lambda: "Segments" in frame())
            os.write(terminal, b"j" * 200)
            await until(lambda: "Segments" not in frame())
            os.write(terminal, b"k" * 20)
            await until(lambda: "Segments" in frame(), timeout_s=60)
            os.write(terminal, b"q")
            await running
        finally:
            await end(running)
    os.close(terminal)
