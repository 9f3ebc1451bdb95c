"""The scores of one interaction, the reasons of absent scores, and outcomes that need no labels. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ragtide_schemas import RagInteraction
from ragtide_schemas.metric_definitions import EMPTY_RESPONSE, EMPTY_RETRIEVAL, RETRIEVAL_DOCUMENTS, USAGE

from ..text.reasoning import answer_of


class AbsentReason(StrEnum):
    """Reason why a metric has no value."""

    NOTHING_RETRIEVED = "nothing_retrieved"
    """The retriever returned no document; `retrieval.empty` counts it."""
    NO_RESPONSE = "no_response"
    """The pipeline gave no response; `response.empty` counts it."""
    NO_DOCUMENT_SENTENCES = "no_document_sentences"
    NO_RELEVANT_SENTENCES = "no_relevant_sentences"
    NO_RESPONSE_SENTENCES = "no_response_sentences"
    NO_USED_SENTENCES = "no_used_sentences"
    """The response used no document sentence."""
    NOT_REACHED = "not_reached"
    """No document of the step reached the generator, so none of its sentences has a label."""
    POOL_UNKNOWN = "pool_unknown"
    """The interaction does not state how many documents each retriever returned, or how many of them another returned,
    too."""
    NO_EVIDENCE = "no_evidence"
    """No call of the tool looked for documents and came back."""
    NOT_FIRST_ROUND = "not_first_round"
    """No call of the tool in the first round looked for documents."""
    ARGUMENTS_UNKNOWN = "arguments_unknown"
    """A call of the tool states neither a query nor arguments."""
    LATENCY_UNKNOWN = "latency_unknown"
    """No call of the tool states its seconds."""
    ROUNDS_UNKNOWN = "rounds_unknown"
    """A call does not state its round."""
    CALLS_CUT = "calls_cut"
    """The run has more calls than an interaction may state."""
    NEVER_SUFFICIENT = "never_sufficient"
    """The documents do not support the whole response, so the evidence sufficed after no round."""
    INCOMPLETE_LABELS = "incomplete_labels"
    NO_QUESTION_WORDS = "no_question_words"
    """The question has no content words, such as "And why is that?", and neither has the one before it."""
    NO_REFERENCE_ANSWER = "no_reference_answer"
    NO_REFERENCE_CLAIMS = "no_reference_claims"
    NO_RESPONSE_CLAIMS = "no_response_claims"
    REFUSAL = "refusal"
    """The response refuses and claims nothing, so nothing in it can be supported or unsupported."""
    NO_DOCUMENTS = "no_documents"
    NOTHING_RECALLED = "nothing_recalled"
    """No document entails any claim of the reference answer."""
    PART_ABSENT = "part_absent"
    """The metric is made of four TRACe scores, and at least one of them is absent."""
    LANGUAGE_NOT_SUPPORTED = "language_not_supported"
    NOT_ACCURATE_ENOUGH = "not_accurate_enough"
    """By measurement, the labeler is worse at this metric than a constant."""
    PROXY_OUTDATED = "proxy_outdated"
    """The proxy of the criterion was fitted to the judge's answers to another question."""
    JUDGE_REFUSED = "judge_refused"
    """The judge, or its endpoint, refused to label this content."""
    NOT_REDACTED = "not_redacted"
    """The texts could not be redacted, so the judge did not read them."""
    JUDGE_UNUSABLE = "judge_unusable"
    """The judge gave no usable answer, although later prompts named the faults."""
    JUDGE_CANNOT_TELL = "judge_cannot_tell"
    """The judge answered that the texts do not decide a criterion."""
    NO_CALLS = "no_calls"
    """The criterion needs the calls of a run, and the interaction has none."""
    NO_HISTORY = "no_history"
    """The criterion needs earlier turns, and the interaction has none."""
    JUDGE_UNAVAILABLE = "judge_unavailable"
    """The judge, or another reference of a cascade, could not be called for this interaction."""
    OVER_BUDGET = "over_budget"
    """A spend limit was reached before this interaction was labeled."""
    SERVICE_REFUSED = "service_refused"
    """The HTTP service of the labeler refused this content."""
    SERVICE_UNUSABLE = "service_unusable"
    """The HTTP service of the labeler answered other interactions, and gave no usable reply for this one."""
    NOT_LABELED = "not_labeled"
    """The labeler does not give the labels that the metric needs."""
    UNDEFINED = "undefined"
    """A custom metric has no value for this interaction."""
    CONTEXT_TOO_LONG = "context_too_long"
    """A single sentence or document is longer than the judge's model takes."""
    TOO_LONG = "too_long"
    """Response and documents exceed the limit of the labeler."""
    METRIC_FAILED = "metric_failed"
    """A custom metric raised an error or left its range; the worker's log names it."""


_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Absent:
    """The reason why a custom metric has no value for an interaction; its function returns it.

    >>> Absent("no_citations")
    Absent(reason='no_citations')
    """

    reason: str
    """Lower case with underscores; an `AbsentReason` if one fits."""

    def __post_init__(self) -> None:
        """Check the reason.

        Raises: ValueError if it is no word.
        """
        if not _REASON.fullmatch(self.reason):
            raise ValueError(
                f"reason is {str(self.reason)[:80]!r}: give lower-case letters, digits and underscores, 64 at most, "
                "such as no_citations"
            )


@dataclass(frozen=True, slots=True)
class MetricScores:
    """Scores by metric name, and the reason for each metric without a score."""

    scores: Mapping[str, float]
    absent: Mapping[str, str] = field(default_factory=dict)
    dropped_keys: int = 0
    """Keys in the labels that name no sentence."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Numbers of response sentences: `fully_supported`, `partially_supported`, `unsupported`; empty if unknown."""
    defects: Sequence[str] = ()
    """Laws that the scores break, in words: a defect of the labeler or of the formulas."""

    def by_qualified_name(self, family: str) -> tuple[dict[str, float], dict[str, str]]:
        """Return scores and reasons by qualified metric name, for the wire.

        Args:
            family: first part of the names, such as `trace`.
        """
        scores = {family + name: score for name, score in self.scores.items()}
        return scores, {family + name: reason for name, reason in self.absent.items()}


def outcome_scores(interaction: RagInteraction) -> dict[str, float]:
    """Return the metrics that need no labels, whichever labeler scored the interaction.

    They are 1 for an empty outcome, else 0, the number of documents, and each number of the usage that was given. A
    number beyond the range of its metric counts as the end of the range; `usage_clipped` counts such numbers.
    """
    scores = {
        EMPTY_RETRIEVAL.name: float(interaction.nothing_retrieved),
        EMPTY_RESPONSE.name: float(has_no_answer(interaction)),
        RETRIEVAL_DOCUMENTS.name: float(len(interaction.documents)),
    }
    for kind, number in given_usage(interaction).items():
        scores[USAGE[kind].name] = min(float(number), USAGE[kind].upper)
    return scores


def given_usage(interaction: RagInteraction) -> dict[str, float]:
    """Return the numbers of an interaction's usage that were given, by field."""
    usage = interaction.usage
    if usage is None:
        return {}
    return {field: number for field in USAGE if (number := getattr(usage, field)) is not None}


def usage_clipped(interaction: RagInteraction) -> int:
    """Return how many numbers of an interaction's usage lie beyond the range of their metric."""
    return sum(number > USAGE[field].upper for field, number in given_usage(interaction).items())


def nothing_to_label(interaction: RagInteraction) -> AbsentReason | None:
    """Return why an interaction is not labeled; None if it has documents and a response.

    Without documents no response can adhere to them. Without a response the labelers miss a hint about relevance, so
    even the metrics of retrieval would not be comparable with other interactions. If both are missing, the reason is
    retrieval, which failed first.
    """
    if interaction.nothing_retrieved:
        return AbsentReason.NOTHING_RETRIEVED
    return AbsentReason.NO_RESPONSE if has_no_answer(interaction) else None


def has_no_answer(interaction: RagInteraction) -> bool:
    """Return whether the response is empty, or has nothing but the reasoning of its model."""
    return not answer_of(interaction.response).strip()
