"""The table of differences of two pipelines."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ragtide_offline.report.pipelines import Compared
from ragtide_schemas.estimate import shown_metric


def compared_table(found: Sequence[Compared], first: str, second: str) -> Table:
    """Return the differences of two pipelines, one row for each metric."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for name in (first, second, f"{first} - {second}"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in found:
        name = shown_metric(one.metric, one.metric_version)
        name = name if one.other_labeler is None else f"{name} · {one.labeler} and {one.other_labeler}"
        name = name if one.segment is None else f"{name} · {one.segment}"
        gap = one.difference
        table.add_row(
            Text(name),
            f"{one.means[0]:.3f} (n {one.n[0]:,})",
            f"{one.means[1]:.3f} (n {one.n[1]:,})",
            f"{gap.estimate:+.3f}",
            f"{gap.lower:+.3f} to {gap.upper:+.3f}",
            Text(gap.verdict, style="bright_black" if gap.verdict == "undecided" else "bold"),
        )
    return table
