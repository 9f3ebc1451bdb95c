"""However the requests of real instrumentations arrive, their interactions are published once, and no others."""

import random
from typing import Any

import pytest
from tests.support.ingest import NAMES, Ingest, expected_of, joined, one_span_each, requests_of

from ragtide_runtime.redis.keys import Streams


@pytest.mark.parametrize("name", NAMES)
async def test_as_captured(name: str, async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    await ingest.send(requests_of(name))
    await ingest.read_all()
    assert await ingest.contents() == expected_of(name)


@pytest.mark.parametrize("name", NAMES)
async def test_one_span_a_request_shuffled_and_twice(name: str, async_redis: Any) -> None:
    ingest = Ingest(async_redis, settle_s=0.5)
    requests = one_span_each(requests_of(name)) * 2
    random.Random(name).shuffle(requests)
    await ingest.send([joined(requests[: len(requests) // 2])])
    await ingest.send(requests[len(requests) // 2 :])
    await ingest.read_all()
    assert await ingest.contents() == expected_of(name)


@pytest.mark.parametrize("name", NAMES)
async def test_a_repeat_after_the_interactions_were_published_adds_nothing(name: str, async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    for _ in range(2):
        for request in one_span_each(requests_of(name)):
            await ingest.send([request])
        await ingest.read_all()
    # The first time each span was read alone: those that came before their parents are not complete.
    await ingest.send(requests_of(name))
    await ingest.read_all()
    published = [interaction.interaction_id for interaction in await ingest.interactions()]
    assert len(published) == len(set(published))


@pytest.mark.parametrize("partitions", [1, 7])
async def test_all_captures_in_one_deployment_with_partitions(partitions: int, async_redis: Any) -> None:
    ingest = Ingest(async_redis, partitions=partitions, settle_s=0.5)
    requests = [request for name in NAMES for request in one_span_each(requests_of(name))]
    random.Random(partitions).shuffle(requests)
    await ingest.send([joined(requests)])
    await ingest.read_all()
    assert await ingest.contents() == sorted(one for name in NAMES for one in expected_of(name))


async def test_nothing_stays_in_redis_but_the_ids_of_used_spans(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_producers.ingest.assembling.HOLD_MS", 50)
    ingest = Ingest(async_redis)
    await ingest.send(requests_of("langchain_openinference"))
    await ingest.read_all()
    streams = Streams("ragtide", 0)
    await ingest.store.make_room()
    assert not await async_redis.exists(streams.open_traces, streams.read_traces, streams.traces_bytes)
    for key in await async_redis.keys(streams.trace("*")):
        assert await async_redis.pttl(key) != -1  # it expires, or has expired
