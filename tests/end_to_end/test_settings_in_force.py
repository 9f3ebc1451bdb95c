"""A changed file is in force in running roles, or reports, doctor and the log name what waits and what is wrong."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.alerts import alert
from tests.support.conditions import until
from tests.support.receiver import Receiver, receiver

from ragtide_roles.doctor.alerting import notification_findings
from ragtide_roles.doctor.in_force import settings_findings
from ragtide_roles.serving import serve
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.settings_reports import SettingsReport, read_reports
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry

pytestmark = pytest.mark.redis

ALERTS = Streams("ragtide", 0).alerts
BEGIN = "lease_s = 1.0\nrules_poll_s = 0.05\n"
HOOK = '[notify]\nallow_private = true\n[[notify.destinations]]\nname = "{}"\nkind = "webhook"\nurl = "{}"\n'


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ragtide.toml"
    path.write_text(BEGIN)
    monkeypatch.setenv("RAGTIDE_CONFIG", str(path))
    return path


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("RAGTIDE_SECRETS_DIR", str(folder))
    return folder


def write(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.fixture
async def running(file: Path, redis_url: str) -> AsyncIterator[None]:
    """A notifier and an aggregator in one process."""
    stop, process = asyncio.Event(), ProcessTelemetry(Health("notify", "aggregator"))
    roles = serve(
        load_settings(), redis_url, stop, worker=False, aggregator=True, notifier=True, process=process, warn=False
    )
    task = asyncio.create_task(roles)
    try:
        yield
    finally:
        stop.set()
        await task


async def report(redis: Any) -> SettingsReport | None:
    return next(iter(await read_reports(redis, "ragtide")), None)


async def reports(redis: Any, wanted: Any) -> SettingsReport:
    found: list[SettingsReport] = []

    async def comes() -> bool:
        now = await report(redis)
        found[:] = [] if now is None else [now]
        return now is not None and bool(wanted(now))

    await until(comes)
    return found[0]


async def levels(redis: Any, settings: Settings) -> dict[str, tuple[str, str]]:
    of_redis = await read_reports(redis, "ragtide")
    found = [*settings_findings(settings, of_redis), *await notification_findings(settings, of_redis)]
    return {finding.subject: (finding.level, finding.found) for finding in found}


async def test_destinations_come_change_and_go_while_the_notifier_runs(
    running: None, file: Path, async_redis: Any, server: Receiver
) -> None:
    await reports(async_redis, lambda now: now.is_notifier and not now.destinations)
    await async_redis.xadd(ALERTS, {"data": alert("a").encode()})
    write(file, BEGIN + HOOK.format("first", server.url))
    assert (await levels(async_redis, load_settings()))["notifications"][0] in ("problem", "ok")
    await until(lambda: len(server.received) == 1)
    await reports(async_redis, lambda now: now.destinations == ("first",))
    found = await levels(async_redis, load_settings())
    assert found["settings"] == ("ok", "in force in 1 process")
    assert found["notifications"] == ("ok", "1 destination")
    write(file, BEGIN + HOOK.format("second", server.url))
    await reports(async_redis, lambda now: now.destinations == ("second",))
    await async_redis.xadd(ALERTS, {"data": alert("b").encode()})
    await until(lambda: len(server.received) == 2)
    write(file, BEGIN)
    await reports(async_redis, lambda now: now.destinations == ())


async def test_what_waits_for_a_restart_and_what_is_wrong_has_a_name(
    running: None, file: Path, async_redis: Any
) -> None:
    await reports(async_redis, lambda now: True)
    with capture_logs() as logs:
        write(file, "confidence = 0.9\nworker_batch = 7\n" + BEGIN + "[stall]\nlabeling_s = 77\n")
        now = await reports(async_redis, lambda now: now.waiting)
    assert now.waiting == ("confidence",), "no role of this process reads worker_batch"
    assert [line["settings"] for line in logs if "wait for a restart" in line["event"]] == [["confidence"]]
    level, found = (await levels(async_redis, load_settings()))["settings"]
    assert level == "warning"
    assert "confidence (aggregator)" in found
    assert "stall" not in found, "the aggregator has taken it"
    wanted = load_settings()
    write(file, "confidence = 2\n" + BEGIN)
    await reports(async_redis, lambda now: "confidence" in now.refused)
    first, *_ = settings_findings(wanted, await read_reports(async_redis, "ragtide"))
    assert (first.level, "the old ones stay in force" in first.found) == ("problem", True)
    write(file, BEGIN)
    await reports(async_redis, lambda now: not now.refused and not now.waiting)


async def test_a_changed_variable_or_file_here_is_named_although_the_process_has_not_changed(
    running: None, async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reports(async_redis, lambda now: True)
    monkeypatch.setenv("RAGTIDE_KEYS_CAP", "77")
    monkeypatch.setenv("RAGTIDE_WORKER_BATCH", "77")
    level, found = (await levels(async_redis, load_settings()))["settings"]
    assert (level, "keys_cap (aggregator)" in found, "worker_batch" in found) == ("warning", True, False)


async def test_a_process_that_ends_takes_its_report_along(file: Path, redis_url: str, async_redis: Any) -> None:
    stop = asyncio.Event()
    roles = serve(
        load_settings(), redis_url, stop, worker=False, aggregator=True, process=ProcessTelemetry(), warn=False
    )
    task = asyncio.create_task(roles)
    await reports(async_redis, lambda now: now.roles == ("aggregator",))
    stop.set()
    await task
    assert await read_reports(async_redis, "ragtide") == []


async def test_a_secret_file_that_changes_is_taken(
    secrets: Path, running: None, async_redis: Any, server: Receiver
) -> None:
    await reports(async_redis, lambda now: True)
    content = f'[{{"name": "secret", "kind": "webhook", "url": "{server.url}"}}]'
    write(secrets / "RAGTIDE_NOTIFY_DESTINATIONS", content)
    await reports(async_redis, lambda now: now.destinations == ("secret",))
