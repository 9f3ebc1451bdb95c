"""Annotations: the answers of people about kept items, stored so that nobody is asked twice."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final, Self, cast

from pydantic import Field, model_validator
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, interaction_digest
from ragtide_schemas import Feedback, InvalidEntryError, utc_now
from ragtide_schemas.base import Name, Probability, UtcTime, VersionedModel
from ragtide_schemas.gold import GoldScores, check_gold_scores

KEPT: Final = timedelta(days=30)
"""Annotations older than this are removed when another one is stored; the items expired before."""

ANNOTATIONS_MAX: Final = 50_000
"""Most annotations of a deployment."""

_FIRST: Final = "first:"
"""Prefix of the field that names the annotator whose answers about an item were published."""


class Annotation(VersionedModel):
    """The answers of one person about one item."""

    pipeline: Name
    """The interaction's pipeline."""
    interaction_id: Name
    """The interaction's id."""
    annotator: Name
    """The person."""
    given_at: UtcTime
    """Time of the last answer."""
    skipped: bool = False
    """Whether the person skipped the item."""
    supported: dict[Name, bool] = Field(default_factory=dict)
    """For each response sentence, by its key, whether the documents support it; `response` for a whole response."""
    ratings: dict[Name, int] = Field(default_factory=dict)
    """Ratings from 1 to 5 by metric."""
    gold_scores: GoldScores = Field(default_factory=dict)
    """The gold scores that follow from the answers."""
    inclusion_probability: Probability | None = None
    """Probability with which chance chose this one of the scored interactions for people; None for an item that was
    selected because of its scores, whose answers count in no estimate."""

    @model_validator(mode="after")
    def _scores_are_in_range(self) -> Self:
        check_gold_scores(self.gold_scores)
        return self

    @property
    def selected(self) -> bool:
        """Whether the item was selected because of its scores."""
        return self.inclusion_probability is None

    def feedback(self, graded: Collection[str] = ()) -> Feedback | None:
        """Return the feedback that counts in estimates; None for a skipped or a selected item, or without new scores.

        Args:
            graded: metrics for which the interaction came with a gold score, which is the first and counts.
        """
        gold = {metric: score for metric, score in self.gold_scores.items() if metric not in graded}
        if self.inclusion_probability is None or not gold:
            return None
        return Feedback(
            pipeline=self.pipeline,
            interaction_id=self.interaction_id,
            gold_scores=gold,
            given_at=self.given_at,
            annotator=self.annotator,
            inclusion_probability=self.inclusion_probability,
            metadata={"supported": dict(self.supported), "ratings": dict(self.ratings)},
        )


class StoredAnnotations:
    """The annotations of a deployment.

    Args:
        redis: client.
        prefix: of the keys.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._key = Streams(prefix, 0).annotations

    async def read(self) -> list[Annotation]:
        """Return all annotations that can be read, the oldest first."""
        found = cast("Mapping[bytes, bytes]", await self._redis.hgetall(self._key))
        annotations = []
        for field, payload in found.items():
            if not field.startswith(_FIRST.encode()):
                try:
                    annotations.append(Annotation.decode(payload))
                except InvalidEntryError:
                    continue  # written by a newer release, or by another program
        return sorted(annotations, key=lambda one: one.given_at)

    async def is_first(self, annotation: Annotation) -> bool:
        """Return whether the answers of this annotator are the first about the item, and take note of it."""
        field = _FIRST + interaction_digest(annotation.pipeline, annotation.interaction_id)
        await self._redis.hsetnx(self._key, field, annotation.annotator)
        return cast("bytes | None", await self._redis.hget(self._key, field)) == annotation.annotator.encode()

    async def add(self, annotation: Annotation) -> None:
        """Store an annotation; remove those that are older than `KEPT`.

        Raises:
            ValueError: there are `ANNOTATIONS_MAX` annotations already.
            redis.RedisError: Redis failed.
        """
        stored = await self.read()
        old = [one for one in stored if one.given_at < utc_now() - KEPT]
        if old:
            await self._remove(old)
        if len(stored) - len(old) >= ANNOTATIONS_MAX:
            raise ValueError(f"there are {ANNOTATIONS_MAX:,} annotations: they are removed after {KEPT.days} days")
        await self._redis.hset(self._key, _field(annotation), annotation.encode())

    async def forget(self, interaction_id: str, pipeline: str | None = None) -> int:
        """Remove the annotations of an interaction id, and return their number."""
        found = [one for one in await self.read() if one.interaction_id == interaction_id]
        found = [one for one in found if pipeline in (None, one.pipeline)]
        if found:
            await self._remove(found)
        return len(found)

    async def _remove(self, annotations: list[Annotation]) -> None:
        firsts = {_FIRST + interaction_digest(one.pipeline, one.interaction_id) for one in annotations}
        await self._redis.hdel(self._key, *map(_field, annotations), *firsts)


def _field(annotation: Annotation) -> str:
    return f"{interaction_digest(annotation.pipeline, annotation.interaction_id)}:{annotation.annotator}"
