"""Renders the summary of a scored file as tables; reads and prints nothing."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.score.reference_results import reference_results
from ragtide_offline.score.summary import Summary, compare
from ragtide_schemas import Estimate

from .fitting import Column, fitted
from .tables import estimates_table


def summary_table(summary: Summary, width: int) -> RenderableType:
    """Return the estimates of a scored file as a table."""
    return estimates_table(summary.estimates, width, recent=False)


def reference_table(found: Sequence[Estimate], dataset: str, width: int) -> RenderableType:
    """Return our means beside published means, with differences in percentage points.

    Raises:
        ValueError: there are no published results of that data set.
    """
    published = reference_results(dataset)
    rows = [
        (metric if result is published[0] else "", result.name, one)
        for metric in published[0].means
        for result in published
        for one in compare(found, result)
        if one.metric == metric
    ]
    columns = [
        Column("metric", [metric for metric, _, _ in rows], yields=2, shortest=16),
        Column("system", [name for _, name, _ in rows], yields=1, shortest=12),
        Column("published %", [f"{one.theirs_percent:.1f}" for _, _, one in rows], right=True),
        Column("ours %", [f"{one.ours_percent:.1f}" for _, _, one in rows], right=True),
        Column("points", [f"{one.points:+.1f}" for _, _, one in rows], right=True),
    ]
    title = Text(f"{dataset}: published means, and ours beside them", style="bold")
    return Group(title, fitted(columns, width))
