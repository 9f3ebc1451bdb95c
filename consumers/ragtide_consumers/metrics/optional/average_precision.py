"""Average precision of the retrieved documents: it is high if relevant documents come first. Pure.

Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), section 8.4. The value measures
only the order of the retrieved documents, because relevant documents that were not retrieved are unknown.
"""

import re
from collections.abc import Sequence

from ragtide_schemas import Direction, Kind, Labels, MetricDefinition, RagInteraction, SentenceLabels

from ...text.keys import normalize_keys
from ..custom import CustomMetric
from ..scores import AbsentReason, nothing_to_label

_DOCUMENT = re.compile(r"(\d{1,9})[a-z]+")


def average_precision(relevant: Sequence[bool]) -> float | None:
    """Return the mean, over the relevant documents, of the precision at their ranks; None without a relevant document.

    Args:
        relevant: for each retrieved document, in order of rank, whether it is relevant.

    >>> average_precision([True, False, True])
    0.8333333333333333
    """
    ranks = [rank for rank, is_relevant in enumerate(relevant, start=1) if is_relevant]
    return sum(count / rank for count, rank in enumerate(ranks, start=1)) / len(ranks) if ranks else None


def score_documents(interaction: RagInteraction, labels: Sequence[Labels]) -> float | AbsentReason:
    """Return the average precision of an interaction's documents; a document is relevant if a sentence of it is."""
    nothing = nothing_to_label(interaction)
    if nothing is not None:
        return nothing
    sentence_labels = next((item for item in labels if isinstance(item, SentenceLabels)), None)
    if sentence_labels is None:
        return AbsentReason.NOT_LABELED
    if sentence_labels.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    known = None if sentence_labels.document_keys is None else frozenset(normalize_keys(sentence_labels.document_keys))
    keys = [key for key in normalize_keys(sentence_labels.relevant) if known is None or key in known]
    documents = {int(match[1]) for key in keys if (match := _DOCUMENT.fullmatch(key)) is not None}
    value = average_precision([index in documents for index in range(len(interaction.documents))])
    return AbsentReason.NO_RELEVANT_SENTENCES if value is None else value


METRIC = CustomMetric(
    MetricDefinition(
        name="retrieval.average_precision",
        lower=0.0,
        upper=1.0,
        direction=Direction.HIGHER,
        kind=Kind.ALGEBRAIC,
        meaning="Whether the relevant documents come first among the retrieved ones.",
        source="Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), section 8.4",
        definition="mean over relevant documents of relevant documents up to its rank / rank",
        needs=("relevance of document sentences", "a relevant document"),
        does_not_tell="Whether relevant documents are missing: only retrieved documents count.",
        related=("trace.context_relevance", "ragchecker.claim_recall"),
    ),
    score_documents,
)
