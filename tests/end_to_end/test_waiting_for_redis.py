"""A role that starts waits for Redis as a running one does; a wrong setting ends it at once."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from redis import Redis
from tests.end_to_end.test_serve import port_in, send
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.one_address import OneAddress
from tests.support.redis_processes import RedisProcess, free_port, servers
from tests.support.roles import (
    STREAMS,
    begin,
    command,
    estimates,
    interactions,
    publish_until_confirmed,
    running,
    start,
    wait_for_events,
)

from ragtide import InteractionProducer
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.client import connect
from ragtide_schemas import RagInteraction

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


PLAN = """
name = "race"
target = "target:answer"
data = "questions.jsonl"
metric = "trace.adherence"
concurrency = 2
[grid]
quality = [1, 2]
"""
TARGET = """
import time
def answer(question, quality):
    with open("calls.txt", "a") as file:
        file.write("called\\n")
    time.sleep(0.05)
    return {"documents": ["It was built in 1889."], "response": "It was built in 1889."}
"""


@pytest.mark.heavy
def test_no_role_service_or_experiment_loses_anything_in_failovers_behind_one_address(tmp_path: Path) -> None:
    place, log, all_of_them = tmp_path / "recording", tmp_path / "up.log", interactions(120)
    extra = {**EXTRA, "RAGTIDE_RECORDER_URL": str(place), "RAGTIDE_RECORDER_ROLL_S": "0.2"}
    options = ("save ''", "repl-diskless-sync yes", "repl-diskless-sync-delay 0")
    with servers(tmp_path / "redis", 2, *options) as (first, second), OneAddress(first.port) as address:
        second.client.replicaof("127.0.0.1", first.port)
        experiment = experiment_of(tmp_path / "experiment", address.url)
        with running("up", address.url, log, extra), InteractionProducer(address.url) as producer:
            port = port_in(log)
            post_until_confirmed(port, all_of_them[:30])
            publish_until_confirmed(producer, all_of_them[30:60])
            wait_until(lambda: called(tmp_path / "experiment") > 5)
            fail_over(first, second, address)
            post_until_confirmed(port, all_of_them[60:90])
            assert all(producer.submit(one) for one in all_of_them[90:])
            assert producer.flush(60)
            wait_for_events(second.client, 120)
            wait_until(lambda: relevances(estimates(address.url)) == [120])
            wait_until(lambda: Recording.open(str(place)).count(EntryKind.METRICS) == 120)
            assert experiment.wait(120) == 0, (tmp_path / "experiment" / "out.log").read_text()
            fail_over(second, first, address)
            replay = command(address.url, "replay", str(place), "--workspace", "again", "--json")
            assert replay.returncode == 0, replay.stderr
        assert first.client.xlen(STREAMS.metrics) == 120
        assert first.client.xlen(STREAMS.dead_letters) == 0
        shown = json.loads(command(address.url, "experiment", "show", "race", "--json").stdout)
        assert [(row["n_items"], row["n_failed"]) for row in shown["rows"]] == [(40, 0), (40, 0)]
        again = command(address.url, "estimates", "--workspace", "again", "--json")
        assert relevances(json.loads(again.stdout)) == [120]


def relevances(found: list[dict[str, Any]]) -> list[int]:
    return [one["n"] for one in found if one["metric"] == "trace.context_relevance" and one["segment"] is None]


def experiment_of(place: Path, url: str) -> ForkedProcess:
    place.mkdir()
    (place / "target.py").write_text(TARGET)
    (place / "experiment.toml").write_text(PLAN)
    (place / "questions.jsonl").write_text("".join(json.dumps({"question": f"Question {n}"}) + "\n" for n in range(40)))
    return begin(url, place / "out.log", "experiment", "run", "experiment.toml", "--json")


def called(place: Path) -> int:
    calls = place / "calls.txt"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def post_until_confirmed(port: int, batch: list[RagInteraction]) -> None:
    body = f"[{','.join(interaction.model_dump_json() for interaction in batch)}]".encode()

    def confirmed() -> bool:
        try:
            send(port, body, "/v1/interactions", "application/json")
        except URLError:
            return False
        return True

    wait_until(confirmed)


def fail_over(old: RedisProcess, new: RedisProcess, address: OneAddress) -> None:
    """Make the replica the primary as managed services do: nothing is lost, and no socket of the old one is closed."""
    wait_until(lambda: old.client.role()[2])
    old.client.execute_command("FAILOVER", "TO", "127.0.0.1", new.port)
    wait_until(lambda: (old.client.role()[0], new.client.role()[0]) == ("slave", "master"))
    address.target = new.port


@pytest.mark.heavy
def test_a_role_waits_for_its_password_says_so_once_and_goes_on_when_it_is_right_again(tmp_path: Path) -> None:
    log, batch = tmp_path / "up.log", interactions(20)
    with RedisProcess(tmp_path / "redis") as server:
        server.client.config_set("requirepass", "right")
        url = f"redis://:right@127.0.0.1:{server.port}/0"
        admin = Redis(port=server.port, password="right")
        with running("up", url, log, EXTRA), InteractionProducer(url) as producer, connect(url) as redis:
            producer.publish_many(batch[:10])
            wait_for_events(redis, 10)
            admin.config_set("requirepass", "other-secret")
            admin.client_kill_filter(_type="normal", skipme=True)
            # The first failure may be the connection that was closed; the password is named all the same.
            wait_until(lambda: set(roles_that_blame(log)) == {"worker", "aggregator", "notify", "serve"})
            assert all(producer.submit(one) for one in batch[10:])
            admin.config_set("requirepass", "right")
            assert producer.flush(60)
            wait_for_events(redis, 20)
        assert set(roles_that_blame(log).values()) == {1}
        assert "secret" not in log.read_text()


def roles_that_blame(log: Path) -> Counter[str]:
    """Return how often each role has said that the password is wrong."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return Counter(line["role"] for line in lines if "correct RAGTIDE_REDIS_PASSWORD" in line.get("error", ""))


def test_doctor_names_a_disk_on_which_redis_cannot_save(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    with RedisProcess(tmp_path / "redis", f"dir {tmp_path}/gone", "save 900 1") as server:
        shutil.rmtree(tmp_path / "gone")
        server.client.set("changed", "1")
        server.client.bgsave()
        wait_until(lambda: server.client.info("persistence")["rdb_last_bgsave_status"] == "err")
        done = command(server.url, "doctor")
    assert done.returncode == 1
    assert "free space on the disk" in " ".join((done.stdout + done.stderr).split())


def test_doctor_names_a_command_that_a_provider_has_taken_away(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "info", 'rename-command INFO ""') as server:
        done = command(server.url, "doctor")
        assert "INFO is refused" in done.stdout
        assert "dead letters" in done.stdout
    with RedisProcess(tmp_path / "script", 'rename-command SCRIPT ""') as server:
        done = command(server.url, "doctor")
        assert done.returncode == 1
        assert "ragtide docs redis" in " ".join((done.stdout + done.stderr).split())
