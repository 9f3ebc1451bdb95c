"""Makes the record of an estimate for readers and for the stream. No clock, no I/O."""

from typing import Any

from ragtide_schemas import Estimate, from_milliseconds

from ..statistics.means.strategies import ANYTIME_VALID
from .view import MeasuredView, ScaledMean


def record(measured: MeasuredView, row: int, metric: str, mean: ScaledMean | None, **fields: Any) -> Estimate:
    """Return the estimate of a metric of a row.

    Args:
        measured: view with the row.
        row: index of the key.
        metric: name of the metric.
        mean: value and interval, in the metric's range; None for a quantity without an interval.
        fields: more fields of the estimate; they replace the fields of the row.
    """
    view, numbers = measured.view, measured.numbers.of(row)
    key, span = measured.keys[row], view.span
    strategy = (mean.strategy if mean is not None else "") or measured.method.strategy
    known: dict[str, Any] = {
        **key.names,
        "metric": metric,
        "window": view.name,
        "n": numbers.n,
        "n_traffic": numbers.n_traffic,
        "n_absent": numbers.n_absent,
        "n_late": numbers.n_late,
        "n_out_of_order": numbers.n_out_of_order,
        "n_processed": numbers.n_processed,
        # Other strategies than `running` take each value by itself.
        "n_clusters": numbers.n_clusters if strategy == "running" else None,
        "coverage": numbers.coverage,
        "population_size": numbers.population_size,
        "strategy": strategy,
        "anytime_valid": strategy in ANYTIME_VALID,
        "confidence": measured.method.confidence,
        "updated_at": from_milliseconds(numbers.updated_ms),
    }
    if span is not None:
        known["window_start"] = from_milliseconds(span.start_ms)
        known["window_end"] = from_milliseconds(span.end_ms)
    if mean is not None:
        known |= {"estimate": mean.estimate, "lower": mean.lower, "upper": mean.upper}
    known |= fields
    return Estimate(**known)
