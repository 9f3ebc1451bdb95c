"""Predicts the sentence labels of an interaction from its features, by the fitted numbers in `model.json`.

A logistic function gives every sentence a probability. Another one says whether a document is about the question: it
never sees the response, and multiplies the probabilities that the document's sentences are relevant. Trees then correct
the expected share of relevant and of utilized sentences, and a logistic function of the whole interaction predicts
adherence. The probabilities are moved so that the formulas of TRACe give these scores. Their order stays.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, fsum
from typing import Any, Final, Self

import numpy as np

from ragtide_schemas import SentenceProbabilities

from .adjustment import Term, move_to_mean, predicted_score, temper
from .features import DOCUMENT_FEATURES, RESPONSE_FEATURES, TOPIC_FEATURES, InteractionFeatures
from .overlap import Floats
from .trees import DECIMALS, BoostedTrees

MODEL_FILE: Final = "model.json"
"""Name of the file of the shipped model, beside this module."""

LABELS: Final = {"relevant": DOCUMENT_FEATURES, "utilized": DOCUMENT_FEATURES, "supported": RESPONSE_FEATURES}
"""Features of each kind of sentence label."""

TOPIC: Final = "topic"
"""Name of the probability that a document is about the question."""

LOGISTIC: Final = {**LABELS, TOPIC: TOPIC_FEATURES}
"""Features of each probability of a sentence or a document."""

_STATISTICS = ("mean", "most", "least")

SUMMARY_FEATURES: Final = (
    *(f"{kind} document {name}" for kind in _STATISTICS for name in ("relevant", "utilized", *DOCUMENT_FEATURES[1:])),
    *(f"{kind} response {name}" for kind in _STATISTICS for name in ("supported", *RESPONSE_FEATURES[1:])),
)
"""Features of a whole interaction: its sentences' probabilities and features, summarized."""

SCORES: Final = ("relevance", "utilization")
"""Scores that trees correct."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """The fitted numbers of the local labeler."""

    coefficients: Mapping[str, Floats]
    """By probability: a column of coefficients, in the order of the features."""
    shares: BoostedTrees
    """Corrections of the expected shares of relevant and of utilized document sentences."""
    adherence: Sequence[Term]
    """Terms of the log odds of adherence, over `SUMMARY_FEATURES`."""
    adherence_constant: float
    """Constant of these log odds."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the model from its stored form.

        Raises:
            ValueError: the numbers belong to other features than `features.py` computes.
        """
        for label, names in LOGISTIC.items():
            unknown = sorted(stored[label].keys() - set(names))
            if unknown:
                raise ValueError(f"{label}: there is no feature {unknown[0]!r}; fit the model again")
        terms = dict(stored["adherence"])
        constant = terms.pop("constant")
        unknown = sorted(terms.keys() - set(SUMMARY_FEATURES))
        if unknown:
            raise ValueError(f"adherence: there is no feature {unknown[0]!r}; fit the model again")
        return cls(
            {
                label: np.array([[stored[label].get(name, 0.0)] for name in names], np.float64)
                for label, names in LOGISTIC.items()
            },
            BoostedTrees.read([stored[score] for score in SCORES], SUMMARY_FEATURES),
            [Term(SUMMARY_FEATURES.index(name), *numbers) for name, numbers in terms.items()],
            constant,
        )

    def probabilities(self, label: str, features: Floats) -> list[float]:
        """Return a probability of each sentence or document, before any correction.

        Features are added in their order, so every machine computes the same bits.
        """
        return [1 / (1 + exp(-logit)) for logit in np.add.reduce(self.coefficients[label] * features).tolist()]

    def predict(self, features: InteractionFeatures) -> SentenceProbabilities:
        """Return the probabilities of all sentence labels of an interaction."""
        relevant = self.probabilities("relevant", features.documents)
        if features.topics is not None:
            topics = np.repeat(self.probabilities(TOPIC, features.topics), features.lengths).tolist()
            relevant = [p * topic for p, topic in zip(relevant, topics, strict=True)]
        utilized = self.probabilities("utilized", features.documents)
        supported = self.probabilities("supported", features.response)
        if relevant:
            summary = summary_features(features, relevant, utilized, supported)
            more_relevant, more_utilized = self.shares.predict(summary).tolist()
            relevant = move_to_mean(relevant, fsum(relevant) / len(relevant) + more_relevant)
            utilized = move_to_mean(utilized, fsum(utilized) / len(utilized) + more_utilized)
            if supported:
                adherence = predicted_score(self.adherence, summary.tolist(), self.adherence_constant)
                supported = temper(supported, adherence)
        return SentenceProbabilities(relevant=tuple(relevant), utilized=tuple(utilized), supported=tuple(supported))


@cache
def shipped_model() -> LocalModel:
    """Return the model that comes with the package."""
    return LocalModel.read(json.loads(files(__package__).joinpath(MODEL_FILE).read_text(encoding="utf-8")))


def summary_features(
    features: InteractionFeatures,
    relevant: Sequence[float] | Floats,
    utilized: Sequence[float] | Floats,
    supported: Sequence[float] | Floats,
) -> Floats:
    """Return the features of a whole interaction with at least one document sentence, as `SUMMARY_FEATURES` names them.

    They are rounded, so that no last bit decides. A response without sentences has features of 0.
    """
    of_documents = np.concatenate((np.array((relevant, utilized)), features.documents[1:]))
    of_response = np.concatenate((np.array((supported,)), features.response[1:]))
    return np.concatenate([*_parts(of_documents), *_parts(of_response)]).round(DECIMALS)


def _parts(rows: Floats) -> Sequence[Floats]:
    n = rows.shape[1]
    if not n:
        return [np.zeros(len(_STATISTICS) * len(rows))]
    return np.add.reduce(rows, axis=1) / n, np.maximum.reduce(rows, axis=1), np.minimum.reduce(rows, axis=1)
