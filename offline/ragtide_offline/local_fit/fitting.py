"""Fits corrections of the local labeler's scores, and decides score by score whether they are better than shipped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from ragtide_consumers.labelers.local.adjustment import tempered
from ragtide_consumers.labelers.local.correction import ADHERENCE, CORRECTED, INPUTS, columns_of
from ragtide_consumers.labelers.local.correction_file import (
    CorrectionFile,
    CorrectionInput,
    CrossValidated,
    FittedScore,
    shipped_sha256,
)
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_runtime.errors import ConfigurationError

from .examined import SUPPORTED_FRACTION, ExaminedInteraction, ExaminedInteractions
from .loss_difference import LossDifference, loss_difference
from .regression import Floats, Regression, cross_fitted, fit

LEAST_QUESTIONS: Final = 20
"""Fewest different questions with a score for a fit of it."""

DECIMALS: Final = 9
"""Decimals of the numbers in the file."""


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The result of fitting one score."""

    score: str
    """Name without family."""
    cross_validated: LossDifference | None
    """Squared errors on questions that the fit had not seen; None if there are too few questions."""
    is_fitted: bool
    """Whether the fit is used; otherwise the score stays as shipped."""
    reason: str
    """The decision in words."""
    reads_similarity: bool = False
    """Whether the fit has the similarities of a sentence encoder: it is surely better with them than without."""


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a fit."""

    interactions: int
    questions: int
    unused: Mapping[str, int]
    """Interactions that cannot be used, by reason."""
    confidence: float
    scores: Sequence[ScoreResult]
    fitted: Mapping[str, Regression] = field(default_factory=dict)
    """By score: the fit to all interactions, for scores that are better than shipped."""
    first_occurred_at: datetime | None = None
    last_occurred_at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold."""
        return {
            "interactions": self.interactions,
            "questions": self.questions,
            "unused": dict(self.unused),
            "confidence": self.confidence,
            "scores": {
                one.score: {
                    "fitted": one.is_fitted,
                    "reason": one.reason,
                    "similarity": one.reads_similarity,
                    "cross_validated": None if one.cross_validated is None else asdict(one.cross_validated),
                }
                for one in self.scores
            },
        }

    def file(self, *, source: str, reference: str, fitted_at: datetime, similarity_sha256: str = "") -> CorrectionFile:
        """Return the content of the file that workers load.

        Args:
            source: where the interactions came from.
            reference: the labeler or the people whose scores were fitted.
            fitted_at: time of the fit.
            similarity_sha256: of the sentence encoder, if there was one.

        Raises:
            ValueError: no score is better than shipped.
        """
        if not self.fitted or self.first_occurred_at is None or self.last_occurred_at is None:
            raise ValueError("no score is better than the shipped labeler's: there is nothing to write")
        results = {one.score: one.cross_validated for one in self.scores}
        return CorrectionFile(
            labeler_version=SHIPPED_VERSION,
            model_sha256=shipped_sha256(),
            fitted_at=fitted_at,
            source=source[:1000],
            reference=reference[:1000],
            interactions=self.interactions,
            questions=self.questions,
            first_occurred_at=self.first_occurred_at,
            last_occurred_at=self.last_occurred_at,
            confidence=self.confidence,
            similarity_sha256=similarity_sha256 if any(one.reads_similarity for one in self.scores) else "",
            scores={
                score: FittedScore(
                    inputs=_stored(regression),
                    cross_validated=CrossValidated.model_validate(asdict(found)),
                )
                for score, regression in self.fitted.items()
                if (found := results[score]) is not None
            },
        )


def fit_correction(examined: ExaminedInteractions, *, confidence: float = 0.95) -> FitResult:
    """Return corrections of the scores that they make better, measured on questions that the fits had not seen.

    Args:
        examined: the interactions.
        confidence: level of the intervals. A score is better if the whole interval of its difference is below 0.

    Raises:
        ConfigurationError: no score has enough questions.
    """
    rows = examined.found
    questions = len({row.question for row in rows})
    if questions < LEAST_QUESTIONS:
        raise ConfigurationError(
            f"there are judged answers to {questions:,} different questions that the local labeler can score, and a "
            f"fit needs {LEAST_QUESTIONS}: judge or annotate more interactions"
        )
    results, fitted = [], dict[str, Regression]()
    for score in CORRECTED:
        result, regression = _fit_score(score, rows, confidence)
        results.append(result)
        if regression is not None:
            fitted[score] = regression
    times = [row.occurred_at for row in rows]
    return FitResult(
        interactions=len(rows),
        questions=questions,
        unused=examined.unused,
        confidence=confidence,
        scores=results,
        fitted=fitted,
        first_occurred_at=min(times),
        last_occurred_at=max(times),
    )


def _fit_score(
    score: str, every: Sequence[ExaminedInteraction], confidence: float
) -> tuple[ScoreResult, Regression | None]:
    rows = [row for row in every if score in row.judged and score in row.shipped]
    questions = [row.question for row in rows]
    count = len(set(questions))
    if count < LEAST_QUESTIONS:
        reason = f"{count:,} questions have it, and a fit needs {LEAST_QUESTIONS}"
        return ScoreResult(score, None, is_fitted=False, reason=reason), None
    y, shipped, weights = _column(rows, score, judged=True), _column(rows, score, judged=False), _weights(rows)
    x = columns_of([row.summary for row in rows], shipped.tolist())
    predicted, reads_similarity = cross_fitted(x, y, weights, questions), False
    if all(row.similarity for row in rows):
        wide = columns_of([[*row.summary, *row.similarity] for row in rows], shipped.tolist())
        with_similarity = cross_fitted(wide, y, weights, questions)
        gain = loss_difference(y, predicted, with_similarity, weights, questions, confidence=confidence)
        if gain.upper < 0:
            x, predicted, reads_similarity = wide, with_similarity, True
    found = loss_difference(y, shipped, predicted, weights, questions, confidence=confidence)
    if not found.upper < 0:
        reason = "the fit is not surely better"
        return ScoreResult(score, found, is_fitted=False, reason=reason), None
    if score == ADHERENCE and _worsens_fraction(rows, predicted, confidence):
        reason = f"the fit would make {SUPPORTED_FRACTION} worse"
        return ScoreResult(score, found, is_fitted=False, reason=reason), None
    reason = "fitted with similarity" if reads_similarity else "fitted"
    return (
        ScoreResult(score, found, is_fitted=True, reason=reason, reads_similarity=reads_similarity),
        fit(x, y, weights),
    )


def _worsens_fraction(rows: Sequence[ExaminedInteraction], adherence: Floats, confidence: float) -> bool:
    """Return whether the share of supported sentences, which moves with adherence, becomes surely worse."""
    kept = [number for number, row in enumerate(rows) if SUPPORTED_FRACTION in row.judged]
    some = [rows[number] for number in kept]
    if len({row.question for row in some}) < LEAST_QUESTIONS:
        return False
    moved = [
        float(np.mean(tempered(row.probabilities.supported, float(adherence[number]))))
        for number, row in zip(kept, some, strict=True)
    ]
    found = loss_difference(
        _column(some, SUPPORTED_FRACTION, judged=True),
        _column(some, SUPPORTED_FRACTION, judged=False),
        np.array(moved),
        _weights(some),
        [row.question for row in some],
        confidence=confidence,
    )
    return found.lower > 0


def _column(rows: Sequence[ExaminedInteraction], score: str, *, judged: bool) -> Floats:
    return np.array([(row.judged if judged else row.shipped)[score] for row in rows], np.float64)


def _weights(rows: Sequence[ExaminedInteraction]) -> Floats:
    weights = np.array([row.weight for row in rows], np.float64)
    return np.asarray(weights * len(weights) / weights.sum())


def _stored(regression: Regression) -> dict[str, CorrectionInput]:
    """Return the inputs whose coefficient is not 0, rounded."""
    parts = (regression.coefficients, *(np.nan_to_num(end, posinf=1e6, neginf=-1e6) for end in _ends(regression)))
    rounded = (np.round(part, DECIMALS).tolist() for part in parts)
    return {
        name: CorrectionInput(coefficient=coefficient, lowest=lowest, highest=highest)
        for name, coefficient, lowest, highest in zip(INPUTS[: len(regression.coefficients)], *rounded, strict=True)
        if coefficient
    }


def _ends(regression: Regression) -> tuple[Floats, Floats]:
    return regression.lowest, regression.highest
