"""Cautions of an experiment's report: why its numbers may mislead, one sentence each. No I/O."""

from collections.abc import Sequence
from typing import Final

from ragtide_schemas.fitness import NOTHING, PURPOSES, Stated, fit_for, fitness_of, sees_of

from ..experiments.board import Board
from ..experiments.state import ExperimentState

ONE_LOOK: Final = ("normal", "wilson", "hoeffding")
"""Strategies whose intervals are valid once, at a number of items fixed in advance."""

MANY_FAILED: Final = 0.05
"""From this share of missing scores the mean of a config may be over an easier part of the items."""


def cautions_of(state: ExperimentState, board: Board, labelers: Sequence[str], stated: Stated = NOTHING) -> list[str]:
    """Return the cautions about an experiment, the most important first.

    Args:
        state: of the experiment.
        board: its leaderboard.
        labelers: ids of the labelers that scored it.
        stated: purposes of labelers that the settings state.
    """
    return [
        *unfinished(board),
        *([] if board.warning is None else [board.warning]),
        *_missing(board),
        *_several_labelers(labelers),
        *_looks(state, board),
        *_fitness(state.plan.metric, labelers, stated),
    ]


def labeler_ids(state: ExperimentState, metric: str | None = None) -> list[str]:
    """Return the ids (name, version, profile) of the labelers that scored the answers, or one metric of them."""
    return sorted(
        {
            f"{result.event.labeler} {result.event.labeler_version} ({result.event.profile})"
            for results in state.results.by_config.values()
            for result in results.values()
            if result.event is not None and (metric is None or metric in result.event.scores)
        }
    )


def unfinished(board: Board) -> list[str]:
    """Return sentences about what is missing until the experiment is complete."""
    found = []
    if board.paused is not None:
        found.append(f"The experiment is paused: {board.paused}.")
    if not board.completed:
        running = [row.label for row in board.rows if row.status == "running"]
        if board.compared < board.population_size:
            left = f"{board.compared:,} of {board.population_size:,} items have been compared"
        elif running:
            left = f"{', '.join(running)} still run"
        else:
            left = "all items have been compared, and its end is not written yet"
        found.append(f"The experiment is not complete: {left}, and the numbers may change.")
    if board.leader is None:
        found.append(f"No answer has a score of {board.metric} yet.")
    return found


def _missing(board: Board) -> list[str]:
    found = []
    for row in board.rows:
        missing = row.n_items - row.estimates[board.metric].n
        if row.n_items and missing / row.n_items >= MANY_FAILED:
            found.append(
                f"{row.label} has no score on {missing:,} of {row.n_items:,} items ({missing / row.n_items:.0%}): its "
                "mean is over the other items, which may be easier."
            )
    return found


def _several_labelers(labelers: Sequence[str]) -> list[str]:
    if len(labelers) < 2:
        return []
    return [f"Several labelers scored the answers ({', '.join(labelers)}): their scores cannot be compared."]


def _looks(state: ExperimentState, board: Board) -> list[str]:
    plan = state.plan
    looks = -(-board.compared // plan.race.look_every)
    if plan.intervals.strategy not in ONE_LOOK or looks < 2:
        return []
    caution = (
        f"The leaderboard's intervals are {plan.intervals.strategy} intervals. They are valid once, at a number of "
        f"items fixed in advance, but the race looked about {looks:,} times. The race, its stops and the differences "
        "stay valid. For estimates that are valid at every look use betting."
    )
    return [caution]


def _fitness(metric: str, labelers: Sequence[str], stated: Stated) -> list[str]:
    names = dict.fromkeys(labeler.split(" ", 1)[0] for labeler in labelers)
    found = {name: fitness_of(name, [metric], stated) for name in names if fit_for(name, metric, stated) != PURPOSES}
    said = [f"{metric} is scored by {name}: {words}." for name, words in found.items() if words is not None]
    return said + [f"{metric} of {name} {sees}." for name in names if (sees := sees_of(name, metric))]
