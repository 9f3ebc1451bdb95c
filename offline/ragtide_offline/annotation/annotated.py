"""Chooses annotated specimens for a data set, with the gold scores of people."""

from collections.abc import Iterable

from ragtide_aggregator.reading.specimens import KeptSpecimens

from ..datasets.choosing import ChosenSpecimen, ChosenSpecimens
from .annotations import Annotation


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
