"""The table of differences of two pipelines; reads and prints nothing."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.report.pipelines import Compared
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable

from .fitting import Column, fitted, heading
from .groups import short_name
from .tables import EXACT

TITLE_CHARS: Final = 12
"""Most characters of a pipeline's name as the title of a column; longer names are in a line above the table."""


def compared_table(found: Sequence[Compared], first: str, second: str, width: int) -> RenderableType:
    """Return the differences of two pipelines, one row for each metric."""
    names = printable(first), printable(second)
    long = max(map(len, names)) > TITLE_CHARS
    a, b = ("A", "B") if long else names
    legend = [heading([f"A: {names[0]}", f"B: {names[1]}"], width)] if long else []
    gaps = [f"{one.difference.estimate:+z.3f}" for one in found]
    columns = [
        Column("metric", [_name(one) for one in found], yields=3, shortest=16),
        *(
            Column(title, [f"{one.means[place]:.3f}" for one in found], right=True, yields=4, stacks=True)
            for place, title in enumerate((a, b))
        ),
        Column(f"{a} - {b}", gaps, right=True, yields=1, narrower=Column("difference", gaps, right=True)),
        Column("interval", [_interval(one) for one in found]),
        Column("n", [_counts(one) for one in found], right=True, yields=5, stacks=True),
        *_clusters(found),
        Column("verdict", [_verdict(one) for one in found]),
    ]
    return Group(*legend, fitted(columns, width))


def _name(one: Compared) -> str:
    name = short_name(shown_metric(one.metric, one.metric_version))
    name = name if one.other_labeler is None else f"{name} · {one.labeler} and {one.other_labeler}"
    return name if one.segment is None else f"{name} · {one.segment}"


def _counts(one: Compared) -> str:
    return " and ".join(f"{n:,}" for n in dict.fromkeys(one.n))


def _clusters(found: Sequence[Compared]) -> list[Column]:
    """Return the clusters that each interval rests on, if any row has clusters."""
    known = [[] if one.exact else [n for n in one.n_clusters if n is not None] for one in found]
    if not any(known):
        return []
    cells = [" and ".join(f"{n:,}" for n in dict.fromkeys(counts)) for counts in known]
    return [Column("clusters", cells, right=True, yields=2)]


def _interval(one: Compared) -> str:
    return EXACT if one.exact else f"{one.difference.lower:+z.3f} to {one.difference.upper:+z.3f}"


def _verdict(one: Compared) -> Text:
    return Text(one.verdict, style="bright_black" if one.verdict in ("undecided", "equal") else "bold")
