"""RAGChecker: computes eleven scores from the entailment of claims. Pure formulas.

Only `Entailment` counts as true. Source: Ru et al., RAGChecker (arXiv:2408.08067), section 3, and its public code
(`ragchecker/computation.py`) where the paper is ambiguous: a claim in both a relevant and an irrelevant chunk counts as
relevant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Final

from ragtide_schemas import ClaimLabels, Entailment
from ragtide_schemas.suggestions import unknown

from .scores import AbsentReason, MetricScores

RAGCHECKER: Final = "ragchecker."
"""Family of these metrics on the wire."""

PROFILES: Final = ("ragchecker_strict", "ragchecker")
"""`ragchecker_strict` leaves undefined values absent; `ragchecker` writes 0 where RAGChecker's code does."""

TOLERANCE: Final = 1e-9
"""Largest difference of two sums of shares that count as equal."""

_Value = float | AbsentReason


@dataclass(frozen=True, slots=True)
class _Tables:
    """The label tables as truth values, and the values derived from them for each claim and chunk."""

    correct: Sequence[bool]
    """For each response claim whether the reference entails it (a2r)."""
    answered: Sequence[bool]
    """For each reference claim whether the response entails it (r2a)."""
    recalled: Sequence[bool]
    """For each reference claim whether any chunk entails it."""
    relevant: Sequence[bool]
    """For each chunk whether it entails any reference claim."""
    from_relevant: Sequence[bool]
    """For each response claim whether a relevant chunk entails it."""
    from_irrelevant: Sequence[bool]
    """For each response claim whether only irrelevant chunks entail it."""
    n_chunks: int

    @property
    def faithful(self) -> list[bool]:
        """For each response claim whether any chunk entails it."""
        return [a or b for a, b in zip(self.from_relevant, self.from_irrelevant, strict=True)]


def ragchecker_metrics(labels: ClaimLabels, *, profile: str = "ragchecker_strict") -> MetricScores:
    """Return the RAGChecker scores of one interaction, each in [0, 1], and the laws that they break.

    `precision`, `recall`, `f1`; of the retriever `claim_recall`, `context_precision`; of the generator
    `context_utilization`, `noise_sensitivity_in_relevant`, `noise_sensitivity_in_irrelevant`, `hallucination`,
    `self_knowledge`, `faithfulness`. Without a reference answer only `faithfulness` has a value.

    Args:
        labels: entailments of claims.
        profile: `ragchecker_strict` or `ragchecker`.

    Raises: ValueError for an unknown profile.

    >>> labels = ClaimLabels(
    ...     answer2response=["Entailment", "Neutral"],
    ...     response2answer=["Entailment"],
    ...     retrieved2answer=[["Entailment"]],
    ...     retrieved2response=[["Entailment"], ["Neutral"]],
    ... )
    >>> ragchecker_metrics(labels).scores["hallucination"]
    0.5
    """
    if profile not in PROFILES:
        raise ValueError(unknown("profile", profile, list(PROFILES)))
    tables = _tables(labels)
    has_reference = labels.answer2response is not None
    values = _values(tables, has_reference=has_reference)
    if profile == "ragchecker":
        empty = not tables.n_chunks or not tables.from_relevant
        values = {
            name: 0.0 if isinstance(value, AbsentReason) or (empty and name in _BY_CHUNK) else value
            for name, value in values.items()
        }
    scores = {name: value for name, value in values.items() if not isinstance(value, AbsentReason)}
    absent = {name: value for name, value in values.items() if isinstance(value, AbsentReason)}
    whole = bool(has_reference and tables.answered and tables.correct and tables.n_chunks)
    return MetricScores(scores, absent, defects=broken_laws(scores, whole=whole))


def broken_laws(scores: Mapping[str, float], *, whole: bool) -> tuple[str, ...]:
    """Return the broken laws of RAGChecker scores, in words.

    Each score is in [0, 1]. With response claims, reference claims and chunks (`whole`), two sums are 1: faithfulness +
    hallucination + self_knowledge, and precision + hallucination + both noises.

    >>> broken_laws({"faithfulness": 0.5, "hallucination": 0.5, "self_knowledge": 0.5}, whole=True)
    ('faithfulness + hallucination + self_knowledge is 1.5, not 1',)
    """
    broken = [f"{name} is {value:g}, outside 0 to 1" for name, value in scores.items() if not 0 <= value <= 1]
    if whole:
        for terms in _SUMS_OF_ONE:
            if all(term in scores for term in terms):
                total = sum(scores[term] for term in terms)
                if abs(total - 1) > TOLERANCE:
                    broken.append(f"{' + '.join(terms)} is {total:g}, not 1")
    return tuple(broken)


_SUMS_OF_ONE: Final = (
    ("faithfulness", "hallucination", "self_knowledge"),
    ("precision", "hallucination", "noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant"),
)


def _tables(labels: ClaimLabels) -> _Tables:
    by_chunk = [_truths(row) for row in labels.retrieved2response]
    of_reference = [_truths(row) for row in labels.retrieved2answer or ()]
    n_claims = len(by_chunk) if labels.answer2response is None else len(labels.answer2response)
    # Without chunks RAGChecker writes no rows.
    by_chunk = by_chunk or [[] for _ in range(n_claims)]
    n_chunks = max((len(row) for row in chain(by_chunk, of_reference)), default=0)
    relevant = [any(row[chunk] for row in of_reference) for chunk in range(n_chunks)]
    from_relevant = [any(map(bool.__and__, row, relevant)) for row in by_chunk]
    return _Tables(
        correct=_truths(labels.answer2response or ()),
        answered=_truths(labels.response2answer or ()),
        recalled=[any(row) for row in of_reference] or [False] * len(labels.response2answer or ()),
        relevant=relevant,
        from_relevant=from_relevant,
        from_irrelevant=[any(row) and not already for row, already in zip(by_chunk, from_relevant, strict=True)],
        n_chunks=n_chunks,
    )


def _truths(verdicts: Sequence[Entailment]) -> list[bool]:
    return [verdict == "Entailment" for verdict in verdicts]


def _values(tables: _Tables, *, has_reference: bool) -> dict[str, _Value]:
    t = tables
    no_answer = None if has_reference else AbsentReason.NO_REFERENCE_ANSWER
    no_response = None if t.from_relevant else AbsentReason.NO_RESPONSE_CLAIMS
    no_reference = no_answer or (None if t.answered else AbsentReason.NO_REFERENCE_CLAIMS)
    no_chunks = None if t.n_chunks else AbsentReason.NO_DOCUMENTS
    wrong = [not correct for correct in t.correct]
    made_up = [not faithful for faithful in t.faithful]
    precision = _mean(t.correct, no_answer or no_response)
    recall = _mean(t.answered, no_reference)
    used = [answered for answered, recalled in zip(t.answered, t.recalled, strict=True) if recalled]
    # The two noise metrics need the relevant chunks, which are unknown without reference claims.
    noise = no_answer or no_response or no_reference
    return {
        "precision": precision,
        "recall": recall,
        "f1": _f1(precision, recall),
        "claim_recall": _mean(t.recalled, no_reference),
        "context_precision": _mean(t.relevant, no_reference or no_chunks),
        "context_utilization": _mean(used, no_reference or (None if used else AbsentReason.NOTHING_RECALLED)),
        "noise_sensitivity_in_relevant": _share_of_both(t.from_relevant, wrong, noise),
        "noise_sensitivity_in_irrelevant": _share_of_both(t.from_irrelevant, wrong, noise),
        "hallucination": _share_of_both(made_up, wrong, no_answer or no_response),
        "self_knowledge": _share_of_both(made_up, t.correct, no_answer or no_response),
        "faithfulness": _mean(t.faithful, no_response),
    }


def _mean(truths: Sequence[bool], absent: AbsentReason | None) -> _Value:
    return fmean(truths) if absent is None else absent


def _share_of_both(some: Sequence[bool], others: Sequence[bool], absent: AbsentReason | None) -> _Value:
    return fmean(map(bool.__and__, some, others)) if absent is None else absent


def _f1(precision: _Value, recall: _Value) -> _Value:
    if isinstance(precision, AbsentReason):
        return precision
    if isinstance(recall, AbsentReason):
        return recall
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


_BY_CHUNK: Final = (
    "noise_sensitivity_in_relevant",
    "noise_sensitivity_in_irrelevant",
    "hallucination",
    "self_knowledge",
    "faithfulness",
)
"""Metrics for which RAGChecker's code writes 0 without chunks or response claims."""
