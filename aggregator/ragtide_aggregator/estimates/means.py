"""Means of metrics as values, and as estimates with totals, shares and quantiles. No clock, no I/O.

A screen shows a thousand means several times a second, so it reads the values. An `Estimate` has the same numbers and
four times as many fields.
"""

from datetime import datetime
from typing import Any, NamedTuple

from ragtide_schemas import Direction, Estimate, Kind, MetricDefinition, from_milliseconds
from ragtide_schemas.estimate import Share
from ragtide_schemas.known_labelers import certain_band
from ragtide_schemas.printable import printable

from ..events.keys import UNBOUNDED, EstimateKey, PairKey, share_name
from ..state.state import AggregatorState
from ..statistics.intervals.intervals import Interval
from .record import record
from .view import IntervalMethod, KeyNumbers, MeasuredView, ScaledMean, View

ShareRow = tuple[float, int]
"""An edge of a metric's distribution, and the row that counts the scores at or below it."""


class MetricMean(NamedTuple):
    """The mean of a metric over all interactions of a pipeline, or of one segment value of it, by one labeler.

    Where a judge scored a sample, its prediction-powered mean is one, too. All numbers are in the metric's unit.
    """

    key: EstimateKey
    """Scope, metric and labeler: of a prediction-powered mean the judge."""
    n: int
    interval: Interval[float | None, float | None]
    """The mean, None without values, and its ends: None for a quantity without a highest value, such as seconds of
    labeling, and for a count of which too little is known."""
    value_range: tuple[float, float]
    updated_at: datetime | None = None
    n_waiting: int = 0
    """Number of values in open sessions or other clusters, which no interval counts yet."""
    direction: Direction | None = None
    n_absent: int = 0
    """Number of interactions without a score."""
    coverage: float | None = None
    """Share of the interactions that have a score; None if it is not known."""
    proxy: EstimateKey | None = None
    """For a prediction-powered mean: the key of the labeler that scored all interactions."""
    needed: int | None = None
    """For a prediction-powered mean: about how many judged answers give it an interval."""
    standard_deviation: float | None = None
    """Sample standard deviation of the values; None below two, and of a prediction-powered mean."""

    @classmethod
    def of(cls, estimate: Estimate, proxy: EstimateKey | None = None, needed: int | None = None) -> "MetricMean":
        """Return the mean of an estimate."""
        e = estimate
        interval = Interval(e.estimate, e.lower, e.upper)
        return cls(
            EstimateKey.of(e), e.n, interval, e.value_range, e.updated_at, e.n_waiting, e.direction,
            e.n_absent, e.coverage, proxy, needed, e.standard_deviation,
        )  # fmt: skip

    @property
    def is_powered(self) -> bool:
        """Whether it is a prediction-powered mean."""
        return self.proxy is not None

    @property
    def series(self) -> EstimateKey | PairKey:
        """The key by which the history has its values, or its pairs."""
        return self.key if self.proxy is None else PairKey(self.proxy, self.key)

    @property
    def has_interval(self) -> bool:
        """Whether the interval is narrower than the metric's whole range."""
        (lowest, highest), ends = self.value_range, self.interval
        return (ends.lower is not None and ends.lower > lowest) or (ends.upper is not None and ends.upper < highest)


def metric_mean(
    key: EstimateKey,
    definition: MetricDefinition | None,
    numbers: KeyNumbers,
    scaled: ScaledMean,
) -> MetricMean:
    """Return the mean of a key from its numbers and its scaled mean.

    Args:
        key: the key.
        definition: of its metric; None without a definition.
        scaled: mean and interval in [0, 1].
    """
    value_range = lowest, highest = key.value_range
    width = highest - lowest
    estimate = None if scaled.estimate is None else lowest + width * scaled.estimate
    interval: Interval[float | None, float | None]
    if key.metric in UNBOUNDED:
        interval = Interval(numbers.mean if numbers.n else None, None, None)
    elif key.holds_counts and scaled.is_unknown:
        # The range of a count says nothing about it.
        interval = Interval(estimate, None, None)
    else:
        interval = Interval(estimate, lowest + width * scaled.lower, lowest + width * scaled.upper)
    updated_at, direction = from_milliseconds(numbers.updated_ms), None if definition is None else definition.direction
    spread = numbers.standard_deviation
    return MetricMean(
        key, numbers.n, interval, value_range, updated_at, numbers.n_waiting, direction,
        numbers.n_absent, numbers.coverage,
        standard_deviation=None if spread is None else spread * width,
    )  # fmt: skip


def share_rows(state: AggregatorState, row: int) -> list[ShareRow]:
    """Return the rows of the distribution of a row's metric."""
    key = state.keys[row]
    definition = state.definition(key)
    edges = definition.edges if definition is not None else ()
    shares = [(edge, state.index(key._replace(metric=share_name(key.metric, edge)))) for edge in edges]
    return [(edge, share) for edge, share in shares if share is not None]


def absences(view: View, rows: list[int]) -> dict[int, dict[str, int]]:
    """Return for each row the absences of its metric in the view by reason, the most frequent reason first."""
    keys, known = view.state.keys, view.state.absences
    reasons_of = {row: known.of(keys[row]) for row in rows}
    wanted = [reason_row for reasons in reasons_of.values() for reason_row in reasons.values()]
    if not wanted:
        return {}
    numbers = view.read(wanted)
    counts = {
        row: {printable(reason): numbers.of(reason_row).n_absent for reason, reason_row in reasons.items()}
        for row, reasons in reasons_of.items()
    }
    return {
        row: {reason: n for reason, n in sorted(of_row.items(), key=lambda item: (-item[1], item[0])) if n}
        for row, of_row in counts.items()
    }


def mean(measured: MeasuredView, row: int, shares: list[ShareRow], absent: dict[str, int]) -> Estimate:
    """Return the estimate of the mean of a row's metric.

    Args:
        measured: view with the row and the rows of its distribution.
        row: index of the key.
        shares: rows of its distribution.
        absent: absences of the metric by reason.
    """
    view, key = measured.view, measured.keys[row]
    definition = view.state.definition(key)
    numbers, scaled = measured.numbers.of(row), measured.mean_of(row)
    value = metric_mean(key, definition, numbers, scaled)
    (lowest, highest), ends = value.value_range, value.interval
    width = highest - lowest
    in_unit = scaled.in_unit(lowest, highest)

    def unscaled(share: float) -> float:
        return lowest + width * share

    spread = numbers.standard_deviation
    # Numbers of the values as they came say nothing about traffic that was kept with different probabilities.
    quantiles = None if numbers.mixed else _quantiles(view, row, numbers)
    return record(
        measured,
        row,
        key.metric,
        in_unit,
        lowest=lowest,
        highest=highest,
        direction=None if definition is None else definition.direction,
        kind=None if definition is None else definition.kind,
        absent=absent,
        design_effect=numbers.design_effect,
        n_effective=numbers.n_effective,
        n_waiting=numbers.n_waiting,
        standard_deviation=None if spread is None else width * spread,
        minimum=unscaled(numbers.minimum) if numbers.n else None,
        maximum=unscaled(numbers.maximum) if numbers.n else None,
        recent=unscaled(numbers.recent) if numbers.n and not numbers.mixed else None,
        quantiles=None if quantiles is None else {name: unscaled(value) for name, value in quantiles.items()},
        distribution=tuple(
            Share(upto=edge, share=at.estimate, lower=at.lower, upper=at.upper)
            for edge, at in ((edge, measured.mean_of(share)) for edge, share in shares)
            if at.estimate is not None
        ),
        band=certain_band(
            definition, key.labeler, (value.interval.lower, value.interval.estimate, value.interval.upper)
        ),
        lower=ends.lower,
        upper=ends.upper,
        **_total(definition, numbers, in_unit, scaled, measured.method),
        **measured.trend_of(row, unscaled),
    )


def _total(
    definition: MetricDefinition | None,
    numbers: KeyNumbers,
    mean: ScaledMean,
    scaled: ScaledMean,
    method: IntervalMethod,
) -> dict[str, Any]:
    size = numbers.population_size
    if definition is None or definition.kind is not Kind.DISTRIBUTIVE or mean.estimate is None or not size:
        return {}
    if numbers.n > size or method.strategy == "wilson":
        # More values than announced are no sample of the announced run, and the total is no proportion.
        return {}
    if scaled.is_unknown:
        return {"total": size * mean.estimate}
    return {"total": size * mean.estimate, "total_lower": size * mean.lower, "total_upper": size * mean.upper}


def _quantiles(view: View, row: int, numbers: KeyNumbers) -> dict[str, float] | None:
    sketch = view.state.quantiles(row) if view.span is None else None
    return None if sketch is None else sketch.read(numbers.minimum, numbers.maximum) or None


def usage(measured: MeasuredView, row: int) -> Estimate:
    """Return the estimate of a quantity without a highest value, such as seconds of labeling: it has no interval."""
    view, key, numbers = measured.view, measured.keys[row], measured.numbers.of(row)
    return record(
        measured,
        row,
        key.metric,
        None,
        strategy="none",
        anytime_valid=False,
        estimate=metric_mean(key, None, numbers, measured.mean_of(row)).interval.estimate,
        standard_deviation=numbers.standard_deviation,
        minimum=numbers.minimum if numbers.n else None,
        maximum=numbers.maximum if numbers.n else None,
        recent=numbers.recent if numbers.n else None,
        quantiles=_quantiles(view, row, numbers),
    )
