"""Annotations in Redis: one for each person and item, bounded, and gone in time."""

from typing import Any

import pytest

from ragtide_roles.kept.annotations import (
    ITEMS_MAX,
    PEOPLE_MAX,
    Annotation,
    NoRoomForAnnotationError,
    StoredAnnotations,
    put_annotation,
)
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import utc_now

STREAMS = Streams("ragtide", 0)


def opinion(person: str = "ann", item: str = "i-1", rating: int | None = 2, **fields: Any) -> Annotation:
    return Annotation(
        pipeline="shop",
        interaction_id=item,
        annotator=person,
        given_at=utc_now(),
        **{"saw_scores": True, "rating": rating, **fields},
    )


def answer(person: str = "ann", item: str = "i-1") -> Annotation:
    return opinion(person, item, None, saw_scores=False, supported={"a": True})


async def put(
    redis: Any, annotation: Annotation, *, remove: bool = False, now_s: float = 1000.0, keep_s: float = 60.0
) -> str:
    payload = b"" if remove else annotation.encode()
    return await run_script(redis, put_annotation(STREAMS, annotation, payload, now_s=now_s, keep_s=keep_s))


async def test_an_annotation_replaces_that_of_the_same_person_and_leaves_with_its_item(async_redis: Any) -> None:
    assert [await put(async_redis, opinion(rating=rating)) for rating in (2, 4)] == ["stored", "stored"]
    assert await put(async_redis, opinion("bob")) == "stored"
    (key,) = [key async for key in async_redis.scan_iter("*:annotation:*")]
    assert await async_redis.hlen(key) == 2
    assert 0 < await async_redis.ttl(key) <= 60
    items = await async_redis.zrange(STREAMS.annotations, 0, -1, withscores=True)
    assert items == [(b'["shop", "i-1", true]', 1060.0)]
    gone = [await put(async_redis, opinion(name), remove=True) for name in ("ann", "ann", "bob")]
    assert gone == ["removed", "none", "removed"]
    assert await async_redis.keys("*") == []


async def test_items_and_people_are_bounded(async_redis: Any) -> None:
    for number in range(PEOPLE_MAX):
        assert await put(async_redis, opinion(f"p-{number}")) == "stored"
    assert await put(async_redis, opinion("another")) == "people"
    assert await put(async_redis, answer("another")) == "stored", "answers and opinions are apart"
    assert await put(async_redis, opinion("p-3", rating=5)) == "stored"
    await async_redis.zadd(STREAMS.annotations, {f"[{number}]": 1500.0 for number in range(ITEMS_MAX - 2)})
    assert await put(async_redis, opinion(item="i-2")) == "items"
    assert await put(async_redis, opinion("p-3", rating=1)) == "stored"
    assert await put(async_redis, opinion(item="i-2"), now_s=1501.0) == "stored", "the others have expired"


async def test_the_first_annotator_is_no_person_of_an_item(async_redis: Any) -> None:
    stored = StoredAnnotations(async_redis, "ragtide")
    assert [await stored.is_first(answer(name)) for name in ("ann", "bob", "ann")] == [True, False, True]
    assert await stored.read() == []
    for number in range(PEOPLE_MAX):
        await stored.put(answer(f"p-{number}"))
    with pytest.raises(NoRoomForAnnotationError, match="20 people annotated this item"):
        await stored.put(answer())
    assert len(await stored.read()) == PEOPLE_MAX
    assert not await stored.is_first(answer("bob")), "storing keeps the first annotator"
    assert await stored.forget("i-1") == PEOPLE_MAX
    assert await async_redis.keys("*") == []


async def test_answers_and_opinions_are_read_apart_and_forgotten_together(async_redis: Any) -> None:
    stored = StoredAnnotations(async_redis, "ragtide")
    for annotation in (answer(), opinion(), opinion("bob", "i-2")):
        await stored.put(annotation)
    assert [one.interaction_id for one in await stored.read()] == ["i-1"]
    assert [one.interaction_id for one in await stored.read(saw_scores=True)] == ["i-1", "i-2"]
    assert [one.saw_scores for one in await stored.of("shop", "i-1", saw_scores=True)] == [True]
    assert await stored.forget("i-1", "shop") == 2
    assert [one.annotator for one in await stored.read(saw_scores=True)] == ["bob"]
