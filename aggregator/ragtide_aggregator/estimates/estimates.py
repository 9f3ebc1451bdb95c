"""All estimates of a state: means, errors against gold scores, prediction-powered means. No clock, no I/O."""

from collections.abc import Collection, Iterable, Sequence
from math import ceil
from typing import Final

from ragtide_schemas import Estimate
from ragtide_schemas.suggestions import unknown

from ..events.keys import GOLD_LABELER, HIDDEN, UNBOUNDED, EstimateKey
from ..state.state import AggregatorState
from ..statistics.intervals.asymptotic import values_needed
from ..statistics.intervals.pair_estimates import LEAST_CLUSTERS
from ..statistics.means.strategies import OF_MOMENTS
from ..statistics.tables.names import AUTO
from .by_pairs import estimates_by_pairs
from .choices import PREDICTION_POWERED
from .gold_errors import errors_of
from .means import MetricMean, absences, mean, metric_mean, share_rows, usage
from .view import IntervalMethod, View, read_view, windows_of

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
    result += [estimate for of_row in estimates_by_pairs(state, rows, method).values() for estimate in of_row]
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
    by_pairs = estimates_by_pairs(state, rows, method)
    means += [mean for row, estimated in by_pairs.items() for mean in _powered_means(keys[row], estimated)]
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
