"""A metric event: the scores of one interaction by one labeler."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, Final, Literal, Self, TypeVar

from pydantic import Field

from .base import (
    UNSAMPLED,
    Count,
    Dollars,
    Name,
    Probability,
    Reader,
    Seconds,
    Size,
    Tokens,
    UtcTime,
    Value,
    VersionedModel,
    WireModel,
)
from .declared import DECLARED_MAX, Declared, MetricDeclaration
from .drawn import DrawRecord
from .interaction import COVARIATES_READER, Covariates
from .known_labelers import authority
from .limits import EVALUATORS_MAX, PROBABILITY_MIN
from .metric_names import MetricName

Kind = TypeVar("Kind")

NO_LABELER: Final = "none"
"""Name of the labeler of events that no evaluator scored for a whole pipeline."""

TICK: Final = "tick"
"""Unit, id and labeler of a tick."""

Inclusion = Annotated[dict[MetricName, Probability], Field(max_length=DECLARED_MAX)]
"""Probability of being chosen for a metric, by qualified metric name."""


def probability_of(metric: str, inclusion: Mapping[str, float] | None, otherwise: float) -> float:
    """Return the probability of a metric, or that of all other metrics if it has none of its own."""
    return otherwise if inclusion is None else inclusion.get(metric, otherwise)


class JudgedScores(WireModel):
    """The scores of a second labeler (a judge) for an interaction that was chosen for it."""

    labeler: Name
    """Name of the labeler, such as `judge`."""
    labeler_version: Name
    """Version of the labeler."""
    profile: Name
    """Variant of the formulas."""
    prompts: tuple[Name, ...] = ()
    """Prompts of the judge, such as `trace.en.1`."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """Reason for each metric that could not be computed."""
    cost_usd: Dollars | None = None
    """The part of the event's `cost_usd` that these scores cost; absent for all of it."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen; its weight is the inverse."""
    uniform: bool = False
    """Whether the interaction is in the uniform part of the sample, which is drawn at one rate from all."""
    uniform_probability: Probability | None = None
    """Probability with which an interaction in the uniform part was chosen for it; its weight in the judge's own mean
    is the inverse. Absent in events of versions that did not know it: they have no weight."""
    inclusion: Inclusion | None = None
    """Probability with which this interaction was chosen for a metric, by metric, for metrics of a part of the sample:
    that of the sample times that of the metric. Other metrics have `inclusion_probability`."""

    def probability_of(self, metric: str) -> float:
        """Return the probability with which this interaction was chosen for a metric.

        Args:
            metric: qualified name of the metric.
        """
        return probability_of(metric, self.inclusion, self.inclusion_probability)


class EvaluatorScores(WireModel):
    """The scores of a further evaluator for the same interaction: a part of its metric event."""

    labeler: Name
    """Name of the labeler that scored."""
    labeler_version: Name
    """Version of the labeler."""
    profile: Name
    """Variant of the formulas."""
    splitter: Name | None = None
    """Rules that split the texts into sentences."""
    prompts: tuple[Name, ...] = ()
    """Prompts of a judge, such as `trace.en.1`."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """Reason for each metric that could not be computed."""
    cost_usd: Dollars = 0.0
    """The part of the event's `cost_usd` that these scores cost."""
    judged: JudgedScores | None = None
    """Scores of the same interaction by the reference of a cascade, if it was chosen for it."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen for the evaluator; its weight is the inverse. The probability
    in `judged` is conditional on that."""
    of_all: bool = False
    """Whether each interaction of the pipeline was chosen for this labeler with some probability, so that its scores
    estimate the mean of all. Absent in events of versions that did not know it: they estimate that of a part."""
    inclusion: Inclusion | None = None
    """The same by metric, for metrics that were asked of a part of these interactions only."""
    declared: Declared | None = None
    """Declarations of metrics in `scores`, `absent` or `judged` that are not ragtide's own."""


class MetricEvent(VersionedModel):
    """The scores of one interaction; each interaction has exactly one metric event.

    With several evaluators it has a part for each: the first is the event itself, the others are in `beside`.
    """

    interaction_id: Name
    """Id of the scored interaction."""
    entry_id: Name | None = None
    """Stream entry of the interaction; absent if it was scored without a stream."""
    pipeline: Name
    """The interaction's pipeline."""
    occurred_at: UtcTime
    """Time of the response."""
    labeled_at: UtcTime
    """Time of scoring."""
    segments: dict[Name, Name] = Field(default_factory=dict)
    """The interaction's segments."""
    session_id: Name | None = None
    """The interaction's session."""
    turn: Count | None = None
    """Number of the answer in its session."""
    unit: Literal["session", "tick"] | None = None
    """`session` if the scores are of a whole conversation: it counts as no interaction of the traffic. `tick` for an
    entry without scores, by which the aggregator ends the sessions of a pipeline whose traffic stopped: all answers
    that came before `labeled_at` are scored. Absent for an answer."""
    user_id: Name | None = None
    """Hash of the id of the user who asked; the id itself if `hash_user_ids` is off."""
    cluster: Name | None = None
    """The interaction's cluster."""
    covariates: Covariates = None
    """Numbers that were known before the answer: the interaction's, and those that the workers compute."""
    run: Name | None = None
    """The interaction's run."""
    population_size: Size | None = None
    """Number of interactions in the whole run."""
    sampling_probability: Probability = 1.0
    """Probability with which the interaction was kept from the traffic. The probabilities of being chosen for a labeler
    or a judge are conditional on that."""
    drawn: DrawRecord | None = None
    """How the interaction was drawn as a row of a data set; absent of other interactions."""
    source: Name | None = None
    """The interaction's source."""
    labeler: Name
    """Name of the labeler, such as `local`."""
    labeler_version: Name
    """Version of the labeler, which changes whenever its scores may differ."""
    profile: Name
    """Variant of the formulas, such as `ragbench`; profiles are never mixed in one aggregate."""
    splitter: Name | None = None
    """Rules that split the texts into sentences; `given` if the interaction has its own sentences."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """Reason for each metric that could not be computed."""
    gold_scores: dict[MetricName, Value] = Field(default_factory=dict)
    """Gold scores of the same response, if known."""
    prompt_tokens: Tokens = 0
    """Tokens sent to a judge."""
    completion_tokens: Tokens = 0
    """Tokens of a judge's answers."""
    cost_usd: Dollars = 0.0
    """Price of the judge's calls in US dollars; 0 if no price is known."""
    cost_source: Name | None = None
    """Prices from which the cost was computed: `settings`, or name and version of a price table, such as
    `genai-prices 0.2.3`; absent if no price is known, or nothing was called."""
    latency_s: Seconds = 0.0
    """Seconds of labeling, of all evaluators."""
    prompts: tuple[Name, ...] = ()
    """Prompts of a judge, such as `trace.en.1`."""
    judged: JudgedScores | None = None
    """Scores of the same interaction by a judge, if it was chosen for a judge."""
    counters: dict[Name, Count] = Field(default_factory=dict)
    """Counts of repairs and events while labeling, by name: dropped keys, retries, cache hits."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen for this labeler; its weight is the inverse."""
    inclusion: Inclusion | None = None
    """The same by metric, for metrics that were asked of a part of these interactions only; other metrics have
    `inclusion_probability`."""
    declared: Declared | None = None
    """Declarations of metrics in `scores`, `absent` or `judged` that are not ragtide's own."""
    beside: Annotated[tuple[EvaluatorScores, ...], Field(max_length=EVALUATORS_MAX - 1)] | None = None
    """Scores of further evaluators. Tokens, cost, seconds and counts of the event are those of all evaluators
    together."""

    side_readers: ClassVar[Mapping[str, Reader]] = {"covariates": COVARIATES_READER}

    @property
    def is_session(self) -> bool:
        """Whether the scores are of a whole conversation, and not of one answer."""
        return self.unit == "session"

    @property
    def is_tick(self) -> bool:
        """Whether this is no interaction at all, but the time up to which everything of its pipeline is scored."""
        return self.unit == "tick"

    @classmethod
    def tick(
        cls,
        pipeline: str,
        run: str | None,
        *,
        occurred_at: datetime,
        scored_until: datetime,
        declared: Declared | None = None,
    ) -> Self:
        """Return a tick: it ends the sessions of which nothing came for the quiet time before `scored_until`.

        Args:
            pipeline: whose sessions end.
            run: of these sessions.
            occurred_at: the same time by the clocks of the producers, at which alerts fire that the tick decides.
            scored_until: time of the Redis server; each interaction that came before it is scored.
            declared: declarations of metrics of the pipeline, for the words of these alerts.
        """
        return cls(
            interaction_id=TICK, pipeline=pipeline, run=run, unit=TICK, occurred_at=occurred_at,
            labeled_at=scored_until, labeler=TICK, labeler_version="1", profile=TICK, scores={},
            declared=declared or None,
        )  # fmt: skip

    def probability_of(self, metric: str) -> float:
        """Return the probability with which this interaction was chosen for a metric of its labeler.

        Args:
            metric: qualified name of the metric.
        """
        return probability_of(metric, self.inclusion, self.inclusion_probability)

    def encode(self) -> bytes:
        """Return the model as JSON (UTF-8), without fields that have no value, and without a probability of 1."""
        left_out = UNSAMPLED if self.sampling_probability == 1.0 else None
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude=left_out)

    def judges(self) -> "tuple[Self | EvaluatorScores, list[Self | EvaluatorScores]] | None":
        """Return a proxy among the evaluators, and those whose scores measure what it predicts; None without a proxy.

        The proxy scores every interaction of the pipeline, and has the least authority of those that do. Of the others
        those count that have more authority, and a known probability for every interaction of the pipeline.
        """
        of_all: list[Self | EvaluatorScores] = [] if self.labeler == NO_LABELER else [self]
        of_all += [part for part in self.beside or () if part.of_all]
        whole = [part for part in of_all if part.inclusion_probability == 1.0]
        if not whole:
            return None
        proxy = max(whole, key=lambda part: authority(part.labeler))
        return proxy, [part for part in of_all if authority(part.labeler) < authority(proxy.labeler)]

    @property
    def kept_probability(self) -> float:
        """Probability with which the interaction was kept from the traffic, and then chosen for the evaluator.

        It is that of each metric in an event of `by_probability`.
        """
        return max(self.sampling_probability * self.inclusion_probability, PROBABILITY_MIN)

    def parts(self) -> "list[Self | EvaluatorScores | JudgedScores]":
        """Return what has scores of its own: this event, the scores of its judge, and those of further evaluators."""
        scored: list[Self | EvaluatorScores] = [self, *(self.beside or ())]
        return [*scored, *(part.judged for part in scored if part.judged is not None)]

    def declaration(self, metric: str) -> MetricDeclaration | None:
        """Return the declaration of a metric that is not ragtide's own, by the first evaluator that has one.

        Args:
            metric: qualified name of the metric.
        """
        declared = [self.declared, *(part.declared for part in self.beside or ())]
        return next((known[metric] for known in declared if known and metric in known), None)

    def by_evaluator(self) -> tuple[Self, ...]:
        """Return an event for each evaluator, with nothing in `beside`: this event first.

        Each has the scores, cost and declarations of its evaluator; tokens, seconds and counts stay with the first.
        """
        if not self.beside:
            return (self,)
        cost_usd = max(self.cost_usd - sum(part.cost_usd for part in self.beside), 0.0)
        first = self.model_copy(update={"beside": None, "cost_usd": cost_usd})
        others: dict[str, object] = {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "counters": {}}
        fields = EvaluatorScores.model_fields
        return (
            first,
            *(
                first.model_copy(update={**others, **{name: getattr(part, name) for name in fields}})
                for part in self.beside
            ),
        )

    def by_probability(self) -> tuple[Self, ...]:
        """Return an event for each probability with which metrics were chosen: scores and absences of these metrics.

        The first has the probability of the labeler, also if it has no metric. So each has one `kept_probability`. All
        keep the event's cost, counts and gold scores, and the judge's scores of their metrics.
        """
        own = self.inclusion_probability
        probabilities = dict.fromkeys([own, *map(self.probability_of, (*self.scores, *self.absent))])
        return (self,) if len(probabilities) == 1 else tuple(map(self._with_probability, probabilities))

    def _with_probability(self, probability: float) -> Self:
        def chosen(values: Mapping[str, Kind]) -> dict[str, Kind]:
            return {metric: value for metric, value in values.items() if self.probability_of(metric) == probability}

        judged = self.judged
        if judged is not None:
            scores, absent = chosen(judged.scores), chosen(judged.absent)
            # A metric is drawn once for all labelers of an interaction, so the draw for this one is no condition of
            # the judge's a second time.
            drawn = min(probability / self.inclusion_probability, 1.0)
            inclusion = {metric: min(judged.probability_of(metric) / drawn, 1.0) for metric in (*scores, *absent)}
            kept = {"scores": scores, "absent": absent, "inclusion": inclusion}
            judged = judged.model_copy(update=kept)
        return self.model_copy(
            update={
                "scores": chosen(self.scores),
                "absent": chosen(self.absent),
                "inclusion_probability": probability,
                "inclusion": None,
                "judged": judged,
            }
        )

    def judgement(self) -> Self | None:
        """Return the judge's scores of the uniform part of a cascade's sample as an event; None outside of it.

        The part estimates the judge's mean over all interactions of the evaluator. The other part, chosen for low
        scores or by segment, has no event. The probability of the event is that of the evaluator times that of the
        uniform part.
        """
        judged = self.judged
        if judged is None or not judged.uniform:
            return None
        share = 1.0 if judged.uniform_probability is None else judged.uniform_probability
        probability = max(self.inclusion_probability * share, PROBABILITY_MIN)
        rates = {metric: rate / judged.inclusion_probability for metric, rate in (judged.inclusion or {}).items()}
        return self.model_copy(
            update={
                "labeler": judged.labeler,
                "labeler_version": judged.labeler_version,
                "profile": judged.profile,
                "prompts": judged.prompts,
                "scores": judged.scores,
                "absent": judged.absent,
                "inclusion_probability": probability,
                "inclusion": {
                    metric: max(min(rate, 1.0) * probability, PROBABILITY_MIN) for metric, rate in rates.items()
                }
                or None,
                "judged": None,
                "beside": None,
            }
        )
