"""The items that people annotated: as specimens for a data set, and how often two people agree.

A data set takes annotated specimens with gold scores, and those with opinions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.statistics.drift.kappa import kappa_interval, kappa_of

from .annotations import HIGHEST, LOWEST, Annotation
from .choosing import ChosenSpecimen, ChosenSpecimens
from .questions import ADHERENCE

OPINIONS_OF_ROW: Final = 5
"""Most opinions in the provenance of a row: the newest."""

_ANSWERS: Final = {"annotator", "given_at", "supported", "ratings", "gold_scores", "inclusion_probability"}
_RATING: Final = {"annotator", "given_at", "rating", "reason"}


async def chosen_of_annotations(
    kept: KeptSpecimens,
    annotations: Iterable[Annotation],
    *,
    selected: bool = False,
    annotator: str | None = None,
    pipeline: str | None = None,
    limit: int | None = None,
) -> ChosenSpecimens:
    """Return the annotated specimens with people's gold scores, the oldest answers first.

    Items of the sample and selected items never come together, because only a sample stands for the traffic.

    Args:
        kept: the specimens of the deployment.
        annotations: the oldest first; of an item the first one counts.
        selected: whether to return items that were selected because of their scores, and not those of the sample.
        annotator: only answers of this person.
        pipeline: only items of this pipeline.
        limit: most specimens.
    """
    answers = _by_item(
        (annotation for annotation in annotations if annotation.selected == selected and annotation.gold_scores),
        annotator,
        pipeline,
    )
    first = {item: annotations_of_item[0] for item, annotations_of_item in answers.items()}
    reasons = {
        item: [{**annotation.model_dump(mode="json", include=_ANSWERS), "saw_scores": False, "selected": selected}]
        for item, annotation in first.items()
    }
    gold_scores = {item: annotation.gold_scores for item, annotation in first.items()}
    return await _choose(kept, reasons, gold_scores, limit)


async def chosen_of_opinions(
    kept: KeptSpecimens,
    opinions: Iterable[Annotation],
    *,
    lowest: int = LOWEST,
    highest: int = HIGHEST,
    annotator: str | None = None,
    pipeline: str | None = None,
    limit: int | None = None,
) -> ChosenSpecimens:
    """Return the specimens that people rated who saw their scores, the last rated first; they get no gold scores.

    Args:
        kept: the specimens of the deployment.
        opinions: annotations of people who saw the scores, the oldest first.
        lowest: lowest rating of the opinions that count here.
        highest: highest rating.
        annotator: only opinions of this person.
        pipeline: only items of this pipeline.
        limit: most specimens.
    """
    newest = [
        opinion
        for opinion in reversed(list(opinions))
        if opinion.rating is not None and lowest <= opinion.rating <= highest
    ]
    reasons = {item: reasons_of(rated) for item, rated in _by_item(newest, annotator, pipeline).items()}
    return await _choose(kept, reasons, {}, limit)


def reasons_of(opinions: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return the first opinions about an item for the provenance of its row."""
    return [
        {**opinion.model_dump(mode="json", include=_RATING), "saw_scores": True}
        for opinion in opinions[:OPINIONS_OF_ROW]
    ]


def _by_item(
    annotations: Iterable[Annotation], annotator: str | None, pipeline: str | None
) -> dict[tuple[str, str], list[Annotation]]:
    by_item: dict[tuple[str, str], list[Annotation]] = {}
    for annotation in annotations:
        if annotator in (None, annotation.annotator) and pipeline in (None, annotation.pipeline):
            by_item.setdefault((annotation.pipeline, annotation.interaction_id), []).append(annotation)
    return by_item


async def _choose(
    kept: KeptSpecimens,
    reasons: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    gold_scores: Mapping[tuple[str, str], Mapping[str, float]],
    limit: int | None,
) -> ChosenSpecimens:
    chosen, missing = [], []
    for item, reasons_of_item in reasons.items():
        pipeline, interaction_id = item
        specimens = await kept.find(interaction_id, pipeline)
        if not specimens:
            missing.append(interaction_id)
        gold = gold_scores.get(item, {})
        chosen += [ChosenSpecimen(specimen, reasons_of_item, gold) for specimen in specimens]
    return ChosenSpecimens(chosen[:limit], missing)


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
    pairs = [(scores[0], scores[1]) for scores in answers.values() if len(scores) > 1]
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
