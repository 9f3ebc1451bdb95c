"""Estimates from the state: means, RMSEs, consistency and prediction-powered means, each with its interval. No I/O."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, NamedTuple

from ragtide_schemas import Direction, Estimate, Kind, MetricDefinition, from_milliseconds
from ragtide_schemas.estimate import Share
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.printable import printable

from ..events.keys import GOLD, HIDDEN, SQUARED_ERROR, UNBOUNDED, EstimateKey, share_name
from ..state.state import AggregatorState
from ..statistics.rmse import aggregated_rmse, consistency_score
from ..statistics.strategies import ANYTIME_VALID, AUTO, OF_MOMENTS
from ..statistics.windows import ALL_TIME
from .view import Reading, Row, Scaled, Shown, View, views

RMSE: Final = "rmse."
"""Family of the errors against gold: `rmse.trace.adherence` of one metric, `rmse.trace` aggregated over its family."""

CONSISTENCY: Final = "consistency_score."
"""Family of 1 minus the aggregated RMSE."""

STRATEGIES: Final = (AUTO, *OF_MOMENTS)
"""Interval strategies an estimate can be shown with; `auto` and `running` may be looked at as often as one likes."""


ESTIMATORS: Final = ("mean", "weighted", "prediction_powered")
"""How an estimate may be made of what was scored."""


def estimates(
    state: AggregatorState,
    *,
    keys: Iterable[EstimateKey] | None = None,
    strategy: str = AUTO,
    confidence: float = 0.95,
) -> list[Estimate]:
    """Return the estimates of these keys, or of all, ordered by scope, metric and window.

    An RMSE is the root of a mean squared error, so its interval is the root of that one's. The RMSE aggregated over a
    family is the root of the mean of its metrics' mean squared errors; its interval has each of them at
    (1 - confidence) / number of metrics (Bonferroni), so together they hold at `confidence`.

    Every window is shown as it is at the newest interaction of the key's pipeline and run.

    Raises:
        ValueError: unknown strategy, or a confidence outside (0, 1).
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown: use one of {', '.join(STRATEGIES)}")
    shown = Shown(strategy, confidence)
    found = [state.index(key) for key in (state.keys if keys is None else keys)]
    rows = [row for row in found if row is not None]
    result = [one for view, members in views(state, rows) for one in _of_view(view, members, shown)]
    result += [one for row in rows for one in _of_pairs(state, row, shown)]
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
    """Return the estimates of one window and estimator; by default what a person looks at first.

    Args:
        found: estimates.
        window: name of the window.
        estimator: `mean`, `weighted`, `prediction_powered`, or `all`.
        labeling: whether to have what labeling took and cost, instead of scores.
    """
    return [
        e
        for e in found
        if e.window == window and estimator in ("all", e.estimator) and (e.metric in UNBOUNDED) == labeling
    ]


@dataclass(frozen=True, slots=True)
class _Window:
    """A view read once: its rows, their intervals, and how each compares with the window before."""

    reading: Reading
    scaled: list[Scaled]
    trends: list["_Trend"]
    shown: Shown

    def scaled_of(self, row: int) -> Scaled:
        return self.scaled[self.reading.places[row]]

    def trend_of(self, row: int, place: Callable[[float], float]) -> dict[str, Any]:
        previous, name = self.trends[self.reading.places[row]]
        return {} if previous is None else {"previous": place(previous), "trend": name}


class _Trend(NamedTuple):
    """The mean of the window before, scaled to [0, 1], and where this one lies against it."""

    previous: float | None = None
    name: str | None = None


def _trend(now: Scaled, past: Scaled) -> _Trend:
    if past.estimate is None or now.estimate is None:
        return _Trend()
    name = "rising" if now.lower > past.upper else "falling" if now.upper < past.lower else "steady"
    return _Trend(past.estimate, name)


def _read(view: View, rows: list[int], shown: Shown) -> _Window:
    reading = view.read(rows)
    scaled = reading.intervals(shown)
    before = view.before()
    if before is None:
        return _Window(reading, scaled, [_Trend()] * len(rows), shown)
    # Both windows at half of alpha: they hold together at the confidence.
    pairs = zip(reading.intervals(shown.shared_by(2)), before.read(rows).intervals(shown.shared_by(2)), strict=True)
    return _Window(reading, scaled, [_trend(now, past) for now, past in pairs], shown)


def _of_view(view: View, rows: list[int], shown: Shown) -> list[Estimate]:
    state = view.state
    means = [row for row in rows if not state.keys[row].metric.startswith(HIDDEN)]
    errors = [row for row in rows if state.keys[row].metric.startswith(SQUARED_ERROR)]
    families = _families(state, errors)
    shares = {row: _shares(state, row) for row in means}
    golds = {row: _gold(state, row) for row in errors}
    needed = dict.fromkeys(means + errors)
    needed |= dict.fromkeys(share for found in shares.values() for _, share in found)
    needed |= dict.fromkeys(gold for gold in golds.values() if gold is not None)
    needed |= dict.fromkeys(row for members in families for row in members)
    if not needed:
        return []
    window = _read(view, list(needed), shown)
    absences = _absences(view, means)
    result = [
        _usage(window, row)
        if state.keys[row].metric in UNBOUNDED
        else _mean(window, row, shares[row], absences.get(row, {}))
        for row in means
    ]
    result += [_rmse(window, row, golds[row]) for row in errors]
    for members in families:
        result += _aggregated(window, members)
    return result


def _shares(state: AggregatorState, row: int) -> list[tuple[float, int]]:
    key = state.keys[row]
    definition = state.definition(key)
    edges = definition.edges if definition is not None else ()
    found = [(edge, state.index(key._replace(metric=share_name(key.metric, edge)))) for edge in edges]
    return [(edge, share) for edge, share in found if share is not None]


def _absences(view: View, rows: list[int]) -> dict[int, dict[str, int]]:
    """Return how often the metrics of rows were absent in a window, by reason, the most frequent reason first."""
    of = {row: view.state.absences.of(view.state.keys[row]) for row in rows}
    wanted = [reason_row for reasons in of.values() for reason_row in reasons.values()]
    if not wanted:
        return {}
    reading = view.read(wanted)
    counts = {
        row: {printable(reason): reading.of(reason_row).n_absent for reason, reason_row in reasons.items()}
        for row, reasons in of.items()
    }
    return {
        row: {reason: n for reason, n in sorted(found.items(), key=lambda one: (-one[1], one[0])) if n}
        for row, found in counts.items()
    }


def _gold(state: AggregatorState, row: int) -> int | None:
    key = state.keys[row]
    return state.index(key._replace(metric=GOLD + key.metric.removeprefix(SQUARED_ERROR)))


def _mean(window: _Window, row: int, shares: list[tuple[float, int]], absences: dict[str, int]) -> Estimate:
    view = window.reading.view
    key = view.state.keys[row]
    lowest, highest = key.value_range
    width = highest - lowest
    definition = view.state.definition(key)

    def placed(value: float) -> float:
        return lowest + width * value

    found, scaled = window.reading.of(row), window.scaled_of(row)
    value = None if scaled.estimate is None else placed(scaled.estimate)
    spread = found.standard_deviation
    return _estimate(
        window,
        row,
        key.metric,
        Scaled(value, placed(scaled.lower), placed(scaled.upper), scaled.strategy),
        lowest=lowest,
        highest=highest,
        direction=None if definition is None else definition.direction,
        kind=None if definition is None else definition.kind,
        absent=absences,
        standard_deviation=None if spread is None else width * spread,
        minimum=placed(found.minimum) if found.n else None,
        maximum=placed(found.maximum) if found.n else None,
        recent=placed(found.recent) if found.n else None,
        quantiles={name: placed(q) for name, q in _quantiles(view, row).items()} or None,
        distribution=tuple(
            Share(upto=edge, share=at.estimate, lower=at.lower, upper=at.upper)
            for edge, at in ((edge, window.scaled_of(share)) for edge, share in shares)
            if at.estimate is not None
        ),
        band=definition.band(value) if definition is not None and value is not None else None,
        **_total(definition, found, Scaled(value, placed(scaled.lower), placed(scaled.upper)), window.shown),
        **window.trend_of(row, placed),
    )


def _total(definition: MetricDefinition | None, found: Row, mean: Scaled, shown: Shown) -> dict[str, Any]:
    """Return the total that a distributive metric of a run of known size is projected to: N times the mean."""
    size = found.population_size
    if definition is None or definition.kind is not Kind.DISTRIBUTIVE or mean.estimate is None or not size:
        return {}
    if found.n > size or shown.strategy == "wilson":
        # More than was announced is no sample of it; and a sum is no proportion.
        return {}
    return {"total": size * mean.estimate, "total_lower": size * mean.lower, "total_upper": size * mean.upper}


def _quantiles(view: View, row: int) -> dict[str, float]:
    sketch = view.state.quantiles(row) if view.stretch is None else None
    return {} if sketch is None else sketch.read()


def _usage(window: _Window, row: int) -> Estimate:
    view, found = window.reading.view, window.reading.of(row)
    return _estimate(
        window,
        row,
        view.state.keys[row].metric,
        None,
        strategy="none",
        anytime_valid=False,
        estimate=found.mean if found.n else None,
        standard_deviation=found.standard_deviation,
        minimum=found.minimum if found.n else None,
        maximum=found.maximum if found.n else None,
        recent=found.recent if found.n else None,
        quantiles=_quantiles(view, row) or None,
    )


def _rmse(window: _Window, row: int, gold: int | None) -> Estimate:
    key = window.reading.view.state.keys[row]
    width = key.value_range[1] - key.value_range[0]

    def placed(mean_square: float) -> float:
        return width * sqrt(mean_square)

    found, scaled = window.reading.of(row), window.scaled_of(row)
    truth = None if gold is None else window.reading.of(gold)
    return _estimate(
        window,
        row,
        RMSE + key.metric.removeprefix(SQUARED_ERROR),
        Scaled(
            None if scaled.estimate is None else placed(scaled.estimate),
            placed(scaled.lower),
            placed(scaled.upper),
            scaled.strategy,
        ),
        **_range_of_error(width),
        recent=placed(found.recent) if found.n else None,
        baseline=None if truth is None or not truth.n else placed(truth.m2 / truth.n),
        **window.trend_of(row, placed),
    )


def _range_of_error(width: float) -> dict[str, Any]:
    """Return the range of an RMSE whose metric's range has a width."""
    return {"lowest": 0.0, "highest": width, "direction": Direction.LOWER, "kind": Kind.ALGEBRAIC}


def _families(state: AggregatorState, errors: list[int]) -> list[list[int]]:
    """Return, for every scope and family that has one of these errors, the rows of all its errors.

    Of a metric that has been measured in several ways, such as by two versions, the way that was used last counts.
    """
    touched = {(_scope(state.keys[row]), _family(state.keys[row].metric)): None for row in errors}
    if not touched:
        return []
    members: dict[tuple[EstimateKey, str], dict[str, int]] = defaultdict(dict)
    for index, key in enumerate(state.keys):
        if key.metric.startswith(SQUARED_ERROR):
            family = members[_scope(key), _family(key.metric)]
            other = family.setdefault(key.metric, index)
            if other != index and _age(state, index) > _age(state, other):
                family[key.metric] = index
    # In one order, wherever the rows were read from: a sum of floats depends on it.
    return [[row for _, row in sorted(members[scope].items())] for scope in touched]


def _scope(key: EstimateKey) -> EstimateKey:
    return key._replace(metric="", measure=None)


def _age(state: AggregatorState, row: int) -> tuple[int, str]:
    return int(state.rows.updated_ms[row]), state.keys[row].encode()


def _family(squared_error_metric: str) -> str:
    return squared_error_metric.removeprefix(SQUARED_ERROR).partition(".")[0]


def _aggregated(window: _Window, rows: list[int]) -> list[Estimate]:
    view, shown = window.reading.view, window.shown
    fewest = min(rows, key=lambda row: window.reading.of(row).n)
    now = _pooled(view, rows, shown)
    if now.estimate is None:
        return []
    before = view.before()
    trend = _Trend()
    if before is not None:
        trend = _trend(_pooled(view, rows, shown.shared_by(2)), _pooled(before, rows, shown.shared_by(2)))
    ends = consistency_score(now.upper), consistency_score(now.lower)
    consistency = Scaled(consistency_score(now.estimate), *ends, now.strategy)
    error: dict[str, Any] = {}
    mirrored: dict[str, Any] = {}
    if trend.previous is not None:
        other_way = {"rising": "falling", "falling": "rising"}
        error = {"previous": trend.previous, "trend": trend.name}
        mirrored = {
            "previous": consistency_score(trend.previous),
            "trend": other_way.get(trend.name or "", trend.name),
        }
    family = _family(view.state.keys[fewest].metric)
    # A number over a family is that of no one version.
    return [
        _estimate(window, fewest, RMSE + family, now, metric_version=None, **_range_of_error(1.0), **error),
        _estimate(
            window, fewest, CONSISTENCY + family, consistency, metric_version=None,
            lowest=0.0, highest=1.0, direction=Direction.HIGHER, kind=Kind.ALGEBRAIC, **mirrored,
        ),
    ]  # fmt: skip


def _pooled(view: View, rows: list[int], shown: Shown) -> Scaled:
    parts = view.read(rows).intervals(shown.shared_by(len(rows)))
    known = [part.estimate for part in parts if part.estimate is not None]
    return Scaled(
        aggregated_rmse(known) if len(known) == len(parts) else None,
        aggregated_rmse([part.lower for part in parts]),
        aggregated_rmse([part.upper for part in parts]),
        # Of several strategies the one that promises least.
        min(part.strategy for part in parts),
    )


def _of_pairs(state: AggregatorState, row: int, shown: Shown) -> list[Estimate]:
    """Return what the true scores of a sample say of all interactions of a row, weighted and prediction-powered."""
    places = state.pairs.of(row)
    if not places:
        return []
    window = _read(View(state), [row], Shown("asymptotic", shown.confidence))
    result = []
    for place in places:
        key = state.pairs.keys[place].true
        lowest, highest = key.value_range
        definition = state.definition(key)
        for name, everything in (("weighted", None), ("prediction_powered", window.reading.moments)):
            found = state.pairs.read(place, everything, confidence=shown.confidence)
            ends = [lowest + (highest - lowest) * float(end[0]) for end in (found.estimate, found.lower, found.upper)]
            result.append(
                _estimate(
                    window,
                    row,
                    key.metric,
                    Scaled(ends[0], ends[1], ends[2]),
                    lowest=lowest,
                    highest=highest,
                    direction=None if definition is None else definition.direction,
                    kind=None if definition is None else definition.kind,
                    n=int(found.n[0]),
                    n_absent=0,
                    coverage=None,
                    population_size=None,
                    profile=key.profile,
                    labeler=key.labeler,
                    labeler_version=key.labeler_version,
                    estimator=name,
                    n_effective=float(found.n_effective[0]),
                )
            )
    return result


def _estimate(window: _Window, row: int, metric: str, values: Scaled | None, **fields: Any) -> Estimate:
    view, found, shown = window.reading.view, window.reading.of(row), window.shown
    key, stretch = view.state.keys[row], view.stretch
    seen = found.n + found.n_absent
    strategy = (values.strategy if values is not None else "") or shown.strategy
    known: dict[str, Any] = {
        # A checkpoint of an older release may hold names that are refused today; they must not end its reader.
        "pipeline": printable(key.pipeline)[:NAME_MAX_CHARS],
        "segment": None if key.segment is None else printable(key.segment),
        "run": key.run,
        "metric": metric,
        "metric_version": None if key.measure is None else key.measure.version,
        "profile": key.profile,
        "labeler": key.labeler,
        "labeler_version": key.labeler_version,
        "window": view.name,
        "n": found.n,
        "n_absent": found.n_absent,
        "n_late": found.n_late,
        "n_out_of_order": found.n_out_of_order,
        "n_processed": found.n_processed,
        "coverage": found.n / seen if seen else None,
        "population_size": found.population_size,
        "strategy": strategy,
        "anytime_valid": strategy in ANYTIME_VALID,
        "confidence": shown.confidence,
        "updated_at": from_milliseconds(found.updated_ms),
    }
    if stretch is not None:
        known["window_start"] = from_milliseconds(stretch.start_ms)
        known["window_end"] = from_milliseconds(stretch.end_ms)
    if values is not None:
        known |= {"estimate": values.estimate, "lower": values.lower, "upper": values.upper}
    return Estimate(**(known | fields))
