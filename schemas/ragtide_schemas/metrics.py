"""The metric registry: what each metric means, as data. Documentation, tables and bands are made from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from pydantic import StringConstraints

MetricName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$")]
"""A metric qualified by its family, such as `trace.adherence`."""


class Direction(StrEnum):
    """Which way a metric gets better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Kind(StrEnum):
    """How values of a metric combine over interactions."""

    ALGEBRAIC = "algebraic"
    """A mean or a proportion."""
    DISTRIBUTIVE = "distributive"
    """A sum or a count."""


@dataclass(frozen=True, slots=True)
class Bands:
    """Three rising levels of quality: at least `minimum` is acceptable, then `good`, then `excellent`."""

    minimum: float
    good: float
    excellent: float


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric: its qualified name, range, direction, bands, meaning and source."""

    name: str
    lower: float
    upper: float
    direction: Direction
    kind: Kind
    meaning: str
    source: str
    bands: Bands | None = None

    def band(self, value: float) -> str | None:
        """Return `poor`, `acceptable`, `good` or `excellent` for a value, None for a metric without bands."""
        if self.bands is None:
            return None
        if value >= self.bands.excellent:
            return "excellent"
        if value >= self.bands.good:
            return "good"
        return "acceptable" if value >= self.bands.minimum else "poor"


_CAPSTONE = "CapStoneRAG10"
_RAGBENCH = "Friel et al., RAGBench (arXiv:2407.11005), section 3"


def _trace(name: str, meaning: str, bands: Bands | None = None, source: str = _RAGBENCH) -> MetricDefinition:
    return MetricDefinition(f"trace.{name}", 0.0, 1.0, Direction.HIGHER, Kind.ALGEBRAIC, meaning, source, bands)


_DEFINITIONS = (
    _trace("context_relevance", "Share of the retrieved sentences relevant to the question.", Bands(0.2, 0.4, 0.7)),
    _trace("context_utilization", "Share of the retrieved sentences that the response used.", Bands(0.1, 0.25, 0.5)),
    _trace("completeness", "Share of the relevant sentences that the response used.", Bands(0.4, 0.6, 0.8)),
    _trace(
        "adherence",
        "1 if every sentence of the response is supported by the documents (a probability from the local labeler).",
        Bands(0.7, 0.8, 0.9),
    ),
    _trace("supported_fraction", "Share of the response's sentences that are supported.", Bands(0.8, 0.9, 0.95)),
    _trace(
        "average", "Mean of relevance, utilization, completeness and adherence of one interaction.", None, _CAPSTONE
    ),
    MetricDefinition(
        "trace.rmse_aggregation",
        0.0,
        0.5,
        Direction.NEITHER,
        Kind.ALGEBRAIC,
        "Population standard deviation of the four TRACe scores of one interaction: their balance, not their quality.",
        f"{_CAPSTONE}; on real data it does not point to unsupported responses",
    ),
)

METRICS: Mapping[str, MetricDefinition] = MappingProxyType({definition.name: definition for definition in _DEFINITIONS})
"""Every metric ragtide computes itself, by qualified name."""


def value_range(metric: str) -> tuple[float, float]:
    """Return the range of a metric; 0 to 1 for one that is not registered."""
    definition = METRICS.get(metric)
    return (definition.lower, definition.upper) if definition else (0.0, 1.0)
