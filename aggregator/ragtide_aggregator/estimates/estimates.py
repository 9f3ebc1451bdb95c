"""All estimates of a state: means, errors against gold scores, prediction-powered means. No clock, no I/O."""

from collections.abc import Iterable
from typing import Final

from ragtide_schemas import Estimate
from ragtide_schemas.suggestions import unknown

from ..events.keys import GOLD_LABELER, HIDDEN, UNBOUNDED, EstimateKey
from ..state.state import AggregatorState
from ..statistics.means.strategies import AUTO, OF_MOMENTS
from ..statistics.tables.windows import ALL_TIME
from .gold_errors import errors_of
from .means import absences, mean, share_rows, usage
from .proxies import of_proxy
from .trends import measured
from .view import IntervalMethod, View, windows_of

STRATEGIES: Final = (AUTO, *OF_MOMENTS)
"""Interval strategies; intervals of `auto` and `running` stay valid however often a reader looks at them."""

PREDICTION_POWERED: Final = "prediction_powered"

ESTIMATORS: Final = ("mean", "weighted", PREDICTION_POWERED)
"""Ways to estimate a mean from scores."""

RECOMMENDED: Final = "recommended"
"""Chooses means, and the prediction-powered means by a reference labeler that have an interval."""


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
    found = [state.index(key) for key in (state.keys if keys is None else keys)]
    rows = [row for row in found if row is not None]
    whole = View(state, ongoing=ongoing)
    wanted = [(whole, rows), *(windows_of(state, rows) if windows else ())]
    result = [one for view, members in wanted for one in _of_view(view, members, method)]
    result += [one for row in rows for one in of_proxy(state, row, method)]
    return sorted(
        result,
        key=lambda e: (
            e.pipeline, e.run or "", e.segment or "", e.labeler, e.profile, e.metric,
            e.metric_version or "", e.window != "all", e.window,
            e.estimator,
        ),
    )  # fmt: skip


def chosen(
    found: Iterable[Estimate], *, window: str = ALL_TIME, estimator: str = "mean", labeling: bool = False
) -> list[Estimate]:
    """Return the estimates of one window and estimator; by default the means of all time.

    Args:
        found: estimates.
        window: name of the window.
        estimator: `mean`, `weighted`, `prediction_powered`, `recommended`, or `all`.
        labeling: whether to return time and cost of labeling instead of scores.
    """
    return [e for e in found if e.window == window and _is_chosen(e, estimator) and (e.metric in UNBOUNDED) == labeling]


def _is_chosen(estimate: Estimate, estimator: str) -> bool:
    if estimator == RECOMMENDED:
        # Below about 30 judged items the interval is the whole range, so the estimate does not help a reader yet.
        # Gold scores of users are no sample with known probabilities, so their estimates are only shown on request.
        sampled = estimate.estimator == PREDICTION_POWERED and estimate.labeler != GOLD_LABELER
        return estimate.estimator == "mean" or (sampled and estimate.has_interval)
    return estimator in ("all", estimate.estimator)


def _of_view(view: View, rows: list[int], method: IntervalMethod) -> list[Estimate]:
    state = view.state
    means = [row for row in rows if not state.keys[row].metric.startswith(HIDDEN)]
    result = errors_of(view, rows, method)
    if not means:
        return result
    shares = {row: share_rows(state, row) for row in means}
    needed = dict.fromkeys(means) | dict.fromkeys(share for found in shares.values() for _, share in found)
    found = measured(view, list(needed), method)
    absent = absences(view, means)
    result += [
        usage(found, row) if state.keys[row].metric in UNBOUNDED else mean(found, row, shares[row], absent.get(row, {}))
        for row in means
    ]
    return result
