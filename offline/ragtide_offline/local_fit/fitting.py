"""Fits corrections of the local labeler's scores, and decides score by score whether they are better than shipped."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from ragtide_consumers.labelers.local.adjustment import temper
from ragtide_consumers.labelers.local.correction import ADHERENCE, CORRECTED, INPUTS, columns_of
from ragtide_consumers.labelers.local.correction_file import (
    CorrectionFile,
    CorrectionInput,
    CrossValidated,
    FittedProxy,
    FittedScore,
    Separated,
    shipped_sha256,
)
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.metric_definitions import SIMILARITY

from .examined import SENSED, SUPPORTED_FRACTION, ExaminedInteraction, ExaminedInteractions, ExaminedPair
from .regression import (
    LEVEL_PENALTY,
    PAIRS_SHARE,
    Floats,
    PairScores,
    Regression,
    SpoiltPairs,
    cross_fit,
    cross_fit_pairs,
    fit,
    loss_difference,
)
from .separation import separation

LEAST_QUESTIONS: Final = 20
"""Fewest different questions with a score for a fit of it."""

DECIMALS: Final = 9
"""Decimals of the numbers in the file."""


SIMILARITY_INPUTS: Final = frozenset(metric.name for metric in SIMILARITY)
"""Inputs of a sentence encoder."""


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The result of fitting one score."""

    score: str
    """Name without family."""
    cross_validated: CrossValidated | None
    """Squared errors on questions that the fit had not seen; None if too few questions are judged."""
    is_fitted: bool
    """Whether the fit is used; otherwise the score stays as shipped."""
    reason: str
    """The decision in words."""
    reads_similarity: bool = False
    """Whether the fit has the similarities of a sentence encoder: it is surely better with them than without."""
    separation: Separated | None = None
    """AUROC of clean against spoilt interactions of questions that the fit had not seen; None without spoilt ones."""


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a fit."""

    interactions: int
    """Number of judged interactions; without any, of those that were spoilt."""
    questions: int
    unused: Mapping[str, int]
    """Interactions that cannot be used, by reason."""
    confidence: float
    scores: Sequence[ScoreResult]
    fitted: Mapping[str, Regression] = field(default_factory=dict)
    """By score: the fit to all interactions, for scores that are better than shipped."""
    first_occurred_at: datetime | None = None
    last_occurred_at: datetime | None = None
    spoilt: int = 0
    """Number of interactions that were spoilt."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold."""
        return {
            "interactions": self.interactions,
            "questions": self.questions,
            "unused": dict(self.unused),
            "confidence": self.confidence,
            "spoilt": self.spoilt,
            "scores": {
                score.score: {
                    "fitted": score.is_fitted,
                    "reason": score.reason,
                    "similarity": score.reads_similarity,
                    "cross_validated": None if score.cross_validated is None else score.cross_validated.model_dump(),
                    "separation": None if score.separation is None else score.separation.model_dump(),
                }
                for score in self.scores
            },
        }

    def file(
        self,
        *,
        source: str,
        reference: str,
        fitted_at: datetime,
        similarity_sha256: str = "",
        before: CorrectionFile | None = None,
    ) -> CorrectionFile:
        """Return the content of the file that workers load.

        Args:
            source: where the interactions came from.
            reference: the labeler or the people whose scores were fitted, and whether interactions were spoilt.
            fitted_at: time of the fit.
            similarity_sha256: of the sentence encoder, if there was one.
            before: the content of the file until now, whose proxies of criteria stay; None for a new file.

        Raises:
            ValueError: no score is better than shipped.
            ConfigurationError: the proxies read another sentence encoder than the scores.
        """
        if not self.fitted or self.first_occurred_at is None or self.last_occurred_at is None:
            raise ValueError("no score is better than the shipped labeler's: there is nothing to write")
        results = {score.score: score for score in self.scores}
        scores = {
            score: FittedScore(
                inputs=rounded_inputs(INPUTS, regression),
                cross_validated=results[score].cross_validated,
                separation=results[score].separation,
            )
            for score, regression in self.fitted.items()
        }
        proxies = {} if before is None else before.criteria
        of_before = "" if before is None else before.similarity_sha256
        encoder = similarity_sha256 if any(score.reads_similarity for score in self.scores) else ""
        parts: list[tuple[FittedScore | FittedProxy, str]] = [(proxy, of_before) for proxy in proxies.values()]
        parts += [(score, encoder) for score in scores.values()]
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
            similarity_sha256=encoder_of(parts),
            scores=scores,
            criteria=proxies,
        )


def encoder_of(parts: Iterable[tuple[FittedScore | FittedProxy, str]]) -> str:
    """Return the digest of the sentence encoder that the numbers of a file read; empty if none reads one.

    Args:
        parts: scores and proxies, each with the digest of the encoder that it was fitted with.

    Raises:
        ConfigurationError: they read different encoders.
    """
    readers = (digest for fitted, digest in parts if not SIMILARITY_INPUTS.isdisjoint(fitted.inputs))
    digests = list(dict.fromkeys(readers))
    if len(digests) > 1:
        raise ConfigurationError(
            f"the file has numbers of the sentence encoder {digests[0][:16]}, and the new ones are of "
            f"{digests[1][:16]}: set models.similarity to the first, or give another --output"
        )
    return digests[0] if digests else ""


def fit_correction(
    examined: ExaminedInteractions, pairs: Sequence[ExaminedPair] = (), *, confidence: float = 0.95
) -> FitResult:
    """Return corrections of the scores that they make better, measured on questions that the fits had not seen.

    Without pairs a score is better if its squared error is. With pairs it is better if it separates clean
    interactions from spoilt ones better, and its squared error is not surely larger.

    Args:
        examined: the judged interactions; with pairs there may be none.
        pairs: interactions, clean and spoilt.
        confidence: level of the intervals. A difference is sure if its whole interval is on one side of 0.

    Raises:
        ConfigurationError: no score has enough questions.
    """
    rows = examined.rows
    clean = [*{id(pair.clean): pair.clean for pair in pairs}.values()]
    used = rows or clean
    questions = len({row.question for row in used})
    if max(questions, len({row.question for row in clean})) < LEAST_QUESTIONS:
        raise ConfigurationError(
            f"there are interactions with {questions:,} different questions that the local labeler can score clean and "
            f"spoilt, and a fit needs {LEAST_QUESTIONS}: take a longer time or more rows"
            if pairs and not rows
            else f"there are judged answers to {questions:,} different questions that the local labeler can score, and "
            f"a fit needs {LEAST_QUESTIONS}: judge or annotate more interactions"
        )
    results, fitted = [], dict[str, Regression]()
    for score in CORRECTED:
        result, regression = (
            _fit_to_pairs(score, rows, pairs, confidence) if pairs else _fit_score(score, rows, confidence)
        )
        results.append(result)
        if regression is not None:
            fitted[score] = regression
    times = [row.occurred_at for row in (*rows, *clean)]
    return FitResult(
        interactions=len(used),
        questions=questions,
        unused=examined.unused,
        confidence=confidence,
        scores=results,
        fitted=fitted,
        first_occurred_at=min(times),
        last_occurred_at=max(times),
        spoilt=len(clean),
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
    y, shipped, weights = _column(rows, score, judged=True), _column(rows, score, judged=False), row_weights(rows)
    x = _inputs(rows, shipped, similarity=False)
    predicted, reads_similarity = cross_fit(x, y, weights, questions), False
    if all(row.similarity for row in rows):
        wide = _inputs(rows, shipped, similarity=True)
        with_similarity = cross_fit(wide, y, weights, questions)
        gain = loss_difference(y, predicted, with_similarity, weights, questions, confidence=confidence)
        if gain.upper < 0:
            x, predicted, reads_similarity = wide, with_similarity, True
    losses = loss_difference(y, shipped, predicted, weights, questions, confidence=confidence)
    if not losses.upper < 0:
        reason = "the fit is not surely better"
        return ScoreResult(score, losses, is_fitted=False, reason=reason), None
    if score == ADHERENCE and _worsens_fraction(rows, predicted, confidence):
        reason = f"the fit would make {SUPPORTED_FRACTION} worse"
        return ScoreResult(score, losses, is_fitted=False, reason=reason), None
    reason = "fitted with similarity" if reads_similarity else "fitted"
    return (
        ScoreResult(score, losses, is_fitted=True, reason=reason, reads_similarity=reads_similarity),
        fit(x, y, weights),
    )


def _fit_to_pairs(
    score: str, judged: Sequence[ExaminedInteraction], every: Sequence[ExaminedPair], confidence: float
) -> tuple[ScoreResult, Regression | None]:
    """Return a fit that follows corruptions, with the level of judged interactions, or else the shipped mean."""
    pairs = _usable_pairs(score, every)
    if not pairs:
        reason = f"fewer than {LEAST_QUESTIONS} questions could be spoilt in a way that it should follow"
        return ScoreResult(score, None, is_fitted=False, reason=reason), None
    names, questions = [pair.corruption for pair in pairs], [pair.clean.question for pair in pairs]
    rows = [row for row in judged if score in row.judged and score in row.shipped]
    has_level = len({row.question for row in rows}) >= LEAST_QUESTIONS
    if not has_level:
        rows = [*{id(pair.clean): pair.clean for pair in pairs}.values()]
    y, shipped, weights = _column(rows, score, judged=has_level), _column(rows, score, judged=False), row_weights(rows)
    of_clean, of_spoilt = (_column(side, score, judged=False) for side in _sides(pairs))
    before = of_clean, of_spoilt
    level_penalty = LEVEL_PENALTY if has_level else 0.0

    def fits(*, similarity: bool) -> tuple[tuple[Floats, PairScores], Callable[[], Regression]]:
        x = _inputs(rows, shipped, similarity=similarity)
        sides = [
            _inputs(side, scores, similarity=similarity) for side, scores in zip(_sides(pairs), before, strict=True)
        ]
        spoilt = SpoiltPairs(sides[0], sides[1], _pair_weights(pairs), questions)
        asked = [row.question for row in rows]
        crossed = cross_fit_pairs(x, y, weights, asked, pairs=spoilt, level_penalty=level_penalty)
        return crossed, lambda: fit(x, y, weights, pairs=spoilt, level_penalty=level_penalty)

    (predicted, after), whole = fits(similarity=False)
    reads_similarity = False
    if all(row.similarity for row in (*rows, *_sides(pairs)[1])):
        (wide, with_similarity), whole_wide = fits(similarity=True)
        if separation(names, questions, after, with_similarity, confidence=confidence).lower > 0:
            predicted, after, whole, reads_similarity = wide, with_similarity, whole_wide, True
    gain = separation(names, questions, before, after, confidence=confidence)
    loss = None
    if has_level:
        loss = loss_difference(y, shipped, predicted, weights, [row.question for row in rows], confidence=confidence)
    reason = ""
    if not gain.lower > 0:
        reason = "it does not surely follow corruptions better"
    elif loss is not None and loss.lower > 0:
        reason = "its squared error would be surely larger"
    elif has_level and score == ADHERENCE and _worsens_fraction(rows, predicted, confidence):
        reason = f"the fit would make {SUPPORTED_FRACTION} worse"
    if reason:
        return ScoreResult(score, loss, is_fitted=False, reason=reason, separation=gain), None
    reason = "fitted with similarity" if reads_similarity else "fitted"
    result = ScoreResult(score, loss, is_fitted=True, reason=reason, reads_similarity=reads_similarity, separation=gain)
    return result, whole()


def _usable_pairs(score: str, every: Sequence[ExaminedPair]) -> list[ExaminedPair]:
    pairs = [
        pair
        for pair in every
        if score in SENSED[pair.corruption] and score in pair.clean.shipped and score in pair.spoilt.shipped
    ]
    questions = dict[str, set[str]]()
    for pair in pairs:
        questions.setdefault(pair.corruption, set()).add(pair.clean.question)
    return [pair for pair in pairs if len(questions[pair.corruption]) >= LEAST_QUESTIONS]


def _sides(pairs: Sequence[ExaminedPair]) -> tuple[list[ExaminedInteraction], list[ExaminedInteraction]]:
    return [pair.clean for pair in pairs], [pair.spoilt for pair in pairs]


def _pair_weights(pairs: Sequence[ExaminedPair]) -> Floats:
    counts = Counter(pair.corruption for pair in pairs)
    interactions = len({id(pair.clean) for pair in pairs})
    weight = PAIRS_SHARE * interactions / len(counts)
    return np.array([weight / counts[pair.corruption] for pair in pairs], np.float64)


def _inputs(rows: Sequence[ExaminedInteraction], shipped: Floats, *, similarity: bool) -> Floats:
    summaries = [[*row.summary, *row.similarity] if similarity else row.summary for row in rows]
    return columns_of(summaries, shipped.tolist())


def _worsens_fraction(rows: Sequence[ExaminedInteraction], adherence: Floats, confidence: float) -> bool:
    kept = [number for number, row in enumerate(rows) if SUPPORTED_FRACTION in row.judged.keys() & row.shipped.keys()]
    some = [rows[number] for number in kept]
    if len({row.question for row in some}) < LEAST_QUESTIONS:
        return False
    moved = [
        float(np.mean(temper(row.probabilities.supported, float(adherence[number]))))
        for number, row in zip(kept, some, strict=True)
    ]
    losses = loss_difference(
        _column(some, SUPPORTED_FRACTION, judged=True),
        _column(some, SUPPORTED_FRACTION, judged=False),
        np.array(moved),
        row_weights(some),
        [row.question for row in some],
        confidence=confidence,
    )
    return losses.lower > 0


def _column(rows: Sequence[ExaminedInteraction], score: str, *, judged: bool) -> Floats:
    return np.array([(row.judged if judged else row.shipped)[score] for row in rows], np.float64)


def row_weights(rows: Sequence[ExaminedInteraction]) -> Floats:
    """Return the weights of interactions, with the mean 1."""
    weights = np.array([row.weight for row in rows], np.float64)
    return np.asarray(weights * len(weights) / weights.sum())


def rounded_inputs(names: Sequence[str], regression: Regression) -> dict[str, CorrectionInput]:
    """Return the inputs of a regression whose coefficient is not 0, rounded.

    Args:
        names: of the inputs; the last ones may be without a coefficient.
        regression: fitted to them.
    """
    ends = (np.nan_to_num(end, posinf=1e6, neginf=-1e6) for end in (regression.lowest, regression.highest))
    rounded = (np.round(part, DECIMALS).tolist() for part in (regression.coefficients, *ends))
    return {
        name: CorrectionInput(coefficient=coefficient, lowest=lowest, highest=highest)
        for name, coefficient, lowest, highest in zip(names[: len(regression.coefficients)], *rounded, strict=True)
        if coefficient
    }
