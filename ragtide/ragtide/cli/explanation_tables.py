"""Explained changes as tables of 80 columns. Renderables only; this module reads and prints nothing."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_aggregator.statistics.explained_change import ExplainedChange, NumberWithEnds, SegmentPart
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_schemas.estimate import shown_metric

from .fitting import Column, fitted, shortened
from .groups import short_name

MOST_ROWS = 12
"""Segment values that a table shows."""

LONGEST = 20
"""Characters of a segment value that are shown."""


def segments_table(change: ExplainedChange, name: str, stretches: tuple[str, str] = ("before", "since")) -> Table:
    """Return the parts of segment values in a change, the largest first, and the whole.

    Args:
        change: to show.
        name: of the segment.
        stretches: names of the two stretches.
    """
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column(name, no_wrap=True)
    for title in ("share", "mean"):
        table.add_column(f"{title} {stretches[0]}, {stretches[1]}", no_wrap=True, justify="right")
    for title in ("mix", "within"):
        table.add_column(title, no_wrap=True, justify="right")
    for one in change.segments[:MOST_ROWS]:
        table.add_row(*_cells(one, name))
    left = change.segments[MOST_ROWS:]
    if left:
        parts = (sum(one.mix for one in left), sum(one.within for one in left))
        table.add_row(f"{len(left):,} more", "", "", *(f"{part:+.3f}" for part in parts))
    before, since = change.mean
    whole = ("all", "", f"{before:.3f} {since:.3f}", f"{change.mix.estimate:+.3f}", f"{change.within.estimate:+.3f}")
    table.add_row(*(Text(cell, style="bold") for cell in whole))
    return table


def parts_table(change: ExplainedChange) -> Table:
    """Return the change and its two parts with their intervals."""
    table = Table(box=None, pad_edge=False, show_header=False, style="bright_black")
    for title, part in (("change", change.total), ("mix", change.mix), ("within", change.within)):
        table.add_row(title, f"{part.estimate:+.3f}", _ends(part))
    return table


def differences_table(found: Sequence[ExplainedDifference], width: int) -> RenderableType:
    """Return differences of two pipelines, split into mix and within, one row a metric."""
    names = [short_name(shown_metric(one.metric, one.metric_version)) for one in found]
    parts = [(one.change.mix, one.change.within) for one in found]
    columns = [
        Column("metric", names, yields=1, shortest=16),
        Column("difference", [f"{one.change.total.estimate:+.3f}" for one in found], right=True),
    ]
    for place, title in enumerate(("mix", "within")):
        columns += [
            Column(title, [f"{both[place].estimate:+.3f}" for both in parts], right=True),
            Column("interval", [_ends(both[place]) for both in parts], right=True),
        ]
    return fitted(columns, width)


def _cells(one: SegmentPart, name: str) -> tuple[Text | str, ...]:
    label = one.name.removeprefix(f"{name}=")
    shown = shortened(label, LONGEST)
    shares = " ".join(f"{100 * share.estimate:5.1f}%" for share in one.share)
    means = " ".join("    —" if mean is None else f"{mean:.3f}" for mean in one.mean)
    within = "new" if one.is_new else f"{one.within:+.3f}"
    return Text(shown, style="bold" if one.is_carrier else ""), shares, means, f"{one.mix:+.3f}", within


def _ends(part: NumberWithEnds) -> str:
    return f"{part.lower:+.3f} to {part.upper:+.3f}"
