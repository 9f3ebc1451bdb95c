"""Makes the metric event of a labeled interaction, and computes covariates from its texts. No clock, no I/O."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from ragtide_schemas import JudgedScores, MetricEvent, RagInteraction
from ragtide_schemas.interaction import usable
from ragtide_schemas.limits import COST_MAX_USD, COUNTER_MAX, COVARIATES_MAX, LATENCY_MAX_S, NAME_MAX_CHARS, TOKENS_MAX

from ..metrics.scores import outcome_scores
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


def _scores(interaction: RagInteraction) -> list[float]:
    return [document.score for document in interaction.documents if document.score is not None]


COMPUTED: Final[Mapping[str, Callable[[RagInteraction], float | None]]] = {
    "question_length": lambda interaction: len(interaction.question),
    "context_length": lambda interaction: sum(len(document.text) for document in interaction.documents),
    "documents": lambda interaction: len(interaction.documents),
    "top_score": lambda interaction: max(_scores(interaction), default=None),
    "mean_score": lambda interaction: sum(scores) / len(scores) if (scores := _scores(interaction)) else None,
}
"""Functions that return a covariate, None if the interaction has none: characters of the question, characters of all
documents, number of documents, the largest and the mean score that the retriever gave."""


def covariates_of(interaction: RagInteraction, names: Iterable[str]) -> dict[str, float] | None:
    """Return the covariates of an interaction: its own, and the computed ones of these names; None without any.

    An interaction's own number replaces a computed one of the same name. A computed number that is not finite, or
    beyond the bounds of a metric event, is left out.
    """
    found = dict(interaction.covariates or {})
    for name in names:
        if name not in found and len(found) < COVARIATES_MAX:
            number = COMPUTED[name](interaction)
            if number is not None and usable(number):
                found[name] = float(number)
    return found or None
