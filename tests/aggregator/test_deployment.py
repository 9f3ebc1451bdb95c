"""The read model shows what Redis holds; a look without news costs one round trip; memory is bounded."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.metric_events import event
from tests.support.owners import owners
from tests.support.redis_processes import cluster

from ragtide import ConfigurationError, Deployment, MetricEvent
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.reading.alerts import AlertLog
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.layout import agree_on_layout
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, Reason, Workspace

PARTITIONS = 4
SETTINGS = Settings(partitions=PARTITIONS)
SCORES = {"trace.adherence": 0.8, "trace.context_relevance": 0.5}


def of(partition: int, number: int = 0) -> MetricEvent:
    return event(number, SCORES, pipeline=f"pipeline-{partition}")


class Commands:
    """The commands that Redis has run, and the requests that it has read."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.requests = 0


@asynccontextmanager
async def counted(redis: Any) -> AsyncIterator[Commands]:
    """Count the commands in the body of a `with`."""
    found = Commands()
    before = await redis.info("everything")
    yield found
    after = await redis.info("everything")
    names = [name for name in after if name.startswith("cmdstat_") and name != "cmdstat_info"]
    calls = {name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in names}
    found.calls = {name.removeprefix("cmdstat_").partition("|")[0]: n for name, n in calls.items() if n}
    found.requests = after["total_reads_processed"] - before["total_reads_processed"] - 1


async def test_a_look_without_news_costs_one_round_trip_for_all_partitions(async_redis: Any) -> None:
    for place, owner in enumerate(owners(async_redis, SETTINGS)):
        await owner.commit(of(place), alerts=(alert(f"a{place}"),))
    deployment = Deployment(async_redis, SETTINGS)
    first = await deployment.estimates(), await deployment.alerts(), await deployment.backlog()
    async with counted(async_redis) as look:
        assert await deployment.estimates() == first[0]
    assert (look.calls, look.requests) == ({"hmget": PARTITIONS}, 1)
    async with counted(async_redis) as look:
        assert await deployment.alerts() == first[1]
    assert (look.calls, look.requests) == ({"xrange": PARTITIONS}, 1)
    async with counted(async_redis) as look:
        assert len(await deployment.backlog()) == PARTITIONS
    assert (look.calls["evalsha"], look.requests) == (PARTITIONS, 1)


async def test_only_partitions_with_a_commit_are_loaded_again(async_redis: Any) -> None:
    committing = owners(async_redis, SETTINGS)
    for place, owner in enumerate(committing):
        await owner.commit(of(place))
    deployment = Deployment(async_redis, SETTINGS)
    await deployment.estimates()
    await committing[2].commit(of(2, 1), of(2, 2))
    async with counted(async_redis) as look:
        found = await deployment.estimates()
    assert (look.calls, look.requests) == ({"hmget": PARTITIONS, "hgetall": 1}, 2)
    assert {one.pipeline: one.n for one in found} == {f"pipeline-{n}": 3 if n == 2 else 1 for n in range(PARTITIONS)}
    expected = [estimate for owner in committing for estimate in estimates(owner.state)]
    assert sorted(found, key=str) == sorted(expected, key=str)


async def test_what_is_asked_for_differently_is_computed_again(async_redis: Any) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*(of(0, number).model_copy(update={"population_size": 10}) for number in range(5)))
    deployment = Deployment(async_redis, Settings())
    sizes = {estimate.population_size for estimate in await deployment.estimates(windows=False)}
    assert (sizes, {estimate.population_size for estimate in await deployment.estimates(ongoing=True)}) == (
        {10},
        {None},
    )
    assert {estimate.population_size for estimate in await deployment.estimates(windows=False)} == {10}
    assert {estimate.window for estimate in await deployment.estimates(windows=False)} == {"all"}
    assert {estimate.window for estimate in await deployment.estimates()} == {"all", "1h", "24h/1h"}
    assert {estimate.confidence for estimate in await deployment.estimates(confidence=0.5)} == {0.5}


async def test_pipelines_that_are_split_are_merged_again_only_after_a_commit(async_redis: Any) -> None:
    settings = Settings(partitions=2, splits={"shop": 2})
    one, other = owners(async_redis, settings)
    await one.commit(event(0, SCORES, pipeline="shop"))
    await other.commit(event(1, SCORES, pipeline="shop"))
    deployment = Deployment(async_redis, settings)
    (before,) = await deployment.states("shop")
    assert (await deployment.states("shop"))[0] is before
    await other.commit(event(2, SCORES, pipeline="shop"))
    assert {estimate.n for estimate in await deployment.estimates(windows=False)} == {3}
    assert (await deployment.states("shop"))[0] is not before


async def test_a_checkpoint_that_was_removed_is_empty_at_the_next_look(async_redis: Any) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(of(0))
    deployment = Deployment(async_redis, Settings())
    assert await deployment.estimates()
    await async_redis.flushdb()
    assert await deployment.estimates() == []


STREAMS = Streams("ragtide", 0)


async def add(redis: Any, *alerts: Any) -> None:
    for one in alerts:
        await redis.xadd(STREAMS.alerts, {DATA_FIELD: one.encode()})


async def test_alerts_are_in_their_latest_state_and_only_new_entries_are_read(async_redis: Any) -> None:
    first, second = alert("first"), alert("second")
    await add(async_redis, first, second)
    await async_redis.xadd(STREAMS.alerts, {"data": "junk"})
    deployment = Deployment(async_redis, Settings())
    assert await deployment.alerts() == [first, second]
    assert "1 alert cannot be read" in deployment.warnings()[0]
    resolved = first.model_copy(update={"status": "resolved"})
    await add(async_redis, resolved)
    assert await deployment.alerts() == [resolved, second]
    assert "1 alert cannot be read" in deployment.warnings()[0]


async def test_two_looks_at_once_count_an_unreadable_entry_once(async_redis: Any) -> None:
    await async_redis.xadd(STREAMS.alerts, {"data": "junk"})
    await add(async_redis, alert("a"))
    deployment = Deployment(async_redis, Settings())
    looks = await asyncio.gather(*(deployment.alerts() for _ in range(5)))
    assert [len(look) for look in looks] == [1] * 5
    assert "1 alert cannot be read" in deployment.warnings()[0]


@pytest.mark.parametrize("how", ["removed", "lost", "trimmed"])
async def test_alerts_that_the_stream_lost_are_not_shown_any_more(async_redis: Any, how: str) -> None:
    await add(async_redis, alert("a"), alert("b"))
    deployment = Deployment(async_redis, Settings())
    await deployment.alerts()
    ((last, _),) = await async_redis.xrevrange(STREAMS.alerts, count=1)
    if how == "removed":
        await async_redis.delete(STREAMS.alerts)
    else:
        await async_redis.xdel(STREAMS.alerts, last)
    if how == "trimmed":
        await async_redis.xtrim(STREAMS.alerts, maxlen=0)
        await add(async_redis, alert("c"))
    found = [one.alert_id for one in await deployment.alerts()]
    assert found == {"removed": [], "lost": ["a"], "trimmed": ["c"]}[how]


async def test_the_oldest_resolved_alerts_are_dropped_and_no_firing_one(async_redis: Any) -> None:
    log = AlertLog(async_redis, [STREAMS], resolved_kept=3)
    await add(async_redis, alert("fires"), *(alert(f"r{n}", status="resolved") for n in range(10)), alert("new"))
    assert [one.alert_id for one in await log.read()] == ["fires", "r7", "r8", "r9", "new"]


def letter(number: int, payload: bytes = b"x") -> DeadLetter:
    return DeadLetter.of(
        payload,
        stream=STREAMS.interactions,
        entry_id=f"{number}-1",
        reason=Reason.NOT_JSON,
        detail="no JSON",
        component="worker",
    )


async def test_dead_letters_of_all_partitions_come_oldest_first(async_redis: Any) -> None:
    for number in range(12):
        stream = Streams("ragtide", number * 7 % PARTITIONS).dead_letters
        await async_redis.xadd(stream, {DATA_FIELD: letter(number).encode()}, id=f"{number + 1}-0")
    await async_redis.xadd(STREAMS.dead_letters, {"data": "junk"})
    deployment = Deployment(async_redis, SETTINGS)
    found = [stored async for stored in deployment.dead_letters()]
    assert [stored.letter_id for stored in found] == [f"{number + 1}-0" for number in range(12)]
    assert [stored.partition for stored in found] == [number * 7 % PARTITIONS for number in range(12)]
    assert "1 dead letter cannot be read" in deployment.warnings()[0]


async def test_dead_letters_are_found_by_their_ids(async_redis: Any) -> None:
    for number in range(5):
        await async_redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter(number).encode()}, id=f"5-{number}")
    deployment = Deployment(async_redis, Settings())
    wanted = ["5-3", "5-1", "5", "5-9", "none", "*", "-1-0", "9" * 30 + "-0"]
    assert [stored.letter_id async for stored in deployment.dead_letters(wanted)] == ["5-1", "5-3"]
    assert [stored async for stored in deployment.dead_letters([])] == []


async def test_one_page_of_dead_letters_is_in_memory(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1_000_000
    for number in range(40):
        await async_redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter(number, b"x" * size).encode()})
    monkeypatch.setattr("ragtide_aggregator.reading.dead_letters.READ_BYTES", 2 * size)
    deployment = Deployment(async_redis, Settings())
    tracemalloc.start()
    try:
        count = len([stored.letter_id async for stored in deployment.dead_letters()])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 40
    assert peak < 20 * size


async def test_workspaces_that_cannot_be_read_are_counted(async_redis: Any) -> None:
    good = Workspace(run="good", kind="replay", source="s")
    await async_redis.hset(STREAMS.workspaces, mapping={"good": good.encode(), "bad": "junk"})
    deployment = Deployment(async_redis, Settings())
    assert await deployment.workspaces() == [good]
    assert await deployment.workspaces() == [good]
    assert "1 workspace cannot be read" in deployment.warnings()[0]


async def test_a_cluster_is_read_in_the_same_way(tmp_path: Path) -> None:
    with cluster(tmp_path, masters=3, replicas=0) as nodes:
        async with connect_async(nodes.url) as redis:
            for place, owner in enumerate(owners(redis, SETTINGS)):
                await owner.commit(of(place), alerts=(alert(f"a{place}"),))
                dead = Streams("ragtide", place).dead_letters
                await redis.xadd(dead, {DATA_FIELD: letter(place).encode()}, id=f"{place + 1}-0")
            deployment = Deployment(redis, SETTINGS)
            for _ in range(2):
                found = await deployment.estimates()
                assert {one.pipeline for one in found} == {f"pipeline-{place}" for place in range(PARTITIONS)}
                assert [one.alert_id for one in await deployment.alerts()] == [f"a{n}" for n in range(PARTITIONS)]
                assert [one.lengths["dead_letters"] for one in await deployment.backlog()] == [1] * PARTITIONS
                assert [dead_letter.partition async for dead_letter in deployment.dead_letters()] == list(
                    range(PARTITIONS)
                )


async def test_an_application_reads_the_deployment_of_a_url(async_redis: Any, redis_url: str) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(of(0))
    await agree_on_layout(async_redis, Settings().layout)
    async with Deployment.connect(redis_url) as deployment:
        assert {estimate.pipeline for estimate in await deployment.estimates()} == {"pipeline-0"}
    with pytest.raises(ConfigurationError, match="partitions"):
        async with Deployment.connect(settings=Settings(redis_url=redis_url, partitions=4)):
            pass
