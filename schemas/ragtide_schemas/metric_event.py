"""A metric event: the scores of one interaction by one labeler."""

from typing import Self

from pydantic import Field

from .base import (
    UNSAMPLED,
    Count,
    Dollars,
    Name,
    Probability,
    Seconds,
    Size,
    Tokens,
    UtcTime,
    Value,
    VersionedModel,
    WireModel,
)
from .declared import Declared
from .interaction import Covariates
from .metrics import MetricName


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
    """Whether the interaction is in the uniform part of the sample, whose plain mean is unbiased."""


class MetricEvent(VersionedModel):
    """The scores of one interaction; each interaction has exactly one metric event."""

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
    """Seconds of labeling."""
    prompts: tuple[Name, ...] = ()
    """Prompts of a judge, such as `trace.en.1`."""
    judged: JudgedScores | None = None
    """Scores of the same interaction by a judge, if it was chosen for a judge."""
    counters: dict[Name, Count] = Field(default_factory=dict)
    """Counts of repairs and events while labeling, by name: dropped keys, retries, cache hits."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen for this labeler; its weight is the inverse."""
    declared: Declared | None = None
    """Declarations of metrics in `scores`, `absent` or `judged` that are not ragtide's own."""

    def encode(self) -> bytes:
        """Return the model as JSON (UTF-8), without fields that have no value, and without a probability of 1."""
        left_out = UNSAMPLED if self.sampling_probability == 1.0 else None
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude=left_out)

    def judgement(self) -> Self | None:
        """Return the judge's scores as an event, if their plain mean is unbiased; otherwise None.

        A uniform part of a cascade's sample estimates the judge's mean over all interactions. The other part, chosen
        for low scores or by segment, would bias a plain mean.
        """
        judged = self.judged
        if judged is None or not judged.uniform:
            return None
        return self.model_copy(
            update={
                "labeler": judged.labeler,
                "labeler_version": judged.labeler_version,
                "profile": judged.profile,
                "prompts": judged.prompts,
                "scores": judged.scores,
                "absent": judged.absent,
                "inclusion_probability": judged.inclusion_probability,
                "judged": None,
            }
        )
