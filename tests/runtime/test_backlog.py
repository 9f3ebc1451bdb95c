from typing import Any

from ragtide_runtime.redis.backlog import COUNT_CAP, read_backlogs
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, Streams

STREAMS = Streams("ragtide", 0)


async def milliseconds(redis: Any) -> int:
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def test_an_empty_redis_has_nothing_waiting(async_redis: Any) -> None:
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert (found.waiting, found.pending, found.events_waiting, found.workers) == (0, 0, 0, 0)
    assert (found.oldest_s, found.events_oldest_s, found.owned, found.dropped) == (0.0, 0.0, False, {})
    assert set(found.lengths.values()) == {0}


async def test_what_is_taken_and_what_is_not_is_waiting_and_the_older_of_both_says_how_old(async_redis: Any) -> None:
    now = await milliseconds(async_redis)
    for ago_s in (50, 40, 30, 20, 10):
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"}, id=f"{now - 1000 * ago_s}-0")
    (found,) = await read_backlogs(async_redis, [STREAMS])  # no group yet
    assert (found.waiting, found.pending, found.workers) == (5, 0, 0)
    assert 49 < found.oldest_s < 80
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    (_, taken), *_ = await async_redis.xreadgroup(LABEL_GROUP, "me", {STREAMS.interactions: ">"}, count=3)
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert (found.waiting, found.pending, found.workers) == (5, 3, 1)
    assert 49 < found.oldest_s < 80
    await async_redis.xack(STREAMS.interactions, LABEL_GROUP, *(entry_id for entry_id, _ in taken[:2]))
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert (found.waiting, found.pending) == (3, 1)
    assert 29 < found.oldest_s < 49
    await async_redis.xack(STREAMS.interactions, LABEL_GROUP, taken[2][0])
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert (found.waiting, found.pending) == (2, 0)
    assert 19 < found.oldest_s < 29


async def test_events_after_the_checkpoint_are_waiting_up_to_a_cap(async_redis: Any) -> None:
    async with async_redis.pipeline() as pipe:
        for _ in range(COUNT_CAP + 7):
            pipe.xadd(STREAMS.metrics, {DATA_FIELD: b"{}"})
        ids = await pipe.execute()
    assert (await read_backlogs(async_redis, [STREAMS]))[0].events_waiting == COUNT_CAP
    await async_redis.hset(STREAMS.checkpoint, "position", ids[-4])
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert (found.events_waiting, found.lengths["metrics"]) == (3, COUNT_CAP + 7)
    await async_redis.hset(STREAMS.checkpoint, "position", ids[-1])
    assert (await read_backlogs(async_redis, [STREAMS]))[0].events_oldest_s == 0.0


async def test_drops_are_read_by_why_and_the_lease_says_whether_there_is_an_owner(async_redis: Any) -> None:
    await async_redis.hset(STREAMS.dropped, mapping={"full": 3, "sampled": 12})
    await async_redis.set(STREAMS.lease, "1:somebody")
    (found,) = await read_backlogs(async_redis, [STREAMS])
    assert found.dropped == {"full": 3, "sampled": 12}
    assert found.owned
