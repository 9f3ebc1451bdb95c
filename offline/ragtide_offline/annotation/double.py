"""Items that two people annotated: how often they agree. No I/O."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ragtide_aggregator.statistics.drift.kappa import kappa_interval, kappa_of

from .annotations import Annotation
from .questions import ADHERENCE


@dataclass(frozen=True, slots=True)
class DoubleAnnotations:
    """Items that people annotated, and the agreement on those that two people annotated."""

    n_items: int
    """Items that at least one person answered."""
    n_double: int
    """Items whose adherence at least two people answered; of each the first two people count."""
    n_agreed: int
    """Items of these on which both say the same."""
    kappa: float | None
    """Cohen's kappa of adherence, the agreement beyond chance; None if chance alone always agrees, or without items."""
    kappa_lower: float | None
    """Lower end of its 95% interval, for a fixed number of items; None without any disagreement."""
    kappa_upper: float | None
    """Upper end of this interval."""


def double_annotations(annotations: Iterable[Annotation]) -> DoubleAnnotations:
    """Return the agreement of people, on whether all sentences of a response are supported.

    Args:
        annotations: the oldest first.
    """
    answers: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    items: set[tuple[str, str]] = set()
    for annotation in annotations:
        if annotation.skipped:
            continue
        items.add((annotation.pipeline, annotation.interaction_id))
        if ADHERENCE in annotation.gold_scores:
            answers[annotation.pipeline, annotation.interaction_id].append(annotation.gold_scores[ADHERENCE])
    pairs = [(found[0], found[1]) for found in answers.values() if len(found) > 1]
    n = len(pairs)
    if not n:
        return DoubleAnnotations(len(items), 0, 0, None, None, None)
    first, second = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
    disagreed = sum(a != b for a, b in pairs) / n
    by_chance = first * (1 - second) + second * (1 - first)
    agreed = sum(a == b for a, b in pairs)
    if not by_chance:
        return DoubleAnnotations(len(items), n, agreed, None, None, None)
    if not disagreed:
        # The normal law would give an interval without a width, which no number of items deserves.
        return DoubleAnnotations(len(items), n, agreed, 1.0, None, None)
    lower, upper = kappa_interval(disagreed, by_chance, n)
    return DoubleAnnotations(len(items), n, agreed, kappa_of(disagreed, by_chance), lower, upper)
