"""Chooses specimens for a data set by people: annotated ones with gold scores, and those with opinions."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ragtide_aggregator.reading.specimens import KeptSpecimens

from ..datasets.choosing import ChosenSpecimen, ChosenSpecimens
from .annotations import Annotation
from .opinions import HIGHEST, LOWEST, Opinion

OPINIONS_OF_ROW: Final = 5
"""Most opinions in the provenance of a row: the newest."""


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
    first: dict[tuple[str, str], Annotation] = {}
    for one in annotations:
        wanted = one.selected == selected and annotator in (None, one.annotator) and pipeline in (None, one.pipeline)
        if wanted and one.gold_scores:
            first.setdefault((one.pipeline, one.interaction_id), one)
    chosen, missing = [], []
    for one in first.values():
        found = await kept.find(one.interaction_id, one.pipeline)
        if not found:
            missing.append(one.interaction_id)
        fields = one.model_dump(mode="json", exclude={"schema_version", "pipeline", "interaction_id", "skipped"})
        chosen += [ChosenSpecimen(specimen, [{**fields, "selected": selected}], one.gold_scores) for specimen in found]
    return ChosenSpecimens(chosen[:limit], missing)


async def chosen_of_opinions(
    kept: KeptSpecimens,
    opinions: Iterable[Opinion],
    *,
    lowest: int = LOWEST,
    highest: int = HIGHEST,
    person: str | None = None,
    pipeline: str | None = None,
    limit: int | None = None,
) -> ChosenSpecimens:
    """Return the specimens with opinions, those with the newest opinion first; opinions give no gold scores.

    Args:
        kept: the specimens of the deployment.
        opinions: the newest first.
        lowest: lowest rating of the opinions that count here.
        highest: highest rating.
        person: only opinions of this person.
        pipeline: only items of this pipeline.
        limit: most specimens.
    """
    items: dict[tuple[str, str], list[Opinion]] = {}
    for one in opinions:
        if lowest <= one.rating <= highest and person in (None, one.person) and pipeline in (None, one.pipeline):
            items.setdefault((one.pipeline, one.interaction_id), []).append(one)
    chosen, missing = [], []
    for (name, interaction_id), found in items.items():
        specimens = await kept.find(interaction_id, name)
        if not specimens:
            missing.append(interaction_id)
        chosen += [ChosenSpecimen(specimen, reasons_of(found)) for specimen in specimens]
    return ChosenSpecimens(chosen[:limit], missing)


def reasons_of(opinions: Sequence[Opinion]) -> list[dict[str, Any]]:
    """Return the newest opinions about an item for the provenance of its row."""
    return [
        {"opinion": one.rating, "blind": False, **one.model_dump(mode="json", include={"person", "given_at", "reason"})}
        for one in opinions[:OPINIONS_OF_ROW]
    ]
