"""Means of metrics as values, and as estimates with totals, shares and quantiles. No clock, no I/O.

A screen shows a thousand means several times a second, so it reads the values. An `Estimate` has the same numbers and
four times as many fields.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ragtide_schemas import Direction, Estimate, Kind, MetricDefinition, from_milliseconds
from ragtide_schemas.estimate import Share
from ragtide_schemas.fitness import NOTHING, Stated, certain_band
from ragtide_schemas.printable import printable

from ..events.keys import UNBOUNDED, EstimateKey, PairKey, share_name
from ..state.state import AggregatorState
from .record import record
from .view import IntervalMethod, KeyNumbers, MeasuredView, ScaledMean, View

Estimator = Literal["mean", "weighted", "prediction_powered"]

ShareRow = tuple[float, int]
"""An edge of a metric's distribution, and the row that counts the scores at or below it."""


class MetricMean(NamedTuple):
    """The mean of a metric over all interactions of a pipeline, or of one segment value of it, by one labeler.

    All numbers are in the metric's unit. Where a judge scored a sample, its prediction-powered mean is one, too.
    """

    pipeline: str
    metric: str
    labeler: str
    n: int
    estimate: float | None
    """The mean; None without values."""
    lower: float | None
    """Lower end of the interval; None for a quantity without a highest value, such as seconds of labeling, and for a
    count of which too little is known."""
    upper: float | None
    value_range: tuple[float, float]
    band: str | None
    updated_at: datetime | None
    n_waiting: int = 0
    """Number of values in open sessions or other clusters, which no interval counts yet."""
    segment: str | None = None
    metric_version: str | None = None
    profile: str = ""
    labeler_version: str = ""
    direction: Direction | None = None
    estimator: Estimator = "mean"
    proxy: str | None = None
    """For a prediction-powered mean: the labeler that scored all interactions."""
    n_absent: int = 0
    """Number of interactions without a score."""
    coverage: float | None = None
    """Share of the interactions that have a score; None if it is not known."""
    key: EstimateKey | PairKey | None = None
    """Key by which the history has its values, or its pairs; None for an error against gold scores."""
    needed: int | None = None
    """For a prediction-powered mean: about how many judged answers give it an interval."""

    @classmethod
    def of(cls, estimate: Estimate, key: PairKey | None = None, needed: int | None = None) -> "MetricMean":
        """Return the mean of an estimate."""
        return cls(
            estimate.pipeline,
            estimate.metric,
            estimate.labeler,
            estimate.n,
            estimate.estimate,
            estimate.lower,
            estimate.upper,
            estimate.value_range,
            estimate.band,
            estimate.updated_at,
            estimate.n_waiting,
            estimate.segment,
            estimate.metric_version,
            estimate.profile,
            estimate.labeler_version,
            estimate.direction,
            estimate.estimator,
            estimate.proxy,
            estimate.n_absent,
            estimate.coverage,
            key,
            needed,
        )

    @property
    def has_interval(self) -> bool:
        """Whether the interval is narrower than the metric's whole range."""
        lowest, highest = self.value_range
        return (self.lower is not None and self.lower > lowest) or (self.upper is not None and self.upper < highest)


def metric_mean(
    key: EstimateKey,
    definition: MetricDefinition | None,
    numbers: KeyNumbers,
    scaled: ScaledMean,
    stated: Stated = NOTHING,
) -> MetricMean:
    """Return the mean of a key from its numbers and its scaled mean.

    Args:
        key: the key.
        definition: of its metric; None without a definition.
        scaled: mean and interval in [0, 1].
        stated: purposes of labelers that the settings state.
    """
    value_range = _range_of(key)
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    band: str | None = None
    if key.metric in UNBOUNDED:
        value = numbers.mean if numbers.n else None
    else:
        lowest, width = value_range[0], value_range[1] - value_range[0]
        # The range of a count says nothing about it.
        if not (key.holds_counts and scaled.is_unknown):
            lower, upper = lowest + width * scaled.lower, lowest + width * scaled.upper
        if scaled.estimate is not None:
            value = lowest + width * scaled.estimate
            band = certain_band(definition, key.labeler, (lower, value, upper), stated)
    updated_at = from_milliseconds(numbers.updated_ms)
    return MetricMean(
        key.pipeline, key.metric, key.labeler, numbers.n, value, lower, upper, value_range, band, updated_at,
        numbers.n_waiting,
        key.segment, None if key.measure is None else key.measure.version, key.profile, key.labeler_version,
        None if definition is None else definition.direction, key=key,
        n_absent=numbers.n_absent, coverage=numbers.coverage,
    )  # fmt: skip


@lru_cache(maxsize=10_000)
def _range_of(key: EstimateKey) -> tuple[float, float]:
    return key.value_range


def share_rows(state: AggregatorState, row: int) -> list[ShareRow]:
    """Return the rows of the distribution of a row's metric."""
    key = state.keys[row]
    definition = state.definition(key)
    edges = definition.edges if definition is not None else ()
    found = [(edge, state.index(key._replace(metric=share_name(key.metric, edge)))) for edge in edges]
    return [(edge, share) for edge, share in found if share is not None]


def absences(view: View, rows: list[int]) -> dict[int, dict[str, int]]:
    """Return for each row the absences of its metric in the view by reason, the most frequent reason first."""
    keys, known = view.state.keys, view.state.absences
    of = {row: known.of(keys[row]) for row in rows}
    wanted = [reason_row for reasons in of.values() for reason_row in reasons.values()]
    if not wanted:
        return {}
    numbers = view.read(wanted)
    counts = {
        row: {printable(reason): numbers.of(reason_row).n_absent for reason, reason_row in reasons.items()}
        for row, reasons in of.items()
    }
    return {
        row: {reason: n for reason, n in sorted(found.items(), key=lambda item: (-item[1], item[0])) if n}
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
    view, key = found.view, found.keys[row]
    definition = view.state.definition(key)
    numbers, scaled = found.numbers.of(row), found.mean_of(row)
    value = metric_mean(key, definition, numbers, scaled, view.state.fit_for)
    lowest, highest = value.value_range
    width = highest - lowest
    in_unit = ScaledMean(value.estimate, lowest + width * scaled.lower, lowest + width * scaled.upper, scaled.strategy)

    def unscaled(share: float) -> float:
        return lowest + width * share

    spread = numbers.standard_deviation
    # Numbers of the values as they came say nothing about traffic that was kept with different probabilities.
    quantiles = None if numbers.mixed else _quantiles(view, row, numbers)
    return record(
        found,
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
            for edge, at in ((edge, found.mean_of(share)) for edge, share in shares)
            if at.estimate is not None
        ),
        band=value.band,
        lower=value.lower,
        upper=value.upper,
        **_total(definition, numbers, in_unit, scaled, found.method),
        **found.trend_of(row, unscaled),
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


def usage(found: MeasuredView, row: int) -> Estimate:
    """Return the estimate of a quantity without a highest value, such as seconds of labeling: it has no interval."""
    view, key, numbers = found.view, found.keys[row], found.numbers.of(row)
    return record(
        found,
        row,
        key.metric,
        None,
        strategy="none",
        anytime_valid=False,
        estimate=metric_mean(key, None, numbers, found.mean_of(row)).estimate,
        standard_deviation=numbers.standard_deviation,
        minimum=numbers.minimum if numbers.n else None,
        maximum=numbers.maximum if numbers.n else None,
        recent=numbers.recent if numbers.n else None,
        quantiles=_quantiles(view, row, numbers),
    )
