"""The stream of estimates has at most one entry a key and interval, and always the last value of an interval."""

from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.aggregator.test_pacing import SCORES, SETTINGS, STREAMS, many_keys, publish, running, until_caught_up
from tests.support.aggregator_settings import changed
from tests.support.conditions import until
from tests.support.metric_events import event

from ragtide import Estimate
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.service.estimates_stream import COMMITS, KEYS_AT_LEAST, KEYS_AT_MOST, EstimatesStream
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField

SLOWLY = changed(SETTINGS, lease_s=10.0, estimates_interval_s=3600.0)
"""No interval ends while a test runs."""

QUICKLY = changed(SLOWLY, estimates_interval_s=0.05)


def state_of(pipelines: int) -> AggregatorState:
    state = AggregatorState(StateOptions(panes=Panes((window("1m"),), 0)))
    for number in range(pipelines):
        state.apply(event(number, SCORES, pipeline=f"p{number}", segments={"lang": "de"}))
    return state


def taken(stream: EstimatesStream, state: AggregatorState) -> list[Estimate]:
    return [Estimate.decode(one) for one in stream.take(state, confidence=0.95)]


def test_a_key_that_changes_often_has_one_entry_an_interval() -> None:
    state = state_of(1)
    stream = EstimatesStream(10.0, 0.0)
    entries: Counter[str] = Counter()
    for now_s in range(1, 60):
        stream.changed(state.keys)
        if stream.is_due(now_s):
            entries.update(one.metric for one in taken(stream, state))
    assert set(entries.values()) == {5}
    assert set(entries) == {estimate.metric for estimate in estimates(state)}


def test_the_last_value_of_an_interval_is_published_at_its_end_also_when_nothing_more_comes() -> None:
    state = state_of(1)
    stream = EstimatesStream(10.0, 0.0)
    stream.changed(state.keys)
    assert not stream.is_due(9.9)
    state.apply(event(1, SCORES, pipeline="p0"))
    assert stream.is_due(10.0)
    assert {one.n for one in taken(stream, state)} == {2}
    assert not stream.is_due(1000.0)


def test_whole_pipelines_of_all_time_are_published_and_nothing_else() -> None:
    state = state_of(1)
    stream = EstimatesStream(10.0, 0.0)
    stream.changed(state.keys)
    assert stream.is_due(10.0)
    found = taken(stream, state)
    assert {(one.segment, one.window) for one in found} == {(None, "all")}
    assert {estimate.segment for estimate in estimates(state)} == {None, "lang=de"}
    assert {estimate.window for estimate in estimates(state)} == {"all", "1m"}
    values = [estimate for estimate in estimates(state) if (estimate.segment, estimate.window) == (None, "all")]
    assert found == values


def test_many_keys_are_published_over_several_commits() -> None:
    """A commit waits for few keys, and the keys of a pipeline, which may be a family, have one commit."""
    state = state_of(KEYS_AT_LEAST)
    stream = EstimatesStream(10.0, 0.0)
    stream.changed(state.keys)
    shares = []
    while stream.is_due(10.0):
        stream.changed(state.keys[:1])  # due already: no second entry
        shares.append(taken(stream, state))
    keys = [key for key in state.keys if key.segment is None]
    assert len(shares) >= len(keys) / KEYS_AT_LEAST
    entries = Counter((one.pipeline, one.metric) for share in shares for one in share)
    assert set(entries) == {(estimate.pipeline, estimate.metric) for estimate in estimates(state)}
    assert set(entries.values()) == {1}
    assert sum(len({one.pipeline for one in share}) for share in shares) == KEYS_AT_LEAST


def test_very_many_keys_are_spread_over_the_commits_of_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[int] = []

    def counted(state: AggregatorState, *, keys: list[EstimateKey], **_: Any) -> list[Estimate]:
        shares.append(len(keys))
        return []

    monkeypatch.setattr("ragtide_aggregator.service.estimates_stream.estimates", counted)
    state = state_of(1)
    for count, last, most in (
        (2000, False, 2000 // COMMITS),
        (2000, True, KEYS_AT_MOST),
        (20_000, False, KEYS_AT_MOST),
    ):
        stream = EstimatesStream(10.0, 0.0, [state.keys[0]._replace(pipeline=f"p{number}") for number in range(count)])
        shares.clear()
        while stream.is_due(10.0, last=last):
            stream.take(state, confidence=0.95)
        assert (sum(shares), max(shares)) == (count, most)


def test_the_checkpoint_is_told_once_that_estimates_are_owed() -> None:
    state = state_of(1)
    stream = EstimatesStream(10.0, 0.0)
    stream.changed(state.keys)
    assert stream.take_changes() == ({CheckpointField.ESTIMATES_OWED: b"1"}, ())
    stream.changed(state.keys)
    assert stream.take_changes() == ({}, ())
    assert stream.is_due(10.0)
    taken(stream, state)
    assert stream.take_changes() == ({}, (CheckpointField.ESTIMATES_OWED,))


def test_a_key_whose_estimates_fail_is_logged_and_the_others_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(3)

    def failing(state: AggregatorState, *, keys: list[EstimateKey], **options: Any) -> list[Estimate]:
        if any(key.pipeline == "p1" for key in keys):
            raise ValueError("year 0 is out of range")
        return estimates(state, keys=keys, **options)

    monkeypatch.setattr("ragtide_aggregator.service.estimates_stream.estimates", failing)
    stream = EstimatesStream(10.0, 0.0, state.keys)
    assert stream.is_due(10.0)
    with capture_logs() as logs:
        assert {one.pipeline for one in taken(stream, state)} == {"p0", "p2"}
    assert {EstimateKey.decode(entry["key"]).pipeline for entry in logs} == {"p1"}
    assert not stream.is_due(10.0)


async def published(redis: Any) -> dict[tuple[str | None, str], int]:
    """Return the newest number of values of each estimate on the stream."""
    found = [Estimate.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.estimates)]
    return {(one.segment, one.metric): one.n for one in found}


def whole(events: int) -> dict[tuple[str | None, str], int]:
    state = AggregatorState(state_options(SETTINGS))
    for key in many_keys(events, 1):
        state.apply(key)
    return {
        (estimate.segment, estimate.metric): estimate.n for estimate in estimates(state) if estimate.segment is None
    }


async def test_commits_publish_nothing_before_the_end_of_the_interval_and_the_last_commit_publishes_what_is_owed(
    async_redis: Any,
) -> None:
    async with running(async_redis, SLOWLY):
        await publish(async_redis, many_keys(20, 1))
        await until_caught_up(async_redis)
        assert await async_redis.hget(STREAMS.checkpoint, CheckpointField.ESTIMATES_OWED) == b"1"
        assert not await async_redis.exists(STREAMS.estimates)
    assert await published(async_redis) == whole(20)
    assert await async_redis.hget(STREAMS.checkpoint, CheckpointField.ESTIMATES_OWED) is None


async def test_when_traffic_stops_the_last_values_are_published(async_redis: Any) -> None:
    async def complete() -> bool:
        owed = await async_redis.hget(STREAMS.checkpoint, CheckpointField.ESTIMATES_OWED)
        return owed is None and await published(async_redis) == whole(20)

    async with running(async_redis, QUICKLY):
        await publish(async_redis, many_keys(20, 1))
        await until(complete)


async def test_the_next_owner_publishes_what_one_that_was_killed_owed(async_redis: Any) -> None:
    async with running(async_redis, SLOWLY):
        await publish(async_redis, many_keys(20, 1))
        await until_caught_up(async_redis)
        # Its lease is taken away: it can commit no more, as after a kill.
        await async_redis.set(STREAMS.lease, "another")
    assert not await async_redis.exists(STREAMS.estimates)
    await async_redis.delete(STREAMS.lease)

    async def complete() -> bool:
        owed = await async_redis.hget(STREAMS.checkpoint, CheckpointField.ESTIMATES_OWED)
        return owed is None and await published(async_redis) == whole(20)

    async with running(async_redis, QUICKLY):
        await until(complete)
