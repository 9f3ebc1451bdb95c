"""Pipelines and rules whose data break an assumption of the intervals or of the alert rules. No clock, no I/O."""

from collections.abc import Iterable
from math import ceil, floor, log10
from typing import Final, NamedTuple, TypeVar

import numpy as np

from ragtide_schemas import AlertRule, Movement
from ragtide_schemas.alert_kinds import SEASONAL
from ragtide_schemas.alert_rule import duration_ms

from ..alerts.messages import CERTAIN_EFFECT
from ..alerts.rule_state import matches
from ..events.keys import HIDDEN
from ..state.state import AggregatorState
from .view import View

LEAST_CLUSTERS: Final = 100
"""Fewest clusters of a pipeline from which the share is shown."""

MOST_CONTINUED: Final = 0.1
"""Largest share that is left alone. On simulated chats 27% halved the run length of alert rules, and 2% did not change
it (benchmarks/measured/continued_clusters.md)."""

DAY_MS: Final = 86_400_000

CERTAIN_SHARE: Final = 0.5
"""Share of the hours' deviations that luck does not explain, from which a swing is reported."""


class DependentPipeline(NamedTuple):
    """The metric of a pipeline with the largest certain design effect."""

    pipeline: str
    run: str | None
    metric: str
    design_effect: float


def dependent_pipelines(state: AggregatorState) -> list[DependentPipeline]:
    """Return the pipelines without clusters whose dependence is certain, sorted by name."""
    clustered = state.clustered
    measured = np.flatnonzero(state.measures_dependence(np.arange(len(state.keys)))).tolist()
    rows = [row for row in measured if (state.keys[row].pipeline, state.keys[row].run) not in clustered]
    dependence = state.dependence(np.array(rows, dtype=np.intp))
    if dependence is None:
        return []
    largest: dict[tuple[str, str | None], DependentPipeline] = {}
    for row, effect, certain in zip(rows, dependence.design_effect.tolist(), dependence.certain.tolist(), strict=True):
        key = state.keys[row]
        known = largest.get((key.pipeline, key.run))
        if certain > CERTAIN_EFFECT and (known is None or effect > known.design_effect):
            largest[key.pipeline, key.run] = DependentPipeline(key.pipeline, key.run, key.metric, effect)
    return _by_name(largest.values())


class ContinuedPipeline(NamedTuple):
    """A pipeline with many clusters that continue a closed one, so they are not independent."""

    pipeline: str
    run: str | None
    continued: int
    clusters: int
    """Number of open clusters, and of closed ones with a value of the most frequent metric."""

    @property
    def share(self) -> float:
        """Share of the clusters that continue another."""
        return self.continued / self.clusters


def continued_pipelines(state: AggregatorState) -> list[ContinuedPipeline]:
    """Return the pipelines with too many clusters that continue a closed one, sorted by name."""
    wanted = {scope: counts for scope, counts in state.continued.items() if counts[0]}
    rows = [row for row, key in enumerate(state.keys) if (key.pipeline, key.run) in wanted]
    sums = state.cluster_sums(np.array(rows, dtype=np.intp))
    if sums is None:
        return []
    clusters: dict[tuple[str, str | None], int] = {}
    for row, count in zip(rows, sums.count.tolist(), strict=True):
        key = state.keys[row]
        scope = (key.pipeline, key.run)
        clusters[scope] = max(clusters.get(scope, 0), count)
    pipelines = [
        ContinuedPipeline(*scope, wanted[scope][0], count + wanted[scope][1]) for scope, count in clusters.items()
    ]
    return _by_name(
        pipeline for pipeline in pipelines if pipeline.clusters >= LEAST_CLUSTERS and pipeline.share > MOST_CONTINUED
    )


class WaitingPipeline(NamedTuple):
    """A live pipeline with interactions in open clusters, which no interval and no alert rule counts yet."""

    pipeline: str
    waiting: int
    interactions: int
    """Number of values of the most frequent metric, those that wait included."""


def waiting_pipelines(state: AggregatorState) -> list[WaitingPipeline]:
    """Return the live pipelines with open clusters, sorted by name."""
    pipelines = []
    for (pipeline, run), waiting in state.waiting.items():
        rows = [
            row for row, key in enumerate(state.keys) if (key.pipeline, key.run, key.segment) == (pipeline, None, None)
        ]
        if run is None and waiting and rows:
            pipelines.append(WaitingPipeline(pipeline, waiting, int(View(state).moments(rows).n.max())))
    return sorted(pipelines)


class MixedPipeline(NamedTuple):
    """A pipeline whose estimates are weighted, with the range of its sampling probabilities."""

    pipeline: str
    run: str | None
    lowest: float
    highest: float


def mixed_pipelines(state: AggregatorState) -> list[MixedPipeline]:
    """Return the pipelines with a metric whose values were kept with different probabilities, sorted by name."""
    rows = np.array(
        [row for row, key in enumerate(state.keys) if key.segment is None and not key.metric.startswith(HIDDEN)],
        dtype=np.intp,
    )
    sampled = state.sampled(rows)
    if sampled is None:
        return []
    n = state.moments.counts(rows)
    pipelines: dict[tuple[str, str | None], MixedPipeline] = {}
    for place in np.flatnonzero(sampled.mixed(n)).tolist():
        key = state.keys[int(rows[place])]
        highest = 1.0 if sampled.n[place] < n[place] else float(1 / sampled.least[place])
        lowest = float(1 / sampled.most[place])
        known = pipelines.get((key.pipeline, key.run))
        if known is not None:
            lowest, highest = min(known.lowest, lowest), max(known.highest, highest)
        pipelines[key.pipeline, key.run] = MixedPipeline(key.pipeline, key.run, lowest, highest)
    return _by_name(pipelines.values())


class SwingingRule(NamedTuple):
    """A rule on a pipeline whose mean swings by more than the rule's `min_effect`."""

    rule: str
    pipeline: str
    run: str | None
    metric: str
    movement: Movement
    swing: float
    """Distance of the lowest (for a rise: the highest) hour's mean from the mean of all hours, in the metric's unit."""
    min_effect: float
    """The `min_effect` that covers it: the swing, rounded up to one digit."""


def swinging_rules(state: AggregatorState, rules: Iterable[AlertRule]) -> list[SwingingRule]:
    """Return the rules that may fire because of day and night, the largest swing first."""
    plain = [rule for rule in rules if _has_one_baseline(rule)]
    rows = [row for row in range(len(state.keys)) if state.measures_swing(row)]
    swings = [swinging for row in rows for swinging in _swings_of(state, row, plain)]
    return sorted(swings, key=lambda swinging: (-swinging.swing, swinging.rule, swinging.pipeline, swinging.run or ""))


def _has_one_baseline(rule: AlertRule) -> bool:
    if rule.kind not in ("drift", "distribution") or rule.baseline == SEASONAL:
        return False
    # A shorter window moves along with the hour.
    return rule.baseline_window is None or duration_ms(rule.baseline_window) >= DAY_MS


def _swings_of(state: AggregatorState, row: int, rules: Iterable[AlertRule]) -> Iterable[SwingingRule]:
    key = state.keys[row]
    lowest, highest = key.value_range
    for rule in rules:
        if not matches(rule, key):
            continue
        for movement in rule.movements if key.measure is None else rule.movements_of(key.measure.direction):
            swings = state.swings(np.array([row]), movement)
            swing = float(swings.estimate[0]) * (highest - lowest)
            if swings.share[0] >= CERTAIN_SHARE and swing > rule.min_effect:
                yield SwingingRule(rule.name, key.pipeline, key.run, key.metric, movement, swing, rounded_up(swing))


def rounded_up(number: float) -> float:
    """Return a positive number rounded up to one digit.

    >>> rounded_up(0.0412), rounded_up(0.05), rounded_up(3.1)
    (0.05, 0.05, 4.0)
    """
    unit = floor(log10(number))
    # A number that has one digit already stays, although its logarithm is not exact.
    size = 10.0**unit
    return round(ceil(number / size - 1e-9) * size, 12)


_Pipeline = TypeVar("_Pipeline", DependentPipeline, ContinuedPipeline, MixedPipeline)


def _by_name(pipelines: Iterable[_Pipeline]) -> list[_Pipeline]:
    return sorted(pipelines, key=lambda pipeline: (pipeline.pipeline, pipeline.run or ""))
