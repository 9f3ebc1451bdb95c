"""Covariates that ragtide computes: numbers that are known of an interaction before its answer. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ragtide_schemas import RagInteraction
from ragtide_schemas.interaction import usable
from ragtide_schemas.limits import COVARIATES_MAX


def _scores(interaction: RagInteraction) -> list[float]:
    return [document.score for document in interaction.documents if document.score is not None]


COMPUTED: Final[Mapping[str, Callable[[RagInteraction], float | None]]] = {
    "question_length": lambda one: len(one.question),
    "context_length": lambda one: sum(len(document.text) for document in one.documents),
    "documents": lambda one: len(one.documents),
    "top_score": lambda one: max(_scores(one), default=None),
    "mean_score": lambda one: sum(scores) / len(scores) if (scores := _scores(one)) else None,
}
"""Functions that return a covariate, None if the interaction has none: characters of the question, characters of all
documents, number of documents, the largest and the mean score that the retriever gave."""


def covariates_of(interaction: RagInteraction, names: Iterable[str]) -> dict[str, float] | None:
    """Return the covariates of an interaction: its own, and the computed ones of these names; None without any.

    An interaction's own number replaces a computed one of the same name. A computed number that is not finite, or
    beyond the bounds of a metric event, is left out.
    """
    found = dict(interaction.covariates or {})
    for name in names:
        if name not in found and len(found) < COVARIATES_MAX:
            number = COMPUTED[name](interaction)
            if number is not None and usable(number):
                found[name] = float(number)
    return found or None
