"""Scores of one interaction, and why one is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class AbsentReason(StrEnum):
    """Why a metric has no value."""

    NO_DOCUMENT_SENTENCES = "no_document_sentences"
    NO_RELEVANT_SENTENCES = "no_relevant_sentences"
    NO_RESPONSE_SENTENCES = "no_response_sentences"
    INCOMPLETE_LABELS = "incomplete_labels"
    PART_ABSENT = "part_absent"
    """One of the four TRACe scores it is made of is absent."""
    LANGUAGE_NOT_SUPPORTED = "language_not_supported"
    NOT_ACCURATE_ENOUGH = "not_accurate_enough"
    """The labeler was measured to be worse at it than a constant."""


@dataclass(frozen=True, slots=True)
class MetricScores:
    """Scores by metric name, and for each metric without a score why."""

    scores: Mapping[str, float]
    absent: Mapping[str, str] = field(default_factory=dict)
    dropped_keys: int = 0
    """Keys in the labels that name no sentence."""

    def qualified(self, family: str) -> tuple[dict[str, float], dict[str, str]]:
        """Return scores and reasons by qualified metric name, for the wire."""
        scores = {family + name: score for name, score in self.scores.items()}
        return scores, {family + name: reason for name, reason in self.absent.items()}
