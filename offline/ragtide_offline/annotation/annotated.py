"""Chooses specimens for a data set by people: annotated ones with gold scores, and those with opinions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ragtide_aggregator.reading.specimens import KeptSpecimens

from ..datasets.choosing import ChosenSpecimen, ChosenSpecimens
from .annotations import HIGHEST, LOWEST, Annotation

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
    first = {item: given[0] for item, given in answers.items()}
    reasons = {
        item: [{**given.model_dump(mode="json", include=_ANSWERS), "saw_scores": False, "selected": selected}]
        for item, given in first.items()
    }
    return await _chosen(kept, reasons, {item: given.gold_scores for item, given in first.items()}, limit)


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
    newest = [one for one in reversed(list(opinions)) if one.rating is not None and lowest <= one.rating <= highest]
    reasons = {item: reasons_of(given) for item, given in _by_item(newest, annotator, pipeline).items()}
    return await _chosen(kept, reasons, {}, limit)


def reasons_of(opinions: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return the first opinions about an item for the provenance of its row."""
    return [
        {**opinion.model_dump(mode="json", include=_RATING), "saw_scores": True}
        for opinion in opinions[:OPINIONS_OF_ROW]
    ]


def _by_item(
    annotations: Iterable[Annotation], annotator: str | None, pipeline: str | None
) -> dict[tuple[str, str], list[Annotation]]:
    found: dict[tuple[str, str], list[Annotation]] = {}
    for annotation in annotations:
        if annotator in (None, annotation.annotator) and pipeline in (None, annotation.pipeline):
            found.setdefault((annotation.pipeline, annotation.interaction_id), []).append(annotation)
    return found


async def _chosen(
    kept: KeptSpecimens,
    reasons: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    gold_scores: Mapping[tuple[str, str], Mapping[str, float]],
    limit: int | None,
) -> ChosenSpecimens:
    chosen, missing = [], []
    for item, given in reasons.items():
        pipeline, interaction_id = item
        specimens = await kept.find(interaction_id, pipeline)
        if not specimens:
            missing.append(interaction_id)
        chosen += [ChosenSpecimen(specimen, given, gold_scores.get(item, {})) for specimen in specimens]
    return ChosenSpecimens(chosen[:limit], missing)
