"""Corrects the shipped model's scores by numbers that `ragtide fit` fitted to a deployment's own judged interactions.

A correction is a linear function of an interaction's features, added to the log odds of one score. The sentences'
probabilities are then moved in the same order, so that the formulas of TRACe give the corrected score. Every feature is
limited to the range that it had among the fitted interactions, so unusual interactions cannot lead to extreme scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Final

import numpy as np

from ragtide_schemas import SentenceProbabilities
from ragtide_schemas.metric_definitions import SIMILARITY

from .adjustment import Term, log_adherence, move_to_mean, predicted_score, temper
from .features import InteractionFeatures
from .model import SUMMARY_FEATURES, summary_features
from .overlap import Floats
from .trees import DECIMALS

RELEVANCE: Final = "context_relevance"
UTILIZATION: Final = "context_utilization"
ADHERENCE: Final = "adherence"

CORRECTED: Final = (RELEVANCE, UTILIZATION, ADHERENCE)
"""Scores that a correction may change. The fraction of supported sentences moves with adherence."""

CONSTANT: Final = "constant"
LOG_ODDS: Final = "log odds"

SHIPPED_INPUTS: Final = (CONSTANT, LOG_ODDS, *SUMMARY_FEATURES)
"""Inputs of every correction: 1, the log odds of the shipped score, and the features of the whole interaction."""

INPUTS: Final = (*SHIPPED_INPUTS, *(metric.name for metric in SIMILARITY))
"""The same with those of a sentence encoder, which a correction may have."""

EDGE: Final = 0.002
"""Shipped scores are limited to this distance from 0 and 1, because the log odds of 0 and 1 are infinite."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Corrections of scores, one sequence of terms for each score that is corrected."""

    terms: Mapping[str, Sequence[Term]]

    def applied(
        self, features: InteractionFeatures, shipped: SentenceProbabilities, similarity: Sequence[float] = ()
    ) -> SentenceProbabilities:
        """Return the probabilities of an interaction's sentences after the correction.

        Without document sentences the probabilities stay as they are.

        Args:
            shipped: the probabilities by the shipped model.
            similarity: of the interaction, if a term needs it: `similarity.support` and `similarity.match`.
        """
        if not shipped.relevant:
            return shipped
        summary, scores = [*summary_of(features, shipped), *similarity], scores_of(shipped)
        corrected = {
            score: predicted_score(terms, inputs_of(summary, scores[score]))
            for score, terms in self.terms.items()
            if score in scores
        }
        relevant, utilized, supported = shipped.relevant, shipped.utilized, shipped.supported
        if RELEVANCE in corrected:
            relevant = tuple(move_to_mean(relevant, corrected[RELEVANCE]))
        if UTILIZATION in corrected:
            utilized = tuple(move_to_mean(utilized, corrected[UTILIZATION]))
        if ADHERENCE in corrected:
            supported = tuple(temper(supported, corrected[ADHERENCE]))
        return SentenceProbabilities(relevant=relevant, utilized=utilized, supported=supported)


def summary_of(features: InteractionFeatures, shipped: SentenceProbabilities) -> Sequence[float]:
    """Return the features of a whole interaction that has document sentences."""
    summary: list[float] = summary_features(features, shipped.relevant, shipped.utilized, shipped.supported).tolist()
    return summary


def inputs_of(summary: Sequence[float], score: float) -> Sequence[float]:
    """Return the inputs of the correction of a score, as `INPUTS` names them.

    Args:
        summary: features of the interaction, and its similarity if a term needs it.
        score: the shipped score.
    """
    return (1.0, round(log_odds(score), DECIMALS), *summary)


def scores_of(shipped: SentenceProbabilities) -> dict[str, float]:
    """Return the scores that may be corrected, before the correction; adherence only if there is a response."""
    n = len(shipped.relevant)
    scores = {RELEVANCE: fsum(shipped.relevant) / n, UTILIZATION: fsum(shipped.utilized) / n} if n else {}
    return {**scores, ADHERENCE: exp(log_adherence(shipped.supported))} if shipped.supported else scores


def log_odds(score: float) -> float:
    """Return the log odds of a score in [0, 1], which is first limited to [`EDGE`, 1 - `EDGE`].

    >>> log_odds(0.5)
    0.0
    """
    limited = min(max(score, EDGE), 1 - EDGE)
    return log(limited / (1 - limited))


def columns_of(summaries: Sequence[Sequence[float]], scores: Sequence[float]) -> Floats:
    """Return the inputs of the correction of one score for many interactions, one line an interaction."""
    return np.array([inputs_of(*pair) for pair in zip(summaries, scores, strict=True)], np.float64)
