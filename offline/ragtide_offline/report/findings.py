"""The parts of an experiment's report beside the leaderboard. No I/O.

They are pairs of configs, parameters, curves, failures, and cautions: sentences about what may mislead a reader.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import comb, isnan
from typing import Any, Final, Literal

import numpy as np

from ragtide_schemas.slopes import UNSUPPORTED, misses_claims, shipped_slopes, slopes_in_words

from ..experiments.board import Board
from ..experiments.projections import ConfigPair, differences
from ..experiments.state import ExperimentState
from .content import ConfigPairs, Curve, Failure, Parameter, ParameterEffects, ParameterValue, Point

PAIRED_MAX: Final = 12
"""Most configs in the table of pairs."""

POINTS_MAX: Final = 60
"""Most points of a curve."""

ONE_LOOK: Final = ("normal", "wilson", "hoeffding")
"""Strategies whose intervals are valid once, at a number of items fixed in advance."""

MANY_FAILED: Final = 0.05
"""From this share of missing scores the mean of a config may be over an easier part of the items."""


def pairs_of(state: ExperimentState, board: Board) -> ConfigPairs | None:
    """Return the differences of the best configs, each with each; None with fewer than two that have a score."""
    scored = [row.name for row in board.rows if row.estimates[board.metric].n]
    names = scored[:PAIRED_MAX]
    if len(names) < 2:
        return None
    confidence = state.plan.intervals.confidence
    level = 1 - (1 - confidence) / comb(len(names), 2)
    pairs: list[ConfigPair] = []
    for place, first in enumerate(names):
        others = names[place + 1 :]
        pairs += [pair for pair in differences(state, first, others, confidence=level) if pair is not None]
    return ConfigPairs(names, len(scored) - len(names), confidence, level, pairs)


def as_in_pairs(board: Board, pairs: ConfigPairs | None) -> Board:
    """Return the leaderboard with the pairs' differences to the leader, so that two configs have one interval."""
    if pairs is None or board.leader is None:
        return board
    leader = board.leader.name
    known = {pair.second: pair.difference for pair in pairs.pairs if pair.first == leader}
    rows = [
        replace(row, behind=known[row.name]) if row.against == leader and row.name in known else row
        for row in board.rows
    ]
    return replace(board, rows=rows)


def parameters_of(state: ExperimentState) -> ParameterEffects | None:
    """Return the mean for each value of each parameter, over the items that all scored configs have in common.

    None with fewer than three scored configs, without a parameter with two values, or without a common item.
    """
    scores = {
        status.config.name: {
            item: score
            for item, result in state.counted(status.config.name)
            if not isnan(score := result.score(state.plan.metric))
        }
        for status in state.shown
    }
    # A config that was stopped before its first item shares no items with the others.
    scores = {name: by_item for name, by_item in scores.items() if by_item}
    common = set.intersection(*(set(by_item) for by_item in scores.values())) if scores else set()
    if len(scores) < 3 or not common:
        return None
    means = {name: sum(by_item[item] for item in common) / len(common) for name, by_item in scores.items()}
    by_value: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, mean in means.items():
        for parameter, value in state.configs[name].config.parameters.items():
            by_value[parameter][parameter_value(value)].append(mean)
    varied = [
        Parameter(parameter, [ParameterValue(value, len(ms), sum(ms) / len(ms)) for value, ms in values.items()])
        for parameter, values in by_value.items()
        if len(values) > 1
    ]
    return ParameterEffects(len(common), varied) if varied else None


def curves_of(state: ExperimentState, board: Board) -> list[Curve]:
    """Return the curve of the mean of each config, in the order of the leaderboard."""
    curves = []
    for row in board.rows:
        counted = state.counted(row.name)
        known = [(item + 1, score) for item, result in counted if not isnan(score := result.score(board.metric))]
        if not known:
            continue
        means = np.cumsum([score for _, score in known]) / np.arange(1, len(known) + 1)
        # The first few means vary most and would set the scale for all.
        first = min(len(known) - 1, max(board.compared // 20, 2))
        places = np.unique(np.linspace(first, len(known) - 1, POINTS_MAX).round().astype(int)).tolist()
        points = [Point(known[place][0], float(means[place])) for place in places]
        curves.append(Curve(row.name, points, stopped=row.status == "stopped"))
    return curves


def failures_of(state: ExperimentState) -> list[Failure]:
    """Return why answers are missing, the most frequent reason first."""
    FindingKind = Literal["call failed", "not labeled"]  # noqa: N806 - a type
    counts: defaultdict[tuple[FindingKind, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, results in state.results.by_config.items():
        for result in results.values():
            if result.execution is not None and result.execution.failure is not None:
                counts["call failed", result.execution.failure][name] += 1
            elif result.unlabeled is not None and result.event is None:
                counts["not labeled", result.unlabeled][name] += 1
    failures = [Failure(kind, why, sum(names.values()), list(names)) for (kind, why), names in counts.items()]
    return sorted(failures, key=lambda failure: -failure.count)


def parameter_value(value: Any) -> str:
    """Return the value of a parameter as it is shown.

    >>> parameter_value("short"), parameter_value(True), parameter_value([1, 2])
    ('short', 'true', '[1, 2]')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def cautions_of(state: ExperimentState, board: Board, labelers: Sequence[str]) -> list[str]:
    """Return the cautions about an experiment, the most important first.

    Args:
        board: its leaderboard.
        labelers: ids of the labelers that scored it.
    """
    return [
        *unfinished(board),
        *([] if board.warning is None else [board.warning]),
        *_missing(board),
        *_several_labelers(labelers),
        *_looks(state, board),
        *_slopes(state.plan.metric, labelers),
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
    cautions = []
    if board.paused is not None:
        cautions.append(f"The experiment is paused: {board.paused}.")
    if not board.completed:
        running = [row.label for row in board.rows if row.status == "running"]
        if board.compared < board.population_size:
            left = f"{board.compared:,} of {board.population_size:,} items have been compared"
        elif running:
            left = f"{', '.join(running)} still run"
        else:
            left = "all items have been compared, and its end is not written yet"
        cautions.append(f"The experiment is not complete: {left}, and the numbers may change.")
    if board.leader is None:
        cautions.append(f"No answer has a score of {board.metric} yet.")
    return cautions


def _missing(board: Board) -> list[str]:
    cautions = []
    for row in board.rows:
        missing = row.n_items - row.estimates[board.metric].n
        if row.n_items and missing / row.n_items >= MANY_FAILED:
            cautions.append(
                f"{row.label} has no score on {missing:,} of {row.n_items:,} items ({missing / row.n_items:.0%}): its "
                "mean is over the other items, which may be easier."
            )
    return cautions


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


def _slopes(metric: str, labelers: Sequence[str]) -> list[str]:
    names = dict.fromkeys(labeler.split(" ", 1)[0] for labeler in labelers)
    cautions = [
        f"{metric} is scored by {name}, which does not see {UNSUPPORTED}: choose by a judge's number."
        for name in names
        if misses_claims(shipped_slopes(name), metric)
    ]
    return cautions + [f"{metric} of {name} {words}." for name in names if (words := slopes_in_words(name, metric))]
