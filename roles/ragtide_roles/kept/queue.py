"""The queue of items for an annotator, in an order by chance, and the one way to store the answers.

The queue has the uniform sample, disputed items and the worst.

Only items of the sample have a known probability, so only their answers may count in estimates. The order is that of a
hash: it depends on no score, so a person who stops early has annotated a sample of the sample, and cannot tell from the
order whether an item was selected.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Literal

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_schemas import Feedback, Specimen, utc_now
from ragtide_schemas.limits import PROBABILITY_MIN

from .annotations import Annotation, StoredAnnotations
from .choosing import is_worst_of
from .questions import answered_metrics, gold_scores, questions

DISPUTED_N: Final = 20
"""Most disputed items of a pipeline."""

DISPUTED_BY: Final = 0.25
"""Least difference of the scores of two labelers of a disputed item."""

WORST_N: Final = 20
"""Most items of a list of the worst."""

MOST: Final = 10_000

_SALT: Final = b"annotate"
"""Makes this draw independent of the draw for the sample of specimens."""

AnnotationOutcome = Literal["published", "selected", "second", "graded", "skipped"]
"""The end of an annotation: `published` as feedback; `selected`, in no estimate; `second` about an item that another
person annotated first; `graded`, because the interaction has gold scores already; or `skipped`."""


class ItemSource(StrEnum):
    """Where the items of a queue come from."""

    SAMPLE = "sample"
    DISPUTED = "disputed"
    WORST = "worst"


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Choices of an annotator."""

    sources: Collection[ItemSource] = tuple(ItemSource)
    share: float = 1.0
    """Share of the sample that people are asked about, chosen by a hash of the id; in (0, 1]."""
    metrics: Sequence[str] = ("trace.adherence",)
    """Metrics whose worst and disputed items are asked."""
    rated: Sequence[str] = ()
    """Metrics that are rated from 1 to 5."""
    window_s: float | None = None
    """Seconds after its scoring in which an answer joins an interaction; None for no limit."""


@dataclass(frozen=True, slots=True)
class ItemToAnnotate:
    """An item to annotate."""

    specimen: Specimen
    inclusion_probability: float | None
    """Probability with which chance chose this one of the scored interactions; None for a selected item."""
    graded: frozenset[str] = frozenset()
    """Metrics that have a gold score, of the interaction itself or of feedback: the first one counts."""


def draw_of(pipeline: str, interaction_id: str) -> float:
    """Return a number in [0, 1) for an interaction that depends on nothing else, uniform over interactions."""
    digest = blake2b(f"{pipeline}\n{interaction_id}".encode(), digest_size=8, key=_SALT).digest()
    return int.from_bytes(digest) / 2**64


async def queue_of(
    kept: KeptSpecimens, pipelines: Iterable[str], options: QueueOptions, annotations: Iterable[Annotation] = ()
) -> list[ItemToAnnotate]:
    """Return the items to annotate, by their draws.

    An item of the sample is asked as one of the sample only, whatever its scores are: if it could come up earlier
    because it is bad, the annotated part would be no sample. It is left out if an answer could not count: it has gold
    scores of every metric that is asked, its own or those of feedback, or it was scored too long ago. An item that
    people annotated stays, because several may annotate it.

    Args:
        kept: the specimens of the deployment.
        pipelines: names of the pipelines.
        options: sources, share and metrics.
    """
    annotated = {(annotation.pipeline, annotation.interaction_id) for annotation in annotations}
    items: list[ItemToAnnotate] = []
    for pipeline in pipelines:
        sample = {specimen.interaction.interaction_id: specimen for specimen in await kept.sample(pipeline)}
        if ItemSource.SAMPLE in options.sources:
            drawn = [specimen for specimen in sample.values() if _draw(specimen) < options.share]
            by_feedback = await kept.graded(pipeline, [specimen.interaction.interaction_id for specimen in drawn])
            for specimen, metrics in zip(drawn, by_feedback, strict=True):
                # The gold scores of an annotated item are those of its first annotator.
                others = frozenset() if _id(specimen) in annotated else metrics
                graded = others | specimen.interaction.gold_scores.keys()
                age_s = (utc_now() - specimen.labeled_at).total_seconds()
                is_old = options.window_s is not None and age_s > options.window_s
                if not is_old and answered_metrics(specimen, options.rated) - graded:
                    items.append(ItemToAnnotate(specimen, asked_probability(specimen, options.share), graded))
        selected = {
            specimen.interaction.interaction_id: specimen
            for specimen in await _specimens_to_ask(kept, pipeline, options)
            if specimen.interaction.interaction_id not in sample
        }
        items += [ItemToAnnotate(specimen, None) for specimen in selected.values()]
    asked = [item for item in items if questions(item.specimen, options.rated)]
    return sorted(asked, key=lambda item: _draw(item.specimen))


def left(queue: Sequence[ItemToAnnotate], annotations: Iterable[Annotation], annotator: str) -> list[ItemToAnnotate]:
    """Return the items that an annotator has neither annotated nor skipped."""
    done = {
        (annotation.pipeline, annotation.interaction_id)
        for annotation in annotations
        if annotation.annotator == annotator
    }
    return [item for item in queue if _id(item.specimen) not in done]


async def _specimens_to_ask(kept: KeptSpecimens, pipeline: str, options: QueueOptions) -> list[Specimen]:
    specimens: list[Specimen] = []
    lists = await kept.lists(pipeline)
    if ItemSource.WORST in options.sources:
        for name in lists:
            if any(is_worst_of(name, metric) for metric in options.metrics):
                specimens += [listed.specimen for listed in await kept.listed(pipeline, name, WORST_N)]
    if ItemSource.DISPUTED in options.sources:
        every = {
            _id(listed.specimen): listed.specimen
            for name in lists
            for listed in await kept.listed(pipeline, name, MOST)
        }
        disputed = {key: difference(specimen, options.metrics) for key, specimen in every.items()}
        order = sorted(every, key=lambda key: (-disputed[key], key))
        specimens += [every[key] for key in order[:DISPUTED_N] if disputed[key] >= DISPUTED_BY]
    return specimens


def difference(specimen: Specimen, metrics: Collection[str]) -> float:
    """Return the largest difference of two labelers' scores of a metric; 0 if no two labelers have a score."""
    scores = [
        [labeling.scores[metric] for labeling in specimen.labelings if metric in labeling.scores] for metric in metrics
    ]
    return max((max(values) - min(values) for values in scores if values), default=0.0)


def asked_probability(specimen: Specimen, share: float) -> float:
    """Return the probability that an interaction is asked, given that it was kept of the traffic and scored."""
    in_sample = (specimen.sample_probability or 1.0) / specimen.interaction.sampling_probability
    return max(min(in_sample, 1.0) * share, PROBABILITY_MIN)


def _draw(specimen: Specimen) -> float:
    return draw_of(*_id(specimen))


def _id(specimen: Specimen) -> tuple[str, str]:
    return specimen.interaction.pipeline, specimen.interaction.interaction_id


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
        publish: publishes feedback.

    Raises:
        NoRoomForAnnotationError: there is no room for another annotation.
        redis.RedisError: Redis failed.
    """
    feedback = annotation.feedback(item.graded or item.specimen.interaction.gold_scores)
    published = feedback is not None and await stored.is_first(annotation)
    if feedback is not None and published:
        await publish(feedback)
    await stored.put(annotation)
    if annotation.skipped:
        return "skipped"
    if annotation.selected:
        return "selected"
    return "published" if published else "graded" if feedback is None else "second"
