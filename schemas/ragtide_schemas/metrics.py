"""The metric registry: what each metric means, as data. Documentation, tables and bands are made from it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Annotated

from pydantic import StringConstraints

_NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$")

MetricName = Annotated[str, StringConstraints(max_length=200, pattern=_NAME.pattern)]
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
    """Three levels of quality, each better than the one before: at least acceptable, then good, then excellent."""

    minimum: float
    good: float
    excellent: float


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric: its qualified name, range, direction, kind, meaning, source, formula, needs, bands and edges."""

    name: str
    lower: float
    upper: float
    direction: Direction
    kind: Kind
    meaning: str
    source: str
    definition: str = ""
    """The formula, in plain notation."""
    needs: tuple[str, ...] = ()
    """What an interaction or its labels must have for the metric to be defined."""
    bands: Bands | None = None
    edges: tuple[float, ...] = ()
    """Values at which its distribution is shown: the share of interactions at or below each, rising."""

    @property
    def family(self) -> str:
        """The part of the name before the last dot."""
        return self.name.rpartition(".")[0]

    def band(self, value: float) -> str | None:
        """Return `poor`, `acceptable`, `good` or `excellent` for a value, None for a metric without bands."""
        if self.bands is None:
            return None
        sign = -1.0 if self.direction is Direction.LOWER else 1.0
        for level, name in (
            (self.bands.excellent, "excellent"),
            (self.bands.good, "good"),
            (self.bands.minimum, "acceptable"),
        ):
            if sign * value >= sign * level:
                return name
        return "poor"


_registered: dict[str, MetricDefinition] = {}

METRICS: Mapping[str, MetricDefinition] = MappingProxyType(_registered)
"""Every metric that is known, by qualified name: ragtide's own, and those of the user's own that were registered."""


def register_metric(definition: MetricDefinition) -> None:
    """Make a metric known to this process; registering the same definition again changes nothing.

    Raises:
        ValueError: its name has no family, its range is empty or infinite, its edges do not rise inside it,
            or another metric has its name.
    """
    name = definition.name
    if not _NAME.fullmatch(name):
        raise ValueError(f"metric name {name!r} is not family.metric in lower case: rename it, such as mine.citations")
    if not (isfinite(definition.lower) and isfinite(definition.upper) and definition.lower < definition.upper):
        raise ValueError(
            f"the range of {name} is {definition.lower:g} to {definition.upper:g}: "
            "give two finite numbers, the smaller first"
        )
    if not all(a < b for a, b in pairwise((definition.lower, *definition.edges, definition.upper))):
        raise ValueError(f"the edges of {name} are {definition.edges}: give rising numbers inside its range")
    if _registered.setdefault(name, definition) != definition:
        raise ValueError(f"there is another metric named {name}: rename this one")


def value_range(metric: str) -> tuple[float, float]:
    """Return the range of a metric; 0 to 1 for one that is not registered."""
    definition = METRICS.get(metric)
    return (definition.lower, definition.upper) if definition else (0.0, 1.0)
