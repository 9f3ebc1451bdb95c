import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import command, interactions, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.eviction import check_eviction

pytestmark = pytest.mark.processes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path / "redis") as process:
        yield process


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("allkeys-lru", "streams, checkpoints and leases"),
        ("allkeys-random", "streams, checkpoints and leases"),
        ("volatile-lru", "leases and known interaction ids"),
        ("volatile-ttl", "leases and known interaction ids"),
    ],
)
@pytest.mark.parametrize("maxmemory", ["0", "1gb"])
async def test_a_policy_that_may_drop_data_is_an_error(
    server: RedisProcess, policy: str, words: str, maxmemory: str
) -> None:
    server.client.config_set("maxmemory-policy", policy)
    server.client.config_set("maxmemory", maxmemory)
    with capture_logs() as logs:
        async with connect_async(server.url) as redis:
            await check_eviction(redis)
    assert [(line["log_level"], line["policy"], line["may_drop"]) for line in logs] == [("error", policy, words)]
    assert logs[0]["advice"] == "set maxmemory-policy noeviction"


async def test_noeviction_says_nothing(server: RedisProcess) -> None:
    with capture_logs() as logs:
        async with connect_async(server.url) as redis:
            await check_eviction(redis)
    assert logs == []


async def test_a_redis_that_does_not_tell_its_policy_is_one_line_of_information(server: RedisProcess) -> None:
    server.client.execute_command("ACL SETUSER", "r", "on", ">secret", "~*", "+@all", "-info")
    with capture_logs() as logs:
        async with connect_async(server.url.replace("//", "//r:secret@")) as redis:
            await check_eviction(redis)
    assert [line["log_level"] for line in logs] == ["info"]
    assert "make sure it is noeviction" in logs[0]["advice"]


@pytest.mark.parametrize("role", ["worker", "aggregator", "recorder", "up"])
def test_every_role_says_so_when_it_starts(server: RedisProcess, tmp_path: Path, role: str) -> None:
    server.client.config_set("maxmemory-policy", "allkeys-lru")
    log = tmp_path / "role.log"
    extra: dict[str, Any] = {"RAGTIDE_RECORDER_URL": str(tmp_path / "recording")}
    with running(role, server.url, log, extra):
        wait_until(lambda: b"may drop data" in log.read_bytes())
    line = next(line for line in log.read_text().splitlines() if "may drop data" in line)
    assert '"level": "error"' in line


def test_evicted_keys_page_are_counted_and_keep_doctor_red(server: RedisProcess, tmp_path: Path) -> None:
    client, log = server.client, tmp_path / "role.log"
    client.config_set("maxmemory-policy", "volatile-random")
    with running("up", server.url, log):
        with InteractionProducer(server.url) as producer:
            producer.publish_many(interactions(5))
        wait_until(lambda: client.hexists("ragtide:{0}:checkpoint", "health:evicted"))
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) + 3_000_000)
        filling = client.pipeline(transaction=False)  # another client of the same Redis fills it
        for number in range(5000):
            filling.set(f"other:{number}", "x" * 2000, ex=3600)
        filling.execute()
        assert client.info("stats")["evicted_keys"] > 100
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "0")

        def alerts() -> list[dict[str, Any]]:
            done = command(server.url, "alerts", "--json")
            return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

        wait_until(lambda: [alert for alert in alerts() if alert["rule"] == "stall-evicted"])
        assert {alert["severity"] for alert in alerts() if alert["rule"] == "stall-evicted"} == {"page"}
        found = command(server.url, "doctor", "--json")
        assert found.returncode == 1
        assert "keys were evicted" in found.stdout
        client.config_resetstat()
        assert "keys were evicted" not in command(server.url, "doctor", "--json").stdout
