"""Estimates that do not fit into the time of one commit come with the next ones; none is forgotten."""

from dataclasses import replace
from typing import Any

import pytest
from tests.aggregator.test_pacing import OPTIONS, SCORES, STREAMS, many_keys, publish, running, until_caught_up
from tests.support.conditions import until
from tests.support.metric_events import event

from ragtide import Estimate
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.service.estimates_stream import OWED, Showing, rendered
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import DATA_FIELD


def key(number: int, segment: str | None = None) -> EstimateKey:
    return EstimateKey(f"p{number}", None, segment, "trace.adherence", "ragbench", "local", "1")


def test_whole_pipelines_come_first_and_then_what_is_owed_the_longest() -> None:
    showing = Showing()
    showing.took(100, 100 * 0.125)  # two keys fit into a commit
    first = showing.take([key(1, "a=1"), key(2, "a=1"), key(3)])
    assert first == [key(3), key(1, "a=1")]
    assert showing.take([key(1, "a=1"), key(4)]) == [key(4), key(2, "a=1")]
    assert showing.take([]) == [key(1, "a=1")]
    assert not showing


def test_one_slow_commit_does_not_keep_the_next_ones_small() -> None:
    showing = Showing()
    showing.took(100, 60.0)
    keys = [key(number) for number in range(2000)]
    for _ in range(40):
        chosen = showing.take(keys)
        showing.took(len(chosen), 0.001 + 0.0002 * len(chosen))
    assert len(showing.take(keys)) >= 1000


def test_what_is_owed_is_told_in_the_checkpoint_once() -> None:
    showing = Showing()
    showing.took(100, 100 * 0.25)
    showing.take([key(1), key(2)])
    assert showing.take_changes() == ({OWED: b"1"}, ())
    assert showing.take_changes() == ({}, ())
    showing.take([])
    assert showing.take_changes() == ({}, (OWED,))


async def test_every_estimate_is_on_the_stream_in_the_end_also_after_a_change_of_the_owner(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five keys fit into a commit.
    monkeypatch.setattr("ragtide_aggregator.service.estimates_stream.FIRST_GUESS_S", 0.05)
    monkeypatch.setattr(Showing, "took", lambda *_: None)
    events = many_keys(20, 1)
    await publish(async_redis, events)
    options = replace(OPTIONS, lease_s=10.0)
    async with running(async_redis, options):
        await until_caught_up(async_redis)
    assert await async_redis.hget(STREAMS.checkpoint, OWED) == b"1"

    async def shown() -> set[tuple[str | None, str]]:
        entries = await async_redis.xrange(STREAMS.estimates)
        found = [Estimate.decode(fields[DATA_FIELD]) for _, fields in entries]
        return {(one.segment, one.metric) for one in found}

    state = AggregatorState(options.state)
    for one in events:
        state.apply(one)
    everything = {(one.segment, one.metric) for one in estimates(state)}
    assert await shown() < everything

    async def paid() -> bool:
        return await async_redis.hget(STREAMS.checkpoint, OWED) is None and await shown() == everything

    async with running(async_redis, options):
        await until(paid)


def test_a_key_that_cannot_be_shown_is_told_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    state = AggregatorState(StateOptions())
    for number in range(3):
        state.apply(event(number, SCORES, pipeline=f"p{number}"))
    keys = [one for one in state.keys if one.metric == "trace.adherence"]

    def failing(state: AggregatorState, *, keys: list[EstimateKey], confidence: float) -> list[Estimate]:
        if any(one.pipeline == "p1" for one in keys):
            raise ValueError("year 0 is out of range")
        return estimates(state, keys=keys, confidence=confidence)

    monkeypatch.setattr("ragtide_aggregator.service.estimates_stream.estimates", failing)
    shown, failed = rendered(state, keys, [], confidence=0.95)
    assert {Estimate.decode(one).pipeline for one in shown} == {"p0", "p2"}
    assert [one.pipeline for one in failed] == ["p1"]
    with pytest.raises(ValueError, match="year 0"):
        rendered(state, keys, keys, confidence=0.95)
