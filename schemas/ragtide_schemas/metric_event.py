"""One metric event: the scores of one interaction by one labeler."""

from typing import Self

from pydantic import Field

from .base import Count, Dollars, Name, Probability, Seconds, Size, Tokens, UtcTime, Value, VersionedModel, WireModel
from .declared import Declared
from .metrics import MetricName


class JudgedScores(WireModel):
    """The scores by a second labeler, a judge, of an interaction that was chosen for it."""

    labeler: Name
    """Name of the labeler, such as `judge`."""
    labeler_version: Name
    """Version of the labeler."""
    profile: Name
    """Variant of the formulas."""
    prompts: tuple[Name, ...] = ()
    """Prompts it was given, such as `trace.en.1`."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """For each metric that could not be computed, why."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen; its weight is the inverse."""
    uniform: bool = False
    """Whether it is in the part of the sample that was drawn at one rate from all, whose plain mean is fair."""


class MetricEvent(VersionedModel):
    """The scores of one interaction, emitted exactly once per interaction."""

    interaction_id: Name
    """Id of the interaction that was scored."""
    entry_id: Name | None = None
    """Stream entry the interaction was read from; absent when it was scored without a stream."""
    pipeline: Name
    """The interaction's pipeline."""
    occurred_at: UtcTime
    """When the response was given."""
    labeled_at: UtcTime
    """When it was scored."""
    segments: dict[Name, Name] = Field(default_factory=dict)
    """The interaction's segments."""
    session_id: Name | None = None
    """The interaction's session."""
    turn: Count | None = None
    """Number of the answer in its session."""
    user_id: Name | None = None
    """The user that asked."""
    cluster: Name | None = None
    """The interaction's cluster."""
    run: Name | None = None
    """The interaction's run."""
    population_size: Size | None = None
    """Number of interactions in the whole run."""
    source: Name | None = None
    """The interaction's source."""
    labeler: Name
    """Name of the labeler, such as `local`."""
    labeler_version: Name
    """Version of the labeler: a new one whenever its scores may differ."""
    profile: Name
    """Which variant of the formulas was used, such as `ragbench`; profiles are never mixed in one aggregate."""
    splitter: Name | None = None
    """Which rules cut the sentences; `given` where the interaction brought its own."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """For each metric that could not be computed, why."""
    gold_scores: dict[MetricName, Value] = Field(default_factory=dict)
    """True scores of the same response, where known."""
    prompt_tokens: Tokens = 0
    """Tokens sent to a judge."""
    completion_tokens: Tokens = 0
    """Tokens a judge answered."""
    cost_usd: Dollars = 0.0
    """Price of the judge's calls in US dollars."""
    latency_s: Seconds = 0.0
    """Seconds the labeler took."""
    prompts: tuple[Name, ...] = ()
    """Prompts a judge was given, such as `trace.en.1`."""
    judged: JudgedScores | None = None
    """Scores of the same interaction by a judge, if it was chosen for one."""
    counters: dict[Name, Count] = Field(default_factory=dict)
    """Counts by name of repairs and events while labeling: dropped keys, retries, cache hits."""
    inclusion_probability: Probability = 1.0
    """Probability with which this interaction was chosen for this labeler; its weight is the inverse."""
    declared: Declared | None = None
    """Range and meaning of each metric, in `scores`, `absent` or `judged`, that is not one of ragtide's own."""

    def judgement(self) -> Self | None:
        """Return the judge's scores as an event of their own, where their plain mean is fair; else None.

        The part of a cascade's sample that was drawn at one rate from all interactions estimates what the judge would
        say of all of them. The rest, chosen for low scores or by segment, would bias a plain mean.
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
