"""Metrics that are not ragtide's own: each metric event declares those that it scores. No clock, no I/O.

An event carries the whole small definition, so that it can be used without any other process's memory: after a crash,
from a recording, or years later (docs/decisions/0016-metric-definitions-travel-with-events.md).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from .base import Name, WireModel
from .metric_definitions import CLOSED_FAMILIES, METRICS
from .metrics import Bands, Direction, Kind, MetricDefinition, MetricName, check_range

MEANING_MAX_CHARS = 500
"""Characters of a declared meaning."""

EDGES_MAX = 20
"""Edges of a declared metric: each is a number of its own to keep."""

DECLARED_MAX = 200
"""Metrics that an event may declare."""


class Measure(NamedTuple):
    """Version, range, direction and kind of a declared metric. Numbers of different measures are never mixed."""

    version: str
    lower: float
    upper: float
    direction: Direction
    kind: Kind

    @classmethod
    def read(cls, values: list[Any]) -> "Measure":
        """Return the measure that JSON holds as a list.

        Raises: ValueError if it holds none.
        """
        version, lower, upper, direction, kind = values
        return cls(str(version), float(lower), float(upper), Direction(direction), Kind(kind))


class MetricDeclaration(WireModel):
    """Definition of a metric that is not ragtide's own, as a metric event carries it."""

    version: Name = "1"
    """Version of the metric's formula."""
    lower: float
    """Lowest possible value."""
    upper: float
    """Highest possible value."""
    direction: Direction = Direction.NEITHER
    """Which way it gets better."""
    kind: Kind = Kind.ALGEBRAIC
    """`algebraic` for a mean or a proportion, `distributive` for a sum or a count."""
    meaning: Annotated[str, StringConstraints(max_length=MEANING_MAX_CHARS, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """Its meaning in a sentence."""
    bands: Bands | None = None
    """Levels of quality: `minimum`, `good`, `excellent`."""
    edges: Annotated[tuple[float, ...], Field(max_length=EDGES_MAX)] = ()
    """Values at which its distribution is shown."""

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        check_range("the metric", self.lower, self.upper, self.edges)
        return self

    @property
    def measure(self) -> Measure:
        """Return the part of the definition that numbers depend on."""
        # Adding 0.0 makes -0.0 plain: equal measures are to have one text.
        return Measure(self.version, self.lower + 0.0, self.upper + 0.0, self.direction, self.kind)

    def definition(self, name: str) -> MetricDefinition:
        """Return the definition of the metric that has this declaration under a name."""
        return MetricDefinition(
            name, self.lower, self.upper, self.direction, self.kind, self.meaning, "declared by the event",
            bands=self.bands, edges=self.edges,
        )  # fmt: skip


def declaration_of(definition: MetricDefinition, version: str) -> MetricDeclaration:
    """Return the definition that events carry for a metric of the user's own.

    Raises:
        ValueError: its name or its family is one of ragtide's own, or its version is no name.
    """
    check_not_built_in([definition.name])
    family = definition.name.partition(".")[0]
    if family in CLOSED_FAMILIES:
        raise ValueError(
            f"{definition.name} is of the family {family}, whose metrics are ragtide's own: give it a family of yours, "
            "such as mine"
        )
    return MetricDeclaration(
        version=version,
        lower=definition.lower,
        upper=definition.upper,
        direction=definition.direction,
        kind=definition.kind,
        meaning=" ".join(definition.meaning.split())[:MEANING_MAX_CHARS],
        bands=definition.bands,
        edges=definition.edges,
    )


def check_not_built_in(names: Iterable[str]) -> None:
    """Check that names are free for metrics of the user's own.

    Raises:
        ValueError: one of them is the name of one of ragtide's own metrics.
    """
    for name in names:
        if name in METRICS:
            raise ValueError(f"{name} is one of ragtide's own metrics: give this one another name, such as mine.{name}")


def _of_free_names(declared: dict[str, MetricDeclaration]) -> dict[str, MetricDeclaration]:
    check_not_built_in(declared)
    return declared


Declared = Annotated[
    dict[MetricName, MetricDeclaration], Field(max_length=DECLARED_MAX), AfterValidator(_of_free_names)
]
"""Declarations by qualified metric name; none of them is that of one of ragtide's own metrics."""


def definition_of(metric: str, declared: Mapping[str, MetricDeclaration] | None) -> MetricDefinition | None:
    """Return the definition of one of ragtide's own metrics, or of a declared one; None for another metric."""
    built_in = METRICS.get(metric)
    if built_in is not None or not declared or metric not in declared:
        return built_in
    return declared[metric].definition(metric)


def range_of(metric: str, measure: Measure | None) -> tuple[float, float]:
    """Return the range of a metric: the declared one, that of one of ragtide's own, else 0 to 1."""
    if measure is not None:
        return measure.lower, measure.upper
    definition = METRICS.get(metric)
    return (definition.lower, definition.upper) if definition is not None else (0.0, 1.0)
