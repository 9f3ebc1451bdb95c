"""The aggregator writes which pipelines are suspected, and removes them when an alert fires or the evidence ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from tests.support.aggregator_settings import aggregator_settings
from tests.support.conditions import until
from tests.support.metric_events import adherence

from ragtide import AlertRule
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.suspected import SuspicionWriter
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.suspected import read_suspected, write_suspected
from ragtide_schemas import MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
RULE = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7, run_length=10_000)
SETTINGS = aggregator_settings(alerts=(RULE,))
CALM = adherence([0.8, 0.9] * 50)


@asynccontextmanager
async def aggregating(redis: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Aggregator(redis, SETTINGS, holder="a").run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def publish(redis: Any, events: list[MetricEvent]) -> None:
    for event in events:
        last = await redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})
    await until(lambda: committed(redis, last))


async def committed(redis: Any, last: bytes) -> bool:
    return bool(await redis.hget(STREAMS.checkpoint, "position") == last)


def events_until(least: float) -> list[MetricEvent]:
    """Return events after which the evidence of the rule is for the first time this share of its line."""
    state = AggregatorState(state_options(SETTINGS))
    events = [*CALM, *adherence([0.5] * 100, first=100)]
    for number, event in enumerate(events):
        state.apply(event)
        evidence = state.rules_of(state.keys.index(next(key for key in state.keys if key.metric == RULE.metric)))
        near = evidence[0].evidence()
        if near is not None and near.once_in >= least * near.run_length:
            return events[: number + 1]
    raise AssertionError("the evidence never came so far")


def test_the_evidence_of_rows_is_the_largest_of_their_rules() -> None:
    both = RULE.model_copy(update={"name": "both", "kind": "drift", "target": None, "direction": "both"})
    state = AggregatorState(state_options(SETTINGS.model_copy(update={"alerts": (RULE, both)})))
    for event in [*CALM, *adherence([0.2] * 3, first=100)]:
        state.apply(event)
    rows = np.arange(len(state))
    expected = [
        max((e.once_in / e.run_length for rule in state.rules_of(row) if (e := rule.evidence())), default=0.0)
        for row in rows.tolist()
    ]
    assert max(expected) > 0
    assert state.evidence(rows).tolist() == pytest.approx(expected)


async def test_a_pipeline_is_suspected_from_near_the_line_until_the_alert_fires(async_redis: Any) -> None:
    near = events_until(0.1)
    begun = utc_now().replace(microsecond=0)
    async with aggregating(async_redis):
        await publish(async_redis, CALM)
        assert await read_suspected(async_redis, [STREAMS]) == {}
        await publish(async_redis, near[100:-1])
        assert await read_suspected(async_redis, [STREAMS]) == {}
        await publish(async_redis, near[-1:])
        await until(lambda: read_suspected(async_redis, [STREAMS]))
        (since,) = (await read_suspected(async_redis, [STREAMS])).values()
        assert begun <= since <= utc_now()
        await publish(async_redis, adherence([0.2] * 30, first=len(near)))
        await until(lambda: async_redis.xlen(STREAMS.alerts))
        await until(lambda: cleared(async_redis))


async def cleared(redis: Any) -> bool:
    return not await read_suspected(redis, [STREAMS])


async def test_a_suspicion_keeps_its_beginning_in_another_process_and_ends_with_its_evidence(async_redis: Any) -> None:
    state = AggregatorState(state_options(SETTINGS))
    for event in events_until(0.1):
        state.apply(event)
    changed = state.take_changes().keys
    since = utc_now().replace(year=2025, microsecond=0)
    await write_suspected(async_redis, STREAMS, {"shop": since, "removed": since}, [])
    writer = SuspicionWriter(async_redis, STREAMS, "judge")
    writer.look(state, changed)
    await writer.write()
    assert await read_suspected(async_redis, [STREAMS]) == {"shop": since}
    for event in adherence([0.95] * 60, first=500):
        state.apply(event)
    writer.look(state, state.take_changes().keys)
    await writer.write()
    assert await read_suspected(async_redis, [STREAMS]) == {}


async def test_the_rule_on_the_sample_itself_raises_it_earlier(async_redis: Any) -> None:
    state = AggregatorState(state_options(SETTINGS))
    for event in events_until(0.02):
        state.apply(event)
    changed = state.take_changes().keys
    for reference, suspected in (("judge", set()), ("test", {"shop"})):
        writer = SuspicionWriter(async_redis, STREAMS, reference)
        writer.look(state, changed)
        await writer.write()
        assert set(await read_suspected(async_redis, [STREAMS])) == suspected


async def test_what_could_not_be_written_is_written_after_a_later_commit(async_redis: Any) -> None:
    state = AggregatorState(state_options(SETTINGS))
    for event in events_until(0.1):
        state.apply(event)
    async with connect_async("redis://127.0.0.1:1") as away:
        writer = SuspicionWriter(away, STREAMS, "judge")
        writer.look(state, state.take_changes().keys)
        await writer.write()
        writer._redis = async_redis
        await writer.write()
    assert set(await read_suspected(async_redis, [STREAMS])) == {"shop"}
