"""Policies for a full stream: each dropped interaction is counted."""

import asyncio
import threading
from typing import Any

import pytest
from tests.support.conditions import wait_until

from ragtide import Dropped, InteractionProducer, RagInteraction, StreamFullError
from ragtide.testing import interaction, interactions
from ragtide_producers.publishing.batch_publisher import BATCH, BatchPublisher
from ragtide_producers.publishing.routes import InteractionRoute, Publication
from ragtide_runtime.redis.keys import Streams, identity_digest
from ragtide_runtime.redis.layout import partition_of
from ragtide_runtime.settings.model import Settings, load_settings

STREAMS = Streams("ragtide", 0)


def settings(redis_url: str, cap: int, **producer: Any) -> Settings:
    return load_settings(redis_url=redis_url, interactions_cap=cap, producer=producer)


def dropped(redis: Any) -> dict[str, int]:
    return {field.decode(): int(count) for field, count in redis.hgetall(STREAMS.dropped).items()}


def test_drop_new_keeps_the_first_and_counts_the_rest(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, 10, policy="drop_new")) as producer:
        publications = producer.publish_many(interactions(25))
    assert [one.added for one in publications] == [True] * 10 + [False] * 15
    assert {(one.entry_id is None, one.dropped) for one in publications[10:]} == {(True, Dropped.DROP_NEW)}
    assert (redis.xlen(STREAMS.interactions), dropped(redis)) == (10, {"drop_new": 15})


@pytest.mark.parametrize("policy", ["block", "drop_new", "sample"])
def test_what_is_in_a_full_stream_is_answered_as_there_already(policy: str, redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        first = producer.publish_many(interactions(5))
    with InteractionProducer(settings=settings(redis_url, 5, policy=policy)) as producer:
        again = producer.publish_many(interactions(5))
    assert [one.entry_id for one in again] == [one.entry_id for one in first]
    assert not any(one.added or one.dropped for one in again)
    assert dropped(redis) == {}


def test_block_waits_for_room(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, 10, block_s=60)) as producer:
        publications: list[Any] = []
        publishing = threading.Thread(target=lambda: publications.extend(producer.publish_many(interactions(25))))
        publishing.start()
        for last in (9, 19):
            wait_until(lambda last=last: _ids(redis)[-1:] == [f"i-{last}"])  # type: ignore[misc]
            assert redis.xlen(STREAMS.interactions) == 10
            assert publishing.is_alive()
            redis.xtrim(STREAMS.interactions, maxlen=0)
        publishing.join(20)
    assert [one.added for one in publications] == [True] * 25
    assert [one.interaction_id for one in publications] == [f"i-{n}" for n in range(25)]
    assert (_ids(redis), dropped(redis)) == ([f"i-{n}" for n in range(20, 25)], {})


def _ids(redis: Any) -> list[str]:
    return [RagInteraction.decode(fields[b"data"]).interaction_id for _, fields in redis.xrange(STREAMS.interactions)]


def test_block_gives_up_after_a_while_and_publishing_all_again_completes_it(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, 10, block_s=0.05)) as producer:
        with pytest.raises(StreamFullError, match=r"15 of 25 interactions are not published: start workers"):
            producer.publish_many(interactions(25))
        assert (redis.xlen(STREAMS.interactions), dropped(redis)) == (10, {})
        redis.xtrim(STREAMS.interactions, maxlen=0)
        with pytest.raises(StreamFullError, match="5 of 25"):
            producer.publish_many(interactions(25))
    assert _ids(redis) == [f"i-{n}" for n in range(10, 20)]


async def test_waiting_for_room_leaves_the_event_loop_free(async_redis: Any, redis_url: str) -> None:
    async with InteractionProducer(settings=settings(redis_url, 10, block_s=60)) as producer:
        publishing = asyncio.create_task(producer.apublish_many(interactions(15)))
        while await async_redis.xlen(STREAMS.interactions) < 10:  # noqa: ASYNC110  # Redis has nothing to await
            await asyncio.sleep(0.01)
        assert not publishing.done()
        await async_redis.xtrim(STREAMS.interactions, maxlen=0)
        assert all(one.added for one in await asyncio.wait_for(publishing, 120))


async def test_an_awaited_publish_gives_up_too(async_redis: Any, redis_url: str) -> None:
    del async_redis
    async with InteractionProducer(settings=settings(redis_url, 1, block_s=0.05)) as producer:
        with pytest.raises(StreamFullError):
            await producer.apublish_many(interactions(2))


def test_a_sample_keeps_everything_up_to_half_the_cap_and_never_passes_the_cap(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, 1000, policy="sample")) as producer:
        publications = producer.publish_many(interactions(6000))
    kept = [one.added for one in publications]
    assert all(kept[:500])
    length = redis.xlen(STREAMS.interactions)
    assert 900 < length <= 1000
    assert dropped(redis) == {"sample": 6000 - length}
    assert {one.dropped for one in publications if not one.added} == {Dropped.SAMPLE}


@pytest.mark.parametrize(("fill", "probability"), [(0.5, 1.0), (0.625, 0.75), (0.75, 0.5), (0.9, 0.2), (1.0, 0.0)])
def test_the_kept_share_falls_linearly_from_half_the_cap(
    redis: Any, redis_url: str, fill: float, probability: float
) -> None:
    # A cap so large that what is kept hardly changes the fill; the ids are fixed, and so is the outcome.
    cap = 100_000
    add = "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'data', 'x') end"
    redis.eval(add, 1, STREAMS.interactions, int(cap * fill))
    with InteractionProducer(settings=settings(redis_url, cap, policy="sample")) as producer:
        publications = producer.publish_many(interactions(2000))
    share = sum(one.added for one in publications) / 2000
    # Four standard errors, and the fill that grows by at most 2%.
    assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / 2000) ** 0.5 + 0.02)


def test_publishing_again_at_the_same_fill_decides_the_same(redis: Any, redis_url: str) -> None:
    with redis.pipeline(transaction=False) as pipe:
        for _ in range(750):
            pipe.xadd(STREAMS.interactions, {"data": "x"})
        pipe.execute()
    outcomes = []
    for _ in range(2):
        redis.xtrim(STREAMS.interactions, maxlen=750, approximate=False)
        for key in redis.scan_iter(match="*owner*"):
            redis.delete(key)
        with InteractionProducer(settings=settings(redis_url, 1000, policy="sample")) as producer:
            outcomes.append([one.added for one in producer.publish_many(interactions(100))])
    assert outcomes[0] == outcomes[1]
    assert 20 < sum(outcomes[0]) < 80


def test_the_digest_decides_whether_a_sample_keeps_an_interaction(redis: Any, redis_url: str) -> None:
    with redis.pipeline(transaction=False) as pipe:
        for _ in range(600):
            pipe.xadd(STREAMS.interactions, {"data": "x"})
        pipe.execute()
    batch = [one for name in ("shop", "help") for one in interactions(300, pipeline=name)]
    with InteractionProducer(settings=settings(redis_url, 1000, policy="sample")) as producer:
        publications = producer.publish_many(batch)
    room, expected = 400, []
    for one in batch:
        draw = int.from_bytes(identity_digest(one.pipeline, one.interaction_id)[:6], "big") / 2**48
        expected.append(draw * 1000 < 2 * room)
        room -= expected[-1]
    assert [one.added for one in publications] == expected
    assert expected[:300] != expected[300:]


def test_draws_are_uniform() -> None:
    draws = sorted(int.from_bytes(identity_digest("shop", f"i-{n}")[:6], "big") / 2**48 for n in range(5000))
    # Kolmogorov-Smirnov at 1 in 1,000.
    assert max(abs(value - rank / 5000) for rank, value in enumerate(draws)) < 1.95 / 5000**0.5


def test_the_cap_holds_in_each_partition(redis: Any, redis_url: str) -> None:
    chosen = load_settings(redis_url=redis_url, interactions_cap=5, partitions=4, producer={"policy": "drop_new"})
    pipelines = [f"p-{n}" for n in range(40)]
    assert {partition_of(name, 4) for name in pipelines} == {0, 1, 2, 3}
    batch = [one for name in pipelines for one in interactions(2, pipeline=name)]
    with InteractionProducer(settings=chosen) as producer:
        publications = producer.publish_many(batch)
    assert [one.interaction_id for one in publications] == [one.interaction_id for one in batch]
    for partition in range(4):
        streams = Streams("ragtide", partition)
        there = sum(partition_of(one.pipeline, 4) == partition for one in batch)
        assert redis.xlen(streams.interactions) == 5
        assert int(redis.hget(streams.dropped, "drop_new")) == there - 5


def test_a_batch_is_of_one_partition_and_a_full_stream_is_asked_with_one() -> None:
    routing = InteractionRoute.of(load_settings(partitions=4))
    commands = [routing.command(interaction(n, pipeline=f"p-{n}")) for n in range(500)]
    publisher = BatchPublisher(routing.layout, commands, block_s=1.0)
    full: list[Publication | None] = [None]
    pauses: list[float] = []
    sent = 0
    while batch := publisher.batch():
        assert len({command.partition for command in batch}) == 1
        assert len(batch) <= BATCH
        if sent < 2 and len(pauses) < 3:
            pauses.append(publisher.complete(full * len(batch)))
            assert len(publisher.batch()) == 1
            continue
        assert publisher.complete([Publication(one.interaction_id, "1-1", added=True) for one in batch]) == 0.0
        sent += 1
    assert pauses == [0.01, 0.02, 0.04]
    assert [one.interaction_id for one in publisher.publications()] == [f"i-{n}" for n in range(500)]


def test_a_full_stream_ends_publishing_after_the_stated_seconds_and_any_room_counts_anew() -> None:
    routing = InteractionRoute.of(load_settings())
    publisher = BatchPublisher(routing.layout, [routing.command(one) for one in interactions(2)], block_s=1.0)
    assert publisher.batch()
    waited = publisher.complete([None, None])
    for _ in range(3):
        waited += publisher.complete([None])
    assert publisher.complete([Publication("i", "1-1", added=True)]) == 0.0
    waited_anew = 0.0
    with pytest.raises(StreamFullError, match="1 of 2"):  # noqa: PT012  # as often as it takes
        while True:
            waited_anew += publisher.complete([None])
    assert waited_anew == pytest.approx(1.0)
