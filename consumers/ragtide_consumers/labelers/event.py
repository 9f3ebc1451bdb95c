"""Makes the metric event of a labeled interaction. No clock, no I/O."""

from collections.abc import Iterable
from datetime import datetime

from ragtide_schemas import JudgedScores, MetricEvent, RagInteraction
from ragtide_schemas.limits import COST_MAX_USD, COUNTER_MAX, LATENCY_MAX_S, NAME_MAX_CHARS, TOKENS_MAX

from ..metrics.outcomes import outcome_scores
from ..text.covariates import covariates_of
from .protocol import Labeler, LabelerId, Labeling, ReferenceLabeling


def metric_event(
    interaction: RagInteraction,
    asked: LabelerId,
    labeling: Labeling,
    *,
    labeled_at: datetime,
    latency_s: float,
    entry_id: str | None = None,
    covariates: Iterable[str] = (),
) -> MetricEvent:
    """Return the event of an interaction: the labeler's scores, and the outcomes that need no labeler.

    Args:
        interaction: that was labeled.
        asked: id of the labeler that was called; the labeling names another labeler if that gave the labels.
        labeling: the scores.
        labeled_at: time of labeling.
        latency_s: duration of labeling.
        entry_id: stream entry of the interaction, if it has one.
        covariates: names of covariates to compute (`text.covariates.COMPUTED`).

    Raises:
        pydantic.ValidationError: the labeling breaks the contract, such as a score that is not finite.
    """
    by = labeling.by or asked
    return MetricEvent(
        interaction_id=interaction.interaction_id,
        entry_id=entry_id,
        pipeline=interaction.pipeline,
        occurred_at=interaction.occurred_at,
        labeled_at=labeled_at,
        segments=interaction.segments,
        session_id=interaction.session_id,
        turn=interaction.turn,
        user_id=interaction.user_id,
        cluster=interaction.cluster,
        covariates=covariates_of(interaction, covariates),
        run=interaction.run,
        population_size=interaction.population_size,
        sampling_probability=interaction.sampling_probability,
        source=interaction.source,
        labeler=by.name,
        labeler_version=by.version,
        profile=by.profile,
        splitter=labeling.splitter,
        prompts=labeling.prompts,
        scores={**labeling.scores, **outcome_scores(interaction)},
        absent=labeling.absent,
        judged=None if labeling.judged is None else _judged_scores(labeling.judged),
        gold_scores=interaction.gold_scores,
        # Cap values that are too large for an event: the scores still count.
        prompt_tokens=min(labeling.prompt_tokens, TOKENS_MAX),
        completion_tokens=min(labeling.completion_tokens, TOKENS_MAX),
        cost_usd=min(labeling.cost_usd, COST_MAX_USD),
        cost_source=", ".join(sorted(labeling.cost_sources))[:NAME_MAX_CHARS] or None,
        latency_s=min(latency_s, LATENCY_MAX_S),
        counters={name: min(count, COUNTER_MAX) for name, count in labeling.counters.items()},
        declared=labeling.declared or None,
    )


def labeler_id(labeler: Labeler) -> LabelerId:
    """Return the id of a labeler."""
    return LabelerId(labeler.name, labeler.version, labeler.profile)


def _judged_scores(judged: ReferenceLabeling) -> JudgedScores:
    return JudgedScores(
        labeler=judged.by.name,
        labeler_version=judged.by.version,
        profile=judged.by.profile,
        prompts=judged.labeling.prompts,
        scores=judged.labeling.scores,
        absent=judged.labeling.absent,
        cost_usd=min(judged.labeling.cost_usd, COST_MAX_USD),
        inclusion_probability=judged.inclusion_probability,
        uniform=judged.uniform,
    )
