"""Explained changes as tables of 80 columns. Renderables only; this module reads and prints nothing."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ragtide_aggregator.statistics.explained_change import ExplainedChange, NumberWithEnds, SegmentPart
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_schemas.estimate import shown_metric

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


def differences_table(found: Sequence[ExplainedDifference]) -> Table:
    """Return differences of two pipelines, split into mix and within, one row a metric."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for title in ("difference", "mix", "interval", "within", "interval"):
        table.add_column(title, no_wrap=True, justify="right")
    for one in found:
        change = one.change
        table.add_row(
            Text(shown_metric(one.metric, one.metric_version).removeprefix("trace.")),
            f"{change.total.estimate:+.3f}",
            *(cell for part in (change.mix, change.within) for cell in (f"{part.estimate:+.3f}", _ends(part))),
        )
    return table


def _cells(one: SegmentPart, name: str) -> tuple[Text | str, ...]:
    label = one.name.removeprefix(f"{name}=")
    shown = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
    shares = " ".join(f"{100 * share.estimate:5.1f}%" for share in one.share)
    means = " ".join("    —" if mean is None else f"{mean:.3f}" for mean in one.mean)
    within = "new" if one.is_new else f"{one.within:+.3f}"
    return Text(shown, style="bold" if one.is_carrier else ""), shares, means, f"{one.mix:+.3f}", within


def _ends(part: NumberWithEnds) -> str:
    return f"{part.lower:+.3f} to {part.upper:+.3f}"
