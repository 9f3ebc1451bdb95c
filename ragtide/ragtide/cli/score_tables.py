"""Renders the summary of a scored file as tables; reads and prints nothing."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ragtide_offline.score.summary import Summary, compare
from ragtide_schemas import Estimate
from ragtide_schemas.reference_results import reference_results

from .tables import bar, ends_of, in_reading_order, short_name


def summary_table(summary: Summary) -> Table:
    """Return the estimates of a scored file as a table."""
    table = Table(box=None, pad_edge=False)
    for column in ("metric", "mean", "interval", "", "n", "absent"):
        table.add_column(column, justify="right" if column in {"mean", "n", "absent"} else "left")
    scope: tuple[object, ...] = ()
    for estimate in in_reading_order(summary.estimates):
        here = estimate.pipeline, estimate.run, estimate.labeler, estimate.profile
        if here != scope:
            scope = here
            names = " · ".join(str(part) for part in here if part is not None)
            table.add_row(Text(names, style="bold"), "", "", "", "", "")
        table.add_row(*_cells(estimate))
    return table


def _cells(estimate: Estimate) -> Sequence[str | Text]:
    mean = "" if estimate.estimate is None else f"{estimate.estimate:.3f}"
    ends = "{:.3f} to {:.3f}".format(*ends_of(estimate))
    absent = f"{estimate.n_absent:,}" if estimate.n_absent else ""
    return short_name(estimate.metric), mean, ends, bar(estimate, 20), f"{estimate.n:,}", absent


def reference_table(found: Sequence[Estimate], dataset: str) -> Table:
    """Return our means beside published means, with differences in percentage points.

    Raises:
        ValueError: there are no published results of that data set.
    """
    table = Table(title=f"{dataset}: published means, and ours beside them", title_justify="left", box=None)
    for column in ("metric", "system", "published %", "ours %", "points"):
        table.add_column(column, justify="left" if column in {"metric", "system"} else "right")
    published = reference_results(dataset)
    for metric in published[0].means:
        for result in published:
            for one in compare(found, result):
                if one.metric == metric:
                    cells = f"{one.theirs_percent:.1f}", f"{one.ours_percent:.1f}", f"{one.points:+.1f}"
                    table.add_row(metric if result is published[0] else "", result.name, *cells)
    return table
