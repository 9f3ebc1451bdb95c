"""The report of an experiment, put together from what was read. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ragtide_schemas import utc_now

from ..experiments.board import board
from .cautions import cautions_of, instruments_of
from .content import ExperimentReport, Refused
from .findings import as_in_pairs, curves_of, failures_of, knobs_of, pairs_of
from .items import Scored, disputed, scored_items, texts_wanted, view, worst
from .orders import happened
from .reader import Judged, Texts

ITEMS = 10
"""Items shown of the worst and of the disputed, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Items that are shown."""

    worst: Sequence[Scored]
    disputed: Sequence[Scored]


def chosen_items(judged: Judged, count: int = ITEMS) -> Chosen:
    """Return the items that are worth a look, at most so many of each kind."""
    items = scored_items(judged)
    higher = judged.progress.plan.higher_is_better
    return Chosen(worst(items, count, higher_is_better=higher), disputed(items, count))


def wanted_texts(judged: Judged, chosen: Chosen) -> list[tuple[str, int]]:
    """Return the answers, by config and place of the item, whose texts the report needs."""
    return texts_wanted(judged, [*chosen.worst, *chosen.disputed])


def experiment_report(
    judged: Judged, chosen: Chosen, texts: Texts, *, made_at: datetime | None = None
) -> ExperimentReport:
    """Return what is to be said of an experiment.

    Args:
        judged: the experiment as it was read.
        chosen: items to show.
        texts: their answers, as far as they are still there.
        made_at: time of the report; now unless given.
    """
    standing = board(judged.progress, judged.book, judging=judged.judging)
    names = [row.name for row in standing.rows]
    ends = [
        cell.execution.at
        for cells in judged.book.cells.values()
        for cell in cells.values()
        if cell.execution is not None
    ]
    instruments = instruments_of(judged)
    pairs = pairs_of(judged, standing)
    standing = as_in_pairs(standing, pairs)
    return ExperimentReport(
        info=judged.info,
        plan=judged.progress.plan,
        board=standing,
        made_at=made_at or utc_now(),
        began_at=judged.info.created_at,
        last_at=max(ends, default=None),
        instruments=instruments,
        happened=happened(judged.progress, judged.orders),
        refused=[Refused(order, why) for order, why in judged.refused],
        pairs=pairs,
        curves=curves_of(judged, standing),
        worst=[view(judged, item, texts, names) for item in chosen.worst],
        disputed=[view(judged, item, texts, names) for item in chosen.disputed],
        knobs=knobs_of(judged),
        failures=failures_of(judged),
        cautions=cautions_of(judged, standing, instruments),
    )
