"""The worth of labelers on one screen of 80 columns."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import floor, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_aggregator.statistics.drift.sights import SeenFall, Sight
from ragtide_offline.trust.worth import ENOUGH_ROWS, FALLS, LabelerWorth, PipelineTraffic, is_free
from ragtide_roles.doctor.finding import count_of

from . import Column, fitted, heading, in_sections

if TYPE_CHECKING:
    from rich.console import RenderableType

NOT_SEEN: Final = "not seen"
"""The slope's interval reaches 0, or the mean moves by less than a rule counts."""

WIDEST: Final = 80
"""Columns of the screen."""


def trust_view(
    worths: Sequence[LabelerWorth], labeled: int, traffic: PipelineTraffic | None, width: int, confidence: float
) -> "RenderableType":
    """Return how far the numbers of each labeler follow the labels, what each would see, and at what price."""
    width = min(width, WIDEST)
    lines = [line for note in _notes(worths, labeled, traffic, confidence) for line in wrap(note, width)]
    notes = [Text(line, style="bright_black") for line in lines]
    return Group(_agreement_table(worths, width), Text(), _sights_table(worths, traffic, width), Text(), *notes)


def _agreement_table(worths: Sequence[LabelerWorth], width: int) -> "RenderableType":
    columns: list[Column[LabelerWorth]] = [
        Column("labeler", lambda worth: f"  {worth.labeler.name}", shortest=9, yields=2),
        Column("rows", lambda worth: f"{worth.agreement.n:,}", right=True, yields=1),
        Column("slope", lambda worth: _cell(worth.agreement.slope)),
        Column("kappa", lambda worth: _cell(worth.agreement.kappa)),
        Column("AUROC", lambda worth: _cell(worth.agreement.auroc)),
    ]
    sections = (([heading([metric, *_labels(members)], width)], members, ()) for metric, members in _by_metric(worths))
    rows, above = in_sections(sections)
    return fitted(columns, rows, width, above)


def _by_metric(worths: Sequence[LabelerWorth]) -> Iterator[tuple[str, list[LabelerWorth]]]:
    for metric, members in groupby(worths, lambda worth: worth.metric):
        yield metric, [*members]


def _labels(members: Sequence[LabelerWorth]) -> list[str]:
    worth = max(members, key=lambda worth: worth.agreement.n)  # scores of a file may be of some rows only
    if worth.good is None:
        return ["labels are shares"]
    return [f"{worth.good:,} good", f"{worth.bad:,} bad"]


def _cell(measured: Measured) -> str:
    if measured.value is None:
        return "undefined"
    ends = "" if measured.lower is None else f" ({measured.lower:.2f} to {measured.upper:.2f})"
    return f"{measured.value:.2f}{ends}"


_SightRow = tuple[LabelerWorth, Sight]


def _sights_table(worths: Sequence[LabelerWorth], traffic: PipelineTraffic | None, width: int) -> "RenderableType":
    columns: list[Column[_SightRow]] = [
        Column("a true fall by", lambda row: f"  {_name(row)}", shortest=14, yields=1),
        *(Column(f"{fall:.2f}", _fall_cell(place), right=True) for place, fall in enumerate(FALLS)),
        Column("$ per 1,000" if traffic is None else "$ a day", lambda row: _dollars(row, traffic), right=True),
    ]
    sections = (
        ([Text(metric, style="bold")], [(worth, sight) for worth in members for sight in worth.sights], ())
        for metric, members in _by_metric(worths)
    )
    rows, above = in_sections(sections)
    return fitted(columns, rows, width, above)


def _name(row: _SightRow) -> str:
    worth, sight = row
    return worth.labeler.name if is_free(worth.labeler.name) else f"{worth.labeler.name}, {100 * sight.rate:.3g}%"


def _fall_cell(place: int) -> Callable[[_SightRow], str]:
    return lambda row: _answers(row[1].falls[place])


def _answers(seen: SeenFall) -> str:
    if seen.answers is None:
        return NOT_SEEN
    return f"{_rounded(seen.answers)}{'' if seen.hours is None else f' · {_time(seen.hours)}'}"


def _rounded(number: float) -> str:
    digits = max(floor(log10(max(number, 1))) - 1, 0)
    return f"{round(number, -digits):,.0f}"


def _time(hours: float) -> str:
    if hours < 1:
        return f"{max(hours * 60, 1):.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:,.0f} d"


def _dollars(row: _SightRow, traffic: PipelineTraffic | None) -> str:
    worth, sight = row
    if is_free(worth.labeler.name):
        return "0"
    amount = sight.usd_per_1000 if traffic is None else sight.usd_a_day
    return "" if amount is None else f"{amount:,.2f}"


def _notes(
    worths: Sequence[LabelerWorth], labeled: int, traffic: PipelineTraffic | None, confidence: float
) -> Iterator[str]:
    if labeled < ENOUGH_ROWS:
        yield f"{count_of(labeled, 'row')} with labels, fewer than {ENOUGH_ROWS}: the intervals are wide. Label more."
    for metric, members in _by_metric(worths):
        if all(worth.agreement.slope.value is None for worth in members):
            yield f"{metric}: all labels are the same, so nothing can be compared. Add rows with another label."
        absent = [f"{worth.absent:,} by {worth.labeler.name}" for worth in members if worth.absent]
        if absent:
            yield f"{metric}: rows without a score: {', '.join(absent)}."
    yield (
        f"slope: how far the mean moves per unit of the label, 1 is right and 0 is blind. Intervals: {confidence:.0%}, "
        "by a bootstrap of questions."
    )
    yield (
        f"a true fall: answers of the traffic until a drift rule finds it, in the median{_of_traffic(traffic)}; "
        f"{NOT_SEEN}: the slope may be 0, or the mean moves too little."
    )


def _of_traffic(traffic: PipelineTraffic | None) -> str:
    if traffic is None:
        return ""
    of = "" if traffic.pipeline is None else f" of {traffic.pipeline} now"
    return f", at {traffic.answers_a_day:,.0f} answers a day{of}"
