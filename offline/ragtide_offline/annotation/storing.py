"""Stores an annotation, and publishes its answers if they count: the one way for the command line and the page."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from ragtide_schemas import Feedback, utc_now

from .annotations import Annotation, StoredAnnotations
from .questions import gold_scores
from .queue import ItemToAnnotate

AnnotationOutcome = Literal["published", "selected", "second", "graded", "skipped"]
"""The end of an annotation: `published` as feedback; `selected`, in no estimate; `second` about an item that another
person annotated first; `graded`, because the interaction came with gold scores; or `skipped`."""


def annotation_of(
    item: ItemToAnnotate,
    annotator: str,
    *,
    skipped: bool = False,
    supported: Mapping[str, bool] | None = None,
    ratings: Mapping[str, int] | None = None,
) -> Annotation:
    """Return the annotation that follows from answers.

    Args:
        item: of the queue.
        annotator: the person.
        skipped: whether the person skipped the item.
        supported: for each response sentence, by its key, whether the documents support it.
        ratings: from 1 to 5 by metric.
    """
    interaction = item.specimen.interaction
    return Annotation(
        pipeline=interaction.pipeline,
        interaction_id=interaction.interaction_id,
        annotator=annotator,
        given_at=utc_now(),
        skipped=skipped,
        supported=dict(supported or {}),
        ratings=dict(ratings or {}),
        gold_scores=gold_scores(item.specimen, supported or {}, ratings or {}),
        inclusion_probability=item.inclusion_probability,
    )


async def store(
    stored: StoredAnnotations,
    annotation: Annotation,
    item: ItemToAnnotate,
    publish: Callable[[Feedback], Awaitable[object]],
) -> AnnotationOutcome:
    """Store an annotation, and publish its answers if they count. It is safe to store the same one again.

    Args:
        stored: the annotations of the deployment.
        annotation: about the item.
        item: of the queue.
        publish: publishes feedback.

    Raises:
        NoRoomForAnnotationError: there is no room for another annotation.
        redis.RedisError: Redis failed.
    """
    feedback = annotation.feedback(item.specimen.interaction.gold_scores)
    published = feedback is not None and await stored.is_first(annotation)
    if feedback is not None and published:
        await publish(feedback)
    await stored.put(annotation)
    if annotation.skipped:
        return "skipped"
    if annotation.selected:
        return "selected"
    return "published" if published else "graded" if feedback is None else "second"
