"""Compares predicted scores with reference scores, over the interactions that both have."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ragtide_aggregator.statistics.comparisons.agreement import Agreement, FamilyAgreement, agreement, family_agreement
from ragtide_aggregator.statistics.comparisons.bootstrap import Floats
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import suggestion

from .predictions import Key, Predictions, ReferenceScores, UnusablePredictionsError


@dataclass(frozen=True, slots=True)
class PredictionAgreement:
    """The agreement of predictions with a reference, by metric and by family."""

    predictions: Predictions
    reference: str
    metrics: Mapping[str, Agreement]
    families: Mapping[str, FamilyAgreement]
    pairs: Mapping[str, tuple[Floats, Floats]]
    """Predicted and reference values by metric, for plots."""
    counts: Counter[str]
    """Interactions `matched`, `without_reference` and `without_prediction`; for each metric the `absent` scores."""

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can hold."""
        return {
            "labeler": self.predictions.labeler,
            "labeler_version": self.predictions.version,
            "profile": self.predictions.profile,
            "reference": self.reference,
            **{name: self.counts[name] for name in ("matched", "without_reference", "without_prediction")},
            "metrics": {
                metric: {**asdict(found), "absent": self.counts[f"absent {metric}"]}
                for metric, found in self.metrics.items()
            },
            "families": {family: asdict(found) for family, found in self.families.items()},
        }


def compare(
    predictions: Predictions,
    reference: ReferenceScores,
    *,
    metrics: Sequence[str] = (),
    threshold: float = 0.5,
    confidence: float = 0.95,
    clustered: bool = False,
    seed: int = 0,
) -> PredictionAgreement:
    """Return the agreement of predictions with a reference, over the interactions that both have.

    Raises:
        UnusablePredictionsError: they have no interaction or no metric in common.
    """
    reference = _with_pipelines(reference, predictions)
    keys = [key for key in predictions.scores if key in reference.scores]
    counts: Counter[str] = Counter(
        matched=len(keys),
        without_reference=len(predictions.scores) - len(keys),
        without_prediction=len(reference.scores) - len(keys),
    )
    known = {metric for key in keys for metric in reference.scores[key]}
    wanted = list(metrics) or sorted(known)
    odd = next((metric for metric in metrics if metric not in known), None)
    if odd is not None:
        raise UnusablePredictionsError(
            f"there is no metric {shortened(odd)!r} in {reference.name}{suggestion(odd, known)}"
        )
    clusters = np.array([reference.clusters.get(key, key[1]) for key in keys]) if clustered else None
    found: dict[str, Agreement] = {}
    pairs: dict[str, tuple[Floats, Floats]] = {}
    errors: dict[str, dict[str, Floats]] = {}
    for metric in wanted:
        lowest, highest = predictions.value_range(metric)
        predicted, true = _column(predictions.scores, keys, metric), _column(reference.scores, keys, metric)
        there = ~np.isnan(predicted) & ~np.isnan(true)
        counts[f"absent {metric}"] = int((~np.isnan(true) & ~there).sum())
        pairs[metric] = predicted[there], true[there]
        found[metric] = agreement(
            *pairs[metric],
            threshold=lowest + threshold * (highest - lowest),
            confidence=confidence,
            clusters=None if clusters is None else clusters[there],
            seed=seed,
        )
        if there.any():
            family = metric.rpartition(".")[0]
            errors.setdefault(family, {})[metric] = (predicted - true) / (highest - lowest)
    if not errors:
        raise UnusablePredictionsError(
            f"{predictions.name} and {reference.name} have no scores in common: they must name the same "
            "interaction_id, pipeline and metric"
        )
    families = {
        family: family_agreement(of, confidence=confidence, clusters=clusters, seed=seed)
        for family, of in errors.items()
    }
    return PredictionAgreement(predictions, reference.name, found, families, pairs, counts)


def _with_pipelines(reference: ReferenceScores, predictions: Predictions) -> ReferenceScores:
    """Return a reference in which a line without a pipeline has the pipeline of the only prediction with its id."""
    if all(pipeline for pipeline, _ in reference.scores):
        return reference
    by_id: dict[str, list[Key]] = {}
    for key in predictions.scores:
        by_id.setdefault(key[1], []).append(key)

    def whole(key: Key) -> Key:
        candidates = by_id.get(key[1], [])
        return candidates[0] if not key[0] and len(candidates) == 1 else key

    return ReferenceScores(
        reference.name,
        {whole(key): scores for key, scores in reference.scores.items()},
        {whole(key): cluster for key, cluster in reference.clusters.items()},
    )


def _column(scores: Mapping[Key, Mapping[str, float]], keys: list[Key], metric: str) -> Floats:
    return np.array([scores[key].get(metric, np.nan) for key in keys], dtype=np.float64)
