"""A labeler that says that it is unavailable: its interactions wait, and none is lost, counted or refused."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.consumers.test_worker import STREAMS, dead_letters, events, pending, publish, read, working
from tests.support.conditions import until

from ragtide import CustomMetric, Labeler, LabelerUnavailable, Labeling, LocalLabeler, MetricDefinition, RagInteraction
from ragtide_consumers.labelers.cascade import CascadeLabeler
from ragtide_consumers.labelers.outage import LabelerOutage
from ragtide_consumers.labelers.protocol import SampleUnavailable
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.errors import EndpointUnavailable, OverBudget
from ragtide_consumers.labelers.with_metrics import WithMetrics
from ragtide_consumers.worker.app import create_group
from ragtide_consumers.worker.waiting import Patience
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Direction, Kind

INTERACTION = RagInteraction(pipeline="p", question="q", documents=["d"], response="r")


class Resting:
    """A labeler of somebody's own that is unavailable until it is told to work."""

    name, version, profile = "resting", "1", "mine"
    metrics = ("trace.adherence",)

    def __init__(self, settings: object = None) -> None:
        self.unavailable = True
        self.tries = 0
        self.closed = 0

    async def label(self, interaction: RagInteraction) -> Labeling:
        self.tries += 1
        if self.unavailable:
            raise LabelerUnavailable(resume_in_s=0.01, because="the model is being loaded")
        return Labeling({"trace.adherence": 1.0})

    async def aclose(self) -> None:
        self.closed += 1


async def deliveries(redis: Any) -> list[int]:
    found = await redis.xpending_range(STREAMS.interactions, LABEL_GROUP, min="-", max="+", count=100)
    return [entry["times_delivered"] for entry in found]


async def test_interactions_wait_for_it_are_not_counted_as_delivered_and_are_labeled_once(async_redis: Any) -> None:
    async def uncounted() -> bool:
        return await deliveries(async_redis) == [0, 0, 0, 0]

    await publish(async_redis, *["fine"] * 4)
    labeler = Resting()
    async with working(async_redis, labeler, max_deliveries=1) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: labeler.tries > 20)
        # On a busy machine this worker may just have reclaimed its own entries: that delivery goes too.
        await until(uncounted)
        labeler.unavailable = False
        await until(lambda: worker.counts.get("emitted") == 4)
    assert len(await events(async_redis)) == 4
    assert await dead_letters(async_redis) == []


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_an_entry_that_its_own_worker_reclaims_is_not_counted_as_delivered_again(
    async_redis: Any, concurrency: int
) -> None:
    await publish(async_redis, "fine")
    labeler = Resting()
    changes: dict[str, Any] = {"worker_min_idle_s": 60, "worker_concurrency": concurrency}
    async with working(async_redis, labeler, **changes) as worker:
        entries = await read(async_redis)
        await worker.take(entries)
        await until(lambda: labeler.tries > 2)
        assert await deliveries(async_redis) == [0]
        for _ in range(3):
            await async_redis.xclaim(STREAMS.interactions, LABEL_GROUP, "me", 0, [entries[0].entry_id])
            assert await deliveries(async_redis) == [1]
            await worker.take(entries)
            assert await deliveries(async_redis) == [0]


async def test_an_outage_that_outlives_many_workers_loses_nothing(async_redis: Any) -> None:
    """Twelve workers start and stop meanwhile, and an entry is given up after two deliveries."""
    await publish(async_redis, *["fine"] * 6)
    for number in range(12):
        labeler = Resting()
        changes: dict[str, Any] = {"max_deliveries": 2, "worker_concurrency": 2, "consumer": f"worker-{number}"}
        async with working(async_redis, labeler, **changes) as worker:
            if number == 0:
                taking = asyncio.create_task(worker.take(await read(async_redis, consumer="worker-0")))
            await until(lambda labeler=labeler: labeler.tries > 3)  # type: ignore[misc]
        await end(taking)
    assert await pending(async_redis) == 6
    assert max(await deliveries(async_redis)) <= 1
    labeler = Resting()
    labeler.unavailable = False
    async with working(async_redis, labeler, max_deliveries=2, consumer="last"):

        async def all_labeled() -> bool:
            return len(await events(async_redis)) == 6

        await until(all_labeled)
    assert await dead_letters(async_redis) == []


async def test_an_entry_that_is_tried_alone_loses_no_try_to_an_outage(async_redis: Any) -> None:
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, "fine")
    (entry,) = await read(async_redis)
    entry_id = entry.entry_id
    await async_redis.xclaim(STREAMS.interactions, LABEL_GROUP, "me", 0, [entry_id], retrycount=9, justid=True)
    for number in range(6):
        labeler = Resting()
        async with working(async_redis, labeler, consumer=f"w{number}"):
            await until(lambda labeler=labeler: labeler.tries > 1)  # type: ignore[misc]
    assert await dead_letters(async_redis) == []
    assert int(await async_redis.get(STREAMS.quarantine(entry_id))) == 0


async def test_one_outage_is_one_warning_and_one_line_when_it_is_over(async_redis: Any) -> None:
    await publish(async_redis, *["fine"] * 4)
    labeler = Resting()
    with capture_logs() as logs:
        async with working(async_redis, labeler) as worker:
            await worker.take(await read(async_redis))
            await until(lambda: labeler.tries > 20)
            labeler.unavailable = False
            await until(lambda: worker.counts.get("emitted") == 4)
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert len(warnings) == 1
    assert warnings[0]["because"] == "the model is being loaded"
    assert [entry["event"] for entry in logs if entry["log_level"] == "info"].count(
        "the labeler is available again"
    ) == 1


def test_an_outage_soon_after_another_is_not_told_again_and_a_later_one_is() -> None:
    clock = [0.0]
    outage = LabelerOutage("mine", "interactions wait", clock=lambda: clock[0])
    told = []
    for clock[0] in (0.0, 1.0, 50.0, 61.0, 70.0, 200.0):
        with capture_logs() as logs:
            outage.unavailable(LabelerUnavailable(1.0, "busy"))
            outage.available(outage.now(), {})
        told.append([entry["log_level"] for entry in logs])
    assert told == [["warning", "info"], [], [], ["warning", "info"], [], ["warning", "info"]]


@pytest.mark.parametrize("error", [EndpointUnavailable("401"), OverBudget("the limit is reached", 60.0)])
def test_only_a_call_after_the_last_refusal_ends_an_outage(error: LabelerUnavailable) -> None:
    clock = [0.0]
    outage = LabelerOutage("judge", "interactions wait", clock=lambda: clock[0])
    asked_before = outage.now()
    for clock[0] in (1.0, 5.0):
        outage.unavailable(error)
    clock[0] = 6.0
    outage.available(asked_before, {"judge_calls": 1})
    outage.available(4.9, {"judge_calls": 1})
    outage.available(5.5, {"cache_hits": 1})
    assert not outage.ready().ok
    with capture_logs() as logs:
        outage.available(5.5, {"judge_calls": 1})
    assert outage.ready().ok
    assert [(entry["after_s"], entry["interactions"]) for entry in logs] == [(5.0, 2)]


def test_readyz_says_that_the_labeler_is_unavailable_and_why() -> None:
    outage = LabelerOutage("mine", "interactions wait")
    assert outage.ready().ok
    outage.unavailable(LabelerUnavailable(1.0, "the key was refused"))
    assert not outage.ready().ok
    assert "the key was refused" in outage.ready().detail
    assert outage.alive(None).ok
    outage.available(outage.now(), {})
    assert outage.ready().ok


@pytest.mark.parametrize("said", [float("nan"), float("inf"), -1, 0, None, "soon"])
def test_a_wait_that_is_no_number_of_seconds_is_the_usual_one(said: Any) -> None:
    assert LabelerUnavailable(said).resume_in_s == 30.0


async def test_the_time_of_waiting_is_not_the_time_of_labeling() -> None:
    labeler = Resting()

    async def works_again() -> None:
        await asyncio.sleep(0.3)
        labeler.unavailable = False

    again = asyncio.create_task(works_again())
    timed = await Patience(labeler).label(INTERACTION)
    await again
    assert timed.latency_s < 0.3
    assert labeler.tries > 1


async def test_in_a_cascade_its_metrics_are_absent_or_it_is_waited_for() -> None:
    labeler = Resting()
    everything = CascadeSettings(rate=1.0)
    skipping = CascadeLabeler(LocalLabeler(), labeler, everything)
    labeling = await skipping.label(INTERACTION)
    assert labeling.judged is not None
    assert labeling.judged.labeling.absent == {"trace.adherence": "judge_unavailable"}
    waiting = CascadeLabeler(LocalLabeler(), labeler, everything, wait=True)
    with pytest.raises(SampleUnavailable, match="the model is being loaded"):
        await waiting.label(INTERACTION)
    cheap = CascadeLabeler(labeler, LocalLabeler(), everything)
    with pytest.raises(LabelerUnavailable):
        await cheap.label(INTERACTION)


async def test_skipping_the_judge_of_a_cascade_is_told_once() -> None:
    cascade = CascadeLabeler(LocalLabeler(), Resting(), CascadeSettings(rate=1.0))
    with capture_logs() as logs:
        for _ in range(20):
            await cascade.label(INTERACTION)
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_custom_metrics_do_not_hide_it() -> None:
    definition = MetricDefinition(
        name="mine.unavailable_words", lower=0, upper=10, direction=Direction.NEITHER, kind=Kind.ALGEBRAIC,
        meaning="Words.", source="us", definition="number",
    )  # fmt: skip
    labeler: Labeler = WithMetrics(Resting(), [CustomMetric(definition, lambda interaction, labels: 1.0)])
    with pytest.raises(LabelerUnavailable, match="the model is being loaded"):
        await labeler.label(INTERACTION)


class ClosesBadly(Resting):
    def aclose(self) -> None:  # type: ignore[override]
        super().__init__()
        self.closed = 1
        raise RuntimeError("already closed")


@pytest.mark.parametrize("kind", [Resting, ClosesBadly])
async def test_a_labeler_of_ones_own_is_closed_in_the_end(kind: type[Resting], monkeypatch: Any) -> None:
    made: list[Resting] = []

    def make() -> Resting:
        made.append(kind())
        return made[-1]

    monkeypatch.setitem(sys.modules, "my_module", SimpleNamespace(make=make))
    async with labeler_of(Settings(labeler="my_module:make"), None) as labeler:
        with pytest.raises(LabelerUnavailable):
            await labeler.label(INTERACTION)
        assert made[0].closed == 0
    assert made[0].closed == 1
