"""An entry that the state cannot take becomes a dead letter; the rest counts to the bit as if it had not been there."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregator_settings import aggregator_settings
from tests.support.conditions import until
from tests.support.impossible import make_impossible
from tests.support.metric_events import adherence, beta

from ragtide import AlertRule, Feedback, MetricEvent
from ragtide_aggregator.checkpoint.halving import Halving, TakenEntries
from ragtide_aggregator.events.batch import EventBatch
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import DATA_FIELD, Streams, interaction_digest
from ragtide_schemas import DeadLetter, Reason, to_milliseconds

STREAMS = Streams("ragtide", 0)
ADHERENCE = "trace.adherence"
STATE = StateOptions(
    rules=(AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7),),
    panes=Panes((window("1m"),), 0),
)
EVENTS = [*adherence(beta(0.85, 150, 1), latency_s=0.25), *adherence(beta(0.4, 100, 2), first=150, latency_s=0.5)]


@asynccontextmanager
async def running(redis: Any, batch: int = 60) -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    settings = aggregator_settings(aggregator_batch=batch, lease_s=5)
    task = asyncio.create_task(Aggregator(redis, settings, holder="a", state=STATE).run(stop))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)


async def publish(redis: Any, events: Sequence[MetricEvent]) -> None:
    for event in events:
        at = to_milliseconds(event.labeled_at)
        entry = await redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()}, id=f"{at}-1")
        await redis.set(STREAMS.scored(interaction_digest(event.pipeline, event.interaction_id)), entry)


async def caught_up(redis: Any, *tasks: "asyncio.Task[None]") -> bool:
    for task in tasks:
        if task.done():
            task.result()
    stored = [await redis.hget(STREAMS.checkpoint, name) for name in ("position", "feedback")]
    ends = [await redis.xrevrange(stream, count=1) for stream in (STREAMS.metrics, STREAMS.feedback)]
    return all(not end or at == end[0][0] for at, end in zip(stored, ends, strict=True))


async def letters(redis: Any) -> list[DeadLetter]:
    return [DeadLetter.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.dead_letters)]


async def stored(redis: Any) -> dict[str, bytes]:
    fields = {name.decode(): data for name, data in (await redis.hgetall(STREAMS.checkpoint)).items()}
    kinds = ("estimate:", "rule_state:", "pane:", "processed:", "quantiles:", "pair:", "season:", "clock")
    return {name: data for name, data in fields.items() if name.startswith(kinds)}


def direct(events: Sequence[MetricEvent]) -> dict[str, bytes]:
    state = AggregatorState(STATE)
    for event in events:
        state.apply(event)
    return dict(state.take_changes().rows)


def fails_in_a_batch(monkeypatch: pytest.MonkeyPatch, bad: set[str]) -> None:
    """Let the deferred work on a batch fail that holds one of these interactions: far from where it was applied."""
    take = AggregatorState._take

    def failing(self: AggregatorState, batch: EventBatch) -> None:
        take(self, batch)
        if bad & {batch.source.interaction_id(int(place)) for place in batch.places}:
            raise ValueError("a score that no table takes")

    monkeypatch.setattr(AggregatorState, "_take", failing)


def fails_when_taken_apart(monkeypatch: pytest.MonkeyPatch, bad: set[str]) -> None:
    """Let the first look at one of these interactions fail."""
    scores = {event.interaction_id: event.scores for event in EVENTS}
    values = {scores[name][ADHERENCE] for name in bad}

    class Failing(float):
        def __le__(self, other: Any) -> bool:
            raise ValueError("of this event")

    decode = MetricEvent.decode.__func__  # type: ignore[attr-defined]

    def failing(payload: bytes) -> MetricEvent:
        found: MetricEvent = decode(MetricEvent, payload)
        if found.scores[ADHERENCE] in values:
            return found.model_copy(update={"scores": {ADHERENCE: Failing(found.scores[ADHERENCE])}})
        return found

    monkeypatch.setattr(MetricEvent, "decode", failing)


def poisons(monkeypatch: pytest.MonkeyPatch, bad: set[str]) -> None:
    """Let the batch with one of these interactions leave numbers in the state that no values add up to."""
    take = AggregatorState._take

    def poisoned(self: AggregatorState, batch: EventBatch) -> None:
        take(self, batch)
        if bad & {batch.source.interaction_id(int(place)) for place in batch.places}:
            make_impossible(self._rows.moments, int(batch.rows[0]), recent=np.nan)

    monkeypatch.setattr(AggregatorState, "_take", poisoned)


WAYS = {one.__name__: one for one in (fails_in_a_batch, fails_when_taken_apart, poisons)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [1, 2])
async def test_the_entries_a_state_cannot_take_are_dead_letters_and_the_rest_counts_to_the_bit(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch, way: str, seed: int
) -> None:
    chance = random.Random(seed)
    bad = {event.interaction_id for event in chance.sample(EVENTS, k=seed * 2 - 1)}
    expected = direct([event for event in EVENTS if event.interaction_id not in bad])
    WAYS[way](monkeypatch, bad)
    await publish(async_redis, EVENTS)
    async with running(async_redis, batch=chance.choice([60, 1000])) as task:
        await until(lambda: caught_up(async_redis, task))
    assert await stored(async_redis) == expected
    found = await letters(async_redis)
    assert {letter.reason for letter in found} == {Reason.NOT_AGGREGATABLE}
    payloads = [event.encode() for event in EVENTS if event.interaction_id in bad]
    assert sorted(letter.payload_bytes() for letter in found) == sorted(payloads)
    assert {letter.stream for letter in found} == {STREAMS.metrics}


@pytest.mark.parametrize("waits", [True, False], ids=["waits for its interaction", "comes later"])
async def test_feedback_a_state_cannot_take_is_a_dead_letter_and_the_rest_counts(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    events = EVENTS[:20]
    given = [
        Feedback(pipeline="shop", interaction_id=event.interaction_id, gold_scores={ADHERENCE: number / 100})
        for number, event in enumerate(events)
    ]
    bad = given[7]
    take = AggregatorState._take

    def failing(self: AggregatorState, batch: EventBatch) -> None:
        if batch.scores.size and 0.07 in batch.scores[0]:
            raise ValueError("no such pair")
        take(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(AggregatorState, "_take", failing)
        if not waits:
            await publish(async_redis, events)
        async with running(async_redis) as task:
            await until(lambda: caught_up(async_redis, task))
            for one in given:
                await async_redis.xadd(STREAMS.feedback, {DATA_FIELD: one.encode()})
            await until(lambda: caught_up(async_redis, task))
            if waits:
                await publish(async_redis, events)
                await until(lambda: caught_up(async_redis, task))
    state = AggregatorState(STATE)
    if waits:
        for scored, one in zip(events, given, strict=True):
            state.apply(scored)
            if one is not bad:
                state.apply_gold(scored, one.gold_scores)
    else:
        for scored in events:
            state.apply(scored)
        for scored, one in zip(events, given, strict=True):
            if one is not bad:
                state.apply_gold(scored, one.gold_scores)
    assert await stored(async_redis) == state.take_changes().rows
    (letter,) = await letters(async_redis)
    assert (letter.reason, letter.stream) == (Reason.NOT_AGGREGATABLE, STREAMS.feedback)
    assert letter.payload_bytes() == bad.encode()
    fields = await async_redis.hgetall(STREAMS.checkpoint)
    assert not [name for name in fields if name.startswith(b"pending:")]


async def test_an_error_that_no_entry_is_to_blame_for_ends_the_aggregator(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: AggregatorState) -> Any:
        raise ValueError("always")

    monkeypatch.setattr(AggregatorState, "take_changes", broken)
    await publish(async_redis, EVENTS[:5])
    async with running(async_redis) as task:
        await until(task.done)
    with pytest.raises(ValueError, match="always"):
        task.result()
    assert not await letters(async_redis)
    assert not await async_redis.exists(STREAMS.lease)


@pytest.mark.parametrize("error", [KeyError("a row"), IndexError("a place"), TypeError("a kind"), OverflowError("big")])
async def test_a_defect_of_the_state_ends_the_aggregator_and_rejects_no_entry(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    take = AggregatorState._take

    def defective(self: AggregatorState, batch: EventBatch) -> None:
        take(self, batch)
        if EVENTS[40].interaction_id in {batch.source.interaction_id(int(place)) for place in batch.places}:
            raise error

    monkeypatch.setattr(AggregatorState, "_take", defective)
    await publish(async_redis, EVENTS)
    async with running(async_redis) as task:
        await until(task.done)
    with pytest.raises(type(error)):
        task.result()
    assert not await letters(async_redis)
    # Nothing of the step is written, so that all of it counts once the defect is mended.
    assert not await async_redis.exists(STREAMS.checkpoint)


def test_a_state_with_a_detector_that_is_not_finite_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DetectorTable, "costs", lambda _, rows: np.full(rows.size, np.nan))
    state = AggregatorState(STATE)
    for event in EVENTS[:10]:
        state.apply(event)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite"):
        state.take_changes()


@pytest.mark.parametrize(
    "number", [{"count": -1}, {"sum": -(2**62)}, {"m2": -(2**62)}, {"recent": np.inf}, {"maximum": np.inf}], ids=str
)
def test_a_state_with_an_impossible_number_is_not_handed_out(number: dict[str, float]) -> None:
    state = AggregatorState(STATE)
    for event in EVENTS[:10]:
        state.apply(event)
    make_impossible(state.moments, 0, **number)
    with pytest.raises(ValueError, match=r"estimate:.*impossible"):
        state.take_changes()


def worked_off(metrics: Sequence[bool], feedback: Sequence[bool], at_once: int) -> tuple[list[int], list[int], int]:
    """Work off two streams of entries, of which True are bad; return the refused ones of each, and the tries."""
    streams = {"metrics": metrics, "feedback": feedback}
    at, refused = {"metrics": 0, "feedback": 0}, {"metrics": list[int](), "feedback": list[int]()}
    halving, tries = Halving(), 0
    while at["metrics"] < len(metrics) or at["feedback"] < len(feedback):
        tries += 1
        part = halving.part
        count: dict[str, int] = dict.fromkeys(streams, at_once) if part is None else {part.source: part.count}
        taken = {name: range(at[name], min(at[name] + count.get(name, 0), len(of))) for name, of in streams.items()}
        now = {name: [n for n in of if part is not None and f"{name}{n}" in part.refused] for name, of in taken.items()}
        if any(streams[name][n] and n not in now[name] for name, of in taken.items() for n in of):
            first = "metrics" if taken["metrics"] else "feedback"
            last = f"{first}{taken[first][-1]}"
            halving.failed(TakenEntries(len(taken["metrics"]), len(taken["feedback"]), last), ValueError("bad"))
            continue
        halving.passed(sum(map(len, taken.values())))
        for name in streams:
            at[name] += len(taken[name])
            refused[name] += now[name]
    return refused["metrics"], refused["feedback"], tries


@given(st.lists(st.booleans(), max_size=40), st.lists(st.booleans(), max_size=40), st.integers(1, 50))
def test_halving_refuses_the_bad_entries_and_no_other(metrics: list[bool], feedback: list[bool], at_once: int) -> None:
    refused = worked_off(metrics, feedback, at_once)[:2]
    assert refused == tuple([number for number, bad in enumerate(of) if bad] for of in (metrics, feedback))


def test_one_bad_entry_of_a_thousand_costs_about_twenty_tries() -> None:
    metrics = [number == 617 for number in range(1000)]
    assert worked_off(metrics, [], 1000)[2] < 25


def test_an_error_without_entries_is_raised() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        Halving().failed(TakenEntries(), ValueError("of nothing"))
