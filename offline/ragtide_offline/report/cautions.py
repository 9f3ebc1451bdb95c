"""Cautions about the numbers of an experiment, one sentence each. No I/O."""

from collections.abc import Sequence
from typing import Final

from ragtide_schemas.experiments import OWN

from ..experiments.board import Board
from ..experiments.state import ExperimentState

ONE_LOOK: Final = ("normal", "wilson", "hoeffding")
"""Strategies whose intervals hold at one look that was fixed beforehand."""

MANY_FAILED: Final = 0.05
"""Share of missing answers from which a config's mean may be about an easier part of the items."""

LOCAL: Final = "local"
"""Name of the labeler that needs no model."""


def cautions_of(state: ExperimentState, board: Board, instruments: Sequence[str]) -> list[str]:
    """Return what is to be said, the weightiest first."""
    return [
        *_unfinished(board),
        *_missing(board),
        *_instruments(instruments),
        *_looks(state, board),
        *_local(state.plan.metric, instruments),
    ]


def instruments_of(state: ExperimentState, metric: str | None = None) -> list[str]:
    """Return the labelers, with version and profile, that scored the answers; if asked, those of one metric."""
    return sorted(
        {
            f"{result.event.labeler} {result.event.labeler_version} ({result.event.profile})"
            for results in state.results.by_config.values()
            for result in results.values()
            if result.event is not None and (metric is None or metric in result.event.scores)
        }
    )


def _unfinished(board: Board) -> list[str]:
    said = []
    if board.paused is not None:
        said.append(f"The experiment is paused: {board.paused}.")
    if not board.completed:
        said.append(
            f"It is not complete: {board.compared:,} of {board.population_size:,} items have been compared, and the "
            "numbers may change."
        )
    if board.leader is None:
        said.append(f"Nothing has a score of {board.metric} yet.")
    return said


def _missing(board: Board) -> list[str]:
    said = []
    for row in board.rows:
        missing = row.n_items - row.estimates[board.metric].n
        if row.n_items and missing / row.n_items >= MANY_FAILED:
            said.append(
                f"{row.name} has no score on {missing:,} of {row.n_items:,} items ({missing / row.n_items:.0%}): its "
                "mean is over the others, which may be easier."
            )
    return said


def _instruments(instruments: Sequence[str]) -> list[str]:
    if len(instruments) < 2:
        return []
    said = f"Answers were scored by more than one instrument ({', '.join(instruments)})"
    return [f"{said}: their scores are different measurements under one name."]


def _looks(state: ExperimentState, board: Board) -> list[str]:
    plan = state.plan
    looks = -(-board.compared // plan.race.look_every)
    if plan.intervals.strategy not in ONE_LOOK or looks < 2:
        return []
    said = (
        f"The leaderboard's intervals are {plan.intervals.strategy} ones: they hold at one look at a number of items "
        f"fixed beforehand, but the race looked about {looks:,} times. The race, the differences and the stops are not "
        "touched by this; for estimates use betting."
    )
    return [said]


def _local(metric: str, instruments: Sequence[str]) -> list[str]:
    if metric.startswith(f"{OWN}.") or not any(one.split(" ", 1)[0] == LOCAL for one in instruments):
        return []
    return [f"{metric} is what the local labeler says, which ranks answers and does not prove them right or wrong."]
