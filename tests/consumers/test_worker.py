import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import structlog
from redis import ConnectionError  # noqa: A004 - Redis's own
from tests.support.conditions import until
from tests.support.metric_events import event
from tests.support.redis_processes import RedisProcess

from ragtide import AlertRule, Labeler, Labeling, LocalLabeler, RagInteraction
from ragtide_consumers.labelers.registry import Bounded
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_consumers.worker.claims import ClaimRenewer, Reclaimer
from ragtide_consumers.worker.results import CommitOutcome, LabeledEntry, ResultCommitter, StreamEntry
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_consumers.worker.waiting import EXCLUSIVE_ATTEMPTS, Patience, RetryBudget
from ragtide_consumers.worker.worker import TURN_S, LabelWorker, WantedCovariates, WorkerParts
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_schemas import DeadLetter, MetricEvent, Reason

STREAMS = Streams("ragtide", 0)


class Scripted:
    """A labeler that does as told, by the interaction's response."""

    name, version, profile = "scripted", "1", "ragbench"

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.calls = 0
        self.gate = asyncio.Event()
        self.beside_suspect: list[int] = []

    async def label(self, interaction: RagInteraction) -> Labeling:
        self.calls += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if interaction.response == "wait":
                await self.gate.wait()
            if interaction.response == "suspect":
                await asyncio.sleep(0)
                self.beside_suspect.append(self.running)
            if interaction.response == "fail":
                raise RuntimeError("the judge is out for lunch")
            if interaction.response == "nonsense":
                return Labeling(scores={"trace.adherence": float("nan")})
            return Labeling(scores={"trace.adherence": 1.0}, prompt_tokens=7, cost_usd=0.25)
        finally:
            self.running -= 1


@asynccontextmanager
async def working(
    redis: Any,
    labeler: Labeler,
    *,
    consumer: str = "me",
    telemetry: WorkerTelemetry | None = None,
    **changes: Any,
) -> AsyncIterator[LabelWorker]:
    """Run a worker for the body of an `async with`.

    Args:
        redis: client.
        labeler: of the worker.
        consumer: name of the worker.
        telemetry: counters.
        changes: settings.
    """
    await create_group(redis, STREAMS.interactions)
    options = {
        "worker_concurrency": 4,
        "max_deliveries": 3,
        "worker_min_idle_s": 0.05,
        "dedupe_window_s": 60,
        **changes,
    }
    settings = Settings(**options)
    url = f"unix://{redis.connection_pool.connection_kwargs['path']}"
    claims = ClaimRenewer(url, consumer=consumer, min_idle_s=settings.worker_min_idle_s)
    parts = WorkerParts(
        redis=redis,
        settings=settings,
        patience=Patience(labeler),
        consumer=consumer,
        claims=claims,
        telemetry=telemetry or WorkerTelemetry(),
        outage=redis_outage(redis),
    )
    worker = LabelWorker(parts, STREAMS)
    worker.start()
    claims.start()
    try:
        yield worker
    finally:
        await worker.stop(grace_s=0.2)
        claims.stop()


async def publish(redis: Any, *responses: str, first: int = 0) -> None:
    for number, response in enumerate(responses, first):
        interaction = RagInteraction(
            interaction_id=f"i-{number}", pipeline="p", question="q", documents=["d"], response=response
        )
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()})


async def read(redis: Any, count: int = 100, consumer: str = "me") -> list[StreamEntry]:
    reply = await redis.xreadgroup(LABEL_GROUP, consumer, {STREAMS.interactions: ">"}, count=count)
    return [StreamEntry(entry_id.decode(), fields) for _, entries in reply for entry_id, fields in entries]


async def events(redis: Any) -> list[MetricEvent]:
    return [MetricEvent.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.metrics)]


async def dead_letters(redis: Any) -> list[DeadLetter]:
    return [DeadLetter.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.dead_letters)]


async def pending(redis: Any) -> int:
    return int((await redis.xpending(STREAMS.interactions, LABEL_GROUP))["pending"])


async def test_concurrency_is_bounded_and_a_slow_entry_does_not_hold_up_the_others(async_redis: Any) -> None:
    labeler = Scripted()
    await publish(async_redis, "wait", *["fine"] * 50)
    async with working(async_redis, labeler) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 50))
        labeler.gate.set()
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 51))
    assert labeler.most_running <= 4


class Busy:
    """A labeler that never waits, and occupies the event loop for longer than a turn."""

    name, version, profile = "busy", "1", "ragbench"

    def __init__(self, busy_s: float) -> None:
        self.busy_s = busy_s
        self.lanes: set[Any] = set()

    async def label(self, interaction: RagInteraction) -> Labeling:
        self.lanes.add(asyncio.current_task())
        until_s = perf_counter() + self.busy_s
        while perf_counter() < until_s:
            pass
        return Labeling(scores={"trace.adherence": 1.0})


async def test_a_labeler_that_never_waits_labels_a_batch_in_one_task(async_redis: Any) -> None:
    labeler = Busy(0.0)
    await publish(async_redis, *["fine"] * 20)
    async with working(async_redis, labeler, worker_concurrency=64, worker_min_idle_s=60) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 20))
    assert len(labeler.lanes) == 1


async def test_a_users_labeler_without_an_await_needs_no_task_for_a_call(async_redis: Any) -> None:
    labeler = Busy(0.0)
    await publish(async_redis, *["fine"] * 20)
    async with working(async_redis, Bounded(labeler, 60), worker_concurrency=64, worker_min_idle_s=60) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 20))
    assert len(labeler.lanes) == 1


async def test_a_read_takes_no_more_entries_than_lanes_while_the_labeler_waits(async_redis: Any) -> None:
    labeler = Scripted()
    await publish(async_redis, *["fine"] * 10)
    async with working(async_redis, labeler, worker_concurrency=8, worker_batch=50, worker_min_idle_s=60) as worker:
        assert worker.most() == 8, "nothing is known of the labeler yet"
        await worker.take(await read(async_redis))
        assert worker.most() == 50
        await publish(async_redis, *["wait"] * 4, first=10)
        await worker.take(await read(async_redis))
        assert worker.most() == 8
        labeler.gate.set()


async def test_a_labeler_that_never_waits_needs_no_other_lane_for_turns_of_the_loop(async_redis: Any) -> None:
    labeler = Busy(1.1 * TURN_S)
    await publish(async_redis, *["fine"] * 10)
    async with working(async_redis, labeler, worker_concurrency=8, worker_batch=50, worker_min_idle_s=60) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 10))
        assert worker.most() == 50
    assert len(labeler.lanes) == 1


async def test_a_labeler_that_never_waits_leaves_turns_to_others_and_to_commits(async_redis: Any) -> None:
    labeler, turns = Busy(1.1 * TURN_S), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    await publish(async_redis, *["fine"] * 30)
    async with working(async_redis, labeler, worker_concurrency=1, worker_min_idle_s=60) as worker:
        counting = asyncio.create_task(count())
        await worker.take(await read(async_redis))
        turns_of_others, committed = turns, sum(worker.counts.values())
        counting.cancel()
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 30))
    assert turns_of_others >= 20
    assert committed > 0, "results are committed while labeling continues"


async def test_entries_that_cannot_be_read_are_dead_letters_in_the_middle_of_a_batch(async_redis: Any) -> None:
    for number in range(200):
        await publish(async_redis, "fine", first=number)
        if number in {20, 120}:
            await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{no json"})
            await async_redis.xadd(STREAMS.interactions, {b"other": b"field"})
    async with working(async_redis, Scripted(), worker_min_idle_s=60) as worker:
        await worker.take(await read(async_redis, count=300))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 200))
        await until(lambda: is_now(pending(async_redis), 0))
    assert len({found.entry_id for found in await events(async_redis)}) == 200
    reasons = [found.reason for found in await dead_letters(async_redis)]
    assert reasons == [Reason.NOT_JSON, Reason.MISSING_DATA_FIELD] * 2


async def is_now(reply: Any, value: int) -> bool:
    return bool(await reply == value)


async def test_the_event_carries_what_the_labeler_said_and_what_the_interaction_was(async_redis: Any) -> None:
    await publish(async_redis, "fine")
    async with working(async_redis, Scripted()) as worker:
        (entry,) = await read(async_redis)
        await worker.take([entry])
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
    (found,) = await events(async_redis)
    assert (found.entry_id, found.interaction_id, found.pipeline) == (entry.entry_id, "i-0", "p")
    assert (found.labeler, found.labeler_version, found.profile) == ("scripted", "1", "ragbench")
    assert found.scores == {
        "trace.adherence": 1.0, "retrieval.empty": 0.0, "response.empty": 0.0, "retrieval.documents": 1.0,
    }  # fmt: skip
    assert (found.prompt_tokens, found.cost_usd) == (7, 0.25)


async def test_an_interaction_whose_time_is_an_id_ahead_of_the_clock_happens_now(async_redis: Any) -> None:
    now_ms = int((await async_redis.time())[0]) * 1000
    plain = b'{"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}'
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: plain}, id=f"{now_ms + 30 * 86_400_000}-0")
    async with working(async_redis, Scripted()) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: has_events(async_redis, 1))
    (event,) = await events(async_redis)
    assert abs(event.occurred_at.timestamp() * 1000 - now_ms) < 3_600_000


async def test_a_worker_adds_the_covariates_that_the_setting_names(async_redis: Any) -> None:
    await publish(async_redis, "fine")
    async with working(async_redis, Scripted(), covariates=("question_length", "top_score")) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
    (found,) = await events(async_redis)
    assert found.covariates == {"question_length": 1.0}


async def test_a_worker_adds_the_covariates_that_rules_compare(async_redis: Any) -> None:
    rules = [
        AlertRule(name=name, kind="distribution", covariate=name, run_length=1000)
        for name in ("documents", "difficulty", "segment:lang")
    ]
    await publish(async_redis, "fine")
    async with working(async_redis, Scripted(), covariates=("question_length",), alerts=rules) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
    (found,) = await events(async_redis)
    assert found.covariates == {"question_length": 1.0, "documents": 1.0}


def test_new_rules_change_the_covariates_that_a_worker_computes() -> None:
    wanted = WantedCovariates(Settings(covariates=("top_score",)))
    assert wanted.names == ("top_score",)
    wanted.take_rules(
        Settings(alerts=(AlertRule(name="a", kind="distribution", covariate="question_length", run_length=1000),))
    )
    assert wanted.names == ("question_length",)


@pytest.mark.parametrize(("response", "words"), [("fail", "out for lunch"), ("nonsense", "finite")])
async def test_a_failing_labeler_is_tried_again_and_then_the_entry_is_a_dead_letter(
    async_redis: Any, response: str, words: str
) -> None:
    labeler = Scripted()
    await publish(async_redis, response, "fine")
    async with working(async_redis, labeler) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.dead_letters), 1))
    (dead_letter,) = await dead_letters(async_redis)
    assert dead_letter.reason is Reason.LABELING_FAILED
    assert dead_letter.deliveries == 3
    assert words in dead_letter.detail
    assert labeler.calls >= 4  # a slow machine takes the good entry over from itself
    assert len(await events(async_redis)) == 1
    assert await pending(async_redis) == 0


EXITS: dict[str, BaseException] = {
    "SystemExit": SystemExit(4), "KeyboardInterrupt": KeyboardInterrupt(), "CancelledError": asyncio.CancelledError(),
    "StopAsyncIteration": StopAsyncIteration(), "GeneratorExit": GeneratorExit(),
}  # fmt: skip
"""Exceptions that are no errors, by name."""


class Exiting:
    """A labeler that raises the exception whose name is the response."""

    name, version, profile = "exiting", "1", "ragbench"

    async def label(self, interaction: RagInteraction) -> Labeling:
        if interaction.response in EXITS:
            raise EXITS[interaction.response]
        return Labeling(scores={"trace.adherence": 1.0})


async def test_whatever_a_labeler_raises_ends_only_the_labeling_of_its_entry_and_names_it(async_redis: Any) -> None:
    await publish(async_redis, "fine", *EXITS, "fine")
    async with working(async_redis, Bounded(Exiting(), 60)) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.dead_letters), len(EXITS)))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 2))
    found = await dead_letters(async_redis)
    assert {one.reason for one in found} == {Reason.LABELING_FAILED}
    assert all(any(name in one.detail for one in found) for name in EXITS)
    assert await pending(async_redis) == 0


async def abandoned(redis: Any, times: int) -> None:
    """Let workers take everything and crash, so many times."""
    await create_group(redis, STREAMS.interactions)
    await read(redis, consumer="crashed")
    for _ in range(times - 1):
        await redis.xautoclaim(STREAMS.interactions, LABEL_GROUP, "crashed too", 0, "0-0")


async def test_an_entry_that_was_delivered_too_often_is_tried_alone_before_it_is_given_up(async_redis: Any) -> None:
    labeler = Scripted()
    await publish(async_redis, "suspect")
    await abandoned(async_redis, 4)
    await publish(async_redis, *["wait"] * 3, *["fine"] * 20, first=1)
    async with working(async_redis, labeler, worker_concurrency=8, worker_min_idle_s=0.2) as worker:
        await worker.take(await read(async_redis, count=3))
        taking = asyncio.create_task(worker.take(await read(async_redis)))
        await until(lambda: holds(async_redis, "me", 24))
        labeler.gate.set()
        await taking
        await until(lambda: has_events(async_redis, 24))
    assert labeler.beside_suspect == [1]
    assert labeler.most_running >= 3
    assert await dead_letters(async_redis) == []
    assert await pending(async_redis) == 0


async def holds(redis: Any, name: str, count: int) -> bool:
    """Return whether a consumer holds so many entries, or has finished them."""
    return (await consumers(redis)).get(name, 0) + len(await events(redis)) >= count


async def test_an_entry_that_no_worker_survives_alone_is_a_dead_letter(async_redis: Any) -> None:
    labeler = Scripted()
    await publish(async_redis, "fine")
    await abandoned(async_redis, 4)
    for _ in range(EXCLUSIVE_ATTEMPTS):  # workers that tried it alone and died
        (entry,) = await async_redis.xrange(STREAMS.interactions)
        assert await RetryBudget(async_redis, STREAMS).spend(entry[0].decode())
    async with working(async_redis, labeler):
        await until(lambda: is_now(async_redis.xlen(STREAMS.dead_letters), 1))
    (dead_letter,) = await dead_letters(async_redis)
    assert dead_letter.reason is Reason.TOO_MANY_DELIVERIES
    assert "labeled alone 3 times" in dead_letter.detail
    assert labeler.calls == 0
    assert await pending(async_redis) == 0


async def test_what_a_dead_worker_left_is_taken_over(async_redis: Any) -> None:
    await publish(async_redis, *["fine"] * 30)
    await create_group(async_redis, STREAMS.interactions)
    await read(async_redis, consumer="dead")
    async with working(async_redis, Scripted()):
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 30))
        await until(lambda: is_now(pending(async_redis), 0))
    assert len({found.interaction_id for found in await events(async_redis)}) == 30


async def test_a_pending_entry_that_was_trimmed_away_is_a_dead_letter_not_a_crash(async_redis: Any) -> None:
    await publish(async_redis, "fine", "fine")
    await create_group(async_redis, STREAMS.interactions)
    gone, _ = await read(async_redis, consumer="dead")
    await async_redis.xdel(STREAMS.interactions, gone.entry_id)
    async with working(async_redis, Scripted()):
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
        await until(lambda: is_now(pending(async_redis), 0))
        await until(lambda: is_now(async_redis.xlen(STREAMS.dead_letters), 1))
    assert [(dead_letter.entry_id, dead_letter.reason) for dead_letter in await dead_letters(async_redis)] == [
        (gone.entry_id, Reason.DELETED)
    ]


async def test_an_entry_finished_twice_is_emitted_once(async_redis: Any) -> None:
    await publish(async_redis, "fine")
    await create_group(async_redis, STREAMS.interactions)
    (entry,) = await read(async_redis)
    committer = ResultCommitter(async_redis, STREAMS, consumer="me", dedupe_window_s=60, feedback_window_s=60)
    result = LabeledEntry(entry.entry_id, event(0, {"trace.adherence": 1.0}))
    assert await committer.commit([result]) == [CommitOutcome.EMITTED]
    assert await committer.commit([result, result]) == [CommitOutcome.FINISHED_BEFORE] * 2
    assert await async_redis.xlen(STREAMS.metrics) == 1


async def test_a_lost_reply_is_repeated_without_a_second_event(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, lost = ResultCommitter.commit, 0

    async def losing(self: ResultCommitter, results: Any) -> list[CommitOutcome]:
        nonlocal lost
        outcomes: list[CommitOutcome] = await commit(self, results)
        if lost < 3:
            lost += 1
            raise ConnectionError("reply lost")
        return outcomes

    monkeypatch.setattr(ResultCommitter, "commit", losing)
    monkeypatch.setattr("ragtide_runtime.processes.waiting.LONGEST_PAUSE_S", 0.01)
    await publish(async_redis, *["fine"] * 20)
    # A worker that reclaims its own entries on a busy machine would label them again.
    async with working(async_redis, Scripted(), worker_min_idle_s=60) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(pending(async_redis), 0))
        await until(lambda: sum(worker.counts.values()) == 20)
    assert lost == 3
    assert await async_redis.xlen(STREAMS.metrics) == 20


async def test_stopping_releases_entries_that_do_not_finish_in_the_grace_time(async_redis: Any) -> None:
    await publish(async_redis, "wait", "fine")
    async with working(async_redis, Scripted(), worker_min_idle_s=600) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
    assert await pending(async_redis) == 1
    other = Reclaimer(async_redis, STREAMS, consumer="other", min_idle_s=600)
    claimed, _ = await other.claim(10)
    assert len(claimed) == 1


async def test_after_script_flush_results_are_still_delivered(async_redis: Any) -> None:
    await publish(async_redis, "fine", "fine")
    async with working(async_redis, Scripted()) as worker:
        await worker.take(await read(async_redis, count=1))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
        await async_redis.script_flush()
        await worker.take(await read(async_redis, count=1))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 2))


async def test_a_group_is_created_at_the_first_entry_and_creating_it_again_is_fine(async_redis: Any) -> None:
    await publish(async_redis, "fine")
    await create_group(async_redis, STREAMS.interactions)
    await create_group(async_redis, STREAMS.interactions)
    assert len(await read(async_redis)) == 1


async def consumers(redis: Any) -> dict[str, int]:
    return {
        found["name"].decode(): found["pending"]
        for found in await redis.xinfo_consumers(STREAMS.interactions, LABEL_GROUP)
    }


async def test_a_worker_that_ends_without_entries_leaves_the_group(async_redis: Any) -> None:
    await publish(async_redis, "good")
    async with working(async_redis, Scripted()) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: has_events(async_redis, 1))
        assert await consumers(async_redis) == {"me": 0}
    assert await consumers(async_redis) == {}


async def test_the_consumer_of_a_worker_that_releases_entries_stays_until_they_are_taken_over(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(async_redis, "wait")
    async with working(async_redis, Scripted()) as worker:
        await worker.take(await read(async_redis))
    assert await consumers(async_redis) == {"me": 1}
    labeler = Scripted()
    labeler.gate.set()
    monkeypatch.setattr("ragtide_consumers.worker.worker.FORGET_S", 0.1)
    async with working(async_redis, labeler, consumer="other"):
        await until(lambda: has_events(async_redis, 1))
        await until(lambda: is_alone(async_redis, "other"))


async def test_idle_consumers_are_deleted_unless_they_have_entries(async_redis: Any) -> None:
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, "wait")
    await read(async_redis, consumer="died-with-an-entry")
    for name in ("died-1", "died-2"):
        await async_redis.xgroup_createconsumer(STREAMS.interactions, LABEL_GROUP, name)
    reclaimer = Reclaimer(async_redis, STREAMS, consumer="me", min_idle_s=60)
    assert await reclaimer.delete_idle_consumers(3600) == 0
    assert await reclaimer.delete_idle_consumers(0) == 2
    assert await consumers(async_redis) == {"died-with-an-entry": 1}
    # Between the look and the script it may have taken an entry.
    assert await reclaimer.delete_consumers(["died-with-an-entry"]) == 0
    assert await consumers(async_redis) == {"died-with-an-entry": 1}


async def is_alone(redis: Any, name: str) -> bool:
    return set(await consumers(redis)) == {name}


async def has_events(redis: Any, count: int) -> bool:
    return len(await events(redis)) >= count


async def test_a_redis_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path)
    server.start()
    server.kill()
    stop = asyncio.Event()
    settings = Settings(redis_url=server.url, worker_min_idle_s=0.5)
    running = asyncio.create_task(run_workers(settings, server.url, LocalLabeler(), stop))
    try:
        with structlog.testing.capture_logs() as logs:
            async with asyncio.timeout(120):
                while not [entry for entry in logs if entry.get("doing")]:  # noqa: ASYNC110 - of the outage
                    await asyncio.sleep(0.01)
        await asyncio.to_thread(server.start)
        async with connect_async(server.url) as redis:
            for interaction in demo_interactions()[:5]:
                await redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()})
            async with asyncio.timeout(120):
                while await redis.xlen(STREAMS.metrics) < 5:  # noqa: ASYNC110 - Redis changes, and tells nobody
                    await asyncio.sleep(0.01)
    finally:
        stop.set()
        await running
        server.kill()


async def test_workers_pause_while_metric_events_pile_up_and_keep_what_they_hold(async_redis: Any) -> None:
    for _ in range(6):
        await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: "of an aggregator that is away"})
    await publish(async_redis, *["fine"] * 10)
    labeler = Scripted()
    async with working(async_redis, labeler, events_cap=6, events_keep=0, worker_min_idle_s=0.3) as worker:
        await until(lambda: worker.paused)
        taking = asyncio.create_task(worker.take(await read(async_redis)))
        # Entries that wait for room are kept like those that are worked on: their idle time falls again and again.
        for _ in range(3):
            await until(lambda: _idle_for(async_redis, at_least_ms=20))
            await until(lambda: _is_not(_idle_for(async_redis, at_least_ms=20)))
        assert labeler.calls == 0
        await async_redis.xtrim(STREAMS.metrics, maxlen=0, approximate=False)
        await taking
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 10))


async def _idle_for(redis: Any, *, at_least_ms: int) -> bool:
    pending = await redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 100)
    return all(entry["time_since_delivered"] >= at_least_ms for entry in pending)


async def _is_not(value: Any) -> bool:
    return not await value
