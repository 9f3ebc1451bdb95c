"""Projects estimates for all items of a data set from the scored items; differences of configs. No I/O.

A difference of two configs has one interval for leaderboard and report. If the race stopped one config because of the
other, the interval is that of the decision. If both raced, it is the race's interval as of now. Otherwise (no race, or
no common item in the race) it is a betting sequence on the paired differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.means.strategies import RunningIntervals, moments_interval, resolved
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_schemas import Kind, MetricDefinition
from ragtide_schemas.experiments import Evidence, IntervalOptions

from .item_weights import ItemWeights, stretched
from .state import ExperimentState

Source = Literal["decision", "race", "pairs"]


@dataclass(frozen=True, slots=True)
class Projection(Interval[float | None, float]):
    """A metric of one config over all items of the data set, projected from its scores so far.

    The estimate is the mean over all items, or the total if the metric is distributive; None without a score.
    """

    n: int
    """Items with a score; failed calls and undefined metrics have none."""
    kind: Kind
    value_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest possible estimate."""
    exact: bool = False
    """Whether all items have a score, so that no uncertainty about these items is left."""


def projection_of(
    scores: Sequence[Sequence[float]],
    definition: MetricDefinition | None,
    *,
    missing: Sequence[int],
    population: int,
    options: IntervalOptions,
) -> list[Projection]:
    """Return the estimates for all items of several configs.

    Args:
        scores: of each config, in the order in which items are run.
        definition: of the metric; None for a metric between 0 and 1.
        missing: for each config the items without a score, which the mean leaves out.
        population: number of all items.
    """
    kind = Kind.ALGEBRAIC if definition is None else definition.kind
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    sizes = [max(population - n, 1) for n in missing]
    strategy = "betting" if options.strategy == AUTO else options.strategy
    table = _table(
        # A sum is no proportion.
        "normal" if strategy == "wilson" and kind is Kind.DISTRIBUTIVE else strategy,
        scores,
        confidence=options.confidence,
        value_range=(lowest, highest),
        sizes=sizes if options.use_fpc else [None] * len(sizes),
    )
    if options.strategy == AUTO and kind is Kind.DISTRIBUTIVE:
        table = _count_intervals(table, scores, sizes, (lowest, highest), options)
    result = []
    for values, size, ends in zip(scores, sizes, table, strict=True):
        factor = size if kind is Kind.DISTRIBUTIVE else 1
        estimate, lower, upper = (factor * end for end in ends)
        possible = factor * lowest, factor * highest
        if not values:
            result.append(Projection(None, *possible, 0, kind, possible))
        elif len(values) == size and options.use_fpc:  # all items have a score, so no uncertainty is left
            result.append(Projection(estimate, estimate, estimate, size, kind, possible, exact=True))
        else:
            result.append(Projection(estimate, lower, upper, len(values), kind, possible))
    return result


def _count_intervals(
    table: list[list[float]],
    scores: Sequence[Sequence[float]],
    sizes: Sequence[int],
    value_range: tuple[float, float],
    options: IntervalOptions,
) -> list[list[float]]:
    lowest, width = value_range[0], value_range[1] - value_range[0]
    moments = MomentTable()
    rows = np.array([moments.add_row() for _ in scores], dtype=np.intp)
    scaled = (np.array([value for score in scores for value in score], dtype=np.float64) - lowest) / width
    moments.update(np.repeat(rows, [len(score) for score in scores]), np.clip(scaled, 0.0, 1.0))
    sums = moments.read(rows)
    population = np.array(sizes, dtype=np.float64) if options.use_fpc else None
    ends = moments_interval(AUTO, sums, confidence=options.confidence, population=population, counts=True)
    trusted = resolved(AUTO, sums, counts=True) == "asymptotic"
    return [
        [estimate, *(float(lowest + width * end[row]) for end in ends)] if trusted[row] else [estimate, *rest]
        for row, (estimate, *rest) in enumerate(table)
    ]


def paired_differences(
    state: ExperimentState, first: str, others: Sequence[str], *, confidence: float | None = None
) -> list[tuple[int, Interval[float, float]] | None]:
    """Return the number of items that two configs share, and the mean of the first minus the mean of each other.

    The intervals are betting sequences on paired differences without replacement, each valid at every look.
    None for a config without a common item.
    """
    if not others:
        return []
    plan, weights = state.plan, state.weights
    own = dict(state.counted(first))
    level = plan.intervals.confidence if confidence is None else confidence
    value_range = state.results.value_range(plan, plan.metric)
    if weights is not None:
        scores = {item: result.score(plan.metric) for item, result in own.items()}
        return [
            weighted_difference(
                weights,
                scores,
                {item: result.score(plan.metric) for item, result in state.counted(name)},
                value_range,
                confidence=level,
            )
            for name in others
        ]
    gaps: list[list[float]] = []
    sizes: list[int] = []
    for name in others:
        pairs = [
            (own[item].score(plan.metric), result.score(plan.metric))
            for item, result in state.counted(name)
            if item in own
        ]
        gaps.append([a - b for a, b in pairs if not (np.isnan(a) or np.isnan(b))])
        sizes.append(max(plan.population_size - (len(pairs) - len(gaps[-1])), 1))
    ends = mean_differences(gaps, value_range, sizes=sizes, confidence=level)
    return [(len(values), end) if values else None for values, end in zip(gaps, ends, strict=True)]


def weighted_difference(
    weights: ItemWeights,
    first: Mapping[int, float],
    second: Mapping[int, float],
    value_range: tuple[float, float],
    *,
    confidence: float,
) -> tuple[int, Interval[float, float]] | None:
    """Return the number of drawn items with both scores, and the weighted mean of first - second with its interval.

    None without such an item.

    Args:
        weights: of the items.
        first: scores by item; nan for an item without a score.
        second: other scores.
        value_range: lowest and highest possible score.
        confidence: level of the interval.
    """
    gaps = {item: score - second[item] for item, score in first.items() if item in second and weights.units[item]}
    known = {item: gap for item, gap in gaps.items() if not np.isnan(gap)}
    if not known:
        return None
    if weights.covers(gaps):
        return len(known), weights.difference(first, second, value_range, confidence=confidence)
    size = max(weights.units.size - (len(gaps) - len(known)), 1)
    scaled = [float(weights.units[item]) * gap for item, gap in known.items()]
    [interval] = mean_differences([scaled], value_range, sizes=[size], confidence=confidence)
    return len(known), _of_all(interval, weights.stretch(), weights.weighted(known))


def _of_all(interval: Interval[float, float], stretch: float, mean: float | None) -> Interval[float, float]:
    """Return the interval of the weighted mean of all items, with the weighted mean of those that were run."""
    wide = stretched(interval, stretch)
    estimate = wide.estimate if mean is None else mean
    return Interval(estimate, min(wide.lower, estimate), max(wide.upper, estimate))


def weighted_projection(
    weights: ItemWeights,
    scores: Mapping[int, float],
    definition: MetricDefinition | None,
    *,
    options: IntervalOptions,
) -> Projection:
    """Return the estimate of a metric over the traffic from which the items were drawn, as `projection_of` has it.

    Args:
        weights: of the items.
        scores: of a config by item; nan for an item without a score.
        definition: of the metric; None for a metric between 0 and 1.
        options: of the intervals.
    """
    kind = Kind.ALGEBRAIC if definition is None else definition.kind
    lowest, highest = value_range = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    drawn = {item: score for item, score in scores.items() if weights.units[item]}
    known = {item: score for item, score in drawn.items() if not np.isnan(score)}
    size = max(weights.units.size - (len(drawn) - len(known)), 1)
    factor = size if kind is Kind.DISTRIBUTIVE else 1
    possible = factor * lowest, factor * highest
    if not known:
        return Projection(None, *possible, 0, kind, possible)
    counts = kind is Kind.DISTRIBUTIVE
    ends: Interval[float | None, float]
    if weights.covers(drawn):
        ends = weights.mean(drawn, value_range, confidence=options.confidence, counts=counts)
    else:
        above = [float(weights.units[item]) * (score - lowest) for item, score in known.items()]
        [table] = _table(
            "betting", [above], confidence=options.confidence, value_range=(0.0, highest - lowest), sizes=[size]
        )
        mean = weights.weighted(known)
        off = _of_all(Interval(*table), weights.stretch(), None if mean is None else mean - lowest)
        ends = Interval(lowest + off.estimate, max(lowest + off.lower, lowest), min(lowest + off.upper, highest))
    estimate = None if ends.estimate is None else factor * ends.estimate
    return Projection(estimate, factor * ends.lower, factor * ends.upper, len(known), kind, possible)


def mean_differences(
    gaps: Sequence[Sequence[float]],
    value_range: tuple[float, float],
    *,
    sizes: Sequence[int | None],
    confidence: float,
) -> list[Interval[float, float]]:
    """Return the mean of each list of differences with its interval, a betting sequence that is valid at every look.

    Args:
        gaps: lists of differences, each in the order of the items.
        value_range: lowest and highest possible value of the metric.
        sizes: for each list the number of differences once all items are run; None if it is not known.
        confidence: level of each interval.
    """
    width = value_range[1] - value_range[0]
    table = _table("betting", gaps, confidence=confidence, value_range=(-width, width), sizes=sizes)
    return [
        # All differences are known, so no uncertainty is left.
        Interval(ends[0], ends[0], ends[0]) if len(values) == size else Interval(*ends)
        for values, size, ends in zip(gaps, sizes, table, strict=True)
    ]


def _table(
    strategy: str,
    values: Sequence[Sequence[float]],
    *,
    confidence: float,
    value_range: tuple[float, float],
    sizes: Sequence[int | None],
) -> list[list[float]]:
    if not values:
        return []
    table = RunningIntervals(
        strategy,
        keys=len(values),
        confidence=confidence,
        value_range=value_range,
        population=np.array(sizes, dtype=object),
    )
    keys = np.repeat(np.arange(len(values)), [len(row) for row in values])
    everything = np.array([value for row in values for value in row], dtype=np.float64)
    table.update(keys, np.clip(everything, *value_range))
    intervals = table.intervals()
    ends = [intervals.estimate, intervals.lower, intervals.upper]
    return np.stack(ends, axis=1).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ConfigPair:
    """The difference of two configs, on the items on which both have a score."""

    first: str
    second: str
    n: int
    """Items on which both have a score."""
    difference: Interval[float, float]
    """Mean of the first minus mean of the second, in the unit of the race's metric."""
    source: Source
    """Origin of the interval: a `decision` of the race, the `race`, or `pairs` that did not race."""
    stopped: str | None = None
    """The config of the two that the race stopped because of the other."""


def race_evidence(state: ExperimentState, name: str) -> Evidence | None:
    """Return the evidence with which the race stopped a config; None for other configs."""
    status = state.configs[name]
    return status.evidence if status.status == "stopped" else None


def differences(
    state: ExperimentState, first: str, others: Sequence[str], *, raced: bool = True, confidence: float | None = None
) -> list[ConfigPair | None]:
    """Return the mean of one config minus the mean of each other; None without a common item.

    Args:
        first: a config.
        others: other configs, further down the leaderboard.
        raced: whether to use the race's intervals as of now, each of which is slow to compute.
        confidence: level of each interval outside of the race; the level of the plan unless given.
    """
    # Once all items have run, the interval is that of the traffic, and no longer that of these items.
    raced = raced and not (state.weights is not None and state.all_compared)
    raced_pairs = [_raced_pair(state, first, second, raced=raced) for second in others]
    rest = [second for second, raced_pair in zip(others, raced_pairs, strict=True) if raced_pair is None]
    paired = dict(zip(rest, paired_differences(state, first, rest, confidence=confidence), strict=True))
    return [
        raced_pair if (pair := paired.get(second)) is None else ConfigPair(first, second, *pair, "pairs")
        for second, raced_pair in zip(others, raced_pairs, strict=True)
    ]


def _raced_pair(state: ExperimentState, first: str, second: str, *, raced: bool) -> ConfigPair | None:
    for loser, winner in ((second, first), (first, second)):
        evidence = race_evidence(state, loser)
        if evidence is not None and evidence.by == winner:
            gap = difference_of(evidence, negated=loser == first)
            return ConfigPair(first, second, evidence.n, gap, "decision", loser)
    duel = state.race.difference(first, second) if raced and state.race is not None else None
    return None if duel is None else ConfigPair(first, second, *duel, "race")


def difference_of(evidence: Evidence, *, negated: bool = False) -> Interval[float, float]:
    """Return the difference on which the race decided: the leader's mean minus the mean of the stopped config."""
    if negated:
        return Interval(-evidence.difference, -evidence.upper, -evidence.lower)
    return Interval(evidence.difference, evidence.lower, evidence.upper)
