"""A role that starts waits for Redis as a running one does; a wrong setting ends it at once."""

import os
import signal
from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.one_address import OneAddress
from tests.support.redis_processes import RedisProcess, free_port
from tests.support.roles import command, interactions, running, start, wait_for_events

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect

EXTRA = {
    "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
    "RAGTIDE_NOTIFY_DESTINATIONS": '[{"name":"x","kind":"webhook","url":"http://127.0.0.1:1/"}]',
    "RAGTIDE_SERVE_PORT": "0",
}


def test_all_roles_start_before_their_redis_and_work_when_it_is_there(tmp_path: Path) -> None:
    server, log = RedisProcess(tmp_path / "redis"), tmp_path / "up.log"
    extra = {**EXTRA, "RAGTIDE_RECORDER_URL": str(tmp_path / "recording")}
    process = start("up", server.url, log, extra)
    try:
        wait_until(lambda: b"Redis failed: retrying until it answers" in log.read_bytes())
        assert process.poll() is None
        with server, InteractionProducer(server.url) as producer, connect(server.url) as redis:
            producer.publish_many(interactions(5))
            wait_for_events(redis, 5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
        assert log.read_bytes().count(b"Traceback") == 0
    finally:
        process.kill()


@pytest.mark.heavy
@pytest.mark.parametrize("role", ["worker", "aggregator", "recorder", "serve", "notify", "up"])
def test_a_role_starts_over_connections_that_are_cut(role: str, tmp_path: Path) -> None:
    extra = {**EXTRA, "RAGTIDE_RECORDER_URL": str(tmp_path / "recording")}
    with (
        RedisProcess(tmp_path / "redis") as server,
        OneAddress(server.port, cut_after=tuple(range(12)) * 3) as address,
        running(role, address.url, tmp_path / "role.log", extra),
    ):
        wait_until(lambda: address.taken > 12)
    assert b"Traceback" not in (tmp_path / "role.log").read_bytes()


def test_a_wrong_password_or_host_ends_a_role_at_once_with_its_remedy(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis") as server:
        server.client.config_set("requirepass", "right")
        address = f"127.0.0.1:{server.port}"
        for url, remedy in (
            (f"redis://:wrong-secret@{address}", "correct RAGTIDE_REDIS_PASSWORD"),
            (f"redis://{address}", "set RAGTIDE_REDIS_PASSWORD"),
            (f"redis://:right@{address}/99", "DB index"),
            (f"redis://:wro#ng-secret@{address}", "percent-encoded"),
        ):
            done = command(url, "worker")
            assert done.returncode == 1
            assert remedy in done.stderr
            assert "secret" not in done.stdout + done.stderr
            assert "Traceback" not in done.stderr


def test_a_role_that_waits_for_redis_ends_when_told_to(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    process = start("worker", f"redis://127.0.0.1:{free_port()}", log)
    try:
        wait_until(lambda: b"Redis failed" in log.read_bytes())
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert log.read_bytes().count(b"Redis failed") == 1


def test_a_command_ends_at_once_without_redis(tmp_path: Path) -> None:
    done = command(f"redis://127.0.0.1:{free_port()}", "estimates")
    assert done.returncode == 1
    assert "no usable Redis" in done.stderr
