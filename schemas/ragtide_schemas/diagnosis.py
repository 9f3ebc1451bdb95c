"""Diagnosis: patterns of scores with their usual cause, evidence and advice. Pure.

A pattern is a conjunction of good and poor metrics, by their bands. It suggests where to look first, and is no proof.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from .metric_definitions import METRICS
from .metrics import MetricDefinition, Pattern, Quality

DIAGNOSED_N: Final = 30
"""Fewest values of each mean in a diagnosis: advice from fewer would often be wrong."""

NO_ENDS: Final[Mapping[str, tuple[float | None, float | None]]] = {}
"""Of scores without intervals."""

_GOOD: Final = ("good", "excellent")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A pattern that matches some scores."""

    pattern: Pattern
    evidence: Mapping[str, float]
    """The scores of the pattern, by qualified metric name."""
    certain: bool
    """Whether the whole interval of each score matches; True for a single interaction, which has no intervals."""

    def sentence(self) -> str:
        """Return the diagnosis in words: the cause, the scores, and the advice.

        >>> diagnosis = diagnose({"trace.context_relevance": 0.5, "trace.context_utilization": 0.05})[0]
        >>> print(diagnosis.sentence().partition(":")[0])
        The generator ignores good context (context_relevance 0.50, context_utilization 0.05)
        """
        scores = ", ".join(f"{name.rpartition('.')[2]} {score:.2f}" for name, score in self.evidence.items())
        hedge = "" if self.certain else "Perhaps: "
        meaning = self.pattern.meaning if self.certain else self.pattern.meaning[0].lower() + self.pattern.meaning[1:]
        return f"{hedge}{meaning} ({scores}): {self.pattern.advice}."


PATTERNS: Final = (
    Pattern(
        "pipeline_poor",
        {
            "trace.context_relevance": "poor",
            "trace.context_utilization": "poor",
            "trace.completeness": "poor",
            "trace.adherence": "poor",
        },
        "All four are poor",
        "look at the pipeline as a whole, such as the index, the language and whether these questions are meant for it",
    ),
    *(pattern for metric in METRICS.values() for pattern in metric.patterns),
    Pattern(
        "context_ignored",
        {"trace.context_relevance": "good", "trace.context_utilization": "poor"},
        "The generator ignores good context",
        "make the prompt ask for answers from the documents, put the best documents first, or pass fewer of them",
    ),
    Pattern(
        "too_conservative",
        {"trace.completeness": "poor", "trace.adherence": "good"},
        "The generator is too conservative",
        "ask for complete answers, and look whether it refuses or summarizes where it could answer",
    ),
    Pattern(
        "unsupported_answers",
        {"trace.context_relevance": "good", "trace.adherence": "poor"},
        "The documents are relevant, and the answers go beyond them",
        "restrict the prompt to the documents, lower the temperature, or try a model that keeps to its context",
    ),
    Pattern(
        "detached_answers",
        {"trace.context_utilization": "poor", "trace.adherence": "poor"},
        "The answers have nothing to do with the documents",
        "look whether question, documents and answer belong together, and whether the generator gets the documents",
    ),
    Pattern(
        "detached_from_right_documents",
        {"retrieval.match": "good", "trace.context_utilization": "poor", "trace.adherence": "poor"},
        "The documents are about the questions, and the answers have nothing to do with them",
        "look whether the generator gets the documents, and whether a cache or a queue mixes up answers",
    ),
    Pattern(
        "wrong_documents",
        {"retrieval.match": "poor", "trace.context_relevance": "poor"},
        "The documents are not about the questions",
        "look at the retriever: its index, filters, language and embedding model, and what was changed last",
    ),
    Pattern(
        "answers_from_wrong_documents",
        {"retrieval.match": "poor", "trace.context_relevance": "poor", "trace.adherence": "good"},
        "The documents are not about the questions, and the answers are taken from them",
        "look at the retriever: its index, filters, language and embedding model, and what was changed last",
    ),
    # A labeler that takes the answer as a hint for relevance would find it poor for a detached answer too.
    Pattern(
        "irrelevant_context",
        {"trace.context_relevance": "poor", "trace.adherence": "good"},
        "Most of what is retrieved has nothing to do with the question",
        "return fewer or smaller chunks, rerank them, or look at how questions are turned into queries",
    ),
    Pattern(
        "making_things_up",
        {"ragchecker.precision": "poor", "ragchecker.hallucination": "poor"},
        "Wrong claims are made up by the generator",
        "restrict the prompt to the documents, lower the temperature, or let it say that it does not know",
    ),
    Pattern(
        "misled_by_relevant_documents",
        {"ragchecker.precision": "poor", "ragchecker.noise_sensitivity_in_relevant": "poor"},
        "Wrong claims come from documents that are relevant",
        "use smaller chunks, or a generator that separates the point of a document from its noise",
    ),
    Pattern(
        "misled_by_irrelevant_documents",
        {"ragchecker.precision": "poor", "ragchecker.noise_sensitivity_in_irrelevant": "poor"},
        "Wrong claims come from documents that are not relevant",
        "return fewer documents, or rerank them",
    ),
    Pattern(
        "retriever_misses",
        {"ragchecker.recall": "poor", "ragchecker.claim_recall": "poor"},
        "The retriever does not find what the answers need",
        "return more documents, use a better embedding or hybrid search, or look whether the index holds the answers",
    ),
    Pattern(
        "generator_misses",
        {"ragchecker.recall": "poor", "ragchecker.claim_recall": "good"},
        "The retriever finds what is needed, and the generator leaves it out",
        "ask for complete answers, or pass fewer documents so that the needed ones stand out",
    ),
    Pattern(
        "claims_pipeline_poor",
        {
            "ragchecker.precision": "poor",
            "ragchecker.recall": "poor",
            "ragchecker.claim_recall": "poor",
            "ragchecker.faithfulness": "poor",
        },
        "Retriever and generator are both poor",
        "look at the pipeline as a whole, the retriever first: a generator cannot be better than what it is given",
    ),
)
"""The usual patterns; a pattern of one metric is beside that metric."""


def enough_for_advice(
    n: int | None, lower: float | None, upper: float | None, value_range: tuple[float, float]
) -> bool:
    """Return whether a mean is known well enough for advice.

    Args:
        n: number of its values; None if it is not known.
        lower: lower end of its interval; None without an interval.
        upper: upper end of this interval.
        value_range: lowest and highest possible value.

    >>> [enough_for_advice(n, lower, 0.6, (0, 0.6)) for n, lower in ((30, 0.2), (29, 0.2), (90, 0))]
    [True, False, False]
    """
    if n is None or n < DIAGNOSED_N:
        return False
    return lower is None or upper is None or lower > value_range[0] or upper < value_range[1]


def diagnose(
    scores: Mapping[str, float], ends: Mapping[str, tuple[float | None, float | None]] = NO_ENDS
) -> list[Diagnosis]:
    """Return the patterns that match scores, the certain ones first.

    Args:
        scores: of one interaction, or means, by qualified metric name; a pattern with a missing metric does not match.
        ends: lower and upper ends of the intervals of means; None for an end that is not known.
    """

    def is_certain(metric: str, quality: Quality) -> bool:
        return all(end is None or _shows(metric, end, quality) for end in ends.get(metric, ()))

    diagnoses = [
        Diagnosis(
            pattern,
            {metric: scores[metric] for metric in pattern.conditions},
            all(is_certain(metric, quality) for metric, quality in pattern.conditions.items()),
        )
        for pattern in PATTERNS
        if all(metric in scores and _shows(metric, scores[metric], q) for metric, q in pattern.conditions.items())
    ]
    # Of two patterns the one with more conditions tells more.
    telling = [
        diagnosis
        for diagnosis in diagnoses
        if not any(diagnosis.pattern.conditions.items() < other.pattern.conditions.items() for other in diagnoses)
    ]
    return sorted(telling, key=lambda diagnosis: not diagnosis.certain)


def band_of(metric: str, value: float) -> str | None:
    """Return the band of a score in diagnoses; None for a metric without bands.

    >>> band_of("retrieval.match", 0.05), METRICS["retrieval.match"].band(0.05)
    ('poor', None)
    """
    return _in_diagnoses(metric).band(value)


@cache
def _in_diagnoses(metric: str) -> MetricDefinition:
    definition = METRICS[metric]
    return replace(definition, bands=definition.diagnosis_bands or definition.bands)


def _shows(metric: str, value: float, quality: Quality) -> bool:
    band = band_of(metric, value)
    return band in _GOOD if quality == "good" else band == "poor"
