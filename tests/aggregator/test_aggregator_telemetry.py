"""The counts and the health report of an aggregator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from tests.aggregator.test_service import EVENTS, SETTINGS, STREAMS, caught_up, publish
from tests.support.conditions import until

from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.telemetry import AggregatorTelemetry
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry


class Watched:
    """One aggregator's own telemetry, as in a process of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.health = Health("aggregator")
        self.health.redis_answered()
        self.telemetry = AggregatorTelemetry(1, ProcessTelemetry(self.health, self.registry))

    def __getitem__(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)

    def of_partition(self, name: str) -> float | None:
        return self.registry.get_sample_value(name, {"partition": "0"})

    def said(self) -> str:
        """Return what readiness says, and whether it is well."""
        report = self.health.ready()
        return f"{report.ok} {report.as_dict()['checks']}"

    @asynccontextmanager
    async def running(self, redis: Any, holder: str) -> AsyncIterator[None]:
        stop = asyncio.Event()
        service = Aggregator(redis, SETTINGS, holder=holder, telemetry=self.telemetry)
        task = asyncio.create_task(service.run(stop))
        try:
            yield
        finally:
            stop.set()
            await task


async def test_what_is_committed_is_counted(async_redis: Any) -> None:
    watched = Watched()
    await publish(async_redis, EVENTS)
    await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: b"not json"})
    async with watched.running(async_redis, "a"):
        await until(lambda: caught_up(async_redis))
        assert watched.of_partition("ragtide_lease_owned") == 1
        assert (watched.of_partition("ragtide_keys") or 0) >= 1
        assert (
            "'aggregator: partitions': 'owns 1 of 1 partitions', 'aggregator: partition 0': 'owned'" in watched.said()
        )
        assert watched.said().startswith("True")
    assert watched["ragtide_events_applied_total"] == len(EVENTS)
    assert watched["ragtide_events_refused_total"] == 1
    assert (watched["ragtide_checkpoint_seconds_count"] or 0) >= 1
    assert (watched["ragtide_checkpoint_rows_total"] or 0) >= 1
    fired = {"rule": "floor", "status": "firing"}
    assert watched.registry.get_sample_value("ragtide_alerts_total", fired) == 1
    assert watched.of_partition("ragtide_lease_owned") == 0


async def test_a_standby_is_ready_and_owns_nothing(async_redis: Any) -> None:
    owner, standby = Watched(), Watched()
    async with owner.running(async_redis, "owner"):
        await until(lambda: owner.of_partition("ragtide_lease_owned") == 1)
        async with standby.running(async_redis, "standby"):
            await until(lambda: standby.said().startswith("True"))
            assert standby.of_partition("ragtide_lease_owned") == 0
            assert "standing by" in standby.said()


async def test_a_lease_that_is_taken_is_counted_and_what_was_not_committed_is_not(async_redis: Any) -> None:
    watched = Watched()
    async with watched.running(async_redis, "a"):
        await until(lambda: watched.of_partition("ragtide_lease_owned") == 1)
        await async_redis.set(STREAMS.lease, "99:somebody else", px=60_000)
        await publish(async_redis, EVENTS[:50])
        await until(lambda: watched["ragtide_leases_lost_total"] == 1)
        await until(lambda: "standing by" in watched.said())
        assert watched["ragtide_events_applied_total"] == 0
        await async_redis.delete(STREAMS.lease)
        await until(lambda: caught_up(async_redis))
    assert watched["ragtide_events_applied_total"] == 50
