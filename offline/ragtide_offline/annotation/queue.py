"""The queue of items for an annotator: the uniform sample, disputed items and the worst, in an order by chance.

Only items of the sample have a known probability, so only their answers may count in estimates. The order is that of a
hash: it depends on no score, so a person who stops early has annotated a sample of the sample, and cannot tell from the
order whether an item was selected.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_schemas import Specimen, utc_now
from ragtide_schemas.limits import PROBABILITY_MIN

from ..datasets.choosing import is_worst_of
from .annotations import Annotation
from .questions import answered_metrics, questions

DISPUTED_N: Final = 20
"""Most disputed items of a pipeline."""

DISPUTED_BY: Final = 0.25
"""Least difference of the scores of two labelers of a disputed item."""

WORST_N: Final = 20
"""Most items of a list of the worst."""

MOST: Final = 10_000

_SALT: Final = b"annotate"
"""Makes this draw independent of the draw for the sample of specimens."""


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


def draw_of(pipeline: str, interaction_id: str) -> float:
    """Return a number in [0, 1) for an interaction that depends on nothing else, uniform over interactions."""
    made = blake2b(f"{pipeline}\n{interaction_id}".encode(), digest_size=8, key=_SALT).digest()
    return int.from_bytes(made) / 2**64


async def queue_of(kept: KeptSpecimens, pipelines: Iterable[str], options: QueueOptions) -> list[ItemToAnnotate]:
    """Return the items to annotate, by their draws.

    An item of the sample is asked as one of the sample only, whatever its scores are: if it could come up earlier
    because it is bad, the annotated part would be no sample. It is left out if an answer could not count: it came with
    gold scores of every metric that is asked, or it was scored too long ago.

    Args:
        kept: the specimens of the deployment.
        pipelines: names of the pipelines.
        options: sources, share and metrics.
    """
    found: list[ItemToAnnotate] = []
    for pipeline in pipelines:
        sample = {one.interaction.interaction_id: one for one in await kept.sample(pipeline)}
        if ItemSource.SAMPLE in options.sources:
            found += [
                ItemToAnnotate(one, asked_probability(one, options.share))
                for one in sample.values()
                if _draw(one) < options.share and _can_count(one, options)
            ]
        selected = {
            one.interaction.interaction_id: one
            for one in await _selected(kept, pipeline, options)
            if one.interaction.interaction_id not in sample
        }
        found += [ItemToAnnotate(one, None) for one in selected.values()]
    asked = [one for one in found if questions(one.specimen, options.rated)]
    return sorted(asked, key=lambda one: _draw(one.specimen))


def left(queue: Sequence[ItemToAnnotate], annotations: Iterable[Annotation], annotator: str) -> list[ItemToAnnotate]:
    """Return the items that an annotator has neither annotated nor skipped."""
    done = {
        (annotation.pipeline, annotation.interaction_id)
        for annotation in annotations
        if annotation.annotator == annotator
    }
    return [item for item in queue if _id(item.specimen) not in done]


def _can_count(specimen: Specimen, options: QueueOptions) -> bool:
    old = options.window_s is not None and specimen.labeled_at + timedelta(seconds=options.window_s) < utc_now()
    return not old and bool(answered_metrics(specimen, options.rated) - specimen.interaction.gold_scores.keys())


async def _selected(kept: KeptSpecimens, pipeline: str, options: QueueOptions) -> list[Specimen]:
    found: list[Specimen] = []
    lists = await kept.lists(pipeline)
    if ItemSource.WORST in options.sources:
        for name in lists:
            if any(is_worst_of(name, metric) for metric in options.metrics):
                found += [one.specimen for one in await kept.listed(pipeline, name, WORST_N)]
    if ItemSource.DISPUTED in options.sources:
        every = {_id(one.specimen): one.specimen for name in lists for one in await kept.listed(pipeline, name, MOST)}
        disputed = {key: difference(one, options.metrics) for key, one in every.items()}
        order = sorted(every, key=lambda key: (-disputed[key], key))
        found += [every[key] for key in order[:DISPUTED_N] if disputed[key] >= DISPUTED_BY]
    return found


def difference(specimen: Specimen, metrics: Collection[str]) -> float:
    """Return the largest difference of two labelers' scores of a metric; 0 if no two labelers have a score."""
    scores = [
        [labeling.scores[metric] for labeling in specimen.labelings if metric in labeling.scores] for metric in metrics
    ]
    return max((max(of) - min(of) for of in scores if of), default=0.0)


def asked_probability(specimen: Specimen, share: float) -> float:
    """Return the probability that an interaction is asked, given that it was kept of the traffic and scored."""
    in_sample = (specimen.sample_probability or 1.0) / specimen.interaction.sampling_probability
    return max(min(in_sample, 1.0) * share, PROBABILITY_MIN)


def _draw(specimen: Specimen) -> float:
    return draw_of(*_id(specimen))


def _id(specimen: Specimen) -> tuple[str, str]:
    return specimen.interaction.pipeline, specimen.interaction.interaction_id
