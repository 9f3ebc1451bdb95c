"""Compares two experiments, or two replays: item by item if they share items, otherwise by their means. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Final, Literal

import numpy as np

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.clustered_interval import clusters_used
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable
from ragtide_aggregator.statistics.means.strategies import resolved
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_schemas import Direction, Workspace
from ragtide_schemas.experiments import OWN

from ..experiments.projections import mean_differences
from ..experiments.state import ExperimentState
from .findings import labeler_ids
from .labelings import Compared, comparable

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


Names = Sequence[tuple[str, str]]
"""Pairs of names: a config (or pipeline) of the first workspace, and the one of the second to compare it with."""


def compare_experiments(
    first: tuple[Workspace, ExperimentState],
    second: tuple[Workspace, ExperimentState],
    names: Names,
    *,
    confidence: float,
    made_at: datetime,
) -> RunComparison:
    """Return the differences of configs of two experiments, for every metric that the same labeler scored in both.

    Configs that share items are paired by item id. The interval is a betting sequence, without replacement if the
    number of shared items is known. Configs without shared items are compared by their running means.

    Args:
        first: an experiment, and its state.
        second: another one.
        names: pairs of configs to compare.
        confidence: level at which the intervals of one metric hold together.
        made_at: time of the report.
    """
    level = confidence_each(confidence, names)
    (_, mine), (_, theirs) = first, second
    metrics, cautions = _common_metrics(mine, theirs)
    raced = mine.plan.metric
    metrics.sort(key=lambda metric: metric != raced)
    declared = {**mine.results.declared, **mine.plan.declared}
    gaps = []
    for metric in metrics:
        key = EstimateKey("", None, None, metric, "", "", "", declared[metric].measure if metric in declared else None)
        by_item = [(_scores(mine, name, metric), _scores(theirs, other, metric)) for name, other in names]
        pairs = [_shared_scores(*both) for both in by_item]
        ends = iter(
            mean_differences(
                [[a - b for a, b in shared] for shared in pairs if shared],
                key.value_range,
                sizes=[
                    _shared_size(mine, theirs, pair, metric, len(shared))
                    for pair, shared in zip(names, pairs, strict=True)
                    if shared
                ],
                confidence=level,
            )
        )
        for pair, (of_first, of_second), shared in zip(names, by_item, pairs, strict=True):
            if shared:
                count = len(shared)
                means = (sum(a for a, _ in shared) / count, sum(b for _, b in shared) / count)
                gaps.append(_difference(pair, key, PAIRED, (count, count), means, next(ends)))
            elif of_first and of_second:
                moments = (_moments(scores.values(), key.value_range) for scores in (of_first, of_second))
                gaps.append(_unpaired_difference(pair, key, *moments, confidence=level))
    if mine.plan.data_digest != theirs.plan.data_digest and any(g.method == PAIRED for g in gaps):
        cautions.append(
            "The two experiments have different data. Items are paired by id: the same id must be the same question "
            "in both."
        )
    for info, state in (first, second):
        if not state.completed:
            cautions.append(f"{info.run} is not complete: the numbers may change.")
    subject = raced if raced == theirs.plan.metric else None
    return RunComparison(first[0], second[0], made_at, subject, confidence, level, gaps, cautions)


def compare_replays(
    first: tuple[Workspace, Mapping[str, Mapping[EstimateKey, Moments]]],
    second: tuple[Workspace, Mapping[str, Mapping[EstimateKey, Moments]]],
    names: Names,
    *,
    pairs: Mapping[tuple[str, str], Sequence[Compared]],
    confidence: float,
    made_at: datetime,
) -> RunComparison:
    """Return the differences of pipelines of two replays.

    Metrics in `pairs` are compared interaction by interaction. The others are compared by their means, if the same
    labeler scored both.

    Args:
        first: a replay, and for each of its pipelines the moments by key without scope.
        second: another one.
        names: pairs of pipelines to compare.
        pairs: for some of these pairs the differences interaction by interaction, at `confidence_each`.
        confidence: level at which the intervals of one metric hold together.
        made_at: time of the report.
    """
    level = confidence_each(confidence, names)
    gaps: list[MetricDifference] = []
    cautions: dict[str, None] = {}
    for name, other in names:
        known = set()
        for pair in pairs.get((name, other), ()):
            key = pair.key
            if key.segment is not None:
                continue
            known.add(comparable(key))
            gaps.append(
                _difference((name, other), key, PAIRED, pair.n, pair.means, pair.difference, n_clusters=pair.n_clusters)
            )
            if pair.other is not None:
                labelers = f"{key.labeler} {key.labeler_version} and {pair.other_labeler}"
                cautions[f"Another labeler scored each replay: {labelers}."] = None
        gaps += [
            _unpaired_difference((name, other), by, mine, second[1][other][by], confidence=level)
            for by, mine in first[1][name].items()
            if by in second[1][other] and comparable(by) not in known
        ]
    return RunComparison(first[0], second[0], made_at, None, confidence, level, gaps, list(cautions))


def confidence_each(confidence: float, names: Names) -> float:
    """Return the level of each interval at which the intervals of one metric hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(len(names), 1)


def _common_metrics(first: ExperimentState, second: ExperimentState) -> tuple[list[str], list[str]]:
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


_ItemScore = tuple[int, float]
"""Place of an item in the order in which items are run, and its score."""


def _scores(state: ExperimentState, config: str, metric: str) -> dict[str, _ItemScore]:
    return {
        result.execution.item_id: (index, score)
        for index, result in state.counted(config)
        if result.execution is not None and not isnan(score := result.score(metric))
    }


def _shared_size(
    first: ExperimentState, second: ExperimentState, names: tuple[str, str], metric: str, pairs: int
) -> int | None:
    if first.plan.data_digest != second.plan.data_digest:
        return None
    lost: set[str] = set()
    for state, name in zip((first, second), names, strict=True):
        for _, result in state.counted(name):
            if result.execution is not None and isnan(result.score(metric)):
                lost.add(result.execution.item_id)
    return max(first.plan.population_size - len(lost), pairs)


def _shared_scores(mine: Mapping[str, _ItemScore], theirs: Mapping[str, _ItemScore]) -> list[tuple[float, float]]:
    shared = sorted(mine.keys() & theirs.keys(), key=lambda item: max(mine[item][0], theirs[item][0]))
    return [(mine[item][1], theirs[item][1]) for item in shared]


def _unpaired_difference(
    names: tuple[str, str], key: EstimateKey, mine: Moments, theirs: Moments, *, confidence: float
) -> MetricDifference:
    lowest, highest = key.value_range
    width, of_counts = highest - lowest, key.holds_counts
    ends = difference(mine, theirs, confidence=confidence, width=width, counts=of_counts)
    means = (lowest + width * float(mine.mean[0]), lowest + width * float(theirs.mean[0]))
    used = clusters_of(mine, counts=of_counts), clusters_of(theirs, counts=of_counts)
    return _difference(names, key, UNPAIRED, (int(mine.n[0]), int(theirs.n[0])), means, ends, n_clusters=used)


def clusters_of(moments: Moments, *, counts: bool) -> int | None:
    """Return the number of clusters that the interval of a mean rests on; None where each value counts by itself.

    Args:
        counts: whether the values are counts, whose intervals may be `asymptotic`.
    """
    return clusters_used(moments)[0] if resolved(AUTO, moments, counts)[0] == "running" else None


def _difference(  # noqa: PLR0917 - the parts of a difference
    names: tuple[str, str],
    key: EstimateKey,
    method: Literal["paired", "unpaired"],
    n: tuple[int, int],
    means: tuple[float, float],
    ends: Interval[float, float],
    *,
    n_clusters: tuple[int | None, int | None] = (None, None),
) -> MetricDifference:
    return MetricDifference(*names, key.metric, method, n, means, ends, _verdict(key.better, ends), n_clusters)


def _moments(items: Iterable[_ItemScore], value_range: tuple[float, float]) -> Moments:
    lowest, highest = value_range
    scores = [score for _, score in sorted(items, key=lambda item: item[0])]
    table = MomentTable()
    row = table.add_row()
    values = (np.array(scores) - lowest) / (highest - lowest)
    table.update(np.full(len(values), row, dtype=np.intp), values)
    return table.read([row])


def _verdict(
    better: Direction | None, ends: Interval[float, float]
) -> Literal["better", "worse", "different", "equal", "undecided"]:
    if max(abs(ends.lower), abs(ends.upper)) < ROUNDING:
        return "equal"
    if ends.verdict == "undecided":
        return "undecided"
    if better is Direction.NEITHER:
        return "different"
    return "worse" if (ends.verdict == "higher") == (better is Direction.LOWER) else "better"
