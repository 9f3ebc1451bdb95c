"""What one metric event brings: numbers by metric, scaled to [0, 1], checked before any of them counts. No state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ragtide_schemas import InvalidEntryError, MetricDeclaration, MetricEvent, Reason, definition_of

from ..statistics.batches import Floats
from .keys import GOLD, GOLD_LABELER, SQUARED_ERROR, EstimateKey, PairKey, scored_metric, segment_values, share_name


@dataclass(frozen=True, slots=True)
class Layout:
    """The properties that events with the same score names share."""

    ranges: tuple[tuple[str, float, float], ...]
    """Metric, lowest and highest value, in the order of their names, whatever the order in the event."""
    edges: tuple[tuple[str, int, float], ...]
    """Name of a share, place of its metric among the ranges, scaled edge."""
    names: tuple[str, ...]
    """Names of the observations that come from scores alone."""


Declarations = Mapping[str, MetricDeclaration] | None
"""Declarations of metrics that are not ragtide's own, by name."""


@lru_cache(maxsize=10_000)
def _known_layout(metrics: tuple[str, ...], declared: tuple[tuple[str, MetricDeclaration], ...]) -> Layout:
    declarations = dict(declared)
    ranges = []
    edges = []
    ordered = sorted(metrics)
    for place, metric in enumerate(ordered):
        definition = definition_of(metric, declarations)
        # A score that nothing declares is between 0 and 1.
        lower, upper = (definition.lower, definition.upper) if definition is not None else (0.0, 1.0)
        ranges.append((metric, lower, upper))
        edges += [
            (share_name(metric, edge), place, (edge - lower) / (upper - lower))
            for edge in (definition.edges if definition else ())
        ]
    return Layout(tuple(ranges), tuple(edges), (*ordered, *(name for name, _, _ in edges)))


def layout(metrics: Iterable[str], declared: Declarations) -> Layout:
    """Return what events with scores of these metrics, declared like this, have in common."""
    return _known_layout(tuple(metrics), tuple(declared.items()) if declared else ())


def at_most(edge: float) -> float:
    """Return the highest scaled value that is at an edge: a hair above it by rounding is at it."""
    return edge + 1e-12


class Pair(NamedTuple):
    """A true and a cheap score of one metric, scaled to [0, 1]."""

    metric: str
    labeler: str
    labeler_version: str
    profile: str
    true: float
    cheap: float
    probability: float


class Observations(NamedTuple):
    """The values and pairs that an event adds to its scopes."""

    names: tuple[str, ...]
    values: list[float]
    pairs: list[Pair]


class Kind(Enum):
    """What an event is to the state."""

    SCORED = "scored"
    JUDGED = "judged"
    """The judge's part of it."""
    GRADED = "graded"
    """Gold scores that came later."""


EventPart = tuple[MetricEvent, Observations, Kind]
"""An event or a part of it, what it brings, and what it is to the state."""


def scopes_of(event: MetricEvent, *, segments: bool) -> tuple[str | None, ...]:
    """Return the segment values an event counts in, None for the whole pipeline first."""
    return (None, *segment_values(event)) if segments and event.segments else (None,)


def estimate_key(event: MetricEvent, segment: str | None, metric: str) -> EstimateKey:
    """Return the key of a metric of an event in a scope."""
    declared = event.declared.get(scored_metric(metric)) if event.declared else None
    return EstimateKey(
        event.pipeline, event.run, segment, metric, event.profile, event.labeler, event.labeler_version,
        None if declared is None else declared.measure,
    )  # fmt: skip


def pair_key(event: MetricEvent, segment: str | None, pair: Pair) -> PairKey:
    """Return the key of a pair of scores of an event in a scope."""
    return PairKey(estimate_key(event, segment, pair.metric), pair.labeler, pair.labeler_version, pair.profile)


def _uncountable(what: str, error: Exception) -> InvalidEntryError:
    """Return the refusal of an entry that raised an unforeseen error before anything of it was added."""
    return InvalidEntryError(
        Reason.NOT_AGGREGATABLE,
        f"{what} cannot be counted ({type(error).__name__}: {error}): correct it and publish it again",
    )


def observations(event: MetricEvent) -> Observations:
    """Return what an event brings.

    Raises:
        InvalidEntryError: a score is outside its metric's range, or the event cannot be counted.
    """
    try:
        return _observations(event)
    except (InvalidEntryError, MemoryError):
        raise
    except Exception as error:
        raise _uncountable("the event", error) from error


def _observations(event: MetricEvent) -> Observations:
    known = layout(event.scores, event.declared)
    values = [_scaled("scores", event.scores[where[0]], *where) for where in known.ranges]
    values += [1.0 if values[place] <= at_most(edge) else 0.0 for _, place, edge in known.edges]
    names = known.names
    pairs: list[Pair] = []
    if event.gold_scores:
        gold = _gold_observations(event, event.gold_scores)
        names, values, pairs = (*names, *gold.names), values + gold.values, gold.pairs
    judged = event.judged
    if judged is not None:
        scaled = _by_metric("judged.scores", judged.scores, event.declared)
        pairs += [
            Pair(
                metric, judged.labeler, judged.labeler_version, judged.profile, score,
                values[known.names.index(metric)], judged.inclusion_probability,
            )
            for metric, score in scaled.items()
            if metric in event.scores
        ]  # fmt: skip
    return Observations(names, values, pairs)


def parts_of(event: MetricEvent) -> list[EventPart]:
    """Return what an event brings, and what the judge's part of it does if there is one.

    Raises:
        InvalidEntryError: a score is outside its metric's range.
    """
    parts = [(event, observations(event), Kind.SCORED)]
    judgement = event.judgement()
    if judgement is not None:
        parts.append((judgement, observations(judgement), Kind.JUDGED))
    return parts


def gold_observations(event: MetricEvent, gold_scores: Mapping[str, float]) -> Observations:
    """Return what gold scores of an event bring, of the metrics that it has.

    Raises:
        InvalidEntryError: a gold score is outside its metric's range, or it cannot be counted.
    """
    try:
        return _gold_observations(event, gold_scores)
    except (InvalidEntryError, MemoryError):
        raise
    except Exception as error:
        raise _uncountable("a gold score", error) from error


def _gold_observations(event: MetricEvent, gold_scores: Mapping[str, float]) -> Observations:
    known = {metric: gold for metric, gold in gold_scores.items() if metric in event.scores}
    gold = _by_metric("gold_scores", known, event.declared)
    scores = _by_metric("scores", {metric: event.scores[metric] for metric in known}, event.declared)
    names: list[str] = []
    values: list[float] = []
    pairs: list[Pair] = []
    for metric, true in gold.items():
        names += [SQUARED_ERROR + metric, GOLD + metric]
        values += [squared_error(scores[metric], true), true]
        pairs.append(Pair(metric, GOLD_LABELER, "1", event.profile, true, scores[metric], 1.0))
    return Observations(tuple(names), values, pairs)


Number = TypeVar("Number", float, Floats)


def squared_error(score: Number, true: Number) -> Number:
    """Return the square of the difference of scaled scores, of two numbers or of two arrays."""
    # Not ** 2, which for a Python float may be rounded in another way than for an array.
    return (score - true) * (score - true)


def _by_metric(field: str, scores: dict[str, float], declared: Declarations) -> dict[str, float]:
    return {where[0]: _scaled(field, scores[where[0]], *where) for where in layout(scores, declared).ranges}


def _scaled(field: str, score: float, metric: str, lower: float, upper: float) -> float:
    if not lower <= score <= upper:
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field}.{metric} is {score:g}; its range is {lower:g} to {upper:g}: scale it into the range, or "
            "declare the range of a metric of your own in `declared`",
        )
    return min((score - lower) / (upper - lower), 1.0)
