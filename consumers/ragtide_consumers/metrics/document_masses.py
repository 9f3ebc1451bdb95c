"""How many sentences of each document a labeler calls relevant or used. Pure."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from ragtide_schemas import Labels, RagInteraction, SentenceLabels, SentenceProbabilities

from ..text.keys import normalize_keys
from ..text.sentences import sentence_counts
from .scores import AbsentReason

_DOCUMENT: Final = re.compile(r"(\d{1,9})[a-z]+")


class DocumentMasses(NamedTuple):
    """Sentences of each document, by its index: those that are relevant or used as counts, or as expected counts."""

    n: Sequence[int]
    relevant: Sequence[float] | None
    """None if the labeler gave no labels of relevance."""
    used: Sequence[float] | None
    """None if it gave no labels of use."""


def sentence_labels(labels: Sequence[Labels]) -> SentenceLabels | SentenceProbabilities | None:
    """Return the first labels of sentences; None without any."""
    return next((item for item in labels if isinstance(item, SentenceLabels | SentenceProbabilities)), None)


def document_masses(
    interaction: RagInteraction,
    labels: Sequence[Labels],
    combine: Callable[[Sequence[float]], float] = sum,
) -> DocumentMasses | AbsentReason:
    """Return the sentences of each document, of the first labels of sentences.

    Args:
        combine: makes one number of the probabilities of a document's sentences.
    """
    first = sentence_labels(labels)
    if first is None:
        return AbsentReason.NOT_LABELED
    if isinstance(first, SentenceLabels):
        return _masses_by_keys(interaction, first)
    counts = sentence_counts(interaction)
    if sum(counts) != len(first.relevant):
        return AbsentReason.INCOMPLETE_LABELS
    relevant, used = (_by_document(counts, values, combine) for values in (first.relevant, first.utilized))
    return DocumentMasses(counts, relevant, used)


def _masses_by_keys(interaction: RagInteraction, labels: SentenceLabels) -> DocumentMasses | AbsentReason:
    n_documents = len(interaction.documents)
    if labels.document_keys is None:
        counts, known = sentence_counts(interaction), None
    else:
        known = frozenset(normalize_keys(labels.document_keys))
        counts = [round(count) for count in _counts_by_document(known, n_documents)]
    if sum(counts) != labels.n_document_sentences:
        return AbsentReason.INCOMPLETE_LABELS

    def named(keys: Sequence[str] | None) -> Sequence[float] | None:
        if keys is None:
            return None
        return _counts_by_document([key for key in normalize_keys(keys) if known is None or key in known], n_documents)

    return DocumentMasses(counts, named(labels.relevant), named(labels.utilized))


def _counts_by_document(keys: Collection[str], n_documents: int) -> list[float]:
    counts = [0.0] * n_documents
    for key in keys:
        match = _DOCUMENT.fullmatch(key)
        if match is not None and int(match[1]) < n_documents:
            counts[int(match[1])] += 1
    return counts


def _by_document(
    counts: Sequence[int], values: Sequence[float], combine: Callable[[Sequence[float]], float]
) -> list[float]:
    combined, start = [], 0
    for count in counts:
        combined.append(combine(values[start : start + count]) if count else 0.0)
        start += count
    return combined
