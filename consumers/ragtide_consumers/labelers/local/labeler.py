"""The labeler `local`: deterministic, without key and download. It is for ranking, trend and triage, not for verdicts.

It compares words (`words.py`, `overlap.py`), describes every sentence by a few numbers (`features.py`) and
turns these into probabilities by a fitted model (`model.py`). `benchmarks/fit_local_labeler.py` fits the model and
prints its accuracy.
Relevance uses the response as a hint, although its definition does not. `retrieval.match` compares question and
documents alone.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple, Protocol

from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_definitions import MATCH

from ...metrics.scores import AbsentReason, MetricScores, nothing_to_label
from ...metrics.trace import (
    TOGETHERNESS,
    TRACE,
    all_absent,
    expected_trace_metrics,
    withhold_relevance,
    withhold_support,
)
from ...text.languages import evident_by_words, language_of
from ...text.letters import plain_letters
from ...text.reasoning import without_thoughts
from ...text.sentences import HEAVY_CHARS, SPLITTER_ID, CutInteraction, characters, cut
from ..protocol import Labeling
from .correction_file import LoadedCorrection
from .criterion_proxies import CriterionProxy, criterion_scores, proxy_inputs
from .features import InteractionFeatures, extract
from .model import shipped_model
from .overlap import TooManyMatchesError

SHIPPED_VERSION: Final = f"6-{SPLITTER_ID}"
"""Version of the labeler with the shipped model alone."""

LANGUAGES: Final = {
    "en": "English", "ru": "Russian", "ar": "Arabic", "de": "German", "el": "Greek", "es": "Spanish", "fa": "Persian",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "sv": "Swedish", "th": "Thai",
    "tr": "Turkish", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""Names of the languages that the labeler scores, by ISO 639-1 code: those that `benchmarks/languages.py` measured and
that passed its bar."""

SAMPLE_DOCUMENTS: Final = 3
SAMPLE_SENTENCES: Final = 3
SAMPLE_CHARS: Final = 120
"""Documents, their first sentences and the characters of these that decide the language of the context."""


class Similarity(Protocol):
    """A sentence encoder, whose similarities are inputs of a correction."""

    async def inputs(self, sentences: CutInteraction) -> Sequence[float] | None:
        """Return `similarity.support` and `similarity.match` of an interaction; None if it is too long."""

    async def aclose(self) -> None:
        """Close the encoder."""


class LocalLabeler:
    """Predicts relevant, utilized and supported sentences by weighted word overlap, and publishes expected scores.

    Args:
        fitted: correction that `ragtide fit` fitted to a deployment's own interactions; None for the shipped model.
        similarity: the encoder that the correction needs, if any; `label_now` then needs its similarities.
        criteria: questions that a judge is asked; those for which the correction has a proxy are scored.
    """

    name: Final = "local"
    profile: Final = "ragbench"
    version: str = SHIPPED_VERSION

    def __init__(
        self,
        fitted: LoadedCorrection | None = None,
        similarity: Similarity | None = None,
        criteria: Sequence[Criterion] = (),
    ) -> None:
        self._correction = None if fitted is None else fitted.correction
        self._proxies: Mapping[str, CriterionProxy] = {} if fitted is None else fitted.proxies
        self._similarity = similarity
        self._criteria = tuple(criteria)
        if fitted is not None:
            self.version = f"{SHIPPED_VERSION}-{fitted.version}"

    def take_criteria(self, criteria: Sequence[Criterion]) -> None:
        """Score these criteria from the next interaction on, as far as they have a proxy.

        Args:
            criteria: in place of those before.
        """
        self._criteria = tuple(criteria)

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the expected TRACe scores of one interaction, and those of criteria that have a proxy.

        All metrics are absent in an unknown language, without documents, and if response and documents share more words
        than are compared (`MOST_MATCHES`). Without a response there is `retrieval.match` alone. It is absent, as is
        relevance, if the question is in another language than the documents.

        Args:
            interaction: to score.
        """
        similar: Sequence[float] | None = ()
        if self._similarity is not None and nothing_to_label(interaction) is None:
            similar = await self._similarity.inputs(await asyncio.to_thread(cut, interaction))
        if similar is None:
            too_long = Labeling(*all_absent(AbsentReason.TOO_LONG).by_qualified_name(TRACE))
            return self._add_criteria(interaction, _Scored(too_long, AbsentReason.TOO_LONG), ())
        if characters(interaction) <= HEAVY_CHARS:
            return self.label_now(interaction, similar)
        label = partial(self.label_now, interaction, similar)
        return await asyncio.get_running_loop().run_in_executor(self._thread(os.getpid()), label)

    async def aclose(self) -> None:
        """Close the encoder if there is one."""
        if self._similarity is not None:
            await self._similarity.aclose()

    @staticmethod
    @cache
    def _thread(process: int) -> ThreadPoolExecutor:
        """Return the thread for heavy interactions of a process; a forked child has not the thread of its parent.

        A thread is enough: Python lets the event loop run every few milliseconds, and the work is bounded. There is
        only one thread, so that heavy interactions wait for each other and not the event loop for all of them.
        """
        return ThreadPoolExecutor(1, "ragtide-local-labeler")

    def label_now(self, interaction: RagInteraction, similarity: Sequence[float] = ()) -> Labeling:
        """Do as `label`, without an event loop.

        Args:
            interaction: to label.
            similarity: of the interaction, if the correction needs it.
        """
        interaction = without_thoughts(interaction)
        return self._add_criteria(interaction, self._score(interaction, similarity), similarity)

    def _score(self, interaction: RagInteraction, similarity: Sequence[float]) -> "_Scored":
        nothing = nothing_to_label(interaction)
        if interaction.nothing_retrieved:
            return _absent(AbsentReason.NOTHING_RETRIEVED)
        sentences = cut(interaction)
        if not _is_supported(sentences):
            return _absent(nothing or AbsentReason.LANGUAGE_NOT_SUPPORTED)
        try:
            features = features_of(sentences)
        except TooManyMatchesError:
            return _absent(AbsentReason.TOO_LONG)
        match = _match(sentences, features)
        if nothing is not None:
            return _Scored(Labeling(*_published(all_absent(nothing), match)), nothing)
        shipped = shipped_model().predict(features)
        labels = shipped if self._correction is None else self._correction.applied(features, shipped, similarity)
        expected = expected_trace_metrics(labels, togetherness=TOGETHERNESS, completeness=False)
        if match is AbsentReason.LANGUAGE_NOT_SUPPORTED:
            expected = withhold_relevance(expected, match)
        published = _published(withhold_support(expected) if sentences.refuses else expected, match)
        labeling = Labeling(*published, labels=(labels,), splitter=sentences.splitter)
        if not shipped.relevant:
            return _Scored(labeling, AbsentReason.NO_DOCUMENT_SENTENCES)
        return _Scored(labeling, proxy_inputs(interaction, sentences, features, shipped) if self._proxies else ())

    def _add_criteria(self, interaction: RagInteraction, scored: "_Scored", similarity: Sequence[float]) -> Labeling:
        """Return the labeling with the scores of the criteria that have a proxy."""
        labeling, inputs = scored
        if not (self._proxies and self._criteria):
            return labeling
        if not isinstance(inputs, AbsentReason):
            inputs = (*inputs, *similarity)
        criteria = criterion_scores(self._proxies, self._criteria, interaction, inputs)
        return replace(
            labeling,
            scores={**labeling.scores, **criteria.scores},
            absent={**labeling.absent, **criteria.absent},
            declared={criterion.metric: criterion.declaration() for criterion in criteria.criteria},
        )


class _Scored(NamedTuple):
    """The labeling of an interaction without criteria, and the inputs of proxies or the reason why there are none."""

    labeling: Labeling
    inputs: Sequence[float] | AbsentReason


def features_of(sentences: CutInteraction) -> InteractionFeatures:
    """Return the features of an interaction, of sentences without the marks of their form.

    Raises:
        TooManyMatchesError: response and documents share more words than are compared.
    """
    documents, response = sentences.plain_documents, sentences.plain_response
    return extract(
        plain_letters(sentences.question), documents, response, sentences.language, earlier=sentences.earlier
    )


def _absent(reason: AbsentReason) -> _Scored:
    return _Scored(Labeling(*_published(all_absent(reason), reason)), reason)


def _published(metrics: MetricScores, match: float | AbsentReason) -> tuple[dict[str, float], dict[str, str]]:
    """Return scores and reasons of absence by qualified name."""
    scores, absent = metrics.by_qualified_name(TRACE)
    if isinstance(match, AbsentReason):
        absent[MATCH.name] = match
    else:
        scores[MATCH.name] = match
    return scores, absent


def _match(sentences: CutInteraction, features: InteractionFeatures) -> float | AbsentReason:
    """Return `retrieval.match`, or why it is absent: a question in another language shares no words with documents."""
    question, language = sentences.question, sentences.language
    if evident_by_words(question) != language and language_of(question, context=_beginnings(sentences)) != language:
        return AbsentReason.LANGUAGE_NOT_SUPPORTED
    return AbsentReason.NO_QUESTION_WORDS if features.match is None else features.match


def _is_supported(sentences: CutInteraction) -> bool:
    """Return whether the labeler knows the response's language, and the documents are in the same language.

    Two languages share no words, so a correct response in another language than its documents would score 0.
    """
    if sentences.language not in LANGUAGES:
        return False
    return language_of(" ".join(_beginnings(sentences)), context=sentences.plain_response[:1]) == sentences.language


def _beginnings(sentences: CutInteraction) -> list[str]:
    documents = [document for document in sentences.plain_documents[:SAMPLE_DOCUMENTS] if document]
    return [" ".join(document[:SAMPLE_SENTENCES])[:SAMPLE_CHARS] for document in documents]
