"""How fast the judge is asked: by what it can take, by limits a minute, and not at all while it is down."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, judge

from ragtide import Labeler
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.remote.pacing import FIRST_LIMIT, AdaptiveLimit, MinuteLimits, TokenBucket
from ragtide_runtime.calls.breaker import LONGEST_PAUSE_S, Breaker

pytestmark = pytest.mark.processes


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def ask_many(labeler: Labeler, n: int) -> None:
    await asyncio.gather(*(labeler.label(TOWER.model_copy(update={"question": f"Question {i}?"})) for i in range(n)))


async def test_never_more_calls_are_in_flight_than_allowed(server: ScriptedJudge) -> None:
    server.latency_s = 0.01
    async with judge(server, max_in_flight=7) as labeler:
        await ask_many(labeler, 60)
    assert server.most_in_flight == 7


async def test_the_calls_in_flight_grow_to_the_maximum_while_the_endpoint_copes() -> None:
    limit = AdaptiveLimit(100)
    in_flight = []

    async def call() -> None:
        async with limit.slot():
            in_flight.append(limit.in_flight)
            await asyncio.sleep(0)  # the others begin, as far as the limit allows
            limit.answered(1.0)

    await asyncio.gather(*(call() for _ in range(1000)))
    assert in_flight[:FIRST_LIMIT] == list(range(1, FIRST_LIMIT + 1))
    assert max(in_flight) == limit.limit == 100


async def test_an_endpoint_that_takes_few_at_once_is_not_flooded_and_everything_is_labeled(
    server: ScriptedJudge,
) -> None:
    server.latency_s = 0.02
    server.capacity = 10
    async with judge(server, max_in_flight=200, attempts=50) as labeler:
        await ask_many(labeler, 400)
    assert server.answered == 400
    refused = len(server.requests) - 400
    # Additive increase meets the ceiling again and again; without adapting nearly all of the 400 were refused at once.
    assert refused < 150


def test_the_limit_is_cut_once_a_round_trip_and_grows_again() -> None:
    clock = Clock()
    limit = AdaptiveLimit(100, clock=clock)
    first = limit.limit
    for _ in range(10):  # ten calls that were in flight together
        limit.overloaded(1.0)
    assert limit.limit == int(0.7 * first)
    clock.now = 2.0
    limit.overloaded(1.0)
    assert limit.limit == int(0.49 * first)


@given(st.lists(st.sampled_from(["answered", "slow", "overloaded"]), max_size=300), st.integers(1, 50))
def test_the_limit_stays_between_one_and_the_maximum(events: list[str], maximum: int) -> None:
    clock = Clock()
    limit = AdaptiveLimit(maximum, clock=clock)
    for event in events:
        clock.now += 1.0
        if event == "overloaded":
            limit.overloaded(0.1)
        else:
            limit.answered(0.1 if event == "answered" else 10.0)
        assert 1 <= limit.limit <= maximum


async def test_latency_far_above_the_usual_cuts_the_limit() -> None:
    limit = AdaptiveLimit(64)
    for _ in range(50):
        limit.answered(0.1)
    before = limit.limit
    for _ in range(60):
        limit.answered(2.0)
    assert limit.limit < before


async def test_a_cancelled_wait_gives_its_slot_to_the_next() -> None:
    limit = AdaptiveLimit(1)
    holding = asyncio.Event()

    async def hold() -> None:
        async with limit.slot():
            await holding.wait()

    async def use() -> str:
        async with limit.slot():
            return "used"

    first = asyncio.create_task(hold())
    await asyncio.sleep(0)
    waiting, last = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    waiting.cancel()
    holding.set()
    assert await last == "used"
    await first
    assert limit.in_flight == 0


@pytest.mark.parametrize("unit", ["requests", "tokens"])
async def test_calls_and_tokens_a_minute_hold_after_the_burst(unit: str) -> None:
    clock = Clock()
    requests, tokens = (6000, None) if unit == "requests" else (None, 600_000)
    limits = MinuteLimits(requests, tokens, clock=clock, sleep=clock.sleep)
    for _ in range(1000 + 50):  # a burst of a sixth of a minute's worth, then 100 a second
        await limits.wait(100)
    assert clock.now == pytest.approx(0.5)


async def test_a_call_larger_than_a_burst_waits_for_a_whole_burst() -> None:
    clock = Clock()
    limits = MinuteLimits(None, 60_000, clock=clock, sleep=clock.sleep)
    await limits.wait(1_000_000)
    await limits.wait(1_000_000)
    assert clock.now == pytest.approx(10.0)


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 20.0)), max_size=40))
def test_no_span_of_time_has_more_than_a_burst_and_the_rate(calls: list[tuple[float, float]]) -> None:
    clock = Clock()
    taken: list[tuple[float, float]] = []

    async def take_all() -> None:
        bucket = TokenBucket(10.0, 2.0, clock=clock, sleep=clock.sleep)
        for pause_s, tokens in calls:
            clock.now += pause_s
            await bucket.take(tokens)
            taken.append((clock.now, min(tokens, 10.0)))

    asyncio.run(take_all())
    for first, (begin, _) in enumerate(taken):
        total = 0.0
        for end, tokens in taken[first:]:
            total += tokens
            assert total <= 10.0 + 2.0 * (end - begin) + 1e-6


async def test_a_cancelled_wait_for_tokens_takes_none_and_the_next_in_line_follows() -> None:
    clock = Clock()
    wake = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await wake.wait()
        clock.now += seconds

    bucket = TokenBucket(10.0, 2.0, clock=clock, sleep=sleep)
    await bucket.take(10.0)
    cancelled, next_one = asyncio.create_task(bucket.take(10.0)), asyncio.create_task(bucket.take(4.0))
    await asyncio.sleep(0)
    cancelled.cancel()
    wake.set()
    await next_one
    assert clock.now == pytest.approx(2.0)


def opened(clock: Clock, pause_s: float = 10.0) -> Breaker:
    breaker = Breaker(failures=3, pause_s=pause_s, clock=clock)
    for _ in range(3):
        assert breaker.admits()
        breaker.failed()
    return breaker


async def test_the_breaker_opens_after_failures_in_a_row_only() -> None:
    clock = Clock()
    breaker = Breaker(failures=3, pause_s=10, clock=clock)
    for outcome in (breaker.failed, breaker.failed, breaker.succeeded, breaker.failed, breaker.failed):
        outcome()
    assert breaker.admits()
    breaker.failed()
    assert not breaker.admits()


async def test_after_the_pause_one_call_tries_and_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 9.9
    assert not breaker.admits()
    clock.now = 10.0
    assert breaker.admits()
    assert not breaker.admits()
    breaker.succeeded()
    assert breaker.admits()
    assert not breaker.is_open


@pytest.mark.parametrize("pauses", [8])
async def test_each_failed_try_doubles_the_pause_up_to_five_minutes(pauses: int) -> None:
    clock = Clock()
    breaker = opened(clock)
    pause = 10.0
    for _ in range(pauses):
        clock.now += pause
        assert breaker.admits()
        breaker.failed()
        pause = min(2 * pause, LONGEST_PAUSE_S)
        clock.now += pause - 0.1
        assert not breaker.admits()
        clock.now -= pause - 0.1


async def test_a_try_that_was_cancelled_lets_another_try() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now = 10.0
    assert breaker.admits()
    breaker.abandoned()
    assert breaker.admits()


def late_outcomes(breaker: Breaker) -> list[Callable[[], object]]:
    return [breaker.failed, breaker.failed]


async def test_calls_from_before_it_opened_do_not_lengthen_the_pause() -> None:
    clock = Clock()
    breaker = opened(clock)
    for outcome in late_outcomes(breaker):
        outcome()
    clock.now = 10.0
    assert breaker.admits()
