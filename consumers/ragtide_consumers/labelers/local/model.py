"""Predicts the sentence labels of an interaction from its features, by the fitted numbers in `model.json`.

A logistic function gives every sentence a probability. Trees then correct the expected share of relevant and of
utilized sentences, and the probabilities are moved so that their mean is the corrected share. Their order stays.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp
from typing import Any, Final, Self

import numpy as np

from ragtide_schemas import SentenceProbabilities

from .features import DOCUMENT_FEATURES, RESPONSE_FEATURES, InteractionFeatures
from .overlap import Floats
from .trees import BoostedTrees

MODEL_FILE: Final = "model.json"
"""Name of the file of the shipped model, beside this module."""

LABELS: Final = {"relevant": DOCUMENT_FEATURES, "utilized": DOCUMENT_FEATURES, "supported": RESPONSE_FEATURES}
"""Features of each kind of sentence label."""

_OF_SHARES = ("mean", "most", "spread", "above half")

SUMMARY_FEATURES: Final = (
    *(f"{of} relevant" for of in _OF_SHARES),
    *(f"{of} utilized" for of in _OF_SHARES),
    *(f"{of} supported" for of in ("mean", "least", "last")),
    *(f"{of} document {name}" for of in ("mean", "most", "least") for name in DOCUMENT_FEATURES[1:]),
    *(f"{of} response {name}" for of in ("mean", "most", "least") for name in RESPONSE_FEATURES[1:]),
)
"""Features of a whole interaction: its sentences' probabilities and features, summarized."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """The fitted numbers of the local labeler."""

    coefficients: Mapping[str, Floats]
    """By kind of label: a column of coefficients, in the order of the features."""
    relevance: BoostedTrees
    """Correction of the expected share of relevant document sentences."""
    utilization: BoostedTrees
    """Correction of the expected share of utilized document sentences."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the model from its stored form.

        Raises:
            ValueError: the numbers belong to other features than `features.py` computes.
        """
        for label, names in LABELS.items():
            unknown = sorted(stored[label].keys() - set(names))
            if unknown:
                raise ValueError(f"{label}: there is no feature {unknown[0]!r}; fit the model again")
        return cls(
            {
                label: np.array([[stored[label].get(name, 0.0)] for name in names], np.float64)
                for label, names in LABELS.items()
            },
            BoostedTrees.read(stored["relevance"], SUMMARY_FEATURES),
            BoostedTrees.read(stored["utilization"], SUMMARY_FEATURES),
        )

    def sentences(self, label: str, features: Floats) -> Floats:
        """Return the probability of a label for each sentence, before any correction.

        Features are added in their order, so every machine computes the same bits.
        """
        logits = (self.coefficients[label] * features).sum(axis=0)
        return np.array([1 / (1 + exp(-logit)) for logit in logits.tolist()])

    def predict(self, features: InteractionFeatures) -> SentenceProbabilities:
        """Return the probabilities of all sentence labels of an interaction."""
        relevant = self.sentences("relevant", features.documents)
        utilized = self.sentences("utilized", features.documents)
        supported = self.sentences("supported", features.response)
        if len(relevant):
            summary = summarized(features, relevant, utilized, supported)
            relevant = moved(relevant, float(summary[0]) + self.relevance.predict(summary))
            utilized = moved(utilized, float(summary[len(_OF_SHARES)]) + self.utilization.predict(summary))
        return SentenceProbabilities(
            relevant=tuple(relevant.tolist()), utilized=tuple(utilized.tolist()), supported=tuple(supported.tolist())
        )


@cache
def shipped() -> LocalModel:
    """Return the model that comes with the package."""
    return LocalModel.read(json.loads(files(__package__).joinpath(MODEL_FILE).read_text(encoding="utf-8")))


def summarized(features: InteractionFeatures, relevant: Floats, utilized: Floats, supported: Floats) -> Floats:
    """Return the features of a whole interaction with at least one document sentence, as `SUMMARY_FEATURES` names them.

    A response without sentences has supported probabilities of 1 and features of 0.
    """
    n = len(relevant)
    both = np.array([relevant, utilized])
    mean = np.add.reduce(both, axis=1) / n
    away = both - mean[:, None]
    spread = np.sqrt(np.add.reduce(away * away, axis=1) / n)
    above = np.add.reduce(both > 0.5, axis=1) / n
    shares = np.array([mean, np.maximum.reduce(both, axis=1), spread, above]).T.ravel()
    support = [supported.mean(), supported.min(), supported[-1]] if len(supported) else [1.0, 1.0, 1.0]
    return np.concatenate([shares, support, _parts(features.documents[1:]), _parts(features.response[1:])])


def moved(probabilities: Floats, mean: float) -> Floats:
    """Return probabilities with another mean and the same order; a mean outside [0, 1] becomes the nearest in it.

    To lower the mean all are divided by one number; to raise it their differences from 1 are.
    """
    mean = min(max(mean, 0.0), 1.0)
    before = float(probabilities.mean())
    if mean <= before:
        return probabilities * (mean / before) if before else probabilities
    return 1.0 - (1.0 - probabilities) * ((1.0 - mean) / (1.0 - before))


def _parts(features: Floats) -> Sequence[float] | Floats:
    if not features.shape[1]:
        return np.zeros(3 * len(features))
    mean = np.add.reduce(features, axis=1) / features.shape[1]
    return np.concatenate([mean, np.maximum.reduce(features, axis=1), np.minimum.reduce(features, axis=1)])
