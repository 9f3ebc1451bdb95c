"""Annotations: the answers of people about kept items, and the ratings of people who saw the scores (opinions)."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from math import ceil
from typing import Annotated, Final, NamedTuple, Self, cast

from pydantic import Field, StringConstraints, model_validator
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, interaction_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_schemas import Feedback, InvalidEntryError, utc_now
from ragtide_schemas.base import Name, Probability, UtcTime, VersionedModel
from ragtide_schemas.feedback import GoldScores, check_gold_scores

PUT: Final = Lua("put_annotation")

KEPT: Final = timedelta(days=30)
"""Time for which the annotations of an item are kept after the last one; the item expires before."""
ITEMS_MAX: Final = 50_000
"""Most annotated items of a deployment; an item with annotations of both kinds counts twice."""
PEOPLE_MAX: Final = 20
"""Most people with annotations of one kind about one item."""
REASON_CHARS: Final = 300
"""Most characters of a reason."""
LOWEST: Final = 1
HIGHEST: Final = 5

_FIRST: Final = ""
"""Field that names the annotator whose answers about an item were published. No annotator has this name."""

Rating = Annotated[int, Field(ge=LOWEST, le=HIGHEST, strict=True)]
Reason = Annotated[str, StringConstraints(max_length=REASON_CHARS)]


class Annotation(VersionedModel):
    """The answers of one person about one item, or the person's rating of it."""

    pipeline: Name
    """The interaction's pipeline."""
    interaction_id: Name
    """The interaction's id."""
    annotator: Name
    """The person."""
    given_at: UtcTime
    """Time of the last answer."""
    saw_scores: bool = False
    """Whether the person saw the scores of the item. Such an annotation is an opinion: a rating with a reason.
    It is not blind, so it counts in no estimate, no agreement and no queue."""
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
    rating: Rating | None = None
    """With `saw_scores`: 1 for a useless answer, to 5 for an answer that needs no change."""
    reason: Reason = ""
    """With `saw_scores`: words of the person; empty if there are none."""
    rating_before: Rating | None = None
    """Rating that this one replaced; None if it is the first, or was restored."""
    reason_before: Reason = ""
    """Reason of the replaced rating."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        check_gold_scores(self.gold_scores)
        if self.saw_scores != (self.rating is not None):
            raise ValueError("a person who saw the scores gives a rating, and no other person does")
        if self.saw_scores and (self.gold_scores or self.inclusion_probability is not None):
            raise ValueError("a person who saw the scores gives no gold scores")
        return self

    @property
    def selected(self) -> bool:
        """Whether the item was selected because of its scores."""
        return self.inclusion_probability is None

    def feedback(self, graded: Collection[str] = ()) -> Feedback | None:
        """Return the feedback that counts in estimates.

        None for a skipped or a selected item, without new scores, and from a person who saw the scores.

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

    def undone(self) -> "Annotation | None":
        """Return the rating that this one replaced; None if it is the first."""
        if self.rating_before is None:
            return None
        return Annotation(
            pipeline=self.pipeline,
            interaction_id=self.interaction_id,
            annotator=self.annotator,
            given_at=utc_now(),
            saw_scores=True,
            rating=self.rating_before,
            reason=self.reason_before,
        )


class NoRoomForAnnotationError(ValueError):
    """There are too many annotations."""


class _AnnotatedItem(NamedTuple):
    pipeline: str
    interaction_id: str
    saw_scores: bool


class StoredAnnotations:
    """The annotations of a deployment. Those of people who saw the scores have keys of their own, and expire apart.

    Args:
        redis: client.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._streams = Streams(prefix, 0)

    async def read(self, *, saw_scores: bool = False) -> list[Annotation]:
        """Return all annotations that can be read, the oldest first.

        Args:
            saw_scores: whether to return the ratings of people who saw the scores, and not the blind answers.
        """
        return await self._of([item for item in await self._items() if item.saw_scores == saw_scores])

    async def of(self, pipeline: str, interaction_id: str, *, saw_scores: bool = False) -> list[Annotation]:
        """Return the annotations of one item, as `read`."""
        return await self._of([_AnnotatedItem(pipeline, interaction_id, saw_scores)])

    async def is_first(self, annotation: Annotation) -> bool:
        """Return whether the answers of this annotator are the first about the item, and take note of it."""
        key = _key(self._streams, _item(annotation))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hsetnx(key, _FIRST, annotation.annotator)
            pipe.expire(key, KEPT)
            pipe.hget(key, _FIRST)
            *_, first = cast("list[bytes]", await pipe.execute())
        return first == annotation.annotator.encode()

    async def put(self, annotation: Annotation, keep_s: float = KEPT.total_seconds()) -> None:
        """Store an annotation in place of the person's annotation of the same kind.

        Args:
            keep_s: seconds after which all annotations of this kind about the item expire.

        Raises:
            NoRoomForAnnotationError: there are `PEOPLE_MAX` other people, or `ITEMS_MAX` other items.
            redis.RedisError: Redis failed.
        """
        reply = await self._put(annotation, annotation.encode(), keep_s)
        if reply == "people" and annotation.saw_scores:
            raise NoRoomForAnnotationError(
                f"{PEOPLE_MAX} people have an opinion about this item: one of them must remove it"
            )
        if reply == "people":
            raise NoRoomForAnnotationError(f"{PEOPLE_MAX} people annotated this item: skip it")
        if reply == "items":
            raise NoRoomForAnnotationError(
                f"{ITEMS_MAX:,} items are annotated: annotations are removed after {KEPT.days} days"
            )

    async def remove(self, annotation: Annotation) -> bool:
        """Remove the annotation of a person about an item, and return whether there was one."""
        return await self._put(annotation, b"", 1) == "removed"

    async def _put(self, annotation: Annotation, payload: bytes, keep_s: float) -> str:
        call = put_annotation(self._streams, annotation, payload, now_s=utc_now().timestamp(), keep_s=keep_s)
        return await run_script(self._redis, call)

    async def forget(self, interaction_id: str, pipeline: str | None = None) -> int:
        """Remove the annotations of an interaction id with their reasons, and return their number."""
        items = {
            item
            for item in await self._items()
            if item.interaction_id == interaction_id and pipeline in (None, item.pipeline)
        }
        if pipeline is not None:  # the index may have lost it
            items |= {_AnnotatedItem(pipeline, interaction_id, saw_scores) for saw_scores in (False, True)}
        removed = await self._of(list(items))
        for item in items:
            await self._redis.delete(_key(self._streams, item))
            await self._redis.zrem(self._streams.annotations, json.dumps(item))
        return len(removed)

    async def _items(self) -> list[_AnnotatedItem]:
        members = cast("list[bytes]", await self._redis.zrange(self._streams.annotations, 0, -1))
        items: list[_AnnotatedItem] = []
        for member in members:
            try:
                pipeline, interaction_id, saw_scores = json.loads(member)
            except ValueError:
                continue  # written by another program
            if isinstance(pipeline, str) and isinstance(interaction_id, str) and isinstance(saw_scores, bool):
                items.append(_AnnotatedItem(pipeline, interaction_id, saw_scores))
        return items

    async def _of(self, items: Sequence[_AnnotatedItem]) -> list[Annotation]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for item in items:
                pipe.hgetall(_key(self._streams, item))
            stored = cast("list[Mapping[bytes, bytes]]", await pipe.execute())
        annotations = []
        for fields in stored:
            for annotator, payload in fields.items():
                if annotator != _FIRST.encode():
                    try:
                        annotations.append(Annotation.decode(payload))
                    except InvalidEntryError:
                        continue  # written by a newer release, or by another program
        return sorted(annotations, key=lambda annotation: annotation.given_at)


def put_annotation(
    streams: Streams, annotation: Annotation, payload: bytes, *, now_s: float, keep_s: float
) -> ScriptCall[str]:
    """Return the call that stores an annotation, or removes it; its reply is the word of the script.

    Args:
        streams: keys of partition 0 of the deployment.
        annotation: names the item and the person.
        payload: the stored annotation; empty to remove it.
        now_s: time now.
        keep_s: seconds after which all annotations of this kind about the item expire; at least 1.
    """
    item = _item(annotation)
    limits = (repr(now_s), max(1, ceil(keep_s)), ITEMS_MAX, PEOPLE_MAX)
    arguments = (json.dumps(item), annotation.annotator, payload, *limits)
    return ScriptCall(PUT, (_key(streams, item), streams.annotations), arguments, bytes.decode)


def _item(annotation: Annotation) -> _AnnotatedItem:
    return _AnnotatedItem(annotation.pipeline, annotation.interaction_id, annotation.saw_scores)


def _key(streams: Streams, item: _AnnotatedItem) -> str:
    digest = interaction_digest(item.pipeline, item.interaction_id)
    return streams.annotation(f"{digest}:saw_scores" if item.saw_scores else digest)
