"""`ragtide notify` and `ragtide up` as processes: killed between answer and mark, and with a server that is away."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from redis import RedisError
from tests.support.alerts import alert
from tests.support.conditions import until, wait_until
from tests.support.receiver import Receiver, ScriptedAnswer, receiver
from tests.support.redis_processes import cluster
from tests.support.roles import STREAMS, begin, command, interactions, kill, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import Alert

pytestmark = pytest.mark.processes


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


def environment(*servers: Receiver) -> dict[str, str]:
    destinations = [{"name": f"hook{n}", "kind": "webhook", "url": one.url} for n, one in enumerate(servers)]
    return {"RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true", "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps(destinations)}


def ids(server: Receiver) -> list[str]:
    return [one.headers["webhook-id"] for one in server.received]


async def test_a_notifier_killed_between_answer_and_mark_tells_at_most_twice(
    redis: Any, redis_url: str, server: Receiver, tmp_path: Path
) -> None:
    server.answers = [ScriptedAnswer(hangs=True)]
    redis.xadd(STREAMS.alerts, {"data": alert("a").encode()})
    first = begin(redis_url, tmp_path / "one.log", "notify", extra=environment(server))
    try:
        # The server has the message, and the process does not know it.
        await until(lambda: len(server.received) == 1)
    finally:
        kill(first)
    second = begin(redis_url, tmp_path / "two.log", "notify", extra=environment(server))
    try:
        await until(lambda: len(server.received) == 2)
        resolved = alert("a").model_copy(update={"status": "resolved", "resolved_at": alert("a").fired_at})
        redis.xadd(STREAMS.alerts, {"data": resolved.encode()})
        await until(lambda: len(server.received) == 3)
    finally:
        kill(second)
    assert ids(server) == ["a:firing", "a:firing", "a:resolved"]


def test_a_person_silences_acknowledges_and_tests(redis: Any, redis_url: str) -> None:
    redis.xadd(STREAMS.alerts, {"data": alert("a").encode()})
    added = command(redis_url, "silence", "add", "--pipeline", "sh*", "--for", "30m", "--by", "ann", "--reason", "why")
    assert (added.returncode, len(added.stdout.strip())) == (0, 8), added.stderr
    (listed,) = json.loads(command(redis_url, "silence", "--json").stdout)
    assert (listed["id"], listed["pipeline"], listed["by"]) == (added.stdout.strip(), "sh*", "ann")
    assert "why" in command(redis_url, "silence").stdout
    assert command(redis_url, "silence", "remove", listed["id"]).returncode == 0
    again = command(redis_url, "silence", "remove", listed["id"])
    assert (again.returncode, f"there is no silence {listed['id']}" in again.stderr) == (2, True)
    assert command(redis_url, "silence", "add", "--for", "soon").returncode == 2
    assert command(redis_url, "ack", "a", "--by", "ann").returncode == 0
    assert set(redis.hgetall(STREAMS.acknowledged)) == {b"a"}
    assert "no firing alert" in command(redis_url, "ack", "b").stderr


async def test_a_destination_is_tested_without_redis(server: Receiver) -> None:
    def test(*options: str) -> Any:
        return command("redis://127.0.0.1:1/0", "notify", "test", *options, extra=environment(server))

    dry = await asyncio.to_thread(test, "hook0", "--dry-run")
    assert (dry.returncode, server.received) == (0, [])
    assert json.loads(dry.stdout)["body"]["type"] == "io.ragtide.alert.test"
    done = await asyncio.to_thread(test)
    assert (done.returncode, done.stdout) == (0, "hook0 (webhook): accepted\n")
    server.answers = [ScriptedAnswer(403)]
    refused = await asyncio.to_thread(test, "--json")
    assert (refused.returncode, json.loads(refused.stdout)[0]["ok"]) == (1, False)
    assert "did you mean 'hook0'" in (await asyncio.to_thread(test, "hok0")).stderr


def test_a_dry_run_prints_the_requests_for_the_alerts_that_fire(redis: Any, redis_url: str) -> None:
    for one in (alert("a"), alert("b"), alert("c", pipeline="other")):
        redis.xadd(STREAMS.alerts, {"data": one.encode()})
    places = [
        {"name": "hook", "kind": "webhook", "url": "https://example.com/secret", "match": {"pipeline": "shop"}},
        {"name": "team", "kind": "teams", "url": "https://example.com/secret"},
    ]
    extra = {"RAGTIDE_NOTIFY_DESTINATIONS": json.dumps(places)}
    done = command(redis_url, "notify", "--dry-run", extra=extra)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4), done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert not redis.exists(STREAMS.outbox)


@pytest.mark.heavy
async def test_up_tells_a_webhook_of_an_alert_while_the_server_is_away_at_first(
    redis: Any, redis_url: str, server: Receiver, tmp_path: Path
) -> None:
    rule = {"name": "floor", "kind": "threshold", "metric": "trace.adherence", "target": 0.99, "severity": "page"}
    extra = {"RAGTIDE_ALERTS": json.dumps([{**rule, "min_effect": 0.0, "run_length": 100}]), **environment(server)}
    server.usual = ScriptedAnswer(503)
    with running("up", redis_url, tmp_path / "up.log", extra):
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(interactions(400))
        await until(lambda: len(server.received) >= 3)
        assert len(set(ids(server))) == 1
        server.usual = ScriptedAnswer()
        n = len(server.received)
        await until(lambda: len(server.received) > n)
        told = Alert.model_validate(server.received[-1].json["data"])
        assert (told.rule, told.severity, told.status) == ("floor", "page", "firing")
        await until(lambda: redis.hlen(STREAMS.outbox) > 1)


@pytest.mark.heavy
async def test_fifty_kills_between_answer_and_mark_lose_nothing_and_repeat_only_known_keys(
    redis: Any, redis_url: str, server: Receiver, tmp_path: Path
) -> None:
    names, resolved, random, log = [f"a{n}" for n in range(50)], set[str](), Random(7), tmp_path / "notify.log"
    fired = {name: alert(name, pipeline=f"p{n % 7}") for n, name in enumerate(names)}
    for name in names:
        # A new alert, the end of an older one that was told, and a server in trouble in between.
        redis.xadd(STREAMS.alerts, {"data": fired[name].encode()})
        _resolve(redis, fired, sorted(_told_to_fire(server) - resolved)[:1], resolved)
        trouble = [ScriptedAnswer(random.choice((200, 500, 429)), headers={"retry-after": "0"}) for _ in range(2)]
        server.answers = [*trouble[: random.randrange(3)], ScriptedAnswer(hangs=True)]
        process = begin(redis_url, log, "notify", extra=environment(server))
        try:
            # The server has a message, and the process does not know it.
            await until(lambda: not server.answers)
        finally:
            kill(process)
    last = begin(redis_url, log, "notify", extra=environment(server))
    try:
        await until(lambda: _told_to_fire(server) == set(names))
        _resolve(redis, fired, sorted(set(names) - resolved), resolved)
        await until(lambda: len(set(ids(server))) == 2 * len(names))
    finally:
        kill(last)
    first = {key: ids(server).index(key) for key in set(ids(server))}
    assert set(first) == {f"{name}:{status}" for name in names for status in ("firing", "resolved")}
    assert all(first[f"{name}:firing"] < first[f"{name}:resolved"] for name in names)


@pytest.mark.heavy
async def test_on_a_cluster_a_master_that_dies_costs_no_message(server: Receiver, tmp_path: Path) -> None:
    layout, names = Layout("ragtide", 4), [f"a{n}" for n in range(24)]
    fired = {name: alert(name, pipeline=f"p{n}") for n, name in enumerate(names)}
    resolved = {
        name: one.model_copy(update={"status": "resolved", "resolved_at": one.fired_at}) for name, one in fired.items()
    }
    with cluster(tmp_path / "cluster") as nodes, connect(nodes.url) as redis:

        def write(alerts: list[Alert]) -> None:
            for one in alerts:
                wait_until(lambda one=one: _written(redis, layout.all_of(one.pipeline)[0].alerts, one))  # type: ignore[misc]

        extra = {"RAGTIDE_PARTITIONS": "4", **environment(server)}
        with running("notify", nodes.url, tmp_path / "notify.log", extra):
            write(list(fired.values())[:12])
            await until(lambda: _told_to_fire(server) >= set(names[:12]))
            # It dies with its replica up to date: everything acknowledged is there.
            master = nodes.master_of(int(redis.keyslot(layout.all()[0].alerts)))
            write([*list(fired.values())[12:], *list(resolved.values())[:6]])
            await asyncio.to_thread(wait_until, lambda: nodes.replicated(master))
            master.kill()
            await until(lambda: _told_to_fire(server) == set(names))
            await asyncio.to_thread(write, list(resolved.values())[6:])
            await until(lambda: len(set(ids(server))) == 2 * len(names))
    first = {key: ids(server).index(key) for key in set(ids(server))}
    assert set(first) == {f"{name}:{status}" for name in names for status in ("firing", "resolved")}
    assert all(first[f"{name}:firing"] < first[f"{name}:resolved"] for name in names)


def _written(redis: Any, stream: str, one: Alert) -> bool:
    try:
        return bool(redis.xadd(stream, {"data": one.encode()}))
    except RedisError:  # it is choosing another master
        return False


def _told_to_fire(server: Receiver) -> set[str]:
    return {one.removesuffix(":firing") for one in ids(server) if one.endswith(":firing")}


def _resolve(redis: Any, fired: dict[str, Alert], names: list[str], resolved: set[str]) -> None:
    for name in names:
        one = fired[name].model_copy(update={"status": "resolved", "resolved_at": fired[name].fired_at})
        redis.xadd(STREAMS.alerts, {"data": one.encode()})
        resolved.add(name)
