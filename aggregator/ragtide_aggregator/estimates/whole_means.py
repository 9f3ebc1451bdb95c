"""The means of whole live pipelines over all time, for screens that read them several times a second. No clock, no I/O.

An `Estimate` holds all that is known and checks it; making a thousand of them takes longer than reading their numbers.
"""

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from ragtide_schemas import Estimate, from_milliseconds
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.printable import printable

from ..events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ..state.state import AggregatorState
from .gold_errors import errors_of
from .view import IntervalMethod, View


class WholeMean(NamedTuple):
    """The mean of a metric over all interactions of a pipeline, or of a segment value of it, by one labeler.

    It has the same numbers as its `Estimate`.
    """

    pipeline: str
    metric: str
    labeler: str
    n: int
    estimate: float | None
    lower: float | None
    upper: float | None
    value_range: tuple[float, float]
    band: str | None
    updated_at: datetime | None

    @classmethod
    def of(cls, one: Estimate) -> "WholeMean":
        """Return the mean of an estimate."""
        return cls(
            one.pipeline,
            one.metric,
            one.labeler,
            one.n,
            one.estimate,
            one.lower,
            one.upper,
            one.value_range,
            one.band,
            one.updated_at,
        )


def whole_means(state: AggregatorState, method: IntervalMethod, segment: str | None = None) -> list[WholeMean]:
    """Return the means of all live pipelines, with root mean squared errors, ordered by pipeline and metric.

    Args:
        state: of a partition, or of several merged.
        method: of the intervals.
        segment: segment value, for the means of its interactions; None for whole pipelines.
    """
    wanted = [row for row, key in enumerate(state.keys) if key.run is None and key.segment == segment]
    rows = [row for row in wanted if not state.keys[row].metric.startswith(HIDDEN)]
    found = [WholeMean.of(one) for one in errors_of(View(state), wanted, method)]
    if rows:
        numbers = View(state).read(rows)
        for row, counts, mean in zip(rows, numbers.numbers, numbers.means(method), strict=True):
            key, updated_at = state.keys[row], from_milliseconds(counts.updated_ms)
            value: float | None = counts.mean
            lower: float | None = None
            upper: float | None = None
            band: str | None = None
            ends = _range(key)
            if key.metric not in UNBOUNDED:
                lowest, width = ends[0], ends[1] - ends[0]
                value = lowest + width * counts.mean
                lower, upper = lowest + width * mean.lower, lowest + width * mean.upper
                definition = state.definition(key)
                band = definition.band(value) if definition is not None and counts.n else None
            value = value if counts.n else None
            pipeline = _shown(key.pipeline)
            found.append(
                WholeMean(pipeline, key.metric, key.labeler, counts.n, value, lower, upper, ends, band, updated_at)
            )
    return sorted(found, key=lambda one: one[:3])


@lru_cache(maxsize=10_000)
def _shown(pipeline: str) -> str:
    return printable(pipeline)[:NAME_MAX_CHARS]


@lru_cache(maxsize=10_000)
def _range(key: EstimateKey) -> tuple[float, float]:
    return key.value_range
