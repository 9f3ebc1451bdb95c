"""The report of an experiment, computed from its state. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ragtide_offline.score.reference_results import reference_results
from ragtide_schemas import utc_now
from ragtide_schemas.fitness import NOTHING, Stated

from ..experiments.board import Board, board
from .cautions import cautions_of, labeler_ids
from .content import ExperimentReport, PublishedMean, PublishedMeans
from .findings import as_in_pairs, curves_of, failures_of, pairs_of, parameters_of
from .items import ScoredItem, disputed, scored_items, texts_wanted, view, worst
from .reader import ReportedExperiment, Texts

ITEMS = 10
"""Default number of items shown in each of the two lists: the worst and the disputed."""


@dataclass(frozen=True, slots=True)
class ChosenItems:
    """The items that a report shows."""

    worst: Sequence[ScoredItem]
    disputed: Sequence[ScoredItem]


def chosen_items(read: ReportedExperiment, count: int = ITEMS) -> ChosenItems:
    """Return the worst and the most disputed items, at most `count` of each."""
    items = scored_items(read.state)
    higher = read.state.plan.higher_is_better
    return ChosenItems(worst(items, count, higher_is_better=higher), disputed(items, count))


def wanted_texts(read: ReportedExperiment, chosen: ChosenItems) -> list[tuple[str, int]]:
    """Return the answers, by config and index of the item, whose texts the report needs."""
    return texts_wanted(read.state, [*chosen.worst, *chosen.disputed])


def experiment_report(
    read: ReportedExperiment,
    chosen: ChosenItems,
    texts: Texts,
    *,
    made_at: datetime | None = None,
    published: str | None = None,
    fit_for: Stated = NOTHING,
) -> ExperimentReport:
    """Return the content of an experiment's report.

    Args:
        read: the experiment.
        chosen: items to show.
        texts: the answers to these items that are still on the stream.
        made_at: time of the report; now unless given.
        published: data set whose published results are shown beside the best config's.
        fit_for: purposes of labelers that the settings state.
    """
    state = read.state
    leaderboard = board(state)
    names = [row.name for row in leaderboard.rows]
    pairs = pairs_of(state, leaderboard)
    leaderboard = as_in_pairs(leaderboard, pairs)
    labelers = labeler_ids(state)
    ends = [result.execution.at for result in state.results.executed() if result.execution is not None]
    return ExperimentReport(
        info=read.info,
        plan=state.plan,
        board=leaderboard,
        made_at=made_at or utc_now(),
        began_at=read.info.created_at,
        last_at=max(ends, default=None),
        instruments=labelers,
        commands=state.commands,
        refused=list(state.refused),
        pairs=pairs,
        curves=curves_of(state, leaderboard),
        worst=[view(state, item, texts, names) for item in chosen.worst],
        disputed=[view(state, item, texts, names) for item in chosen.disputed],
        parameters=parameters_of(state),
        failures=failures_of(state),
        cautions=cautions_of(state, leaderboard, labelers, fit_for),
        published=None if published is None else _published_means(leaderboard, published),
    )


def _published_means(board: Board, dataset: str) -> PublishedMeans | None:
    """Return the published means of a data set for the metrics of the best config; None if no config has a score.

    Raises:
        ValueError: there are no published results of that data set.
    """
    results = reference_results(dataset)
    if board.leader is None:
        return None
    ours = board.leader.estimates
    means = [
        PublishedMean(metric, result.name, result.means[metric], found.estimate, found.lower, found.upper)
        for metric, found in ours.items()
        if found.n and found.estimate is not None
        for result in results
        if metric in result.means
    ]
    return PublishedMeans(dataset, list(dict.fromkeys(result.source for result in results)), board.leader.name, means)
