"""Counts and health of a recorder."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.consumers.recorder.running import (
    STREAMS,
    add,
    add_all,
    caught_up,
    feedback,
    interaction,
    settings_of,
)
from tests.support.conditions import until

from ragtide_consumers.recorder.service import prepare_recorder, run_recorder
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry


async def behind(redis: Any) -> bool:
    return bool((await read_backlogs(redis, [STREAMS]))[0].unrecorded_s)


async def test_what_is_recorded_is_counted_and_the_role_is_ready(
    async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await add_all(async_redis, 0, 10)
    await async_redis.xadd(STREAMS.metrics, {"data": "{"})
    await add(async_redis, EntryKind.INTERACTIONS, interaction(1, question="from eve@example.com"))
    process, stop = ProcessTelemetry(Health("recorder")), asyncio.Event()
    settings = settings_of(tmp_path / "r", redact=["email"])
    prepared = await prepare_recorder(settings, async_redis)
    task = asyncio.create_task(run_recorder(settings, redis_url, stop, process, prepared))
    await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))

    def value(name: str, **labels: str) -> float | None:
        return process.registry.get_sample_value(name, labels)

    await until(lambda: value("ragtide_recorded_total", kind="alerts") == 10)
    assert value("ragtide_recorded_total", kind="metrics") == 11
    assert value("ragtide_recorded_unreadable_total", kind="metrics") == 1
    sizes = sum(file.bytes for file in found.files("interactions"))
    assert value("ragtide_recorded_bytes_total", kind="interactions") == sizes
    assert value("ragtide_redactions_total", what="email") == 1
    assert value("ragtide_recorder_owned", partition="0") == 1
    assert abs((value("ragtide_recorder_manifest_timestamp_seconds", partition="0") or 0) - time.time()) < 60
    process.health.redis_answered()
    assert process.health.ready().ok, process.health.ready().as_dict()
    assert (await read_backlogs(async_redis, [STREAMS]))[0].unrecorded_s == 0
    stop.set()
    await task
    await add(async_redis, EntryKind.FEEDBACK, feedback(1))
    await until(lambda: behind(async_redis))
    assert not process.health.ready().ok
