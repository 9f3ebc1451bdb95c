"""Compares two experiments, or two replays: item by item if they share items, otherwise by their means. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import isnan
from typing import Final, Literal, NamedTuple

import numpy as np

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.clustered_interval import clusters_used
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable
from ragtide_aggregator.statistics.means.strategies import AUTO, resolved
from ragtide_schemas import Direction, Kind, MetricDefinition, Workspace
from ragtide_schemas.experiments import OWN

from ..experiments.projections import mean_differences
from ..experiments.state import ExperimentState
from .experiment import ReportedExperiment
from .findings import labeler_ids
from .labelings import LabelingDifference, comparable

PAIRED: Final = "paired"
UNPAIRED: Final = "unpaired"
ROUNDING: Final = 1e-12
"""Means that differ by less are the same: sums of the same numbers in another order may differ by that."""


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """The difference of one metric: a config (or pipeline) of the first workspace minus one of the second."""

    first: str
    second: str
    metric: str
    method: Literal["paired", "unpaired"]
    """`paired`: item by item; `unpaired`: the workspaces share no items."""
    n: tuple[int, int]
    """Items of each side; if paired, the items on which both have a score."""
    means: tuple[float, float]
    """Means over these items."""
    difference: Interval[float, float]
    verdict: Literal["better", "worse", "different", "equal", "undecided"]
    """The verdict on the first side; `different` if neither high nor low values of the metric are better, `equal` if
    all differences are known and their mean is 0."""
    n_clusters: tuple[int | None, int | None] = None, None
    """Number of clusters, such as sessions, of each side that the interval rests on; None where each item counts by
    itself."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two workspaces."""

    first: Workspace
    second: Workspace
    made_at: datetime
    metric: str | None
    """The metric by which both experiments race; None for replays, or if the two race by different metrics."""
    confidence: float
    """Level at which the intervals of one metric hold together, over all pairs of configs."""
    confidence_each: float
    """Level of each interval."""
    gaps: Sequence[MetricDifference]
    cautions: Sequence[str]


class _ComparedMetric(NamedTuple):
    first: str
    second: str
    metric: str
    definition: MetricDefinition | None
    """None for a metric between 0 and 1 without a definition."""

    @property
    def value_range(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.definition is None else (self.definition.lower, self.definition.upper)


class _ItemScore(NamedTuple):
    item_id: str
    position: int
    score: float


class _SharedScores(NamedTuple):
    """The scores of two configs: in pairs on the items that both have, and all of each."""

    metric: _ComparedMetric
    pairs: list[tuple[float, float]]
    mine: list[_ItemScore]
    theirs: list[_ItemScore]


Names = Sequence[tuple[str, str]]
"""Pairs of names: a config (or pipeline) of the first workspace, and the one of the second to compare it with."""


def compare_experiments(
    first: ReportedExperiment, second: ReportedExperiment, names: Names, *, confidence: float, made_at: datetime
) -> RunComparison:
    """Return the differences of configs of two experiments, for every metric that the same labeler scored in both.

    Configs that share items are paired by item id. The interval is a betting sequence, without replacement if the
    number of shared items is known. Configs without shared items are compared by their running means.

    Args:
        first: an experiment.
        second: another one.
        names: pairs of configs to compare.
        confidence: level at which the intervals of one metric hold together.
        made_at: time of the report.
    """
    each = confidence_each(confidence, names)
    mine, theirs = first.state, second.state
    metrics, cautions = _metrics(mine, theirs)
    raced = mine.plan.metric
    metrics.sort(key=lambda metric: metric != raced)
    gaps = []
    for metric in metrics:
        definition = mine.results.definition(mine.plan, metric)
        scores = [_shared_scores(mine, theirs, _ComparedMetric(*pair, metric, definition)) for pair in names]
        paired = [score for score in scores if score.pairs]
        ends = mean_differences(
            [[a - b for a, b in shared.pairs] for shared in paired],
            scores[0].metric.value_range,
            sizes=[_shared_size(mine, theirs, shared.metric, len(shared.pairs)) for shared in paired],
            confidence=each,
        )
        found = {shared.metric: end for shared, end in zip(paired, ends, strict=True)}
        for score in scores:
            if score.pairs:
                gaps.append(_paired_difference(score, found[score.metric]))
            elif score.mine and score.theirs:
                moments = (_moments(items, score.metric.value_range) for items in (score.mine, score.theirs))
                gaps.append(_unpaired_difference(score.metric, *moments, confidence=each))
    if mine.plan.data_digest != theirs.plan.data_digest and any(g.method == PAIRED for g in gaps):
        cautions.append(
            "The two experiments have different data. Items are paired by id: the same id must be the same question "
            "in both."
        )
    for side in (first, second):
        if not side.state.completed:
            cautions.append(f"{side.info.run} is not complete: the numbers may change.")
    subject = raced if raced == theirs.plan.metric else None
    return RunComparison(first.info, second.info, made_at, subject, confidence, each, gaps, cautions)


def compare_replays(
    first: tuple[Workspace, Mapping[str, Mapping[EstimateKey, Moments]]],
    second: tuple[Workspace, Mapping[str, Mapping[EstimateKey, Moments]]],
    names: Names,
    *,
    pairs: Mapping[tuple[str, str], Sequence[LabelingDifference]],
    confidence: float,
    made_at: datetime,
) -> RunComparison:
    """Return the differences of pipelines of two replays.

    Metrics in `pairs` are compared interaction by interaction. The others are compared by their means, if the same
    labeler scored both.

    Args:
        first: a replay, and for each of its pipelines the moments of each measured metric.
        second: another one.
        names: pairs of pipelines to compare.
        pairs: for some of these pairs the differences interaction by interaction, at `confidence_each`.
        confidence: level at which the intervals of one metric hold together.
        made_at: time of the report.
    """
    each = confidence_each(confidence, names)
    gaps: list[MetricDifference] = []
    cautions: dict[str, None] = {}
    for name, other in names:
        known = set()
        for pair in pairs.get((name, other), ()):
            if pair.segment is not None:
                continue
            known.add(comparable(pair.first))
            metric, count = _ComparedMetric(name, other, pair.first.metric, pair.first.definition), pair.found.n
            used = pair.found.n_clusters
            gaps.append(
                _difference(
                    metric, PAIRED, (count, count), pair.found.means, pair.found.difference, n_clusters=(used, used)
                )
            )
            if pair.first != pair.second:
                labelers = (f"{by.labeler} {by.labeler_version}" for by in (pair.first, pair.second))
                cautions[f"Another labeler scored each replay: {' and '.join(labelers)}."] = None
        gaps += [
            _unpaired_difference(
                _ComparedMetric(name, other, by.metric, by.definition), mine, second[1][other][by], confidence=each
            )
            for by, mine in first[1][name].items()
            if by in second[1][other] and comparable(by) not in known
        ]
    return RunComparison(first[0], second[0], made_at, None, confidence, each, gaps, list(cautions))


def confidence_each(confidence: float, names: Names) -> float:
    """Return the level of each interval at which the intervals of one metric hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(len(names), 1)


def _metrics(first: ExperimentState, second: ExperimentState) -> tuple[list[str], list[str]]:
    names = [
        dict.fromkeys(
            metric
            for results in state.results.by_config.values()
            for result in results.values()
            if result.event is not None
            for metric in result.event.scores
        )
        for state in (first, second)
    ]
    common, left_out = [], []
    for metric in names[0]:
        if metric not in names[1]:
            continue
        mine, theirs = (labeler_ids(state, metric) for state in (first, second))
        # An experiment measures its own metrics without the labeler.
        alike = metric.startswith(f"{OWN}.") or (mine == theirs and len(mine) == 1)
        if alike and first.results.measures.get(metric) == second.results.measures.get(metric):
            common.append(metric)
        else:
            left_out.append(metric)
    if not left_out:
        return common, []
    by = " and ".join(", ".join(labeler_ids(state)) for state in (first, second))
    return common, [f"Left out: {', '.join(left_out)}. The labelers differ ({by}), so the scores cannot be compared."]


def _later(mine: Mapping[str, _ItemScore], theirs: Mapping[str, _ItemScore], item_id: str) -> int:
    return max(mine[item_id].position, theirs[item_id].position)


def _scores(state: ExperimentState, config: str, metric: str) -> dict[str, _ItemScore]:
    return {
        result.execution.item_id: _ItemScore(result.execution.item_id, index, score)
        for index, result in state.counted(config)
        if result.execution is not None and not isnan(score := result.score(metric))
    }


def _shared_size(first: ExperimentState, second: ExperimentState, metric: _ComparedMetric, pairs: int) -> int | None:
    if first.plan.data_digest != second.plan.data_digest:
        return None
    lost: set[str] = set()
    for state, name in ((first, metric.first), (second, metric.second)):
        for _, result in state.counted(name):
            if result.execution is not None and isnan(result.score(metric.metric)):
                lost.add(result.execution.item_id)
    return max(first.plan.population_size - len(lost), pairs)


def _shared_scores(first: ExperimentState, second: ExperimentState, metric: _ComparedMetric) -> _SharedScores:
    mine, theirs = _scores(first, metric.first, metric.metric), _scores(second, metric.second, metric.metric)
    shared = sorted(mine.keys() & theirs.keys(), key=partial(_later, mine, theirs))
    pairs = [(mine[item].score, theirs[item].score) for item in shared]
    return _SharedScores(metric, pairs, list(mine.values()), list(theirs.values()))


def _paired_difference(shared: _SharedScores, ends: Interval[float, float]) -> MetricDifference:
    count = len(shared.pairs)
    means = (sum(a for a, _ in shared.pairs) / count, sum(b for _, b in shared.pairs) / count)
    return _difference(shared.metric, PAIRED, (count, count), means, ends)


def _unpaired_difference(
    metric: _ComparedMetric, mine: Moments, theirs: Moments, *, confidence: float
) -> MetricDifference:
    lowest, highest = metric.value_range
    width = highest - lowest
    of_counts = metric.definition is not None and metric.definition.kind is Kind.DISTRIBUTIVE
    ends = difference(mine, theirs, confidence=confidence, width=width, counts=of_counts)
    means = (lowest + width * float(mine.mean[0]), lowest + width * float(theirs.mean[0]))
    used = clusters_of(mine, counts=of_counts), clusters_of(theirs, counts=of_counts)
    return _difference(metric, UNPAIRED, (int(mine.n[0]), int(theirs.n[0])), means, ends, n_clusters=used)


def clusters_of(moments: Moments, *, counts: bool) -> int | None:
    """Return the number of clusters that the interval of a mean rests on; None where each value counts by itself.

    Args:
        counts: whether the values are counts, whose intervals may be `asymptotic`.
    """
    return clusters_used(moments)[0] if resolved(AUTO, moments, counts)[0] == "running" else None


def _difference(
    metric: _ComparedMetric,
    method: Literal["paired", "unpaired"],
    n: tuple[int, int],
    means: tuple[float, float],
    ends: Interval[float, float],
    *,
    n_clusters: tuple[int | None, int | None] = (None, None),
) -> MetricDifference:
    return MetricDifference(*metric[:3], method, n, means, ends, _verdict(metric.definition, ends), n_clusters)


def _moments(items: Iterable[_ItemScore], value_range: tuple[float, float]) -> Moments:
    lowest, highest = value_range
    ordered = sorted(items, key=lambda item: item.position)
    table = MomentTable()
    row = table.add_row()
    values = (np.array([item.score for item in ordered]) - lowest) / (highest - lowest)
    table.update(np.full(len(values), row, dtype=np.intp), values)
    return table.read([row])


def _verdict(
    definition: MetricDefinition | None, ends: Interval[float, float]
) -> Literal["better", "worse", "different", "equal", "undecided"]:
    if max(abs(ends.lower), abs(ends.upper)) < ROUNDING:
        return "equal"
    if ends.verdict == "undecided":
        return "undecided"
    direction = Direction.HIGHER if definition is None else definition.direction
    if direction is Direction.NEITHER:
        return "different"
    return "better" if (ends.verdict == "higher") == (direction is Direction.HIGHER) else "worse"
