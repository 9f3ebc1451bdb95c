import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis import ConnectionError  # noqa: A004 - Redis's own
from tests.support.aggregator_settings import aggregator_settings, changed
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta
from tests.support.metric_events import event as metric_event

from ragtide import Alert, AlertRule
from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import Estimate

STREAMS = Streams("ragtide", 0)
RULE = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7)
SETTINGS = aggregator_settings(alerts=(RULE,))
STATE = state_options(SETTINGS)
UNHURRIED_S = 60.0
"""A lease that does not run out on a busy machine."""
EVENTS = [*adherence(beta(0.85, 200, 1)), *adherence(beta(0.4, 100, 2), first=200)]


@asynccontextmanager
async def running(redis: Any, holder: str = "a", lease_s: float = SETTINGS.lease_s) -> AsyncIterator[Aggregator]:
    stop = asyncio.Event()
    service = Aggregator(redis, changed(SETTINGS, lease_s=lease_s), holder=holder)
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await task


async def publish(redis: Any, events: list[Any]) -> None:
    for event in events:
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})


async def caught_up(redis: Any) -> bool:
    last = await redis.xrevrange(STREAMS.metrics, count=1)
    return bool(await redis.hget(STREAMS.checkpoint, "position") == last[0][0])


async def stored_rows(redis: Any) -> dict[str, bytes]:
    fields = await redis.hgetall(STREAMS.checkpoint)
    kept = {b"position", b"feedback", b"version", b"steps", b"owed", b"names"}
    return {
        name.decode(): data
        for name, data in fields.items()
        if name not in kept and not name.startswith((b"changed:", b"seen_ids:", b"health:", b"alert:stall-"))
    }


async def test_events_become_estimates_alerts_and_a_checkpoint(async_redis: Any) -> None:
    await publish(async_redis, EVENTS)
    async with running(async_redis):
        await until(lambda: caught_up(async_redis))
    quiet = AggregatorState(STATE)
    for event in EVENTS:
        quiet.apply(event)
    changes = quiet.take_changes()
    assert await stored_rows(async_redis) == changes.rows
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]
    assert alerts == list(changes.alerts)
    assert [alert.status for alert in alerts] == ["firing"]
    last = Estimate.decode((await async_redis.xrevrange(STREAMS.estimates, count=1))[0][1][DATA_FIELD])
    assert (last.n, last.metric, last.anytime_valid) == (len(EVENTS), "trace.adherence", True)


async def test_a_standby_takes_over_only_when_the_owner_gives_up(async_redis: Any) -> None:
    async with running(async_redis, "first", UNHURRIED_S) as first:
        await publish(async_redis, EVENTS[:50])
        await until(lambda: caught_up(async_redis))
        async with running(async_redis, "second", UNHURRIED_S) as second:
            await publish(async_redis, EVENTS[50:100])
            await until(lambda: caught_up(async_redis))
            assert (first.events_applied, second.events_applied) == (100, 0)
    async with running(async_redis, "second", UNHURRIED_S) as second:
        await publish(async_redis, EVENTS[100:])
        await until(lambda: caught_up(async_redis))
        assert second.events_applied == 200


async def test_an_owner_whose_lease_was_taken_writes_nothing_more(async_redis: Any) -> None:
    committer = Committer(async_redis, STREAMS)
    old = (await Lease(async_redis, STREAMS, holder="old", lease_s=5).acquire()).token
    assert old is not None
    await committer.commit(Step(before=0, position="1-0", rows={"estimate:a": b"1"}), old)
    await async_redis.delete(STREAMS.lease)  # it ran out while the owner was stopped
    new = (await Lease(async_redis, STREAMS, holder="new", lease_s=5).acquire()).token
    assert new is not None
    await committer.commit(Step(before=1, position="2-0", rows={"estimate:a": b"2"}), new)
    before = await async_redis.hgetall(STREAMS.checkpoint)
    with pytest.raises(LeaseLostError, match="another owner"):
        await committer.commit(Step(before=1, position="3-0", rows={"estimate:a": b"3"}), old)
    assert await async_redis.hgetall(STREAMS.checkpoint) == before


async def test_a_stale_owner_is_refused_even_if_the_new_one_has_not_written_yet(async_redis: Any) -> None:
    committer = Committer(async_redis, STREAMS)
    old = (await Lease(async_redis, STREAMS, holder="old", lease_s=5).acquire()).token
    await async_redis.delete(STREAMS.lease)
    new = (await Lease(async_redis, STREAMS, holder="new", lease_s=5).acquire()).token
    assert old is not None
    assert new is not None
    with pytest.raises(LeaseLostError):
        await committer.commit(Step(before=0, position="1-0", rows={"estimate:a": b"1"}), old)
    assert await async_redis.exists(STREAMS.checkpoint) == 0
    await committer.commit(Step(before=0, position="1-0"), new)


async def test_a_step_sent_twice_is_written_once(async_redis: Any) -> None:
    committer = Committer(async_redis, STREAMS)
    token = (await Lease(async_redis, STREAMS, holder="a", lease_s=5).acquire()).token
    assert token is not None
    state = AggregatorState(STATE)
    for event in EVENTS:
        state.apply(event)
    changes = state.take_changes()
    step = Step(before=0, position="5-0", rows=changes.rows, alerts=changes.alerts)
    await committer.commit(step, token)
    await committer.commit(step, token)
    assert await async_redis.xlen(STREAMS.alerts) == 1
    with pytest.raises(LeaseLostError):
        await committer.commit(Step(before=4, position="6-0"), token)


async def test_a_step_of_many_rows_is_written_whole(async_redis: Any) -> None:
    committer = Committer(async_redis, STREAMS)
    token = (await Lease(async_redis, STREAMS, holder="a", lease_s=5).acquire()).token
    assert token is not None
    rows = {f"estimate:{number}": b"x" * 100 for number in range(20_000)}
    await committer.commit(Step(before=0, position="1-0", rows=rows), token)
    gone = list(rows)[:15_000]
    await committer.commit(Step(before=1, position="2-0", gone=gone), token)
    assert len(await stored_rows(async_redis)) == 5000


async def test_a_commit_whose_reply_was_lost_is_not_doubled(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = 0
    commit = Committer.commit

    async def losing(self: Committer, step: Step, token: str) -> None:
        nonlocal lost
        await commit(self, step, token)
        if lost < 3 and step.alerts:
            lost += 1
            raise ConnectionError("reply lost")

    monkeypatch.setattr(Committer, "commit", losing)
    monkeypatch.setattr("ragtide_runtime.processes.waiting.LONGEST_PAUSE_S", 0.01)
    await publish(async_redis, EVENTS)

    async def all_lost() -> bool:
        return lost == 3 and await caught_up(async_redis)

    async with running(async_redis):
        await until(all_lost)
    assert await async_redis.xlen(STREAMS.alerts) == 1


async def test_a_flushed_redis_is_started_on_again(async_redis: Any) -> None:
    async with running(async_redis) as service:
        await publish(async_redis, EVENTS[:20])
        await until(lambda: caught_up(async_redis))
        await async_redis.flushall()
        await publish(async_redis, EVENTS[:30])
        await until(lambda: caught_up(async_redis))
        assert service.events_applied >= 50
    kinds = {name.partition(":")[0] for name in await stored_rows(async_redis)}
    assert kinds == {"estimate", "quantiles", "season", "rule_state", "clock", "keys"}


async def test_a_checkpoint_of_another_version_is_a_clear_error_not_a_new_beginning(async_redis: Any) -> None:
    await async_redis.hset(STREAMS.checkpoint, mapping={"version": "99", "position": "1-0"})
    service = Aggregator(async_redis, SETTINGS, holder="a")
    with pytest.raises(CheckpointError, match="version 99"):
        await service.run(asyncio.Event())
    assert await async_redis.hget(STREAMS.checkpoint, "position") == b"1-0"


async def test_what_is_dropped_is_an_alert_once_whoever_owns_the_partition(async_redis: Any) -> None:
    async def told() -> list[tuple[str, str]]:
        found = [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]
        return [(alert.rule, alert.status) for alert in found]

    async def fired() -> bool:
        return bool(await told())

    await async_redis.hincrby(STREAMS.dropped, "queue_full", 3)
    async with running(async_redis, "first"):
        await until(fired)
    async with running(async_redis, "second"):
        # Somebody else owns it now and has looked, since it has trimmed what this says is done.
        await async_redis.xadd(STREAMS.feedback, {DATA_FIELD: "no feedback"})

        async def looked() -> bool:
            return bool(await async_redis.xlen(STREAMS.feedback) == 0)

        await until(looked)
    assert await told() == [("stall-dropped", "firing")]


async def test_scores_that_stop_coming_are_an_alert_once_whoever_owns_the_partition(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_aggregator.service.absent_share.LEAST_MS", 1)
    number = 0

    async def alerts_after_more() -> list[Alert]:
        nonlocal number
        absent = {"trace.adherence": "judge_unusable"}
        await publish(async_redis, [metric_event(number + more, {}, absent=absent) for more in range(25)])
        number += 25
        await until(lambda: caught_up(async_redis))
        return [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]

    async with running(async_redis, "first"):
        await until(alerts_after_more)
        await until(lambda: async_redis.hexists(STREAMS.checkpoint, "steps"))
    async with running(async_redis, "second"):
        for _ in range(3):
            found = await alerts_after_more()
    assert [(alert.rule, alert.status) for alert in found] == [("stall-absent", "firing")]
    assert found[0].metric == "trace.adherence"
