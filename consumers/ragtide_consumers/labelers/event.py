"""Makes the metric event of a labeled interaction, and computes covariates from its texts. No clock, no I/O."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from ragtide_schemas import EvaluatorScores, JudgedScores, MetricDeclaration, MetricEvent, RagInteraction
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.drawn import PROVENANCE, drawn_of
from ragtide_schemas.interaction import usable
from ragtide_schemas.limits import (
    COST_MAX_USD,
    COUNTER_MAX,
    COVARIATES_MAX,
    LATENCY_MAX_S,
    NAME_MAX_CHARS,
    PROBABILITY_MIN,
    TOKENS_MAX,
)

from ..metrics.scores import outcome_scores, usage_clipped
from ..metrics.steps import StepScores, step_scores
from .protocol import EvaluatorLabeling, Labeler, LabelerId, Labeling, ReferenceLabeling

USAGE_CLIPPED: Final = "usage_clipped"
"""Counter of an event: numbers of the answer's usage beyond the range of their metric."""

METRICS_LEFT_OUT: Final = "metrics_left_out"
"""Counter of an event: metrics without a score, because an event declares at most `DECLARED_MAX` metrics."""

T = TypeVar("T")


_ONLY_OF_ANSWERS: Final[Mapping[str, object]] = {
    "population_size": None, "covariates": None, "usage": None, "steps": None, "gold_scores": {},
}  # fmt: skip
"""Fields that a session's event does not have, with the values in their place."""


def metric_event(
    interaction: RagInteraction,
    called: LabelerId,
    labeling: Labeling,
    *,
    labeled_at: datetime,
    latency_s: float,
    entry_id: str | None = None,
    covariates: Iterable[str] = (),
) -> MetricEvent:
    """Return the event of an interaction: the labeler's scores, those of its steps, and outcomes that need no labeler.

    Args:
        interaction: that was labeled.
        called: id of the labeler that was called; the labeling names another labeler if that gave the labels.
        labeling: the scores.
        labeled_at: time of labeling.
        latency_s: duration of labeling.
        entry_id: stream entry of the interaction, if it has one.
        covariates: names of covariates to compute, of `COMPUTED`.

    Raises:
        pydantic.ValidationError: the labeling breaks the contract, such as a score that is not finite.
    """
    by = labeling.by or called
    outcomes: Mapping[str, float] = {}
    if interaction.unit is None:
        outcomes = outcome_scores(interaction)
    else:  # a session is no interaction of the traffic: it has no outcome, usage, steps and covariates
        interaction, covariates = interaction.model_copy(update=_ONLY_OF_ANSWERS), ()
    steps = step_scores(interaction, labeling.labels, labeling.absent)
    bound = _CappedDeclarations.of(labeling, steps)
    beside = [_evaluator_scores(interaction, part) for part in labeling.beside]
    fields = _shared_fields(by, labeling, steps, bound, 1.0)
    fields["scores"] = {**fields["scores"], **outcomes}
    fields["labeled_at"], fields["latency_s"] = labeled_at, min(latency_s, LATENCY_MAX_S)
    if entry_id is not None:
        fields["entry_id"] = entry_id
    if labeling.splitter is not None:
        fields["splitter"] = labeling.splitter
    if covariates:  # else the interaction's own are shared
        fields["covariates"] = covariates_of(interaction, covariates)
    if PROVENANCE in interaction.metadata and interaction.unit is None:
        fields["drawn"] = drawn_of(interaction.metadata)
    if labeling.judged is not None:
        fields["judged"] = _judged_scores(interaction, labeling.judged, bound)
    if labeling.prompt_tokens or labeling.completion_tokens or labeling.cost_sources:
        fields |= _calls(labeling)
    left_out = len(bound.dropped)
    if beside:
        fields["beside"] = tuple(scores for scores, _ in beside)
        left_out += sum(dropped for _, dropped in beside)
    if bound.declared:
        fields["declared"] = bound.declared
    if labeling.counters or left_out or interaction.usage is not None:
        fields["counters"] = _counters(labeling, usage_clipped(interaction), left_out)
    return MetricEvent.of_shared(interaction, fields)


def _calls(labeling: Labeling) -> dict[str, Any]:
    return {
        # Cap values that are too large for an event: the scores still count.
        "prompt_tokens": min(labeling.prompt_tokens, TOKENS_MAX),
        "completion_tokens": min(labeling.completion_tokens, TOKENS_MAX),
        "cost_source": ", ".join(sorted(labeling.cost_sources))[:NAME_MAX_CHARS] or None,
    }


def _counters(labeling: Labeling, clipped: int, left_out: int) -> dict[str, int]:
    counters = {name: min(count, COUNTER_MAX) for name, count in labeling.counters.items()}
    if clipped:
        counters[USAGE_CLIPPED] = clipped
    if left_out:
        counters[METRICS_LEFT_OUT] = left_out
    return counters


@dataclass(frozen=True, slots=True)
class _CappedDeclarations:
    """The declarations of a part of an event, at most `DECLARED_MAX`, and the metrics that are left out for that."""

    declared: Mapping[str, MetricDeclaration]
    dropped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, labeling: Labeling, steps: StepScores) -> "_CappedDeclarations":
        """Return those of a labeling. Those of steps are left out first, then the last ones by name."""
        if not labeling.declared and not steps.declared:
            return _NOTHING_DECLARED
        if len(labeling.declared) + len(steps.declared) <= DECLARED_MAX:
            return cls({**labeling.declared, **steps.declared})
        # By name, so that the same metrics are left out of each event.
        whole = {**dict(sorted(labeling.declared.items())), **steps.declared}
        names = list(whole)
        return cls({name: whole[name] for name in names[:DECLARED_MAX]}, frozenset(names[DECLARED_MAX:]))

    def kept(self, values: Mapping[str, T]) -> Mapping[str, T]:
        """Return the values of metrics that are not left out."""
        return (
            values if not self.dropped else {name: value for name, value in values.items() if name not in self.dropped}
        )


_NOTHING_DECLARED: Final = _CappedDeclarations({})


def _evaluator_scores(interaction: RagInteraction, part: EvaluatorLabeling) -> tuple[EvaluatorScores, int]:
    labeling = part.labeling
    steps = step_scores(interaction, labeling.labels, labeling.absent)
    bound = _CappedDeclarations.of(labeling, steps)
    scores = EvaluatorScores(
        **_shared_fields(part.by, labeling, steps, bound, part.inclusion_probability),
        splitter=labeling.splitter,
        judged=None if labeling.judged is None else _judged_scores(interaction, labeling.judged, bound),
        inclusion_probability=max(part.inclusion_probability, PROBABILITY_MIN),
        of_all=part.of_all,
        declared=bound.declared or None,
    )
    return scores, len(bound.dropped)


def labeler_id(labeler: Labeler) -> LabelerId:
    """Return the id of a labeler."""
    return LabelerId(labeler.name, labeler.version, labeler.profile)


def labeling_failed(labeler: str, deliveries: int, error: str) -> str:
    """Return the sentence of a dead letter about an interaction that a labeler could not label.

    Args:
        deliveries: number of tries.
        error: the last error.
    """
    return (
        f"labeler {labeler} failed at all {deliveries} deliveries, last with {error}: correct the cause, then retry it"
    )


def _judged_scores(interaction: RagInteraction, judged: ReferenceLabeling, bound: _CappedDeclarations) -> JudgedScores:
    steps = step_scores(interaction, judged.labeling.labels, judged.labeling.absent)
    return JudgedScores(
        **_shared_fields(judged.by, judged.labeling, steps, bound, judged.inclusion_probability),
        inclusion_probability=judged.inclusion_probability,
        uniform=judged.uniform_probability is not None,
        uniform_probability=judged.uniform_probability,
    )


def _shared_fields(
    by: LabelerId, labeling: Labeling, steps: StepScores, bound: _CappedDeclarations, probability: float
) -> dict[str, Any]:
    """Return the fields of an event's part that every labeler fills in."""
    scores, absent = labeling.scores, labeling.absent
    if steps.declared:
        scores, absent = {**scores, **steps.scores}, {**absent, **steps.absent}
    fields: dict[str, Any] = {
        "labeler": by.name,
        "labeler_version": by.version,
        "profile": by.profile,
        "scores": bound.kept(scores),
        "cost_usd": min(labeling.cost_usd, COST_MAX_USD),
    }
    if labeling.prompts:
        fields["prompts"] = labeling.prompts
    if absent:
        fields["absent"] = bound.kept(absent)
    if rates := bound.kept(labeling.rates):
        fields["inclusion"] = {name: max(probability * rate, PROBABILITY_MIN) for name, rate in rates.items()}
    return fields


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
    covariates = dict(interaction.covariates or {})
    for name in names:
        if name not in covariates and len(covariates) < COVARIATES_MAX:
            number = COMPUTED[name](interaction)
            if number is not None and usable(number):
                covariates[name] = float(number)
    return covariates or None
