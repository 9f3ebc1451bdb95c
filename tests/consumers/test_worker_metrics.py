"""The counts, heartbeats and log lines of a label worker."""

from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from tests.consumers.test_worker import STREAMS, Scripted, dead_letters, is_now, pending, publish, read, working
from tests.support.conditions import until

from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.logs import add_entry


class Counts:
    """A registry, read as Prometheus would."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.telemetry = WorkerTelemetry(ProcessTelemetry(registry=self.registry))

    def labelings(self, outcome: str) -> float | None:
        labels = {"labeler": "scripted", "outcome": outcome}
        return self.registry.get_sample_value("ragtide_labelings_total", labels)

    def __getitem__(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


async def test_outcomes_exist_as_0_before_the_first_entry(async_redis: Any) -> None:
    counts = Counts()
    async with working(async_redis, Scripted(), telemetry=counts.telemetry):
        for outcome in ("emitted", "rejected", "duplicate", "finished_before", "failed"):
            assert counts.labelings(outcome) == 0


async def test_every_entry_is_counted_once_and_failed_tries_besides(async_redis: Any) -> None:
    counts = Counts()
    await publish(async_redis, "fine", "fine", "fail")
    await publish(async_redis, "fine", first=0)  # its id is taken
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"not json"})
    # On a busy machine an entry in work is idle for longer than the 0.05 s of the other tests.
    async with working(async_redis, Scripted(), telemetry=counts.telemetry, worker_min_idle_s=0.5) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.dead_letters), 3))
        await until(lambda: is_now(pending(async_redis), 0))
    outcomes = {name: counts.labelings(name) for name in ("emitted", "rejected", "duplicate", "finished_before")}
    assert outcomes == {"emitted": 2, "rejected": 2, "duplicate": 1, "finished_before": 0}
    assert counts.labelings("failed") == 3
    by_reason = {
        dead_letter.reason: counts.registry.get_sample_value(
            "ragtide_dead_letters_total", {"reason": dead_letter.reason}
        )
        for dead_letter in await dead_letters(async_redis)
    }
    assert by_reason == {"labeling_failed": 1, "duplicate": 1, "not_json": 1}
    assert counts["ragtide_labelings_in_flight"] == 0
    assert counts["ragtide_reclaimed_total"] == 2
    seconds = counts.registry.get_sample_value("ragtide_labeling_seconds_count", {"labeler": "scripted"})
    assert seconds == 3


async def test_what_is_in_flight_is_counted_also_when_it_is_never_finished(async_redis: Any) -> None:
    counts = Counts()
    await publish(async_redis, "wait", "wait")
    async with working(async_redis, Scripted(), telemetry=counts.telemetry) as worker:
        await worker.take(await read(async_redis))
        assert counts["ragtide_labelings_in_flight"] == 2
    assert counts["ragtide_labelings_in_flight"] == 0


async def test_a_worker_without_its_group_is_alive_and_not_ready_until_there_is_one_again(async_redis: Any) -> None:
    async with working(async_redis, Scripted()) as worker:
        committing, taking_over = worker.heartbeats["committing"], worker.heartbeats["reclaiming"]
        await until(lambda: taking_over.ready().ok and committing.ready().ok)
        await async_redis.xgroup_destroy(STREAMS.interactions, LABEL_GROUP)
        await until(lambda: "NOGROUP" in taking_over.ready().detail)
        assert not taking_over.ready().ok
        assert taking_over.alive(redis_since=0.0).ok
        await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
        await until(lambda: taking_over.ready().ok)


async def test_what_is_logged_about_an_entry_has_its_ids(async_redis: Any, monkeypatch: Any) -> None:
    logged: list[Any] = []

    def keep(_: Any, __: str, event: Any) -> Any:
        logged.append(dict(event))
        raise structlog.DropEvent

    for module in ("results", "worker"):
        logger = structlog.wrap_logger(None, processors=[add_entry, keep])
        monkeypatch.setattr(f"ragtide_consumers.worker.{module}.log", logger)
    await publish(async_redis, "fine", "fail")
    await publish(async_redis, "fine", first=0)
    async with working(async_redis, Scripted(), max_deliveries=1) as worker:
        entries = await read(async_redis)
        await worker.take(entries)
        await until(lambda: is_now(pending(async_redis), 0))
    starts = ("labeled", "labeling failed", "entry rejected")
    about = [event for event in logged if event["event"].startswith(starts)]
    assert {
        (event["event"].partition(";")[0].partition(":")[0], event["interaction_id"], event["entry_id"])
        for event in about
    } == {
        ("labeled", "i-0", entries[0].entry_id),
        ("labeling failed", "i-1", entries[1].entry_id),
        ("entry rejected", "i-1", entries[1].entry_id),
        ("labeled", "i-0", entries[2].entry_id),
        ("entry rejected", "i-0", entries[2].entry_id),
    }
    assert {event.get("pipeline") for event in about if not event["event"].startswith("entry rejected")} == {"p"}
    assert all(event["latency_s"] >= 0 for event in about if event["event"] == "labeled")
