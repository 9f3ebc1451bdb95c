"""Claims are renewed whatever the event loop does, and no longer than it lives."""

import asyncio
import threading
from itertools import pairwise
from typing import Any

from tests.consumers.test_worker import STREAMS, Scripted, publish, read, working
from tests.support.conditions import until, wait_until

from ragtide import Labeling, RagInteraction
from ragtide_consumers.worker.app import create_group
from ragtide_consumers.worker.claims import ClaimRenewer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.telemetry.health import SILENT_S, Heartbeat


class Blocking(Scripted):
    """A labeler whose code does not give the event loop back until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.labeling, self.go_on = threading.Event(), threading.Event()

    async def label(self, interaction: RagInteraction) -> Labeling:
        self.labeling.set()
        self.go_on.wait(60)
        return await super().label(interaction)


def renewals(url: str, labeler: Blocking, wanted: int) -> int:
    """Count how often the idle time of an entry falls while the labeler blocks; then let the labeler go on."""
    labeler.labeling.wait(60)
    seen, before = 0, 0.0
    with connect(url) as redis:

        def enough() -> bool:
            nonlocal seen, before
            idle = held_for(redis)
            seen += idle < before
            before = idle
            return seen >= wanted

        try:
            wait_until(enough)
        finally:
            labeler.go_on.set()
    return seen


async def test_a_labeler_that_blocks_the_event_loop_keeps_its_entries(async_redis: Any, redis_url: str) -> None:
    labeler = Blocking()
    counting = asyncio.create_task(asyncio.to_thread(renewals, redis_url, labeler, wanted=5))
    await asyncio.sleep(0)  # the thread begins before the event loop is blocked
    await publish(async_redis, "fine")
    async with working(async_redis, labeler, worker_min_idle_s=0.2) as worker:
        await worker.take(await read(async_redis))
        assert await counting == 5
        await until(lambda: worker.counts["emitted"] == 1)


def held_for(redis: Any) -> float:
    return float(redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 1)[0]["time_since_delivered"])


async def test_a_worker_that_holds_nothing_is_seen_all_the_same(async_redis: Any, redis_url: str) -> None:
    await create_group(async_redis, STREAMS.interactions)
    renewer = ClaimRenewer(redis_url, consumer="me", min_idle_s=0.3)
    renewer.add(STREAMS, list, Heartbeat("claims"))
    renewer.start()
    idle: list[float] = []

    def seen_twice() -> bool:
        found = redis.xinfo_consumers(STREAMS.interactions, LABEL_GROUP)
        idle.extend(one["idle"] for one in found)
        return any(later < earlier for earlier, later in pairwise(idle))

    try:
        with connect(redis_url) as redis:
            wait_until(seen_twice)
    finally:
        renewer.stop()


async def test_the_entries_of_a_worker_that_hangs_are_not_kept_from_others(async_redis: Any, redis_url: str) -> None:
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, "fine")
    entries = await read(async_redis)
    now = [0.0]
    heartbeat = Heartbeat("claims")
    renewer = ClaimRenewer(redis_url, consumer="me", min_idle_s=0.03, clock=lambda: now[0])
    renewer.add(STREAMS, lambda: [entry.entry_id for entry in entries], heartbeat)
    renewer.start()
    with connect(redis_url) as redis:
        wait_until(lambda: heartbeat.ready().ok)
        now[0] = SILENT_S + 1
        wait_until(lambda: "has been blocked for 61 s" in heartbeat.ready().detail)
        wait_until(lambda: held_for(redis) > 300)
        renewer.event_loop_ran()
        wait_until(lambda: held_for(redis) < 300)
    renewer.stop()


async def test_claims_are_renewed_again_after_an_outage_and_it_is_logged_once(async_redis: Any, redis_url: str) -> None:
    heartbeat = Heartbeat("claims")
    await async_redis.xadd(STREAMS.interactions, {"data": b"{}"})
    renewer = ClaimRenewer(redis_url, consumer="me", min_idle_s=0.03)
    renewer.add(STREAMS, lambda: ["1-1"], heartbeat)
    renewer.start()
    wait_until(lambda: "NOGROUP" in heartbeat.ready().detail)
    await create_group(async_redis, STREAMS.interactions)
    wait_until(lambda: heartbeat.ready().ok)
    renewer.stop()
