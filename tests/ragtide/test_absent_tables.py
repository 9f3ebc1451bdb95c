"""Tables say in how many interactions a metric is absent, and why."""

import re
from io import StringIO

import pytest
from rich.console import Console
from tests.support.metric_events import event

from ragtide.cli.printing.estimates import estimates_table, interval_bar
from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions


def rendered(width: int, *counts: tuple[int, str | None]) -> str:
    state = AggregatorState(StateOptions())
    number = 0
    for count, reason in counts:
        for _ in range(count):
            number += 1
            absent = {"trace.adherence": reason} if reason else {}
            state.apply(event(number, {} if reason else {"trace.adherence": 0.5}, absent=absent))
    console = Console(file=StringIO(), width=width)
    console.print(estimates_table(chosen(estimates(state)), width))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


@pytest.mark.parametrize("width", [80, 100, 150, 200])
def test_a_metric_without_any_value_shows_why_instead_of_a_whole_range(width: int) -> None:
    table = rendered(width, (1234, "judge_unusable"))
    assert "1,234 absent: judge_unusable" in table
    assert "1.000" not in table


@pytest.mark.parametrize("width", [80, 100, 150, 200])
def test_a_metric_that_is_absent_at_times_shows_how_often_and_the_most_frequent_reason(width: int) -> None:
    table = rendered(width, (90, None), (7, "judge_refused"), (3, "judge_unusable"))
    assert "10 absent: judge_refused 7, judge_unusable 3" in table
    assert "0.500" in table


@pytest.mark.parametrize("width", [70, 80, 100, 120])
def test_long_names_and_reasons_make_room_for_the_numbers(width: int) -> None:
    state = AggregatorState(StateOptions())
    long = "a-name-that-is-" + "much-" * 12 + "too-long"
    for number in range(1500):
        absent = {"trace.completeness": "not_accurate_enough"}
        scores = {"trace.context_utilization": float(number % 2)}
        state.apply(event(number, scores, absent=absent, segments={"customer": long}))
    console = Console(file=StringIO(), width=width)
    found = [one.model_copy(update={"n_effective": one.n / 1.7}) for one in chosen(estimates(state))]
    console.print(estimates_table(found, width))
    assert isinstance(console.file, StringIO)
    (line, *_) = [one for one in console.file.getvalue().splitlines() if "0.500" in one]
    assert " 1,500 (882) " in line
    assert re.search(r"0\.\d{3} to 0\.\d{3}", line)


@pytest.mark.parametrize("width", [80, 150])
def test_a_metric_that_is_never_absent_shows_nothing_of_it(width: int) -> None:
    assert "absent" not in rendered(width, (9, None))


@pytest.mark.parametrize("rows", [(), ((1, None),)])
def test_the_reason_of_a_users_own_labeler_is_bounded(rows: tuple[tuple[int, None], ...]) -> None:
    table = rendered(80, *rows, (2, "no\x1b[2J[/red]" * 1_000), (1, " "))
    words = " ".join(table.split())
    assert "3 absent: no" in words
    assert "no reason 1" in words
    assert "\x1b" not in table
    assert len(table) < 1_000


def test_bars_are_drawn_from_the_ends_of_the_range() -> None:
    assert [interval_bar(estimate, ends, (0.0, 1.0), 5).plain for estimate, ends in (
        (0.5, (0.25, 0.75)), (None, (0.0, 1.0)), (1.0, (1.0, 1.0)), (7.0, (-3.0, 0.0)),
    )] == ["─━●━─", "━━━━━", "────●", "━───●"]  # fmt: skip
    styles = [(span.start, span.end, span.style) for span in interval_bar(0.5, (0.25, 0.75), (0.0, 1.0), 5).spans]
    assert styles[2] == (2, 3, "bold cyan")


def test_no_estimates_are_an_empty_table() -> None:
    """A replay that is stopped before its first event prints its table, too."""
    assert rendered(80) == ""
