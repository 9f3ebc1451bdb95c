import json
from typing import Any

import pytest
from tests.aggregator.test_service import EVENTS, STATE, STREAMS, caught_up, publish, running
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta

from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.service.seen_ids import SIZE, SeenIds
from ragtide_runtime.errors import StreamRollbackError
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD


async def counted(redis: Any) -> int:
    state = (await load_checkpoint(redis, STREAMS, STATE)).state
    return sum(int(state.moments.n(row)) for row, key in enumerate(state.keys) if key.metric == "trace.adherence")


async def lose_tail(redis: Any, count: int) -> list[bytes]:
    """Take the last metric events away, as a Redis that comes back without its last writes does; return them."""
    entries = await redis.xrange(STREAMS.metrics)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.delete(STREAMS.metrics)
        for entry_id, fields in entries[:-count]:
            pipe.xadd(STREAMS.metrics, fields, id=entry_id)
        await pipe.execute()
    return [fields[DATA_FIELD] for _, fields in entries[-count:]]


async def test_what_was_read_and_then_lost_is_not_committed(async_redis: Any) -> None:
    committer = Committer(async_redis, STREAMS)
    token = (await Lease(async_redis, STREAMS, holder="a", lease_s=5).acquire()).token
    assert token is not None
    await publish(async_redis, EVENTS[:20])
    ids = [entry_id.decode() for entry_id, _ in await async_redis.xrange(STREAMS.metrics)]
    await committer.commit(Step(before=0, position=ids[9], read=[ids[4], ids[9]]), token)
    await lose_tail(async_redis, 5)
    # A read that ended in what is lost, though one after it did not.
    await publish(async_redis, EVENTS[20:22])
    newest = (await async_redis.xrevrange(STREAMS.metrics, count=1))[0][0].decode()
    with pytest.raises(StreamRollbackError, match="lost entries that were read"):
        await committer.commit(Step(before=1, position=newest, read=[ids[17], newest]), token)
    assert await async_redis.hget(STREAMS.checkpoint, "position") == ids[9].encode()
    await committer.commit(Step(before=1, position=newest, read=[ids[12], newest]), token)


async def test_a_stream_that_went_back_behind_the_checkpoint_is_noticed_and_nothing_counts_twice(
    async_redis: Any,
) -> None:
    events = adherence(beta(0.85, 300, 3))
    await publish(async_redis, events[:200])
    async with running(async_redis):
        await until(lambda: caught_up(async_redis))
    # The checkpoint has survived; of the stream the last 50 are lost, of which 30 are scored again.
    lost = await lose_tail(async_redis, 50)
    for data in lost[:30]:
        await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: data})
    async with running(async_redis):
        await publish(async_redis, events[200:])
        await until(lambda: caught_up(async_redis))
    assert await counted(async_redis) == 300


async def test_a_stream_that_vanished_is_begun_again_where_it_begins(async_redis: Any) -> None:
    events = adherence(beta(0.85, 60, 4))
    await publish(async_redis, events[:40])
    async with running(async_redis):
        await until(lambda: caught_up(async_redis))
    await async_redis.hset(STREAMS.checkpoint, "position", "99999999999999-0")  # of a clock that ran ahead
    await async_redis.delete(STREAMS.metrics)
    async with running(async_redis):
        # Entries that are there before the aggregator notices would count as lost with the rest.
        await until(lambda: async_redis.hexists(STREAMS.checkpoint, "stream_rollback"))
        await publish(async_redis, events[30:])
        await until(lambda: caught_up(async_redis))
    assert await counted(async_redis) == 60
    rollback = json.loads(await async_redis.hget(STREAMS.checkpoint, "stream_rollback"))
    assert rollback["times"] == 1
    assert rollback["from"][0] == "99999999999999-0"


async def test_an_owner_notices_while_nothing_comes(async_redis: Any) -> None:
    events = adherence(beta(0.85, 100, 5))
    async with running(async_redis):
        await publish(async_redis, events[:60])
        await until(lambda: caught_up(async_redis))
        lost = await lose_tail(async_redis, 20)

        async def noticed() -> bool:
            return bool(await async_redis.hexists(STREAMS.checkpoint, "stream_rollback"))

        await until(noticed)
        for data in lost:
            await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: data})
        await publish(async_redis, events[60:])
        await until(lambda: caught_up(async_redis))
    assert await counted(async_redis) == 100


def test_the_last_interactions_are_remembered_and_older_ones_forgotten() -> None:
    recent = SeenIds()
    fields: dict[str, bytes] = {}
    for number in range(SIZE + 100):
        recent.add("shop", f"i-{number}")
        if number % 1000 == 0:
            fields |= recent.take_changes()[0]
    fields |= recent.take_changes()[0]
    again = SeenIds.from_fields(fields)
    for found in (recent, again):
        assert [("shop", f"i-{number}") in found for number in (0, 99, 100, SIZE, SIZE + 99)] == [
            False,
            False,
            True,
            True,
            True,
        ]
        assert ("other", "i-200") not in found
    again.add("shop", "new")
    assert ("shop", "i-100") not in again
    assert ("shop", "i-101") in again
