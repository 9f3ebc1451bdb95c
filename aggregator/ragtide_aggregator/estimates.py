"""Estimates from the state: means, RMSEs and consistency, each with its interval. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterable
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from ragtide_schemas import METRICS, Estimate, from_milliseconds, value_range

from .keys import EstimateKey
from .state import GOLD, SQUARED_ERROR, AggregatorState
from .statistics.intervals import interval
from .statistics.rmse import aggregated_rmse, consistency_score
from .statistics.running import running_interval

RMSE: Final = "rmse."
"""Family of the errors against gold: `rmse.trace.adherence` of one metric, `rmse.trace` aggregated over its family."""

CONSISTENCY: Final = "consistency_score."
"""Family of 1 minus the aggregated RMSE."""

STRATEGIES: Final = ("running", "normal", "wilson", "hoeffding")
"""Interval strategies an estimate can be shown with; `running` may be looked at as often as one likes."""


class _Shown(NamedTuple):
    """How an interval is made, to be said with it."""

    strategy: str
    confidence: float


class _Scaled(NamedTuple):
    """A mean in [0, 1] with its interval."""

    estimate: float | None
    lower: float
    upper: float


def estimates(
    state: AggregatorState,
    *,
    keys: Iterable[EstimateKey] | None = None,
    strategy: str = "running",
    confidence: float = 0.95,
) -> list[Estimate]:
    """Return the estimates of these keys, or of all, ordered by scope and metric.

    An RMSE is the root of a mean squared error, so its interval is the root of that one's. The RMSE aggregated over a
    family is the root of the mean of its metrics' mean squared errors; its interval has each of them at
    (1 - confidence) / number of metrics (Bonferroni), so together they hold at `confidence`.

    Raises:
        ValueError: unknown strategy, or a confidence outside (0, 1).
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown: use one of {', '.join(STRATEGIES)}")
    wanted = [row.key for row in state.rows] if keys is None else list(keys)
    rows = [index for key in wanted if (index := state.index(key)) is not None]
    shown = [row for row in rows if not state.rows[row].key.metric.startswith((SQUARED_ERROR, GOLD))]
    errors = [row for row in rows if state.rows[row].key.metric.startswith(SQUARED_ERROR)]
    result = [
        _mean_estimate(state, row, scaled, strategy, confidence)
        for row, scaled in zip(shown, _intervals(state, shown, strategy, confidence), strict=True)
    ]
    result += [
        _rmse_estimate(state, row, scaled, strategy, confidence)
        for row, scaled in zip(errors, _intervals(state, errors, strategy, confidence), strict=True)
    ]
    for scope in _families(state, errors):
        result += _aggregated_estimates(state, scope, strategy, confidence)
    return sorted(result, key=lambda e: (e.pipeline, e.run or "", e.segment or "", e.labeler, e.profile, e.metric))


def _intervals(state: AggregatorState, rows: list[int], strategy: str, confidence: float) -> list[_Scaled]:
    moments = state.moments
    if strategy == "running":
        index = np.asarray(rows, dtype=np.intp)
        n, mean = moments.n[index], moments.mean[index]
        lower, upper = running_interval(mean, np.maximum(n, 1), moments.v[index], confidence=confidence)
        return [
            _Scaled(m, low, high) if count else _Scaled(None, 0.0, 1.0)
            for count, m, low, high in zip(n.tolist(), mean.tolist(), lower.tolist(), upper.tolist(), strict=True)
        ]
    return [_fixed(state, row, strategy, confidence) for row in rows]


def _fixed(state: AggregatorState, row: int, strategy: str, confidence: float) -> _Scaled:
    n = int(state.moments.n[row])
    if n == 0:
        return _Scaled(None, 0.0, 1.0)
    mean = float(state.moments.mean[row])
    variance = state.moments.variance(row)
    population = state.rows[row].population_size
    found = interval(
        strategy,
        mean=mean,
        n=n,
        confidence=confidence,
        # A run that holds more than it announced is not a sample of the announced population.
        population=population if population is not None and population >= n else None,
        variance=variance if n > 1 else None,
    )
    return _Scaled(mean, found.lower, found.upper)


def _mean_estimate(state: AggregatorState, row: int, scaled: _Scaled, strategy: str, confidence: float) -> Estimate:
    metric = state.rows[row].key.metric
    lower, upper = value_range(metric)
    width = upper - lower
    definition = METRICS.get(metric)
    value = None if scaled.estimate is None else lower + width * scaled.estimate
    n = int(state.moments.n[row])
    moments = state.moments
    return _estimate(
        state,
        row,
        metric,
        _Scaled(value, lower + width * scaled.lower, lower + width * scaled.upper),
        _Shown(strategy, confidence),
        standard_deviation=width * sqrt(moments.variance(row)) if n > 1 else None,
        minimum=lower + width * float(moments.minimum[row]) if n else None,
        maximum=lower + width * float(moments.maximum[row]) if n else None,
        recent=lower + width * float(moments.recent[row]) if n else None,
        band=definition.band(value) if definition is not None and value is not None else None,
    )


def _rmse_estimate(state: AggregatorState, row: int, scaled: _Scaled, strategy: str, confidence: float) -> Estimate:
    key = state.rows[row].key
    metric = key.metric.removeprefix(SQUARED_ERROR)
    lower, upper = value_range(metric)
    width = upper - lower
    gold = state.index(key._replace(metric=GOLD + metric))
    return _estimate(
        state,
        row,
        RMSE + metric,
        _Scaled(*(None if value is None else width * sqrt(value) for value in scaled)),  # type: ignore[arg-type]
        _Shown(strategy, confidence),
        recent=width * sqrt(float(state.moments.recent[row])) if state.moments.n[row] else None,
        baseline=None if gold is None else width * sqrt(_population_variance(state, gold)),
    )


def _population_variance(state: AggregatorState, row: int) -> float:
    return float(max(state.moments.m2[row], 0.0) / state.moments.n[row])


def _families(state: AggregatorState, errors: list[int]) -> list[list[int]]:
    """Return, for every scope and family that has one of these errors, the rows of all its errors."""
    touched: dict[tuple[EstimateKey, str], None] = {}
    for row in errors:
        key = state.rows[row].key
        touched[key._replace(metric=""), _family(key.metric)] = None
    members: dict[tuple[EstimateKey, str], list[int]] = defaultdict(list)
    for index, record in enumerate(state.rows):
        if record.key.metric.startswith(SQUARED_ERROR):
            members[record.key._replace(metric=""), _family(record.key.metric)].append(index)
    return [members[scope] for scope in touched]


def _family(squared_error_metric: str) -> str:
    return squared_error_metric.removeprefix(SQUARED_ERROR).partition(".")[0]


def _aggregated_estimates(state: AggregatorState, rows: list[int], strategy: str, confidence: float) -> list[Estimate]:
    parts = _intervals(state, rows, strategy, 1 - (1 - confidence) / len(rows))
    fewest = min(rows, key=lambda row: int(state.moments.n[row]))
    # A row of squared errors exists only with its first value, so every part has an estimate.
    estimate = aggregated_rmse([part.estimate for part in parts if part.estimate is not None])
    lower, upper = aggregated_rmse([part.lower for part in parts]), aggregated_rmse([part.upper for part in parts])
    consistency = _Scaled(consistency_score(estimate), consistency_score(upper), consistency_score(lower))
    family, shown = _family(state.rows[fewest].key.metric), _Shown(strategy, confidence)
    return [
        _estimate(state, fewest, RMSE + family, _Scaled(estimate, lower, upper), shown),
        _estimate(state, fewest, CONSISTENCY + family, consistency, shown),
    ]


def _estimate(
    state: AggregatorState,
    row: int,
    metric: str,
    values: _Scaled,
    shown: _Shown,
    *,
    standard_deviation: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    recent: float | None = None,
    baseline: float | None = None,
    band: str | None = None,
) -> Estimate:
    record = state.rows[row]
    key, n = record.key, int(state.moments.n[row])
    seen = n + record.n_absent
    return Estimate(
        pipeline=key.pipeline,
        segment=key.segment,
        run=key.run,
        metric=metric,
        profile=key.profile,
        labeler=key.labeler,
        labeler_version=key.labeler_version,
        n=n,
        n_absent=record.n_absent,
        coverage=n / seen if seen else None,
        population_size=record.population_size,
        estimate=values.estimate,
        lower=values.lower,
        upper=values.upper,
        strategy=shown.strategy,
        anytime_valid=shown.strategy == "running",
        confidence=shown.confidence,
        standard_deviation=standard_deviation,
        minimum=minimum,
        maximum=maximum,
        recent=recent,
        baseline=baseline,
        band=band,
        updated_at=from_milliseconds(record.updated_ms),
    )
