"""Computes scores from the labels in a file, such as files of RAGBench and RAGChecker."""

from typing import Final

from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.metrics.ragchecker import RAGCHECKER, ragchecker_metrics
from ragtide_consumers.metrics.trace import SENTENCES, TRACE, trace_metrics
from ragtide_producers import Row
from ragtide_schemas import SentenceLabels

STORED: Final = "stored"
"""Name of the labeler in metric events whose labels are from the file."""


def stored_labeling(row: Row, *, profile: str, claim_profile: str) -> Labeling:
    """Return the scores of a row, computed from its own labels.

    Raises:
        ValueError: the row has no labels.
    """
    if not row.labels:
        raise ValueError("the row has no labels: use another labeler, or give RAGBench rows or RAGChecker's outputs")
    scores: dict[str, float] = {}
    absent: dict[str, str] = {}
    profiles: list[str] = []
    for labels in row.labels:
        if isinstance(labels, SentenceLabels):
            found, family, used = trace_metrics(labels, profile=profile), TRACE, profile
        else:
            found, family, used = ragchecker_metrics(labels, profile=claim_profile), RAGCHECKER, claim_profile
        some, missing = found.by_qualified_name(family)
        scores |= some | {SENTENCES + name: count for name, count in found.counts.items()}
        absent |= missing
        profiles.append(used)
    return Labeling(scores, absent, labels=row.labels, by=LabelerId(STORED, "1", "+".join(profiles)))
