"""Fits the proxy of a criterion: a cheap prediction of a judge's answers, kept only if it beats a constant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from ragtide_consumers.labelers.local.correction_file import (
    AgainstConstant,
    CorrectionFile,
    CrossValidated,
    FittedProxy,
    FittedScore,
    shipped_sha256,
)
from ragtide_consumers.labelers.local.criterion_proxies import PROXY_INPUTS
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.criterion import Criterion

from .examined import ExaminedInteraction, ExaminedInteractions
from .fitting import LEAST_QUESTIONS, encoder_of, rounded_inputs, row_weights
from .regression import Floats, Regression, correlation, cross_fit, cross_mean, fit, loss_difference

LEAST_OF_A_SIDE: Final = 10
"""Fewest answers' worth of low values, and of high values: from fewer nothing can be learned."""

NO_SHIPPED_SCORE: Final = 1
"""Column of the regression that holds the log odds of a shipped score; a criterion has none, so it is 0."""


@dataclass(frozen=True, slots=True)
class CriterionFit:
    """The result of fitting the proxy of a criterion."""

    criterion: Criterion
    questions: int
    unused: Mapping[str, int]
    """Interactions that cannot be used, by reason."""
    confidence: float
    cross_validated: CrossValidated
    """Squared errors of a constant (`shipped`) and of the proxy, on questions that the fit had not seen."""
    correlation: float
    """Of the proxy's values and the judge's, on the same questions."""
    reads_similarity: bool
    """Whether the proxy has the similarities of a sentence encoder: it is surely better with them than without."""
    last_occurred_at: datetime
    first_occurred_at: datetime
    regression: Regression | None
    """The fit to all interactions; None if it does not surely beat a constant."""

    @property
    def width(self) -> float:
        """Width of a prediction-powered interval over that of the judged items alone, if few items are judged."""
        return float((1 - self.correlation**2) ** 0.5)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold."""
        losses = self.cross_validated.model_dump()
        return {
            "criterion": self.criterion.name,
            "metric": self.criterion.metric,
            "version": self.criterion.version,
            "fitted": self.regression is not None,
            "interactions": self.cross_validated.interactions,
            "questions": self.questions,
            "unused": dict(self.unused),
            "confidence": self.confidence,
            "similarity": self.reads_similarity,
            "cross_validated": {"constant": losses.pop("shipped"), **losses, "correlation": self.correlation},
            "width": self.width,
        }

    def proxy(self, *, source: str, reference: str, fitted_at: datetime) -> FittedProxy:
        """Return the proxy as the file of the local labeler has it.

        Args:
            source: where the interactions came from.
            reference: the judge or the people whose answers were learned.
            fitted_at: time of the fit.

        Raises:
            ValueError: the proxy does not surely beat a constant.
        """
        if self.regression is None:
            raise ValueError("the proxy does not surely beat a constant: there is nothing to write")
        parts = (self.regression.coefficients, self.regression.lowest, self.regression.highest)
        without = Regression(*(np.delete(part, NO_SHIPPED_SCORE) for part in parts))
        losses = self.cross_validated.model_dump()
        return FittedProxy(
            version=self.criterion.version,
            inputs=rounded_inputs(PROXY_INPUTS, without),
            cross_validated=AgainstConstant(constant=losses.pop("shipped"), **losses, correlation=self.correlation),
            fitted_at=fitted_at,
            source=source[:1000],
            reference=reference[:1000],
            last_occurred_at=self.last_occurred_at,
        )

    def file(self, before: CorrectionFile | None, proxy: FittedProxy, *, similarity_sha256: str) -> CorrectionFile:
        """Return the content of the file with the proxy in it.

        Args:
            before: the content of the file until now, whose other numbers stay; None for a new file.
            similarity_sha256: of the sentence encoder, if the proxy reads one.

        Raises:
            ConfigurationError: the file has numbers of another sentence encoder.
        """
        encoder = similarity_sha256 if self.reads_similarity else ""
        if before is None:
            return CorrectionFile(
                labeler_version=SHIPPED_VERSION,
                model_sha256=shipped_sha256(),
                fitted_at=proxy.fitted_at,
                source=proxy.source,
                reference=proxy.reference,
                interactions=self.cross_validated.interactions,
                questions=self.questions,
                first_occurred_at=self.first_occurred_at,
                last_occurred_at=self.last_occurred_at,
                confidence=self.confidence,
                similarity_sha256=encoder,
                scores={},
                criteria={self.criterion.metric: proxy},
            )
        others = {name: other for name, other in before.criteria.items() if name != self.criterion.metric}
        known: list[FittedScore | FittedProxy] = [*before.scores.values(), *others.values()]
        shared = encoder_of([*((fitted, before.similarity_sha256) for fitted in known), (proxy, encoder)])
        changes = {"criteria": {**others, self.criterion.metric: proxy}, "similarity_sha256": shared}
        return CorrectionFile.model_validate(before.model_copy(update=changes).model_dump())


def fit_criterion(examined: ExaminedInteractions, criterion: Criterion, *, confidence: float = 0.95) -> CriterionFit:
    """Return the proxy of a criterion, compared with a constant on questions that the fits had not seen.

    The constant is the mean value of the other questions' answers. The proxy is kept if the whole interval of the
    difference of the squared errors is below 0.

    Args:
        examined: interactions with the judge's answers, `examine` with the criterion.
        criterion: the question.
        confidence: level of the interval.

    Raises:
        ConfigurationError: there are too few questions, or nearly all answers are the same.
    """
    rows = examined.rows
    questions = [row.question for row in rows]
    count = len(set(questions))
    if count < LEAST_QUESTIONS:
        raise ConfigurationError(
            f"there are answers of the judge to {criterion.name} for {count:,} different questions that the local "
            f"labeler can score, and a fit needs {LEAST_QUESTIONS}: judge more interactions"
        )
    y, weights = np.array([row.judged[criterion.metric] for row in rows], np.float64), row_weights(rows)
    low, high = float((1 - y).sum()), float(y.sum())
    if min(low, high) < LEAST_OF_A_SIDE:
        end = criterion.upper if high < low else criterion.lower
        raise ConfigurationError(
            f"of {len(y):,} answers to {criterion.name} only {min(low, high):.0f} are near {end:g}, and a fit needs "
            f"{LEAST_OF_A_SIDE}: judge more interactions"
        )
    x = _inputs(rows, similarity=False)
    predicted, reads_similarity = cross_fit(x, y, weights, questions, level_penalty=0.0), False
    if all(row.similarity for row in rows):
        wide = _inputs(rows, similarity=True)
        with_similarity = cross_fit(wide, y, weights, questions, level_penalty=0.0)
        if loss_difference(y, predicted, with_similarity, weights, questions, confidence=confidence).upper < 0:
            x, predicted, reads_similarity = wide, with_similarity, True
    constant = cross_mean(y, weights, questions)
    losses = loss_difference(y, constant, predicted, weights, questions, confidence=confidence)
    return CriterionFit(
        criterion=criterion,
        questions=count,
        unused=examined.unused,
        confidence=confidence,
        cross_validated=losses,
        correlation=correlation(predicted, y, weights),
        reads_similarity=reads_similarity,
        first_occurred_at=min(row.occurred_at for row in rows),
        last_occurred_at=max(row.occurred_at for row in rows),
        regression=fit(x, y, weights, level_penalty=0.0) if losses.upper < 0 else None,
    )


def _inputs(rows: Sequence[ExaminedInteraction], *, similarity: bool) -> Floats:
    own = np.array([(*row.proxy_inputs, *(row.similarity if similarity else ())) for row in rows], np.float64)
    return np.insert(own, NO_SHIPPED_SCORE, 0.0, axis=1)
