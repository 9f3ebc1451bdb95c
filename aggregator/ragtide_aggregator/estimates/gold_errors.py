"""Estimates of the error against gold scores: the RMSE of a metric, and RMSE and consistency of a family. No I/O.

An RMSE is the root of a mean squared error, so its interval is the root of that mean's interval. The RMSE of a family
is the root of the mean of its metrics' mean squared errors. The interval of each metric is then at
(1 - confidence) / number of metrics (Bonferroni), so together they hold at the confidence.
"""

from collections import defaultdict
from math import sqrt
from typing import Any, Final

from ragtide_schemas import Direction, Estimate, Kind

from ..events.keys import GOLD, SQUARED_ERROR, EstimateKey
from ..state.state import AggregatorState
from ..statistics.intervals.rmse import aggregated_rmse, consistency_score
from .record import record
from .view import IntervalMethod, MeasuredView, ScaledMean, Trend, View, ViewNumbers, read_view, trend

RMSE: Final = "rmse."
"""Family of the errors against gold: `rmse.trace.adherence` of one metric, `rmse.trace` aggregated over its family."""

CONSISTENCY: Final = "consistency_score."
"""Family of 1 minus the aggregated RMSE."""


def gold_row(state: AggregatorState, row: int) -> int | None:
    """Return the row of the gold scores of a row of squared errors; None without one."""
    key = state.keys[row]
    return state.index(key._replace(metric=GOLD + key.metric.removeprefix(SQUARED_ERROR)))


def errors_of(view: View, rows: list[int], method: IntervalMethod) -> list[Estimate]:
    """Return the RMSE of each of these rows that has squared errors, and RMSE and consistency score of their families.

    Args:
        view: with the rows.
        rows: of any metrics.
        method: of the intervals.
    """
    errors = [row for row in rows if view.state.keys[row].metric.startswith(SQUARED_ERROR)]
    if not errors:
        return []
    pooled = families(view.state, errors)
    golds = {row: gold_row(view.state, row) for row in errors}
    needed = dict.fromkeys(errors) | dict.fromkeys(gold for gold in golds.values() if gold is not None)
    needed |= dict.fromkeys(row for members in pooled for row in members)
    measured = read_view(view, list(needed), method)
    before = view.before()
    now, past = FamilyPools(measured.numbers), None if before is None else FamilyPools(before.read(list(needed)))
    result = [rmse(measured, row, golds[row]) for row in errors]
    return result + [estimate for members in pooled for estimate in family_estimates(measured, members, now, past)]


def rmse(measured: MeasuredView, row: int, gold: int | None) -> Estimate:
    """Return the RMSE of a row of squared errors; its baseline is the error of always predicting the mean."""
    key = measured.keys[row]
    width = key.value_range[1] - key.value_range[0]

    def root(mean_square: float) -> float:
        return width * sqrt(mean_square)

    scaled = measured.mean_of(row)
    numbers = measured.numbers.of(row)
    truth = None if gold is None else measured.numbers.of(gold)
    return record(
        measured,
        row,
        RMSE + key.metric.removeprefix(SQUARED_ERROR),
        ScaledMean(
            None if scaled.estimate is None else root(scaled.estimate),
            root(scaled.lower),
            root(scaled.upper),
            scaled.strategy,
        ),
        **_range_of_error(width),
        recent=root(numbers.recent) if numbers.n and not numbers.mixed else None,
        baseline=None if truth is None or not truth.n else root(truth.m2 / truth.n),
        **measured.trend_of(row, root),
    )


def _range_of_error(width: float) -> dict[str, Any]:
    return {"lowest": 0.0, "highest": width, "direction": Direction.LOWER, "kind": Kind.ALGEBRAIC}


def families(state: AggregatorState, errors: list[int]) -> list[list[int]]:
    """Return for each scope and family of these errors the rows of all its errors.

    A metric may have been measured in several ways, such as by two versions. The way with the newest values counts.
    """
    touched = {(state.keys[row].group, _family(state.keys[row].metric)): None for row in errors}
    if not touched:
        return []
    members: dict[tuple[EstimateKey, str], dict[str, int]] = defaultdict(dict)
    for index, key in enumerate(state.keys):
        if key.metric.startswith(SQUARED_ERROR):
            family = members[key.group, _family(key.metric)]
            other = family.setdefault(key.metric, index)
            if other != index and _age(state, index) > _age(state, other):
                family[key.metric] = index
    # The order is fixed, because a sum of floats depends on it.
    return [[row for _, row in sorted(members[scope].items())] for scope in touched]


def _age(state: AggregatorState, row: int) -> tuple[int, str]:
    return int(state.rows.updated_ms[row]), state.keys[row].encode()


def _family(squared_error_metric: str) -> str:
    return squared_error_metric.removeprefix(SQUARED_ERROR).partition(".")[0]


class FamilyPools:
    """Pools the rows of families. The intervals of all rows are computed together, once for each size of a family.

    Args:
        numbers: of all these rows, and perhaps of others.
    """

    def __init__(self, numbers: ViewNumbers) -> None:
        self._numbers = numbers
        self._means: dict[IntervalMethod, list[ScaledMean]] = {}

    def pooled(self, rows: list[int], method: IntervalMethod) -> ScaledMean:
        """Return the aggregated RMSE of a family with its interval."""
        shared = method.shared_by(len(rows))
        if shared not in self._means:
            self._means[shared] = self._numbers.means(shared)
        parts = [self._means[shared][self._numbers.places[row]] for row in rows]
        known = [part.estimate for part in parts if part.estimate is not None]
        return ScaledMean(
            aggregated_rmse(known) if len(known) == len(parts) else None,
            aggregated_rmse([part.lower for part in parts]),
            aggregated_rmse([part.upper for part in parts]),
            # Of several strategies, the weakest.
            min(part.strategy for part in parts),
        )


def family_estimates(
    measured: MeasuredView, rows: list[int], pooling: FamilyPools, past: FamilyPools | None
) -> list[Estimate]:
    """Return RMSE and consistency score of a family; empty while one of its metrics has no values.

    Args:
        measured: view with the rows.
        rows: of the squared errors of the family.
        pooling: of the same view.
        past: of the window before it; None for all time.
    """
    method = measured.method
    fewest = min(rows, key=lambda row: measured.numbers.of(row).n)
    now = pooling.pooled(rows, method)
    if now.estimate is None:
        return []
    change = Trend()
    if past is not None:
        half = method.shared_by(2)
        change = trend(pooling.pooled(rows, half), past.pooled(rows, half))
    ends = consistency_score(now.upper), consistency_score(now.lower)
    consistency = ScaledMean(consistency_score(now.estimate), *ends, now.strategy)
    error: dict[str, Any] = {}
    mirrored: dict[str, Any] = {}
    if change.previous is not None:
        other_way = {"rising": "falling", "falling": "rising"}
        error = {"previous": change.previous, "trend": change.name}
        mirrored = {
            "previous": consistency_score(change.previous),
            "trend": other_way.get(change.name or "", change.name),
        }
    family = _family(measured.keys[fewest].metric)
    # A number over a family has no version.
    return [
        record(measured, fewest, RMSE + family, now, metric_version=None, **_range_of_error(1.0), **error),
        record(
            measured, fewest, CONSISTENCY + family, consistency, metric_version=None,
            lowest=0.0, highest=1.0, direction=Direction.HIGHER, kind=Kind.ALGEBRAIC, **mirrored,
        ),
    ]  # fmt: skip
