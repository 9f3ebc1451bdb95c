"""Declarations of metrics that are not ragtide's own: each metric event declares the metrics that it scores. No I/O.

An event contains the whole definition, so that it can be used without the memory of another process: after a crash,
from a recording, or years later (decisions/0016-metric-definitions-travel-with-events.md).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from .base import Name, WireModel
from .metric_definitions import CLOSED_FAMILIES, CRITERIA_FAMILY, METRICS
from .metric_names import MetricName
from .metrics import Bands, Direction, Kind, MetricDefinition, check_bands, check_range

MEANING_MAX_CHARS = 500
"""Most characters of a declared meaning."""

EDGES_MAX = 20
"""Most edges of a declared metric; the state stores a number for each."""

DECLARED_MAX = 233
"""Most metrics that an event declares; further ones are left out of it and counted (`metrics_left_out`)."""


class Measure(NamedTuple):
    """Version, range, direction and kind of a declared metric. Numbers of different measures are never mixed."""

    version: str
    lower: float
    upper: float
    direction: Direction
    kind: Kind

    @classmethod
    def read(cls, values: list[Any]) -> "Measure":
        """Return the measure in a JSON list.

        Raises: ValueError if the list is no measure.
        """
        version, lower, upper, direction, kind = values
        return cls(str(version), float(lower), float(upper), Direction(direction), Kind(kind))


class MetricDeclaration(WireModel):
    """The definition of a metric that is not ragtide's own, in a metric event."""

    version: Name = "1"
    """Version of the metric's formula."""
    lower: float
    """Lowest possible value."""
    upper: float
    """Highest possible value."""
    direction: Direction = Direction.NEITHER
    """Direction in which the metric gets better."""
    kind: Kind = Kind.ALGEBRAIC
    """`algebraic` for a mean or a proportion, `distributive` for a sum or a count."""
    meaning: Annotated[str, StringConstraints(max_length=MEANING_MAX_CHARS, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """Meaning of the metric in a sentence."""
    bands: Bands | None = None
    """Levels of quality: `minimum`, `good`, `excellent`."""
    edges: Annotated[tuple[float, ...], Field(max_length=EDGES_MAX)] = ()
    """Values at which the distribution is shown."""

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        check_range("the metric", self.lower, self.upper, self.edges)
        return self

    @property
    def measure(self) -> Measure:
        """Return the part of the definition that numbers depend on."""
        # Adding 0.0 turns -0.0 into 0.0, so that equal measures have the same text.
        return Measure(self.version, self.lower + 0.0, self.upper + 0.0, self.direction, self.kind)

    def definition(self, name: str) -> MetricDefinition:
        """Return the definition of a metric with this declaration."""
        return MetricDefinition(
            name, self.lower, self.upper, self.direction, self.kind, self.meaning, "declared by the event",
            bands=self.bands, edges=self.edges,
        )  # fmt: skip


def declaration_of(definition: MetricDefinition, version: str) -> MetricDeclaration:
    """Return the declaration of a user's own metric, for events.

    Raises:
        ValueError: the name or the family is one of ragtide's own, the version is no name, or the bands are in a wrong
            order or outside the range.
    """
    check_not_built_in([definition.name])
    if definition.name.startswith(("retrieval.step.", "tool.")):
        raise ValueError(f"{definition.name} is a name of the metrics of steps or tools: give this one another name")
    check_bands(definition.name, definition.bands, definition.lower, definition.upper, definition.direction)
    family = definition.name.partition(".")[0]
    if family in (*CLOSED_FAMILIES, CRITERIA_FAMILY):
        raise ValueError(
            f"{definition.name} has the family {family}, which is ragtide's own: give it a family of your own, such as "
            "mine"
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
    """Check that names are free for a user's own metrics.

    Raises:
        ValueError: a name is that of one of ragtide's own metrics.
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
"""Declarations by qualified metric name, without ragtide's own metrics."""


def definition_of(metric: str, declared: Mapping[str, MetricDeclaration] | None) -> MetricDefinition | None:
    """Return the definition of ragtide's own metric or of a declared metric; None for other metrics."""
    built_in = METRICS.get(metric)
    if built_in is not None or not declared or metric not in declared:
        return built_in
    return declared[metric].definition(metric)


def range_of(metric: str, measure: Measure | None) -> tuple[float, float]:
    """Return the range of a metric: the declared range, that of ragtide's own metric, otherwise 0 to 1."""
    if measure is not None:
        return measure.lower, measure.upper
    definition = METRICS.get(metric)
    return (definition.lower, definition.upper) if definition is not None else (0.0, 1.0)
