"""The keys, the order and the screen of `ragtide watch`, apart from any terminal."""

import asyncio
import os
import pty
import re
import sys
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.metric_events import event

from ragtide.cli.watch_screen import LiveWatch, watch_screen
from ragtide.cli.watch_view import FILTER_CHARS, Sort, WatchView, by_pipeline, chosen_of, matching, press
from ragtide_aggregator.estimates.estimates import chosen, estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.notify.silences import MutedAlerts
from ragtide_runtime.processes.waiting import end
from ragtide_schemas import Estimate

NAMES = ["a", "b", "c"]


def pressed(*keys: str, view: WatchView | None = None, names: list[str] | None = None) -> WatchView:
    view = view or WatchView()
    for key in keys:
        view = press(view, key, NAMES if names is None else names)
    return view


def found(values: dict[str, float], *, segments: bool = False, count: int = 100) -> list[Estimate]:
    """Estimates of pipelines whose adherence is high first and then the given value."""
    state = AggregatorState(StateOptions())
    number = 0
    for pipeline, value in values.items():
        for place in range(count):
            number += 1
            more: dict[str, Any] = {"segments": {"lang": "de"}} if segments else {}
            score = 1.0 if place < count // 2 else value
            state.apply(event(number, {"trace.adherence": score}, pipeline=pipeline, **more))
    return chosen(estimates(state))


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


def test_pipelines_are_sorted_by_name_worst_band_and_largest_change() -> None:
    all_found = found({"fine": 1.0, "low": 0.0, "mid": 0.6})
    assert list(by_pipeline(all_found, Sort.NAME)) == ["fine", "low", "mid"]
    assert next(iter(by_pipeline(all_found, Sort.WORST))) == "low"
    assert list(by_pipeline(all_found, Sort.CHANGE)) == ["low", "mid", "fine"]


def test_a_filter_finds_pipelines_metrics_and_labelers_in_any_case() -> None:
    all_found = found({"shop": 0.5, "search": 0.5})
    assert {estimate.pipeline for estimate in matching(all_found, "SHO")} == {"shop"}
    assert {estimate.pipeline for estimate in matching(all_found, "adher")} == {"shop", "search"}
    assert matching(all_found, "[") == []
    assert matching(all_found, "") == all_found


class FakeScreen:
    """The parts of a screen that drawing uses, without Redis."""

    def __init__(self, estimates_: list[Estimate]) -> None:
        self.estimates = estimates_
        self.alerts: list[Any] = []
        self.muted = MutedAlerts()
        self.trends: dict[Any, Any] = {}
        self.warnings: list[str] = []
        self.counts = Text("ragtide   scored 200")

    async def refresh(self) -> None:
        pass


def drawn(view: WatchView, estimates_: list[Estimate], *, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height)
    screen: Any = FakeScreen(estimates_)
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


def test_the_list_shows_worst_band_and_change_beside_each_pipeline_at_80_columns() -> None:
    screen = drawn(WatchView(sort=Sort.WORST), found({"fine": 1.0, "low": 0.0}))
    first = next(line for line in screen if line.startswith("›"))
    assert first.split()[1] == "low"
    assert "poor: adherence" in first
    assert re.search(r"-0\.\d{3} adherence", first)


def test_the_list_says_how_many_rows_of_segments_it_hides() -> None:
    all_found = found({"shop": 0.5, "search": 0.5}, segments=True)
    hidden = sum(one.pipeline == "shop" and one.segment is not None for one in all_found)
    assert hidden
    screen = "\n".join(drawn(WatchView(chosen="shop"), all_found, height=60))
    assert f"{hidden} estimates of segment values are not shown: Enter shows them." in screen
    assert "pipelines by name" in screen
    opened = "\n".join(drawn(WatchView(chosen="shop", opened=True), all_found, height=60))
    assert "not shown" not in opened
    assert "not shown" not in "\n".join(drawn(WatchView(chosen="shop"), found({"shop": 0.5}), height=60))


def test_a_pipeline_of_its_own_has_segments_and_labelers() -> None:
    screen = "\n".join(drawn(WatchView(chosen="shop", opened=True), found({"shop": 0.5}, segments=True), height=60))
    assert "Segments: lang=de" in screen
    assert "Labelers: " in screen
    assert "No alerts." in screen


def test_a_pipeline_of_its_own_counts_each_version_of_a_labeler_and_lists_few_segments() -> None:
    state = AggregatorState(StateOptions())
    for number in range(65):
        version, segments = ("1", {}) if number < 40 else ("2", {"topic": f"t{number}"})
        state.apply(event(number, {"trace.adherence": 0.5}, labeler_version=version, segments=segments))
    screen = " ".join(" ".join(drawn(WatchView(chosen="shop", opened=True), chosen(estimates(state)))).split())
    assert "test 1 ragbench, n 40; test 2 ragbench, n 25" in screen
    assert "topic=t59, and 5 more" in screen


def test_long_metrics_and_a_warning_of_two_lines_cost_neither_names_nor_keys() -> None:
    state = AggregatorState(StateOptions())
    for number in range(60):
        state.apply(event(number, {"trace.context_utilization": 1.0 if number < 30 else 0.0}, pipeline="checkout"))
    screen: Any = FakeScreen(chosen(estimates(state)))
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
            await until(lambda: "Labelers" in frame())
            os.write(terminal, b"j" * 200)
            await until(lambda: "Labelers" not in frame())
            os.write(terminal, b"k" * 20)
            await until(lambda: "Labelers" in frame(), timeout_s=60)
            os.write(terminal, b"q")
            await running
        finally:
            await end(running)
    os.close(terminal)
