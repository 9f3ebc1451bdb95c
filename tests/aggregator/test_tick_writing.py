"""The owner of a partition ends sessions by ticks on the stream, once each, and only when nothing can still come."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.aggregator.test_service import SETTINGS, STREAMS, UNHURRIED_S, caught_up, publish, stored_rows
from tests.aggregator.test_ticks import ADHERENCE, tick
from tests.support.aggregator_settings import changed
from tests.support.conditions import until
from tests.support.metric_events import event
from tests.support.redis_processes import cluster

from ragtide import Alert, AlertRule
from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.applying import Positions
from ragtide_aggregator.service.session import PartitionSession
from ragtide_aggregator.service.ticks import TickWriter, append_ticks
from ragtide_aggregator.service.trimming import trim_streams
from ragtide_aggregator.state import open_clusters
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, MetricEvent, to_milliseconds

QUIET_MS = 300
STATE = StateOptions(
    clusters=ClusterSettings(size=20, quiet_s=QUIET_MS / 1000),
    rules=(AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.8, run_length=200),),
)


@pytest.fixture(autouse=True)
def _no_lull(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_clusters, "LULL_MS", 0)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the times before which everything was scored, of every look for ticks that are due."""
    found: list[int] = []
    append = TickWriter.append

    async def noted(self: TickWriter, state: AggregatorState, positions: Positions, until_ms: int) -> None:
        await append(self, state, positions, until_ms)
        found.append(until_ms)

    monkeypatch.setattr(TickWriter, "append", noted)
    return found


@asynccontextmanager
async def owner(redis: Any, holder: str = "a") -> AsyncIterator[Aggregator]:
    stop = asyncio.Event()
    service = Aggregator(redis, changed(SETTINGS, lease_s=UNHURRIED_S), holder=holder, state=STATE)
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await task


def answers(first: int = 0, sessions: int = 20, turns: int = 5, pipeline: str = "shop") -> list[MetricEvent]:
    """Return answers of sessions at the same time; the first answer of each session is good."""
    return [
        event(0, {ADHERENCE: float(turn == 0)}, interaction_id=f"i-{first + sessions * turn + session}",
              session_id=f"s-{first + session}", pipeline=pipeline)
        for turn in range(turns)
        for session in range(sessions)
    ]  # fmt: skip


async def stream(redis: Any) -> list[tuple[str, MetricEvent]]:
    found = await redis.xrange(STREAMS.metrics)
    return [(entry_id.decode(), MetricEvent.decode(fields[DATA_FIELD])) for entry_id, fields in found]


async def ticks(redis: Any) -> list[MetricEvent]:
    return [one for _, one in await stream(redis) if one.is_tick]


async def alerts(redis: Any) -> list[Alert]:
    return [Alert.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.alerts)]


def recomputed(entries: Sequence[tuple[str, MetricEvent]]) -> AggregatorState:
    state = AggregatorState(STATE)
    for entry_id, one in entries:
        state.apply(one, order(entry_id)[0])
    return state


async def test_silence_ends_the_sessions_of_each_pipeline_once(async_redis: Any, rounds: list[int]) -> None:
    await publish(async_redis, [*answers(), *answers(pipeline="docs", sessions=3), event(0, {ADHERENCE: 1.0})])
    async with owner(async_redis) as service:
        await until(lambda: alerts(async_redis))
        await until(lambda: caught_up(async_redis))
        seen = len(rounds)
        await until(lambda: len(rounds) >= seen + 3)
        assert service.events_applied == 116
        found = await ticks(async_redis)
        # A pipeline may need a second one, if its last answer came later than its first ones.
        assert {one.pipeline for one in found} == {"shop", "docs"}
        assert len(found) <= 4
    entries = await stream(async_redis)
    changes = recomputed(entries).take_changes()
    assert await stored_rows(async_redis) == changes.rows
    assert await alerts(async_redis) == list(changes.alerts)
    assert recomputed(entries).waiting == {("shop", None): 0, ("docs", None): 0}
    # Ticks are no traffic: the silence is measured from the last answer.
    status = await run_script(async_redis, trim_streams(STREAMS, Settings(), "0-0", "0-0"))
    assert status.last_scored_ms == max(order(entry_id)[0] for entry_id, one in entries if not one.is_tick)


async def test_nothing_is_appended_without_open_sessions(async_redis: Any, rounds: list[int]) -> None:
    await publish(async_redis, [event(number, {ADHERENCE: 1.0}) for number in range(30)])
    async with owner(async_redis):
        await until(lambda: len(rounds) >= 3)
        assert await ticks(async_redis) == []


async def test_an_answer_that_is_not_scored_yet_keeps_sessions_open(async_redis: Any, rounds: list[int]) -> None:
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    await async_redis.xreadgroup(LABEL_GROUP, "worker", {STREAMS.interactions: ">"})
    await publish(async_redis, answers(sessions=2))
    (waiting,) = await async_redis.xrange(STREAMS.interactions)
    async with owner(async_redis):
        await until(lambda: len(rounds) >= 2)
        last = order((await stream(async_redis))[-1][0])[0]
        await until(lambda: async_redis_passed(async_redis, last + QUIET_MS))
        seen = len(rounds)
        await until(lambda: len(rounds) >= seen + 2)
        assert await ticks(async_redis) == []
        assert set(rounds) == {order(waiting[0].decode())[0]}
        # The worker finishes it.
        await async_redis.xack(STREAMS.interactions, LABEL_GROUP, waiting[0])
        await async_redis.zadd(STREAMS.finished, {waiting[0]: order(waiting[0].decode())[0]})
        await until(lambda: ticks(async_redis))


async def async_redis_passed(redis: Any, time_ms: int) -> bool:
    seconds, microseconds = await redis.time()
    return bool(seconds * 1000 + microseconds // 1000 > time_ms)


async def test_a_deposed_or_lagging_owner_appends_nothing(async_redis: Any) -> None:
    old = (await Lease(async_redis, STREAMS, holder="old", lease_s=60).acquire()).token
    assert old is not None
    await publish(async_redis, answers(sessions=1, turns=1))
    ((last, _),) = await stream(async_redis)
    at, made = Positions(last, "0-0"), [tick(1.0), tick(2.0, "docs")]
    assert await run_script(async_redis, append_ticks(STREAMS, old, Positions("0-0", "0-0"), made)) == "behind"
    feedback = (await async_redis.xadd(STREAMS.feedback, {DATA_FIELD: b"{}"})).decode()
    assert await run_script(async_redis, append_ticks(STREAMS, old, at, made)) == "behind"
    assert await ticks(async_redis) == []
    at = at._replace(feedback=feedback)
    assert await run_script(async_redis, append_ticks(STREAMS, old, at, made)) == (await stream(async_redis))[-1][0]
    # The reply was lost, so the same call is made again.
    assert await run_script(async_redis, append_ticks(STREAMS, old, at, made)) == "behind"
    assert await ticks(async_redis) == made
    await async_redis.delete(STREAMS.lease)
    at = at._replace(metrics=(await stream(async_redis))[-1][0])
    assert await run_script(async_redis, append_ticks(STREAMS, old, at, made)) == "fenced"
    await Lease(async_redis, STREAMS, holder="new", lease_s=60).acquire()
    assert await run_script(async_redis, append_ticks(STREAMS, old, at, made)) == "fenced"
    assert len(await ticks(async_redis)) == 2


async def test_a_tick_that_redis_lost_before_it_was_read_is_appended_again(async_redis: Any) -> None:
    token = (await Lease(async_redis, STREAMS, holder="a", lease_s=60).acquire()).token
    assert token is not None
    await publish(async_redis, answers(sessions=3))
    entries = await stream(async_redis)
    at, state = Positions(entries[-1][0], "0-0"), recomputed(entries)
    writer, until_ms = TickWriter(async_redis, STREAMS, token, {}), order(entries[-1][0])[0] + QUIET_MS
    await writer.append(state, at, until_ms)
    ((lost, _),) = (await stream(async_redis))[len(entries) :]
    # It is in the stream: it is not read yet, or the state could not take it.
    await writer.append(state, at._replace(metrics=lost), until_ms)
    assert len(await ticks(async_redis)) == 1
    await async_redis.xdel(STREAMS.metrics, lost)
    await writer.append(state, at._replace(metrics=lost), until_ms)
    assert len(await ticks(async_redis)) == 1
    assert (await stream(async_redis))[-1][0] > lost


async def test_a_tick_that_nobody_applied_before_the_owner_died_counts_once(
    async_redis: Any, rounds: list[int]
) -> None:
    await publish(async_redis, answers(sessions=20, turns=3))
    async with owner(async_redis):
        await until(lambda: caught_up(async_redis))
    # The owner appends ticks and is killed before it reads them.
    token = (await Lease(async_redis, STREAMS, holder="killed", lease_s=60).acquire()).token
    assert token is not None
    entries = await stream(async_redis)
    state = recomputed(entries)
    now_ms = order(entries[-1][0])[0] + QUIET_MS
    made = [state.tick_of(quiet, now_ms) for quiet in state.quiet_scopes(now_ms)]
    at = Positions(entries[-1][0], "0-0")
    if made:  # else the first owner had ended the sessions already
        assert await run_script(async_redis, append_ticks(STREAMS, token, at, made)) not in {"behind", "fenced"}
    await async_redis.delete(STREAMS.lease)
    async with owner(async_redis, "standby"):
        await until(lambda: alerts(async_redis))
        await publish(async_redis, answers(first=1000, sessions=3))
        await until(lambda: caught_up(async_redis))
        seen = len(rounds)
        await until(lambda: len(rounds) >= seen + 2)
    entries = await stream(async_redis)
    changes = recomputed(entries).take_changes()
    assert await stored_rows(async_redis) == changes.rows
    assert await alerts(async_redis) == list(changes.alerts)


async def test_a_tick_that_the_state_cannot_take_becomes_one_dead_letter(
    async_redis: Any, rounds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise DamagedFieldError("clusters", ValueError("a defect"))

    monkeypatch.setattr(open_clusters.ScopeClusters, "quiet", fails)
    await publish(async_redis, answers(sessions=2))
    async with owner(async_redis):
        await until(lambda: async_redis.xlen(STREAMS.dead_letters))
        seen = len(rounds)
        await until(lambda: len(rounds) >= seen + 3)
        letters = [
            DeadLetter.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.dead_letters)
        ]
        refused = [MetricEvent.decode(letter.payload_bytes()) for letter in letters]
        assert all(one.is_tick for one in refused)
        assert len(refused) == len(await ticks(async_redis)) <= 2
        assert to_milliseconds(refused[0].labeled_at) > 0
        # Answers count as before.
        before = (await stream(async_redis))[-1][0]
        await publish(async_redis, answers(first=100, sessions=1))
        await until(lambda: caught_up(async_redis))
        assert (await async_redis.hget(STREAMS.checkpoint, "position")).decode() > before


async def test_a_workspace_has_no_ticks_because_its_answers_come_at_a_speed_of_its_own(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []
    maintain = PartitionSession._maintain

    async def counted(self: PartitionSession) -> None:
        await maintain(self)
        rounds.append(self)

    monkeypatch.setattr(PartitionSession, "_maintain", counted)
    await publish(async_redis, answers(sessions=3))
    monkeypatch.setattr("ragtide_aggregator.service.session.workspace_of", lambda _: "may")
    async with owner(async_redis):
        last = order((await stream(async_redis))[-1][0])[0]
        await until(lambda: async_redis_passed(async_redis, last + QUIET_MS))
        seen = len(rounds)
        await until(lambda: len(rounds) >= seen + 2)
        assert await ticks(async_redis) == []


@pytest.mark.heavy
@pytest.mark.processes
async def test_sessions_of_each_partition_of_a_cluster_end_without_traffic(tmp_path: Path) -> None:
    layout = Layout("ragtide", 3)
    pipelines = {layout.of(f"p{number}", "any").partition: f"p{number}" for number in range(50)}
    with cluster(tmp_path, masters=3, replicas=0) as nodes:
        async with connect_async(nodes.url) as connected:
            redis: Any = connected
            for partition, pipeline in pipelines.items():
                for one in answers(pipeline=pipeline):
                    await redis.xadd(layout.all()[partition].metrics, {DATA_FIELD: one.encode()})
            stop = asyncio.Event()
            settings = changed(SETTINGS, partitions=3, lease_s=UNHURRIED_S)
            task = asyncio.create_task(Aggregator(redis, settings, holder="a", state=STATE).run(stop))
            for streams in layout.all():
                await until(lambda streams=streams: redis.xlen(streams.alerts))  # type: ignore[misc]
            stop.set()
            await task
            for streams in layout.all():
                found = await redis.xrange(streams.metrics)
                entries = [(at.decode(), MetricEvent.decode(fields[DATA_FIELD])) for at, fields in found]
                ((_, fields),) = await redis.xrange(streams.alerts)
                assert recomputed(entries).take_changes().alerts == [Alert.decode(fields[DATA_FIELD])]
                assert 1 <= sum(one.is_tick for _, one in entries) <= 2
