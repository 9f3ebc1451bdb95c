"""All estimates of a state: means, errors against gold scores, prediction-powered means. No clock, no I/O."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import ceil, isnan
from typing import Final

import numpy as np

from ragtide_schemas import Estimate
from ragtide_schemas.known_labelers import certain_band
from ragtide_schemas.suggestions import unknown

from ..events.keys import GOLD_LABELER, HIDDEN, UNBOUNDED, EstimateKey
from ..state.state import AggregatorState
from ..statistics.intervals.asymptotic import values_needed
from ..statistics.intervals.pair_estimates import LEAST_CLUSTERS
from ..statistics.means.strategies import OF_MOMENTS
from ..statistics.pairs.prediction_powered import Everything
from ..statistics.tables.batches import Floats
from ..statistics.tables.names import AUTO
from .choices import PREDICTION_POWERED
from .gold_errors import errors_of
from .means import MetricMean, absences, mean, metric_mean, share_rows, usage
from .record import record
from .view import IntervalMethod, MeasuredView, ScaledMean, View, read_view, windows_of

STRATEGIES: Final = (AUTO, *OF_MOMENTS)
"""Interval strategies; intervals of `auto` and `running` stay valid however often a reader looks at them."""

ORDERED: Final = (AUTO, "running")
"""Strategies whose intervals depend on the order of the values."""


def estimates(
    state: AggregatorState,
    *,
    keys: Iterable[EstimateKey] | None = None,
    strategy: str = AUTO,
    confidence: float = 0.95,
    ongoing: bool = False,
    windows: bool = True,
) -> list[Estimate]:
    """Return the estimates of these keys, or of all, ordered by scope, metric and window.

    A window is the one that holds the newest interaction of the key's pipeline and run.

    Args:
        state: of a partition, or of several merged.
        keys: of the estimates; all keys of the state unless given.
        strategy: method of the intervals.
        confidence: level of the intervals.
        ongoing: whether the interactions are a sample of ongoing traffic, even in a run of known size.
        windows: whether to return estimates of windows too, not only those of all time.

    Raises:
        ValueError: unknown strategy, or a confidence outside (0, 1).
    """
    if strategy not in STRATEGIES:
        raise ValueError(unknown("strategy", strategy, STRATEGIES))
    method = IntervalMethod(strategy, confidence)
    known_rows = [state.index(key) for key in (state.keys if keys is None else keys)]
    rows = [row for row in known_rows if row is not None]
    whole = View(state, ongoing=ongoing)
    wanted = [(whole, rows), *(windows_of(state, rows) if windows else ())]
    result = [estimate for view, members in wanted for estimate in _view_estimates(view, members, method)]
    result += [estimate for _, of_row in _estimates_by_pairs(state, rows, method) for estimate in of_row]
    return sorted(
        result,
        key=lambda e: (
            e.pipeline, e.run or "", e.segment or "", e.labeler, e.profile, e.metric,
            e.metric_version or "", e.window != "all", e.window,
            e.estimator, e.labeler_version, e.proxy or "", e.lowest or 0.0, e.highest or 0.0, e.kind or "",
        ),
    )  # fmt: skip


def metric_means(
    state: AggregatorState,
    method: IntervalMethod,
    segment: str | None = None,
    *,
    pipelines: Collection[str] | None = None,
) -> list[MetricMean]:
    """Return the means of all live pipelines, ordered by pipeline, metric and labeler.

    Among them are root mean squared errors, and prediction-powered means by judges.

    Args:
        state: of a partition, or of several merged.
        segment: segment value, for the means of its interactions; None for whole pipelines.
        pipelines: only these; all unless given.
    """
    keys, view = state.keys, View(state)
    wanted = [
        row
        for row, key in enumerate(keys)
        if key.run is None and key.segment == segment and (pipelines is None or key.pipeline in pipelines)
    ]
    rows = [row for row in wanted if not keys[row].metric.startswith(HIDDEN)]
    means = [MetricMean.of(estimate) for estimate in errors_of(view, wanted, method)]
    if rows:
        read = view.read(rows)
        means += [
            metric_mean(keys[row], state.definition(keys[row]), numbers, scaled)
            for row, numbers, scaled in zip(rows, read.numbers, read.means(method), strict=True)
        ]
    by_pairs = _estimates_by_pairs(state, rows, method)
    means += [mean for row, estimated in by_pairs for mean in _powered_means(keys[row], estimated)]
    return sorted(means, key=lambda mean: (mean.key.pipeline, mean.key.metric, mean.key.labeler, not mean.is_powered))


def _powered_means(proxy: EstimateKey, of_row: Sequence[Estimate]) -> list[MetricMean]:
    estimated = [estimate for estimate in of_row if estimate.labeler != GOLD_LABELER]
    needed = {EstimateKey.of(e): _judged_needed(e) for e in estimated if e.estimator == "weighted"}
    return [
        MetricMean.of(estimate, proxy, needed[EstimateKey.of(estimate)])
        for estimate in estimated
        if estimate.estimator == PREDICTION_POWERED
    ]


def _judged_needed(weighted: Estimate) -> int | None:
    lowest, highest = weighted.value_range
    if weighted.estimate is None or not weighted.n:
        return None
    mean = (weighted.estimate - lowest) / ((highest - lowest) or 1.0)
    needed = values_needed(mean, weighted.n, weighted.n_effective or weighted.n)
    clusters = weighted.n_clusters
    return needed if clusters is None else max(needed, ceil(LEAST_CLUSTERS * weighted.n / max(clusters, 1)))


def _view_estimates(view: View, rows: list[int], method: IntervalMethod) -> list[Estimate]:
    state = view.state
    keys = state.keys
    means = [row for row in rows if not keys[row].metric.startswith(HIDDEN)]
    result = errors_of(view, rows, method)
    if not means:
        return result
    shares = {row: share_rows(state, row) for row in means}
    needed = dict.fromkeys(means) | dict.fromkeys(share for of_row in shares.values() for _, share in of_row)
    measured = read_view(view, list(needed), method)
    absent = absences(view, means)
    result += [
        usage(measured, row) if keys[row].metric in UNBOUNDED else mean(measured, row, shares[row], absent.get(row, {}))
        for row in means
    ]
    return result


def _known(number: Floats) -> float | None:
    return None if isnan(number[0]) else float(number[0])


def _estimates_by_pairs(
    state: AggregatorState, rows: Sequence[int], method: IntervalMethod
) -> Iterator[tuple[int, list[Estimate]]]:
    """Yield each of the rows that is the proxy of pairs, with the estimates by these pairs; all are read together."""
    proxies = [row for row in rows if state.pairs.of(row)]
    if proxies:
        measured = read_view(View(state), proxies, IntervalMethod("asymptotic", method.confidence))
        for row in proxies:
            yield row, _of_proxy(measured, row)


def _of_proxy(measured: MeasuredView, row: int) -> list[Estimate]:
    state, confidence = measured.view.state, measured.method.confidence
    numbers = measured.numbers.of(row)
    moments = measured.numbers.moments.at(np.array([measured.numbers.places[row]]))
    everything = Everything(moments, np.array([numbers.n_absent], dtype=np.float64))
    result = []
    for place in state.pairs.of(row):
        key = state.pairs.keys[place].reference
        lowest, highest = key.value_range
        definition = state.definition(key)
        # Proxy scores that were kept with different probabilities are not a plain sample: their part of the variance is
        # unknown, so the prediction-powered mean is withheld.
        for powered in (False,) if numbers.mixed else (False, True):
            pairs = state.pairs.read(place, everything, confidence=confidence, powered=powered)
            clusters = float(pairs.n_clusters[0])
            estimate = _known(pairs.estimate)
            mean = ScaledMean(estimate, float(pairs.lower[0]), float(pairs.upper[0])).in_unit(lowest, highest)
            result.append(
                record(
                    measured,
                    row,
                    key.metric,
                    mean,
                    lowest=lowest,
                    highest=highest,
                    direction=None if definition is None else definition.direction,
                    kind=None if definition is None else definition.kind,
                    n=int(pairs.n[0]),
                    n_traffic=None,
                    n_absent=int(pairs.n_absent[0]),
                    coverage=_known(pairs.coverage),
                    proxy_coverage=None if numbers.mixed else _known(pairs.proxy_coverage),
                    population_size=None,
                    profile=key.profile,
                    labeler=key.labeler,
                    labeler_version=key.labeler_version,
                    estimator=PREDICTION_POWERED if powered else "weighted",
                    proxy=state.keys[row].labeler,
                    band=certain_band(definition, key.labeler, (mean.lower, mean.estimate, mean.upper)),
                    n_effective=float(pairs.n_effective[0]),
                    design_effect=_known(pairs.design_effect),
                    n_clusters=None if isnan(clusters) else int(clusters),
                )
            )
    return result
