"""Estimates of a metric's mean, with totals, shares and quantiles, and of the cost of labeling. No clock, no I/O."""

from typing import Any

from ragtide_schemas import Estimate, Kind, MetricDefinition
from ragtide_schemas.estimate import Share
from ragtide_schemas.printable import printable

from ..events.keys import share_name
from ..state.state import AggregatorState
from .record import record
from .trends import MeasuredView
from .view import IntervalMethod, KeyNumbers, ScaledMean, View

ShareRow = tuple[float, int]
"""An edge of a metric's distribution, and the row that counts the scores at or below it."""


def share_rows(state: AggregatorState, row: int) -> list[ShareRow]:
    """Return the rows of the distribution of a row's metric."""
    key = state.keys[row]
    definition = state.definition(key)
    edges = definition.edges if definition is not None else ()
    found = [(edge, state.index(key._replace(metric=share_name(key.metric, edge)))) for edge in edges]
    return [(edge, share) for edge, share in found if share is not None]


def absences(view: View, rows: list[int]) -> dict[int, dict[str, int]]:
    """Return for each row the absences of its metric in the view by reason, the most frequent reason first."""
    of = {row: view.state.absences.of(view.state.keys[row]) for row in rows}
    wanted = [reason_row for reasons in of.values() for reason_row in reasons.values()]
    if not wanted:
        return {}
    numbers = view.read(wanted)
    counts = {
        row: {printable(reason): numbers.of(reason_row).n_absent for reason, reason_row in reasons.items()}
        for row, reasons in of.items()
    }
    return {
        row: {reason: n for reason, n in sorted(found.items(), key=lambda one: (-one[1], one[0])) if n}
        for row, found in counts.items()
    }


def mean(found: MeasuredView, row: int, shares: list[ShareRow], absent: dict[str, int]) -> Estimate:
    """Return the estimate of the mean of a row's metric.

    Args:
        found: view with the row and the rows of its distribution.
        row: index of the key.
        shares: rows of its distribution.
        absent: absences of the metric by reason.
    """
    view = found.view
    key = view.state.keys[row]
    lowest, highest = key.value_range
    width = highest - lowest
    definition = view.state.definition(key)

    def unscaled(value: float) -> float:
        return lowest + width * value

    numbers, scaled = found.numbers.of(row), found.mean_of(row)
    value = None if scaled.estimate is None else unscaled(scaled.estimate)
    spread = numbers.standard_deviation
    return record(
        found,
        row,
        key.metric,
        ScaledMean(value, unscaled(scaled.lower), unscaled(scaled.upper), scaled.strategy),
        lowest=lowest,
        highest=highest,
        direction=None if definition is None else definition.direction,
        kind=None if definition is None else definition.kind,
        absent=absent,
        design_effect=numbers.design_effect,
        n_effective=numbers.n_effective,
        standard_deviation=None if spread is None else width * spread,
        minimum=unscaled(numbers.minimum) if numbers.n else None,
        maximum=unscaled(numbers.maximum) if numbers.n else None,
        # Numbers of the values as they came say nothing about traffic that was kept with different probabilities.
        recent=unscaled(numbers.recent) if numbers.n and not numbers.mixed else None,
        quantiles=None if numbers.mixed else {name: unscaled(q) for name, q in _quantiles(view, row).items()} or None,
        distribution=tuple(
            Share(upto=edge, share=at.estimate, lower=at.lower, upper=at.upper)
            for edge, at in ((edge, found.mean_of(share)) for edge, share in shares)
            if at.estimate is not None
        ),
        band=definition.band(value) if definition is not None and value is not None else None,
        **_total(definition, numbers, ScaledMean(value, unscaled(scaled.lower), unscaled(scaled.upper)), found.method),
        **found.trend_of(row, unscaled),
    )


def _total(
    definition: MetricDefinition | None, numbers: KeyNumbers, mean: ScaledMean, method: IntervalMethod
) -> dict[str, Any]:
    """Return the projected total of a distributive metric in a run of known size: the size times the mean."""
    size = numbers.population_size
    if definition is None or definition.kind is not Kind.DISTRIBUTIVE or mean.estimate is None or not size:
        return {}
    if numbers.n > size or method.strategy == "wilson":
        # More values than announced are no sample of the announced run, and the total is no proportion.
        return {}
    return {"total": size * mean.estimate, "total_lower": size * mean.lower, "total_upper": size * mean.upper}


def _quantiles(view: View, row: int) -> dict[str, float]:
    sketch = view.state.quantiles(row) if view.span is None else None
    return {} if sketch is None else sketch.read()


def usage(found: MeasuredView, row: int) -> Estimate:
    """Return the estimate of a quantity without a highest value, such as seconds of labeling: it has no interval."""
    view, numbers = found.view, found.numbers.of(row)
    return record(
        found,
        row,
        view.state.keys[row].metric,
        None,
        strategy="none",
        anytime_valid=False,
        estimate=numbers.mean if numbers.n else None,
        standard_deviation=numbers.standard_deviation,
        minimum=numbers.minimum if numbers.n else None,
        maximum=numbers.maximum if numbers.n else None,
        recent=numbers.recent if numbers.n else None,
        quantiles=_quantiles(view, row) or None,
    )
