"""Opinions in Redis: one for each person and item, bounded, and gone in time."""

from typing import Any

from ragtide_offline.annotation.opinions import ITEMS_MAX, PEOPLE_MAX, Opinion, put_opinion
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import utc_now

STREAMS = Streams("ragtide", 0)


def opinion(person: str = "ann", item: str = "i-1", rating: int = 2, **fields: Any) -> Opinion:
    return Opinion(pipeline="shop", interaction_id=item, person=person, given_at=utc_now(), rating=rating, **fields)


async def put(redis: Any, one: Opinion, *, remove: bool = False, now_s: float = 1000.0, keep_s: float = 60.0) -> str:
    payload = b"" if remove else one.encode()
    return await run_script(redis, put_opinion(STREAMS, one, payload, now_s=now_s, keep_s=keep_s))


async def test_an_opinion_replaces_that_of_the_same_person_and_leaves_with_its_item(async_redis: Any) -> None:
    assert [await put(async_redis, opinion(rating=rating)) for rating in (2, 4)] == ["stored", "stored"]
    assert await put(async_redis, opinion("bob")) == "stored"
    (key,) = [key async for key in async_redis.scan_iter("*:opinion:*")]
    assert await async_redis.hlen(key) == 2
    assert 0 < await async_redis.ttl(key) <= 60
    assert await async_redis.zrange(STREAMS.opinions, 0, -1, withscores=True) == [(b'["shop", "i-1"]', 1060.0)]
    gone = [await put(async_redis, opinion(name), remove=True) for name in ("ann", "ann", "bob")]
    assert gone == ["removed", "none", "removed"]
    assert await async_redis.keys("*") == []


async def test_items_and_people_are_bounded(async_redis: Any) -> None:
    for number in range(PEOPLE_MAX):
        assert await put(async_redis, opinion(f"p-{number}")) == "stored"
    assert await put(async_redis, opinion("another")) == "people"
    assert await put(async_redis, opinion("p-3", rating=5)) == "stored"
    await async_redis.zadd(STREAMS.opinions, {f"[{number}]": 1500.0 for number in range(ITEMS_MAX - 1)})
    assert await put(async_redis, opinion(item="i-2")) == "items"
    assert await put(async_redis, opinion("p-3", rating=1)) == "stored"
    assert await put(async_redis, opinion(item="i-2"), now_s=1501.0) == "stored", "the others have expired"
