"""The definition of a metric: name, range, direction, kind, bands and meaning."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import isfinite
from typing import Final, Literal

from .metric_names import QUALIFIED

BOUND_MOST: Final = 1e15
"""Largest absolute value of an end of a range, so that squares and totals stay finite."""

WIDTH_LEAST: Final = 1e-12
"""Smallest width of a range, so that quotients stay finite."""


class Direction(StrEnum):
    """The direction in which a metric gets better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"

    @property
    def in_words(self) -> str:
        """The direction as a clause."""
        return "neither direction is better" if self is Direction.NEITHER else f"{self.value} is better"


class Kind(StrEnum):
    """The way in which values of a metric are combined over interactions."""

    ALGEBRAIC = "algebraic"
    """A mean or a proportion."""
    DISTRIBUTIVE = "distributive"
    """A sum or a count."""


@dataclass(frozen=True, slots=True)
class Bands:
    """The limits of three levels of quality, each better than the one before: acceptable, good, excellent."""

    minimum: float
    good: float
    excellent: float


Quality = Literal["poor", "good"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of scores with a usual cause."""

    name: str
    conditions: Mapping[str, Quality]
    """Quality that each metric must have, by qualified name."""
    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class DefaultRule:
    """The drift rule on a metric that is in force by default."""

    name: str
    labeler: str | None = None
    """Labelers whose scores it watches, as a rule states them (`!local`); None for all."""
    min_effect: float = 0.02
    """Largest change of the mean that does not matter, such as that of the hours of a day."""
    severity: Literal["ticket", "info"] = "ticket"
    """Urgency of its alerts."""
    baseline: Literal["earlier"] | None = "earlier"
    """As a rule states it. By default each value is compared with all before it, by ranks; these need a change of 2% of
    the range, so counts of calls are compared with the mean of the first values."""


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
    """Inputs that an interaction or its labels must have for the metric to be defined."""
    bands: Bands | None = None
    edges: tuple[float, ...] = ()
    """Rising values at which the distribution is shown: the share of interactions at or below each."""
    does_not_tell: str = ""
    """The conclusion that readers often draw from the metric, and that it does not support."""
    related: tuple[str, ...] = ()
    """Names of metrics to read beside it."""
    default_rule: DefaultRule | None = None
    """The rule in force by default, which detects a change for the worse."""
    diagnosis_bands: Bands | None = None
    """Bands in diagnoses only, of a metric whose level depends on the documents."""
    patterns: tuple[Pattern, ...] = ()
    """Diagnoses that it takes part in; those of several metrics together are in `diagnosis.py`."""
    from_labels: bool = False
    """Whether it is as right as the labels of its labeler; otherwise it is a count, or people gave it."""
    of_context: bool = False
    """Whether it is a share of the retrieved context, or has one in it: each further document lowers it, whoever
    labels, although it can only add what was missing (benchmarks/measured/random_retriever.md)."""
    given_by: str | None = None
    """The one source that gives it, in words; None if several labelers do."""

    def __post_init__(self) -> None:
        """Check the definition.

        Raises:
            ValueError: the name has no family, the range is empty or too large, or the edges do not rise inside it.
        """
        if not QUALIFIED.fullmatch(self.name):
            raise ValueError(
                f"metric name {self.name!r} is not family.metric in lower case: rename it, such as mine.citations"
            )
        check_range(self.name, self.lower, self.upper, self.edges)

    @property
    def family(self) -> str:
        """The part of the name before the last dot."""
        return self.name.rpartition(".")[0]

    @property
    def rule(self) -> str:
        """The direction and the limit of good values.

        >>> bands = Bands(0.7, 0.8, 0.9)
        >>> MetricDefinition("a.b", 0, 1, Direction.HIGHER, Kind.ALGEBRAIC, "", "", bands=bands).rule
        'higher is better; good from 0.8'
        """
        if self.bands is None:
            return self.direction.in_words
        limit = "up to" if self.direction is Direction.LOWER else "from"
        return f"{self.direction.in_words}; good {limit} {self.bands.good:g}"

    def band(self, value: float) -> str | None:
        """Return `poor`, `acceptable`, `good` or `excellent` for a value; None for a metric without bands.

        Args:
            value: of the metric.
        """
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


def check_range(name: str, lower: float, upper: float, edges: tuple[float, ...] = ()) -> None:
    """Check the range of a metric, and its edges.

    Raises:
        ValueError: the range is empty, too narrow or too large, or the edges do not rise inside it.
    """
    if not (isfinite(lower) and isfinite(upper) and lower < upper):
        raise ValueError(f"the range of {name} is {lower:g} to {upper:g}: give two finite numbers, the smaller first")
    if max(abs(lower), abs(upper)) > BOUND_MOST or upper - lower < WIDTH_LEAST:
        raise ValueError(
            f"the range of {name} is {lower:g} to {upper:g}: its ends must be at most {BOUND_MOST:g}, and at least "
            f"{WIDTH_LEAST:g} apart; choose another unit"
        )
    if not all(a < b for a, b in pairwise((lower, *edges, upper))):
        raise ValueError(f"the edges of {name} are {edges}: give rising numbers inside its range")


def check_bands(name: str, bands: Bands | None, lower: float, upper: float, direction: Direction) -> None:
    """Check that the bands of a metric are inside its range, each better than the one before.

    Raises:
        ValueError: they are not, or the metric has no better or worse.
    """
    if bands is None:
        return
    if direction is Direction.NEITHER:
        raise ValueError(f"{name} has bands, and no better or worse: state its direction, or leave the bands out")
    levels = (bands.minimum, bands.good, bands.excellent)
    ordered = levels if direction is Direction.HIGHER else levels[::-1]
    if not lower <= ordered[0] <= ordered[1] <= ordered[2] <= upper:
        order = "minimum <= good <= excellent" if direction is Direction.HIGHER else "minimum >= good >= excellent"
        raise ValueError(
            f"the bands of {name} are minimum {levels[0]:g}, good {levels[1]:g}, excellent {levels[2]:g}: give "
            f"{order}, between {lower:g} and {upper:g}, because {direction.in_words}"
        )
