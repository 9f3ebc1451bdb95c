"""The built-in labeler: deterministic, no key, no download. A means of ranking, trend and triage, not a verdict.

It compares words (`overlap.py`) and turns overlaps into probabilities by three logistic functions of a few features.
The coefficients were fitted to GPT-4's labels of 200 RAGBench rows, and to answers swapped between them, by
`benchmarks/fit_local_labeler.py`, which also prints how good they are by cross-validation. Relevance uses the response
as a hint, although its definition does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p
from typing import Final

from ragtide_schemas import RagInteraction, SentenceProbabilities

from ..labeler import Labeling
from ..metrics.scores import AbsentReason
from ..metrics.trace import TRACE, all_absent, expected_trace_metrics
from ..text.languages import is_supported
from ..text.sentences import SPLITTER_ID, CutInteraction, cut
from .overlap import DocumentSentence, Overlap, ResponseSentence
from .words import content_words

Features = tuple[float, ...]

SUPPORTED: Final[Features] = (1.1606, 2.5408, 1.7636, 1.9263, -0.9326)
"""Coefficients of `support_features`: that the documents support a response sentence."""

RELEVANT: Final[Features] = (-3.8146, 0.7297, 3.3675, 2.443, -0.224, 0.6389)
"""Coefficients of `document_features`: that a document sentence is relevant to the question."""

UTILIZED: Final[Features] = (-5.7561, 0.4027, 4.375, 3.3033, 0.1236, 0.8837)
"""Coefficients of `document_features`: that the response used a document sentence."""

TOGETHERNESS: Final = 0.84
"""How much the sentences of one response stand or fall together: 0 not at all, 1 wholly."""


@dataclass(frozen=True, slots=True)
class InteractionFeatures:
    """Features of every document sentence and every response sentence, in order."""

    documents: Sequence[Features]
    response: Sequence[Features]


class LocalLabeler:
    """Predicts relevant, utilized and supported sentences by weighted word overlap, and publishes expected scores."""

    name: Final = "local"
    profile: Final = "ragbench"
    version: Final = f"1-{SPLITTER_ID}"

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the expected TRACe scores of one interaction; a language it does not know has none."""
        return self.label_now(interaction)

    def label_now(self, interaction: RagInteraction) -> Labeling:
        """Do as `label`, without an event loop."""
        if not is_supported(interaction.response):
            return Labeling(*all_absent(AbsentReason.LANGUAGE_NOT_SUPPORTED).qualified(TRACE))
        sentences = cut(interaction)
        labels = probabilities(sentences)
        scores, absent = expected_trace_metrics(labels, togetherness=TOGETHERNESS).qualified(TRACE)
        return Labeling(scores, absent, labels=(labels,), splitter=sentences.splitter)


def probabilities(sentences: CutInteraction) -> SentenceProbabilities:
    """Return the probabilities of all sentence labels of an interaction."""
    features = extract(sentences.question, sentences.documents, sentences.response)
    return SentenceProbabilities(
        relevant=tuple(_probability(RELEVANT, row) for row in features.documents),
        utilized=tuple(_probability(UTILIZED, row) for row in features.documents),
        supported=tuple(_probability(SUPPORTED, row) for row in features.response),
    )


def extract(question: str, documents: Sequence[Sequence[str]], response: Sequence[str]) -> InteractionFeatures:
    """Return the features of an interaction that is already cut into sentences.

    Args:
        question: the question.
        documents: the sentences of each document.
        response: the sentences of the response.
    """
    overlap = Overlap([content_words(sentence) for sentences in documents for sentence in sentences])
    answer = [content_words(sentence) for sentence in response]
    return InteractionFeatures(
        documents=[document_features(s) for s in overlap.document_sentences(content_words(question), answer)],
        response=[support_features(sentence) for sentence in overlap.response_sentences(answer)],
    )


def support_features(sentence: ResponseSentence) -> Features:
    """Return the features of a response sentence, the first a constant 1."""
    return 1.0, sentence.best, sentence.anywhere, sentence.pairs, log1p(sentence.n_words)


def document_features(sentence: DocumentSentence) -> Features:
    """Return the features of a document sentence, the first a constant 1."""
    return (
        1.0,
        sentence.question,
        sentence.in_response,
        sentence.of_response,
        sentence.question * sentence.of_response,
        log1p(sentence.n_words),
    )


def _probability(coefficients: Features, features: Features) -> float:
    logit = sum(coefficient * feature for coefficient, feature in zip(coefficients, features, strict=True))
    return 1 / (1 + exp(-logit))
