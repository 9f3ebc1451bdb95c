"""Explained changes as tables. Renderables only; this module reads and prints nothing."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_aggregator.statistics.causes.explained_change import ExplainedChange, SegmentPart
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable

from .fitting import Column, fitted
from .groups import short_name

MOST_ROWS = 12
"""Segment values that a table shows."""


def segments_table(
    change: ExplainedChange, name: str, width: int, stretches: tuple[str, str] = ("before", "since")
) -> RenderableType:
    """Return the parts of segment values in a change, the largest first, and the whole.

    Args:
        change: to show.
        name: of the segment.
        width: columns of the terminal.
        stretches: names of the two stretches.
    """
    rows = [_cells(segment, name) for segment in change.segments[:MOST_ROWS]]
    left = change.segments[MOST_ROWS:]
    if left:
        parts = (sum(segment.mix for segment in left), sum(segment.within for segment in left))
        rows.append((f"{len(left):,} more", "", "", *(f"{part:+.3f}" for part in parts)))
    before, since = change.mean
    whole = ("all", "", f"{before:.3f} {since:.3f}", f"{change.mix.estimate:+.3f}", f"{change.within.estimate:+.3f}")
    rows.append(tuple(Text(cell, style="bold") for cell in whole))
    shown, *numbers = zip(*rows, strict=True)
    titles = (*(f"{title} {stretches[0]}, {stretches[1]}" for title in ("share", "mean")), "mix", "within")
    columns = [Column(title, cells, right=True) for title, cells in zip(titles, numbers, strict=True)]
    return fitted([Column(printable(name), shown, yields=1, shortest=8), *columns], width)


def parts_table(change: ExplainedChange) -> Table:
    """Return the change and its two parts with their intervals."""
    table = Table(box=None, pad_edge=False, show_header=False, style="bright_black")
    for title, part in (("change", change.total), ("mix", change.mix), ("within", change.within)):
        table.add_row(title, f"{part.estimate:+.3f}", _ends(part))
    return table


def differences_table(found: Sequence[ExplainedDifference], width: int) -> RenderableType:
    """Return differences of two pipelines, split into mix and within, one row a metric."""
    names = [short_name(shown_metric(difference.metric, difference.metric_version)) for difference in found]
    parts = [(difference.change.mix, difference.change.within) for difference in found]
    columns = [
        Column("metric", names, yields=1, shortest=16),
        Column("difference", [f"{difference.change.total.estimate:+.3f}" for difference in found], right=True),
    ]
    for place, title in enumerate(("mix", "within")):
        columns += [
            Column(title, [f"{both[place].estimate:+.3f}" for both in parts], right=True),
            Column("interval", [_ends(both[place]) for both in parts], right=True),
        ]
    return fitted(columns, width)


def _cells(one: SegmentPart, name: str) -> tuple[Text | str, ...]:
    label = one.name.removeprefix(f"{name}=")
    shares = " ".join(f"{100 * share.estimate:5.1f}%" for share in one.share)
    means = " ".join("    —" if mean is None else f"{mean:.3f}" for mean in one.mean)
    within = "new" if one.is_new else f"{one.within:+.3f}"
    return Text(printable(label), style="bold" if one.is_carrier else ""), shares, means, f"{one.mix:+.3f}", within


def _ends(part: Interval[float, float]) -> str:
    return f"{part.lower:+.3f} to {part.upper:+.3f}"
