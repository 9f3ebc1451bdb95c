"""How fast the judge is asked: by what it can take, by limits a minute, and not at all while it is down."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, judge
from tests.support.virtual_time import VirtualTimeLoop

from ragtide import Labeler
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.remote.endpoint import Call, Endpoint, EndpointInfo
from ragtide_consumers.labelers.remote.pacing import AdaptiveLimit, MinuteLimits, TokenBucket
from ragtide_consumers.labelers.remote.replies import CallFailure
from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_runtime.calls.breaker import LONGEST_PAUSE_S, Breaker
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.settings.labelers import JudgeSettings

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


async def test_half_of_the_maximum_is_in_flight_at_first_and_all_of_it_after_the_first_answer() -> None:
    limit = AdaptiveLimit(100)
    answer = asyncio.Event()

    async def call(number: int) -> None:
        async with limit.slot():
            await (answer.wait() if number == 0 else asyncio.Event().wait())
            limit.answered(1.0)

    calls = [asyncio.create_task(call(number)) for number in range(200)]
    await asyncio.sleep(0)
    assert limit.in_flight == limit.limit == 50
    answer.set()
    await calls[0]
    assert limit.in_flight == limit.limit == 100
    for task in calls:
        task.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_an_answer_after_a_refusal_allows_no_more_than_the_endpoint_took() -> None:
    limit = AdaptiveLimit(100)
    async with AsyncExitStack() as calls:
        for _ in range(50):
            await calls.enter_async_context(limit.slot())
        limit.overloaded(1.0)
        for _ in range(limit.limit):
            limit.answered(1.0)
        assert limit.limit < 49


class EventCall(Call[str]):
    """Takes some steps of the event loop to be sent, and is answered together with all others."""

    errors = ()

    def __init__(self, name: str, events: list[str], answer: asyncio.Event) -> None:
        self.name, self.events, self.answer = name, events, answer

    async def make(self) -> str:
        for _ in range(2):
            await asyncio.sleep(0)
        self.events.append(f"{self.name} is sent")
        await self.answer.wait()
        return self.name

    def failure(self, error: Exception) -> CallFailure:
        raise error


async def test_calls_that_wait_for_a_slot_are_sent_before_replies_that_came_together_are_read() -> None:
    """Reading a reply takes longer than sending a call, so the endpoint would wait for the reader."""
    info = EndpointInfo(
        name="judge",
        model="m",
        subject="the judge",
        secret="",
        refused=AbsentReason.JUDGE_REFUSED,
        unusable=AbsentReason.JUDGE_UNUSABLE,
    )
    endpoint = Endpoint(info, JudgeSettings(model="m", max_in_flight=4), LabelerTelemetry().judge.of("m"))
    events: list[str] = []
    answer = asyncio.Event()

    async def ask(name: str) -> None:
        await endpoint.call(EventCall(name, events, answer), Counter())
        events.append(f"{name} is read")

    asked = asyncio.gather(*(ask(name) for name in "abcd"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert events == ["a is sent", "b is sent"]
    answer.set()
    await asked
    assert [event.partition(" ")[2] for event in events] == ["is sent"] * 4 + ["is read"] * 4


class ModelOfEndpoint:
    """Answers so many calls at once after a second, and refuses all others."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.answered = 0
        self.refused = 0
        self._random = random.Random(40)
        self._in_work = 0

    async def answers(self) -> bool:
        if self._in_work >= self.capacity:
            self.refused += 1
            await asyncio.sleep(0.01)
            return False
        self._in_work += 1
        await asyncio.sleep(self._random.uniform(0.7, 1.3))
        self._in_work -= 1
        self.answered += 1
        return True

    async def worker(self, calls: int) -> None:
        """Make calls as a worker with 64 lanes does; a refused call is made again after a pause."""
        loop = asyncio.get_running_loop()
        limit = AdaptiveLimit(64, clock=loop.time)
        left = iter(range(calls))

        async def lane() -> None:
            for _ in left:
                backoff = Backoff(1.0, 30.0, random_share=1.0)
                while not await call():  # noqa: ASYNC110 - the pause before a call is made again
                    await asyncio.sleep(backoff.pause_s())

        async def call() -> bool:
            async with limit.slot():
                started = loop.time()
                if answered := await self.answers():
                    limit.answered(loop.time() - started)
                else:
                    limit.overloaded(loop.time() - started)
            return answered

        await asyncio.gather(*(lane() for _ in range(64)))


def seconds_to_finish(endpoint: ModelOfEndpoint, *, workers: int, calls: int) -> float:
    """Return the seconds of a virtual clock after which workers that begin at once have all their answers."""

    async def all_workers() -> float:
        await asyncio.gather(*(endpoint.worker(calls) for _ in range(workers)))
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(all_workers())


@pytest.mark.parametrize("calls", [200, 2000])
def test_an_endpoint_that_takes_all_calls_gets_them_nearly_at_once(calls: int) -> None:
    seconds = seconds_to_finish(ModelOfEndpoint(1000), workers=1, calls=calls)
    assert calls / 64 > {200: 0.7, 2000: 0.93}[calls] * seconds


@pytest.mark.parametrize("capacity", [4, 10, 50])
def test_a_worker_uses_what_the_endpoint_takes_and_few_calls_are_refused(capacity: int) -> None:
    endpoint = ModelOfEndpoint(capacity)
    seconds = seconds_to_finish(endpoint, workers=1, calls=100 * capacity)
    assert endpoint.answered == 100 * capacity
    assert seconds < 100 / 0.8
    assert endpoint.refused < 32 + 32  # the calls of the first moment, and a few that ask whether more are taken


@pytest.mark.parametrize("capacity", [16, 64])
def test_a_fleet_that_begins_at_once_does_not_storm_an_endpoint_that_takes_few_calls(capacity: int) -> None:
    endpoint = ModelOfEndpoint(capacity)
    seconds = seconds_to_finish(endpoint, workers=8, calls=1000)
    assert endpoint.answered == 8000
    assert seconds < 8000 / capacity / 0.85
    assert endpoint.refused < 8000


def test_calls_refused_in_one_moment_leave_the_calls_that_the_endpoint_takes() -> None:
    endpoint = ModelOfEndpoint(10)
    limits = []

    async def burst() -> None:
        limit = AdaptiveLimit(64)

        async def call() -> None:
            async with limit.slot():
                if not await endpoint.answers():
                    limit.overloaded(0.01)
                    limits.append(limit.limit)

        await asyncio.gather(*(call() for _ in range(32)))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(burst())
    assert endpoint.refused == 22
    assert limits[-1] == 10


def test_an_outage_of_moments_leaves_one_call_and_all_of_them_return_in_ten_rounds() -> None:
    endpoint = ModelOfEndpoint(0)
    loop_limits = []

    async def outage() -> None:
        loop = asyncio.get_running_loop()
        limit = AdaptiveLimit(64, clock=loop.time)

        async def lane() -> None:
            while loop.time() < 13.0:
                async with limit.slot():
                    if await endpoint.answers():
                        limit.answered(1.0)
                    else:
                        limit.overloaded(0.01)
                        loop_limits.append(limit.limit)
                        endpoint.capacity = 64 if len(loop_limits) == 32 else endpoint.capacity
            loop_limits.append(limit.limit)

        await asyncio.gather(*(lane() for _ in range(64)))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(outage())
    assert min(loop_limits) == 1
    assert loop_limits[-1] == 64


async def test_an_endpoint_that_takes_few_at_once_is_not_flooded_and_everything_is_labeled(
    server: ScriptedJudge,
) -> None:
    server.latency_s = 0.02
    server.capacity = 10
    async with judge(server, max_in_flight=200, attempts=50) as labeler:
        await ask_many(labeler, 400)
    assert server.answered == 400
    refused = len(server.requests) - 400
    # The first hundred calls begin at once; without adapting nearly all of the 400 were refused at once.
    assert refused < 150


async def test_processes_that_begin_at_once_do_not_storm_a_judge_that_takes_few_calls(server: ScriptedJudge) -> None:
    server.latency_s = 0.02
    server.capacity = 16
    async with AsyncExitStack() as open_judges:
        labelers = [await open_judges.enter_async_context(judge(server, attempts=50)) for _ in range(4)]
        await asyncio.gather(*(ask_many(labeler, 100) for labeler in labelers))
    assert server.answered == 400
    # A burst of each at the start, and then at most a probe an answer; without a limit there are several thousand.
    assert len(server.requests) - 400 < 4 * 32 + 400


def test_a_single_refusal_among_many_calls_cuts_the_limit_once_and_it_returns_in_ten_rounds() -> None:
    clock = Clock()
    limit = AdaptiveLimit(100, clock=clock)

    async def rounds() -> list[int]:
        limits = []
        async with AsyncExitStack() as calls:
            for _ in range(50):
                await calls.enter_async_context(limit.slot())
            limit.overloaded(1.0)
            limits.append(limit.limit)
            limit.overloaded(1.0)  # in the same round trip
            limits.append(limit.limit)
            for _ in range(10):
                clock.now += 1.0
                for _ in range(limit.limit):
                    limit.answered(1.0)
                limits.append(limit.limit)
        return limits

    found = asyncio.run(rounds())
    assert found[:2] == [34, 34]
    assert found == sorted(found)
    assert found[-1] > 50


@pytest.mark.parametrize("first_s", [0.001, 30.0])
def test_a_first_call_far_slower_or_faster_than_all_others_cuts_nothing(first_s: float) -> None:
    limit = AdaptiveLimit(64)
    limits = [limit.limit]
    for latency_s in [first_s, *[1.0] * 500]:
        limit.answered(latency_s)
        limits.append(limit.limit)
    assert min(limits) == 32


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
