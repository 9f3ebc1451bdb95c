"""The labeler `model`: models in the worker decide which sentences are supported, relevant and similar."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from statistics import fmean
from typing import Final

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction, SentenceLabels, UnsupportedSpan
from ragtide_schemas.metric_definitions import SIMILARITY, SIMILARITY_MATCH, SIMILARITY_SUPPORT

from ...metrics.scores import AbsentReason, MetricScores, nothing_to_label
from ...metrics.trace import TRACE, all_absent, trace_metrics, withhold_support
from ...text.sentences import SPLITTER_ID, CutInteraction, cut
from ..protocol import Labeling
from .loading import LoadedModels
from .pair_classifier import PairClassifier, TooLongForModelError

SUPPORTED: Final = ("supported_without_sentence",)
"""Support of a sentence: the model does not report which document sentences support it."""

EXPECTED: Final = "ragbench"
"""Profile of expected scores."""

_TRACE_METRICS: Final = tuple(TRACE + name for name in all_absent(AbsentReason.NOT_LABELED).absent)


class ModelLabeler:
    """Scores support, relevance and similarity by models in this process; it gives no labels of utilization.

    Args:
        models: that are asked.
    """

    name: Final = "model"

    def __init__(self, settings: Settings, models: LoadedModels) -> None:
        self._settings = settings.models
        self._models = models
        self.profile = settings.profile if self._settings.publish == "labels" else EXPECTED
        self.version = f"{models.version}/model.1/{SPLITTER_ID}"
        self._labels_sentences = models.support is not None or models.relevance is not None
        trace = _TRACE_METRICS if self._labels_sentences else ()
        self.metrics = (*trace, *(metric.name for metric in SIMILARITY if models.similarity is not None))
        """Metrics of the models that are there."""

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the scores of one interaction."""
        nothing = nothing_to_label(interaction)
        if nothing is not None:
            return self._absent(nothing)
        # A long text takes seconds to split, and the other interactions go on meanwhile.
        sentences = await asyncio.to_thread(cut, interaction)
        if self._settings.languages and sentences.language not in self._settings.languages:
            return self._absent(AbsentReason.LANGUAGE_NOT_SUPPORTED)
        try:
            supported, spans = await self._supported(interaction, sentences)
            model = self._models.relevance
            documents = [sentence for document in sentences.documents for sentence in document]
            relevant = None if model is None else await model.relevance(interaction.question, documents)
            similar = await self._similar(sentences)
        except TooLongForModelError:
            return self._absent(AbsentReason.TOO_LONG)
        if not self._labels_sentences:
            return replace(similar, splitter=sentences.splitter)
        labels = self._labels(sentences, supported, relevant)
        if spans:
            labels = labels.model_copy(update={"unsupported_spans": spans})
        labeling = self._score(sentences, labels, supported, relevant)
        scores, absent = {**labeling.scores, **similar.scores}, {**labeling.absent, **similar.absent}
        return replace(labeling, scores=scores, absent=absent)

    async def aclose(self) -> None:
        """Close the models."""
        for model in (self._models.support, self._models.relevance, self._models.similarity):
            if model is not None:
                await model.aclose()

    async def _supported(
        self, interaction: RagInteraction, sentences: CutInteraction
    ) -> tuple[list[float] | None, tuple[UnsupportedSpan, ...]]:
        model = self._models.support
        if model is None:
            return None, ()
        passages = [document.text for document in interaction.documents]
        if isinstance(model, PairClassifier):
            return await model.support(passages, sentences.response), ()
        return await model.mark(interaction.question, passages, interaction.response, sentences.response)

    async def _similar(self, sentences: CutInteraction) -> Labeling:
        model = self._models.similarity
        if model is None:
            return Labeling({})
        similarities = await model.of(sentences)
        support, match = SIMILARITY_SUPPORT.name, SIMILARITY_MATCH.name
        if similarities is None:
            return Labeling({}, dict.fromkeys((support, match), str(AbsentReason.NO_DOCUMENT_SENTENCES)))
        if sentences.refuses or not similarities.response:
            reason = AbsentReason.REFUSAL if sentences.refuses else AbsentReason.NO_RESPONSE_SENTENCES
            return Labeling({match: similarities.question}, {support: str(reason)})
        return Labeling({support: fmean(similarities.response), match: similarities.question})

    def _absent(self, reason: AbsentReason) -> Labeling:
        return Labeling({}, dict.fromkeys(self.metrics, str(reason)))

    def _score(
        self,
        sentences: CutInteraction,
        labels: SentenceLabels,
        supported: list[float] | None,
        relevant: list[float] | None,
    ) -> Labeling:
        if self._settings.publish == "probabilities":
            metrics = _expected_metrics(supported, relevant)
        else:
            metrics = trace_metrics(labels, profile=self.profile)
        scores, absent = (withhold_support(metrics) if sentences.refuses else metrics).by_qualified_name(TRACE)
        reasons = {
            name: str(AbsentReason.NOT_LABELED if reason == AbsentReason.INCOMPLETE_LABELS else reason)
            for name, reason in absent.items()
        }
        return Labeling(scores, reasons, labels=(labels,), splitter=sentences.splitter)

    def _labels(
        self, sentences: CutInteraction, supported: list[float] | None, relevant: list[float] | None
    ) -> SentenceLabels:
        documents, response = sentences.document_keys, sentences.response_keys
        verdicts: dict[str, bool] = {}
        if supported is not None:
            limit = self._settings.support_threshold
            verdicts = {key: probability >= limit for key, probability in zip(response, supported, strict=True)}
        chosen: tuple[str, ...] | None = None
        if relevant is not None:
            limit = self._settings.relevance_threshold
            chosen = tuple(key for key, probability in zip(documents, relevant, strict=True) if probability >= limit)
        return SentenceLabels(
            relevant=chosen,
            utilized=None,
            support={key: SUPPORTED if yes else () for key, yes in verdicts.items()},
            fully_supported=dict(verdicts),
            n_document_sentences=len(documents),
            document_keys=documents,
            response_keys=response,
        )


def _expected_metrics(supported: Sequence[float] | None, relevant: Sequence[float] | None) -> MetricScores:
    values: dict[str, float | AbsentReason] = dict.fromkeys(
        all_absent(AbsentReason.NOT_LABELED).absent, AbsentReason.NOT_LABELED
    )
    values |= dict.fromkeys(("average", "rmse_aggregation"), AbsentReason.PART_ABSENT)
    if relevant is not None:
        values["context_relevance"] = fmean(relevant) if relevant else AbsentReason.NO_DOCUMENT_SENTENCES
    if supported is not None:
        values["adherence"] = prod(supported) if supported else AbsentReason.NO_RESPONSE_SENTENCES
        values["supported_fraction"] = fmean(supported) if supported else AbsentReason.NO_RESPONSE_SENTENCES
    return MetricScores(
        {name: value for name, value in values.items() if not isinstance(value, AbsentReason)},
        {name: value for name, value in values.items() if isinstance(value, AbsentReason)},
    )
