"""A step of the aggregator never outlasts its lease, however many new keys a batch has."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import ConnectionError as RedisConnectionError
from redis.asyncio import Redis
from tests.support.aggregator_settings import aggregator_settings, changed
from tests.support.metric_events import event

from ragtide import Estimate, MetricEvent
from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.pace import StepPace
from ragtide_aggregator.service.telemetry import AggregatorTelemetry
from ragtide_aggregator.service.trimming import StreamStatus
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)
SCORES = {
    "trace.context_relevance": 0.9,
    "trace.context_utilization": 0.8,
    "trace.adherence": 0.7,
    "trace.supported_fraction": 0.6,
}
SETTINGS = aggregator_settings(aggregator_batch=1000, lease_s=0.4)


def many_keys(n: int, segments: int = 15) -> list[MetricEvent]:
    """Return events, each with values of its own in so many segments."""
    return [
        event(number, SCORES, segments={f"s{place}": f"v{number}" for place in range(segments)}) for number in range(n)
    ]


@asynccontextmanager
async def running(
    redis: Redis,
    settings: Settings = SETTINGS,
    telemetry: AggregatorTelemetry | None = None,
    state: StateOptions | None = None,
) -> AsyncIterator[Aggregator]:
    stop = asyncio.Event()
    service = Aggregator(redis, settings, holder="a", telemetry=telemetry, state=state)
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await task


async def publish(redis: Redis, events: list[MetricEvent]) -> None:
    for one in events:
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: one.encode()})


async def until_caught_up(redis: Any) -> None:
    ((last, _),) = await redis.xrevrange(STREAMS.metrics, count=1)
    async with asyncio.timeout(120):
        while await redis.hget(STREAMS.checkpoint, "position") != last:  # noqa: ASYNC110 - Redis changes
            await asyncio.sleep(0.01)


async def test_a_batch_of_many_new_keys_is_committed_although_it_takes_longer_than_the_lease(async_redis: Any) -> None:
    events = many_keys(80)
    await publish(async_redis, events)
    async with running(async_redis):
        await until_caught_up(async_redis)
    whole = AggregatorState(state_options(SETTINGS))
    for one in events:
        whole.apply(one)
    stored = await async_redis.hgetall(STREAMS.checkpoint)
    rows = whole.take_changes().rows
    assert {name: stored[name.encode()] for name in rows} == rows


async def test_the_lease_is_renewed_and_the_event_loop_is_free_while_a_step_works(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, working = threading.Event(), threading.Event()
    take_changes = AggregatorState.take_changes

    def slow(self: AggregatorState) -> Any:
        working.set()
        assert released.wait(60), "the event loop was blocked by the step"
        return take_changes(self)

    monkeypatch.setattr(AggregatorState, "take_changes", slow)
    renewed = []
    renew = Lease.renew

    async def counted(self: Lease, token: str) -> bool:
        renewed.append(await renew(self, token))
        return renewed[-1]

    monkeypatch.setattr(Lease, "renew", counted)
    await publish(async_redis, many_keys(2, 1))
    async with running(async_redis, changed(SETTINGS, lease_s=1.5)) as service, asyncio.timeout(120):
        while not working.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.01)
        begun = len(renewed)
        while len(renewed) < begun + 4:  # longer than the lease  # noqa: ASYNC110 - the aggregator tells only Redis
            await asyncio.sleep(0.01)
        released.set()
        await until_caught_up(async_redis)
        assert all(renewed)
        assert service.events_applied == 2


async def test_a_batch_that_only_time_fenced_is_made_smaller_until_it_fits(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Committer.commit
    sizes = []

    async def outlasting(self: Committer, step: Step, token: str) -> None:
        sizes.append(len(step.rows))
        if len(step.rows) > 100:
            await async_redis.delete(STREAMS.lease)  # it ran out, and no other aggregator took over
        await commit(self, step, token)

    monkeypatch.setattr(Committer, "commit", outlasting)
    monkeypatch.setattr("ragtide_aggregator.service.pace.FIRST_GUESS_S", 1e-9)
    await publish(async_redis, many_keys(100, 1))
    async with running(async_redis):
        await until_caught_up(async_redis)
    assert sizes[0] > 100 >= sizes[-1]
    assert len(await async_redis.hkeys(STREAMS.checkpoint)) > 400


async def test_a_commit_has_no_more_keys_than_its_time_allows(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Committer.commit
    sizes = []

    async def counted(self: Committer, step: Step, token: str) -> None:
        sizes.append(sum(name.startswith("estimate:") for name in step.rows))
        await commit(self, step, token)

    monkeypatch.setattr(Committer, "commit", counted)
    settings = changed(SETTINGS, lease_s=9.0, commit_interval_s=60.0)
    # Each key is taken to cost a second, and nothing else is learned: at least one event.
    monkeypatch.setattr("ragtide_aggregator.service.pace.FIRST_GUESS_S", 1.0)
    monkeypatch.setattr(StepPace, "committed", lambda *_, **__: None)
    await publish(async_redis, many_keys(12, 1))
    async with running(async_redis, settings):
        await until_caught_up(async_redis)
    assert max(sizes) <= 9
    found = [Estimate.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.estimates)]
    assert max(one.n for one in found if one.segment is None) == 12
    assert json.loads(await async_redis.hget(STREAMS.checkpoint, "steps")) == len(sizes)


def test_the_pace_halves_after_a_fence_by_time_alone_and_grows_back_slowly() -> None:
    pace = StepPace(1000, 10.0)
    keys = pace.keys
    pace.fenced(7)
    assert pace.begins(7)
    assert (pace.batch, pace.keys) == (500, keys // 2)
    assert not pace.begins(7)
    for _ in range(8):
        assert 500 <= pace.batch < 1000
        pace.committed(1, seconds=0.001, write_s=0.001)
    assert (pace.batch, pace.keys) == (1000, keys)


def test_a_fence_by_another_aggregator_says_nothing_about_time() -> None:
    pace = StepPace(1000, 10.0)
    pace.fenced(7)
    assert not pace.begins(8)
    assert pace.batch == 1000


def test_steps_grow_with_the_lag_and_stay_within_the_lease() -> None:
    pace = StepPace(1000, 12.0)
    assert pace.step_s == 0.5
    keys = pace.keys
    pace.lags(8.0)
    assert pace.step_s == 2.0
    assert pace.keys > keys
    pace.lags(3600.0)
    assert pace.step_s == 12.0
    pace.lags(0.0)
    assert (pace.step_s, pace.keys) == (0.5, keys)


def test_a_lag_is_the_age_of_the_last_event_that_was_read_while_later_events_wait() -> None:
    status = StreamStatus(now_ms=90_000, oldest_waiting_ms=None, last_scored_ms=70_500, dropped={})
    assert status.lag_s("60000-3") == 30.0
    assert status.lag_s("70500-0") == 0.0
    assert replace(status, last_scored_ms=None).lag_s("0-0") == 0.0


async def test_an_aggregator_that_lags_takes_longer_steps(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []
    lags = StepPace.lags

    def noted(self: StepPace, seconds: float) -> None:
        lags(self, seconds)
        longest.append(self.step_s)

    monkeypatch.setattr(StepPace, "lags", noted)
    # The newest event is a minute younger than the others, which a batch of two leaves unread.
    for number, key in enumerate(many_keys(6, 1)):
        await async_redis.xadd(
            STREAMS.metrics, {DATA_FIELD: key.encode()}, id=f"{1000 + 60_000 * (number == 5)}-{number}"
        )
    async with running(async_redis, changed(SETTINGS, aggregator_batch=2, lease_s=9.0)):
        await until_caught_up(async_redis)
    assert longest[0] == 9.0


@given(st.integers(1, 2000), st.floats(0, 600), st.integers(1, 49))
def test_a_slow_commit_does_not_keep_the_next_ones_small(keys: int, slow_s: float, one_event: int) -> None:
    """A busy machine or a Redis that hung made one commit slow; later ones cost 20 us a key and 5 ms in all."""
    pace = StepPace(1000, 10.0)
    pace.committed(keys, seconds=slow_s, write_s=slow_s)
    for _ in range(40):
        step = max(min(pace.keys, 5000), one_event)  # an event is taken whole
        seconds = 0.005 + 20e-6 * step
        pace.committed(step, seconds=seconds, write_s=seconds / 2)
    assert pace.keys >= 1000


async def test_a_redis_that_fails_does_not_make_the_next_steps_small(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, committed = Committer.commit, StepPace.committed
    failures = iter([100.0, 100.0])
    outage_s, seconds_of = [], []

    async def failing(self: Committer, step: Step, token: str) -> None:
        if lasts_s := next(failures, None):
            outage_s.append(lasts_s)
            raise RedisConnectionError("it is gone")
        await commit(self, step, token)

    def counted(self: StepPace, keys: int, *, seconds: float, write_s: float) -> None:
        seconds_of.append(seconds)
        committed(self, keys, seconds=seconds, write_s=write_s)

    monkeypatch.setattr(Committer, "commit", failing)
    monkeypatch.setattr(StepPace, "committed", counted)
    monkeypatch.setattr("ragtide_runtime.processes.waiting.LONGEST_PAUSE_S", 0.01)
    clock = "ragtide_aggregator.service.step_writer.perf_counter"
    monkeypatch.setattr(clock, lambda: time.perf_counter() + sum(outage_s))
    await publish(async_redis, many_keys(3, 1))
    async with running(async_redis, changed(SETTINGS, lease_s=30.0)):
        await until_caught_up(async_redis)
    assert sum(outage_s) == 200
    assert sum(seconds_of) < 100


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 10**4), st.floats(0, 10**3)), max_size=20))
def test_a_step_has_at_least_one_event_and_one_key_whatever_was_measured(measured: list[Any]) -> None:
    pace = StepPace(3, 0.5)
    for keys, seconds, write_s in measured:
        pace.committed(keys, seconds=seconds, write_s=write_s)
        pace.fenced(keys)
        pace.begins(keys)
        assert pace.batch >= 1
        assert pace.keys >= 1
