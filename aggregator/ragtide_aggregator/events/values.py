"""Extracts the numbers that a metric event adds to the state, scaled to [0, 1] and checked. No state."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from operator import ge, le
from typing import Final, NamedTuple, TypeVar

from ragtide_schemas import (
    AlertRule,
    EvaluatorScores,
    InvalidEntryError,
    JudgedScores,
    Measure,
    MetricDeclaration,
    MetricEvent,
    Reason,
    definition_of,
)
from ragtide_schemas.metric_definitions import PEOPLES_METRICS
from ragtide_schemas.metric_event import probability_of

from ..statistics.tables.batches import Floats
from .keys import (
    GOLD,
    GOLD_LABELER,
    SQUARED_ERROR,
    UNBOUNDED,
    EstimateKey,
    PairKey,
    rule_share,
    scored_metric,
    segment_values,
    share_name,
)


class ScoreEdge(NamedTuple):
    """A share of scores that is counted."""

    name: str
    place: int
    """Index of its metric among the ranges."""
    edge: float
    """Scaled."""
    above: bool = False
    """Whether scores above the edge are counted, and not those at or below it."""


@dataclass(frozen=True, slots=True)
class ScoreLayout:
    """The properties that events with the same score names share."""

    ranges: tuple[tuple[str, float, float], ...]
    """Metric, lowest and highest value, in the order of the metrics' names."""
    edges: tuple["ScoreEdge", ...]
    names: tuple[str, ...]
    """Names of the values that are computed from scores alone."""
    lowest: tuple[float, ...]
    """Lowest value of each metric, in the order of the scores, as the next field."""
    highest: tuple[float, ...]

    def in_range(self, scores: Mapping[str, float]) -> bool:
        """Return whether all scores of an event are in the ranges of their metrics."""
        values = scores.values()
        return all(map(le, self.lowest, values)) and all(map(ge, self.highest, values))


DeclaredMetrics = Mapping[str, MetricDeclaration] | None
"""Declarations of metrics that are not ragtide's own, by name."""


Targets = tuple[AlertRule, ...]
"""Rules on quantiles, whose targets are edges."""


def targets_of(rules: Iterable[AlertRule]) -> Targets:
    """Return the rules on quantiles."""
    return tuple(rule for rule in rules if rule.quantile is not None)


@lru_cache(maxsize=10_000)
def _known_layout(
    metrics: tuple[str, ...], declared: tuple[tuple[str, MetricDeclaration], ...], targets: Targets
) -> ScoreLayout:
    declarations = dict(declared)
    ranges = []
    edges: dict[str, ScoreEdge] = {}
    ordered = sorted(metrics)
    for place, metric in enumerate(ordered):
        definition = definition_of(metric, declarations)
        # A score without a declaration is between 0 and 1.
        lower, upper = (definition.lower, definition.upper) if definition is not None else (0.0, 1.0)
        ranges.append((metric, lower, upper))
        for edge in definition.edges if definition else ():
            name = share_name(metric, edge)
            edges[name] = ScoreEdge(name, place, (edge - lower) / (upper - lower))
        for rule in targets:
            if rule.metric == metric and rule.target is not None:
                better = None if definition is None else definition.direction
                name, above = rule_share(rule, better), rule.side(better) == "above"
                edges.setdefault(name, ScoreEdge(name, place, (rule.target - lower) / (upper - lower), above))
    ends = {metric: (lower, upper) for metric, lower, upper in ranges}
    lowest, highest = (tuple(ends[metric][end] for metric in metrics) for end in (0, 1))
    return ScoreLayout(tuple(ranges), tuple(edges.values()), (*ordered, *edges), lowest, highest)


def layout(metrics: Iterable[str], declared: DeclaredMetrics, targets: Targets = ()) -> ScoreLayout:
    """Return the layout of events with scores of these metrics and these declarations."""
    return _known_layout(tuple(metrics), tuple(declared.items()) if declared else (), targets)


def at_most(edge: float) -> float:
    """Return the highest scaled value that counts as at an edge, with room for rounding."""
    return edge + 1e-12


NEVER_ASKED: Final = frozenset({"judge_unavailable", "over_budget"})
"""Reasons for which a chosen interaction has no score of its judge although the judge was not asked about it: it counts
as if it had not been chosen."""

MISSING: Final = nan
"""A score of a pair that is missing."""


class ScorePair(NamedTuple):
    """A reference score (a judge's or a person's) and the proxy score of one metric, both scaled to [0, 1].

    The reference score is `MISSING` if the judge was asked and gave none, and the proxy score if the labeler could not
    score the metric.
    """

    metric: str
    labeler: str
    """Labeler of the reference score, as the next two fields."""
    labeler_version: str
    profile: str
    reference: float
    proxy: float
    probability: float
    """Probability with which the interaction was chosen for a reference score."""


class ExtractedValues(NamedTuple):
    """The values and pairs that an event adds to each of its scopes."""

    names: tuple[str, ...]
    values: list[float]
    pairs: list[ScorePair]


class EventPart(NamedTuple):
    """The scores of one event by one labeler, or later gold scores of the event."""

    event: MetricEvent
    extracted: ExtractedValues
    counts_usage: bool = False
    """Whether time and cost of labeling count with this part; the time counts once per event."""
    counts_absences: bool = False
    beside: bool = False
    """Whether it follows another part of the same event: then only its cost counts, not the time."""
    arrived_ms: int | None = None
    """Time at which later gold scores came; None for the time of scoring."""


def scopes_of(event: MetricEvent, *, segments: bool) -> tuple[str | None, ...]:
    """Return None for the whole pipeline, and then the segment values of an event."""
    return (None, *segment_values(event)) if segments and event.segments else (None,)


def estimate_key(event: MetricEvent, segment: str | None, metric: str) -> EstimateKey:
    """Return the key of a metric of an event in a scope."""
    declared = event.declared.get(scored_metric(metric)) if event.declared else None
    return EstimateKey(
        event.pipeline, event.run, segment, metric, event.profile, event.labeler, event.labeler_version,
        None if declared is None else declared.measure,
    )  # fmt: skip


def usage_keys(part: EventPart) -> tuple[EstimateKey, ...]:
    """Return the keys of time and cost of labeling of a part, in the order of `usage_of`.

    In a cascade the cost is that of the labeler that was paid: the reference's, and the proxy's if it has one.
    """
    event = part.event
    latency, cost = (estimate_key(event, None, metric) for metric in UNBOUNDED)
    judged, once = event.judged, () if part.beside else (latency,)
    if judged is None:
        return (*once, cost) if event.prompts else once
    reference = cost._replace(labeler=judged.labeler, labeler_version=judged.labeler_version, profile=judged.profile)
    return (*once, reference, cost) if _costs(event)[1] else (*once, reference)


def usage_of(part: EventPart) -> tuple[float, ...]:
    """Return time and cost of labeling of a part, and with a reference the cost of its proxy; beside no time."""
    costs = _costs(part.event)
    return costs if part.beside else (part.event.latency_s, *costs)


def _costs(event: MetricEvent) -> tuple[float, float]:
    judged = event.judged
    if judged is None:
        return event.cost_usd, 0.0
    paid = event.cost_usd if judged.cost_usd is None else min(judged.cost_usd, event.cost_usd)
    return paid, event.cost_usd - paid


def pair_key(event: MetricEvent, segment: str | None, pair: ScorePair) -> PairKey:
    """Return the key of a pair of scores of an event in a scope."""
    return PairKey.of(estimate_key(event, segment, pair.metric), pair.labeler, pair.labeler_version, pair.profile)


class _Refusing:
    """Turns an unforeseen error of the body of a `with` into an InvalidEntryError; no value of the entry counts then.

    Args:
        subject: of the sentence.
    """

    __slots__ = ("_subject",)

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (InvalidEntryError, MemoryError)):
            raise InvalidEntryError(
                Reason.NOT_AGGREGATABLE,
                f"{self._subject} cannot be counted ({type(error).__name__}: {error}): correct it and publish it again",
            ) from error


_EVENT_COUNTED: Final = _Refusing("the event")
_GOLD_COUNTED: Final = _Refusing("a gold score")


def check(event: MetricEvent) -> None:
    """Check that a metric event can be counted.

    Raises:
        InvalidEntryError: a score is outside its metric's range, or the event cannot be counted.
    """
    if event.judged is not None or event.gold_scores or event.beside or event.inclusion:
        parts_of(event)
        return
    with _EVENT_COUNTED:
        if not layout(event.scores, event.declared).in_range(event.scores):
            _by_metric("scores", event.scores, event.declared)


def parts_of(event: MetricEvent, targets: Targets = ()) -> list[EventPart]:
    """Return the parts of an event: each evaluator's scores and its judge's, and people's scores if there are any.

    Scores whose metrics were chosen with different probabilities are different parts.

    Args:
        event: the event.
        targets: rules on quantiles, whose shares are counted.

    Raises:
        InvalidEntryError: a score is outside its metric's range, or the event cannot be counted.
    """
    if event.is_tick:
        return [EventPart(event, ExtractedValues((), [], []))]
    with _EVENT_COUNTED:
        parts = list[EventPart]()
        proxy, judges = event.judges() or (None, [])
        for whole in event.by_evaluator():
            references = judges if proxy is not None and _labeler_of(whole) == _labeler_of(proxy) else []
            for place, scored in enumerate(_scored(whole)):
                beside = references if _labeler_of(scored) == _labeler_of(whole) else []
                own = _extracted(scored, targets, [(judge, whole) for judge in beside])
                # A session is no interaction of the traffic: its seconds and dollars are not those of an interaction.
                counts_usage = place == 0 and not event.is_session
                parts.append(EventPart(scored, own, counts_usage, counts_absences=True, beside=bool(parts)))
        return [*parts, *_from_people(event, event.gold_scores, targets=targets)]


def gold_parts(
    event: MetricEvent,
    gold_scores: Mapping[str, float],
    probability: float = 1.0,
    targets: Targets = (),
    arrived_ms: int | None = None,
) -> list[EventPart]:
    """Return the parts of later gold scores of an event, for metrics that the event has and for people's metrics.

    Args:
        event: metric event of the interaction.
        gold_scores: gold scores by metric.
        probability: with which a scored interaction was chosen for gold scores, in (0, 1].
        targets: rules on quantiles, whose shares are counted.
        arrived_ms: time at which the gold scores came; the time of scoring unless given.

    Raises:
        InvalidEntryError: a gold score is outside its metric's range, or cannot be counted.
    """
    with _GOLD_COUNTED:
        scored = [part for whole in event.by_evaluator() for part in _scored(whole)]
        compared = [(part, _extracted_gold(part, gold_scores, probability)) for part in scored]
        paired = [(part, extracted) for part, extracted in compared if extracted.pairs]
        parts = [
            *_from_people(event, gold_scores, probability, targets),
            *(EventPart(part, extracted, beside=place > 0) for place, (part, extracted) in enumerate(paired)),
        ]
        return [part._replace(arrived_ms=arrived_ms) for part in parts]


def _scored(event: MetricEvent) -> tuple[MetricEvent, ...]:
    judgement = event.judgement()
    return (*event.by_probability(), *(() if judgement is None else judgement.by_probability()))


def _from_people(
    event: MetricEvent, gold_scores: Mapping[str, float], probability: float = 1.0, targets: Targets = ()
) -> list[EventPart]:
    scores = {metric: score for metric, score in gold_scores.items() if metric in PEOPLES_METRICS}
    if not scores:
        return []
    graded = event.model_copy(
        update={
            "labeler": GOLD_LABELER, "labeler_version": "1", "profile": "people", "scores": scores, "absent": {},
            "gold_scores": {}, "judged": None, "beside": None, "inclusion": None,
            "sampling_probability": event.sampling_probability * probability,
        }
    )  # fmt: skip
    return [EventPart(graded, _extracted(graded, targets))]


_Judge = tuple[JudgedScores | EvaluatorScores | MetricEvent, dict[str, float], dict[str, str], Callable[[str], float]]
# Another labeler, its scores, its absences, and the probability of each.


def _labeler_of(part: MetricEvent | EvaluatorScores) -> tuple[str, str, str]:
    return part.labeler, part.labeler_version, part.profile


def _extracted(
    event: MetricEvent, targets: Targets, evaluators: Sequence[tuple[MetricEvent | EvaluatorScores, MetricEvent]] = ()
) -> ExtractedValues:
    known = layout(event.scores, event.declared, targets)
    values = [_scaled("scores", event.scores[where[0]], *where) for where in known.ranges]
    values += [float((values[place] > at_most(edge)) == above) for _, place, edge, above in known.edges]
    names = known.names
    pairs: list[ScorePair] = []
    if event.gold_scores:
        gold = _extracted_gold(event, event.gold_scores)
        names, values, pairs = (*names, *gold.names), values + gold.values, gold.pairs
    judged = event.judged
    judges: list[_Judge] = [] if judged is None else [(judged, judged.scores, judged.absent, judged.probability_of)]
    judges += [(judge, *_comparable(judge, event), _chance(judge, whole)) for judge, whole in evaluators]
    proxies = {metric: values[place] for place, (metric, _, _) in enumerate(known.ranges)}
    for judge, scores, absent, probability in judges:
        unanswered = {metric: MISSING for metric, reason in absent.items() if reason not in NEVER_ASKED}
        references = {**unanswered, **_by_metric("judged.scores", scores, event.declared)}
        pairs += [
            ScorePair(
                metric, judge.labeler, judge.labeler_version, judge.profile, references[metric],
                proxies.get(metric, MISSING), probability(metric),
            )
            for metric in sorted(references)
            if metric in proxies or metric in event.absent
        ]  # fmt: skip
    return ExtractedValues(names, values, pairs)


def _comparable(judge: MetricEvent | EvaluatorScores, event: MetricEvent) -> tuple[dict[str, float], dict[str, str]]:
    def measure(part: MetricEvent | EvaluatorScores, metric: str) -> Measure | None:
        declared = part.declared.get(metric) if part.declared else None
        return None if declared is None else declared.measure

    known = {metric for metric in (*event.scores, *event.absent) if measure(judge, metric) == measure(event, metric)}
    return (
        {metric: score for metric, score in judge.scores.items() if metric in known},
        {metric: reason for metric, reason in judge.absent.items() if metric in known},
    )


def _chance(judge: MetricEvent | EvaluatorScores, whole: MetricEvent) -> Callable[[str], float]:
    def probability(metric: str) -> float:
        # A metric is drawn once for all labelers of an interaction.
        drawn = whole.probability_of(metric) / whole.inclusion_probability
        return min(probability_of(metric, judge.inclusion, judge.inclusion_probability) / drawn, 1.0)

    return probability


def _extracted_gold(event: MetricEvent, gold_scores: Mapping[str, float], probability: float = 1.0) -> ExtractedValues:
    known = {metric: gold for metric, gold in gold_scores.items() if metric in event.scores or metric in event.absent}
    gold = _by_metric("gold_scores", known, event.declared)
    compared = {metric: event.scores[metric] for metric in known if metric in event.scores}
    scores = _by_metric("scores", compared, event.declared)
    names: list[str] = []
    values: list[float] = []
    pairs: list[ScorePair] = []
    for metric, reference in gold.items():
        if metric in scores:
            names += [SQUARED_ERROR + metric, GOLD + metric]
            values += [squared_error(scores[metric], reference), reference]
        proxy = scores.get(metric, MISSING)
        pairs.append(ScorePair(metric, GOLD_LABELER, "1", event.profile, reference, proxy, probability))
    return ExtractedValues(tuple(names), values, pairs)


Number = TypeVar("Number", float, Floats)


def squared_error(score: Number, reference: Number) -> Number:
    """Return the squared difference of scaled scores, of two numbers or of two arrays."""
    # Not ** 2, because it may round a Python float in another way than an array.
    return (score - reference) * (score - reference)


def _by_metric(field: str, scores: dict[str, float], declared: DeclaredMetrics) -> dict[str, float]:
    return {where[0]: _scaled(field, scores[where[0]], *where) for where in layout(scores, declared).ranges}


def _scaled(field: str, score: float, metric: str, lower: float, upper: float) -> float:
    if not lower <= score <= upper:
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field}.{metric} is {score:g}, but its range is {lower:g} to {upper:g}: scale it into the range, or "
            "declare the range of your own metric in `declared`",
        )
    return min((score - lower) / (upper - lower), 1.0)
