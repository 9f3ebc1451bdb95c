"""The notifier on a real Redis and a real HTTP server: what arrives, in which order, and how often."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.conditions import until
from tests.support.receiver import Receiver, ScriptedAnswer, receiver
from tests.support.redis_processes import RedisProcess
from tests.support.told import drift
from tests.web.page.test_item import specimen

from ragtide_consumers.notify import session
from ragtide_consumers.notify.service import run_notifier
from ragtide_consumers.notify.session import NotifySession
from ragtide_consumers.notify.silences import Silence, acknowledge, add_silence, remove_silence
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import NOTIFY_GROUP, Streams, interaction_digest
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import Alert, DeadLetter, utc_now

pytestmark = pytest.mark.redis

STREAMS = Streams("ragtide", 0)


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


def settings_for(*urls: str, notify: Mapping[str, Any] | None = None, **changes: Any) -> Settings:
    destinations = [{"name": f"hook{n}", "kind": "webhook", "url": url} for n, url in enumerate(urls)]
    table = {"allow_private": True, "destinations": destinations, **(notify or {})}
    return Settings.model_validate({"notify": table, "lease_s": 1.0, **changes})


@asynccontextmanager
async def notifier(url: str, settings: Settings) -> AsyncIterator[ProcessTelemetry]:
    stop, process = asyncio.Event(), ProcessTelemetry()
    task = asyncio.create_task(run_notifier(settings, url, stop, process))
    try:
        yield process
    finally:
        stop.set()
        await task


def add(redis: Any, alert_id: str, status: str = "firing", **fields: Any) -> None:
    ended = {"resolved_at": utc_now()} if status == "resolved" else {}
    redis.xadd(STREAMS.alerts, {"data": alert(alert_id, status=status, **ended, **fields).encode()})


def ids(server: Receiver) -> list[str]:
    return [one.headers["webhook-id"] for one in server.received]


def count(process: ProcessTelemetry, outcome: str) -> float:
    labels = {"destination": "hook0", "outcome": outcome}
    return process.registry.get_sample_value("ragtide_notifications_total", labels) or 0.0


async def test_what_waited_before_the_first_start_is_told_unless_it_resolved(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    for n in range(250):
        add(redis, f"old{n}")
        add(redis, f"old{n}", "resolved")
    add(redis, "a")
    redis.xadd(STREAMS.alerts, {"data": b"no alert"})
    async with notifier(redis_url, settings_for(server.url)):
        await until(lambda: len(server.received) == 1)
        add(redis, "a", "resolved")
        await until(lambda: len(server.received) == 2)
    assert ids(server) == ["a:firing", "a:resolved"]
    assert Alert.model_validate(server.received[0].json["data"]).alert_id == "a"
    assert redis.xpending(STREAMS.alerts, NOTIFY_GROUP)["pending"] == 0
    assert set(redis.hgetall(STREAMS.outbox)) == {b"revision", b"position"}


async def test_whatever_an_operator_does_to_the_group_each_alert_is_sent_once(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    """The group is set back, removed and set forward, and then the stream is deleted."""
    sent = []

    async def arrives(alert_id: str) -> None:
        add(redis, alert_id)
        sent.append(f"{alert_id}:firing")
        await until(lambda: ids(server) == sent)

    async with notifier(redis_url, settings_for(server.url)):
        await arrives("a")
        redis.xgroup_setid(STREAMS.alerts, NOTIFY_GROUP, "0")
        await arrives("b")
        redis.xgroup_destroy(STREAMS.alerts, NOTIFY_GROUP)
        await arrives("c")
    add(redis, "d")
    redis.xgroup_setid(STREAMS.alerts, NOTIFY_GROUP, "$")
    sent.append("d:firing")
    async with notifier(redis_url, settings_for(server.url)):
        await until(lambda: ids(server) == sent)
        redis.delete(STREAMS.alerts)
        # The clock has gone back, too.
        redis.xadd(STREAMS.alerts, {"data": alert("e").encode()}, id="1-0")
        sent.append("e:firing")
        await until(lambda: ids(server) == sent)
        await arrives("f")


async def test_an_answer_that_comes_while_reading_fails_is_kept(
    redis: Any, redis_url: str, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is removed at the moment of the answer: the next session does not send the alert again."""
    send_due = NotifySession._send_due
    removed: list[int] = []

    async def both_at_once(self: NotifySession) -> None:
        await send_due(self)
        if self._sending and not removed:
            await asyncio.wait(self._sending)
            removed.append(redis.xgroup_destroy(STREAMS.alerts, NOTIFY_GROUP))
            await until(lambda: not any(name_of(task) == "_read" for task in asyncio.all_tasks()))

    def name_of(task: asyncio.Task[Any]) -> str:
        return getattr(task.get_coro(), "__name__", "")

    monkeypatch.setattr(NotifySession, "_send_due", both_at_once)
    async with notifier(redis_url, settings_for(server.url)):
        add(redis, "a")
        await until(lambda: removed)
        add(redis, "b")
        await until(lambda: "b:firing" in ids(server))
    assert ids(server) == ["a:firing", "b:firing"]


async def test_a_server_that_asks_to_wait_or_fails_gets_everything_once_and_in_order(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    server.answers = [ScriptedAnswer(429, headers={"retry-after": "1"}), ScriptedAnswer(500), ScriptedAnswer()]
    async with notifier(redis_url, settings_for(server.url)) as process:
        add(redis, "a")
        await until(lambda: len(server.received) == 1)
        add(redis, "a", "resolved")
        await until(lambda: len(server.received) == 4)
        await until(lambda: count(process, "sent") == 2)
    assert ids(server) == ["a:firing"] * 3 + ["a:resolved"]
    assert count(process, "failed") == 2


async def test_a_destination_that_hangs_delays_no_other(redis: Any, redis_url: str, server: Receiver) -> None:
    async with receiver() as hanging:
        hanging.usual = ScriptedAnswer(hangs=True)
        settings = settings_for(hanging.url, server.url, notify={"timeout_s": 3})
        async with notifier(redis_url, settings):
            add(redis, "a")
            await until(lambda: hanging.received)
            for n in range(20):
                add(redis, f"b{n}")
            await until(lambda: len(server.received) == 21)
            assert len(hanging.received) == 1
            hanging.released.set()


async def test_what_is_refused_becomes_a_dead_letter_and_an_alert_for_the_others(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    async with receiver() as other:
        server.answers = [ScriptedAnswer(410)]
        async with notifier(redis_url, settings_for(server.url, other.url)):
            add(redis, "a")
            await until(lambda: len(other.received) == 2)
            failing = Alert.model_validate(other.received[1].json["data"])
            assert (failing.kind, failing.rule) == ("stall", "notify-hook0")
            add(redis, "b")
            await until(lambda: len(other.received) == 4)
    assert ids(server) == ["a:firing", "b:firing"]
    assert sorted(ids(other)[2:]) == sorted(["b:firing", f"{failing.alert_id.replace('.', '')}:resolved"])
    ((_, fields),) = redis.xrange(STREAMS.dead_letters)
    letter = DeadLetter.decode(fields[b"data"])
    assert (letter.reason, letter.component) == ("undeliverable", "notify")
    assert "status 410" in letter.detail


async def test_people_get_one_message_about_the_alerts_of_a_pipeline_and_one_about_a_storm(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    channel = {"name": "team", "kind": "teams", "url": server.url}
    notify = {"destinations": [channel], "group_wait_s": 0.5, "storm_messages": 2}
    async with notifier(redis_url, settings_for(notify=notify)):
        for n in range(3):
            add(redis, f"a{n}")
        await until(lambda: len(server.received) == 1)
        for n in range(3):
            add(redis, f"a{n}", "resolved")
        await until(lambda: len(server.received) == 2)
        for n in range(6):
            add(redis, f"b{n}", pipeline=f"pipeline-{n}")
        await until(lambda: len(server.received) == 3)
    told = [one.body.decode() for one in server.received]
    assert all(f"Alert a{n}" in told[0] for n in range(3))
    assert "6 messages about 6 pipelines withheld" in told[2]


async def test_two_notifiers_send_once_and_the_second_takes_over(redis: Any, redis_url: str, server: Receiver) -> None:
    settings = settings_for(server.url)
    async with notifier(redis_url, settings):
        async with notifier(redis_url, settings):
            for n in range(20):
                add(redis, f"a{n}")
            await until(lambda: len(server.received) == 20)
        add(redis, "b")
        await until(lambda: len(server.received) == 21)
    assert sorted(ids(server)) == [*sorted(f"a{n}:firing" for n in range(20)), "b:firing"]


async def test_a_silence_withholds_until_it_is_removed_and_an_acknowledgement_stops_repetitions(
    redis: Any, async_redis: Any, redis_url: str, server: Receiver
) -> None:
    now = utc_now()
    silence = Silence(id="s1", pipeline="sh*", until=now.replace(year=now.year + 1), by="ann", created_at=now)
    await add_silence(async_redis, "ragtide", silence)
    async with notifier(redis_url, settings_for(server.url, notify={"repeat_s": 0.5})):
        add(redis, "a")
        add(redis, "b", pipeline="other")
        await until(lambda: len(server.received) >= 2)
        assert {one.split(":")[0] for one in ids(server)} == {"b"}
        await remove_silence(async_redis, "ragtide", "s1")
        await until(lambda: "a:firing" in ids(server))
        await until(lambda: "a:firing:1" in ids(server))
        await acknowledge(async_redis, "ragtide", "a", "ann")
        # Acknowledgements are read again every second; "b" shows that time passes.
        await until(lambda: _repeated_alone(ids(server), "b", 4))
        add(redis, "a", "resolved")
        await until(lambda: "a:resolved" in ids(server))


def _repeated_alone(told: list[str], name: str, times: int) -> bool:
    return len(told) >= times and all(one.startswith(name) for one in told[-times:])


@pytest.mark.processes
async def test_a_restart_of_redis_loses_nothing(tmp_path: Path, server: Receiver) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as process:
        async with notifier(process.url, settings_for(server.url)):
            with connect(process.url) as redis:
                add(redis, "a")
            await until(lambda: ids(server) == ["a:firing"])
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)
            with connect(process.url) as redis:
                add(redis, "a", "resolved")
            await until(lambda: "a:resolved" in ids(server))
    assert ids(server)[-1] == "a:resolved"
    assert len(server.received) <= 3


async def test_a_notifier_without_destinations_says_so(redis_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"notify\.destinations is empty"):
        await run_notifier(settings_for(), redis_url, asyncio.Event(), ProcessTelemetry())


async def test_questions_and_reasons_are_sent_only_to_a_destination_that_may_have_them(
    redis: Any, redis_url: str, server: Receiver
) -> None:
    kept = specimen("q-17")
    labelings = [
        labeling.model_copy(update={"reasons": {"trace.adherence": "Nothing says so;\nsee https://evil.example."}})
        for labeling in kept.labelings
    ]
    kept = kept.model_copy(update={"labelings": tuple(labelings)})
    redis.set(STREAMS.specimen(interaction_digest("shop", "q-17")), kept.to_stored())
    settings = settings_for(f"{server.url}/with", f"{server.url}/without")
    first, second = settings.notify.destinations
    both = (first.model_copy(update={"questions": True}), second)
    settings = settings.model_copy(update={"notify": settings.notify.model_copy(update={"destinations": both})})
    found = drift(labeler="local", labeler_version="1", worst_interaction_ids=("q-17", "gone"))
    redis.xadd(STREAMS.alerts, {"data": found.encode()})
    async with notifier(redis_url, settings):
        await until(lambda: len(server.received) == 2)
    texts = {one.path: one.json["text"] for one in server.received}
    assert "May I cancel? (0.500, q-17). The judge: Nothing says so; see https[:]//evil.example" in texts["/with"]
    assert "0.500, q-17" in texts["/without"]
    assert not any("Nothing says so" in str(one.json) for one in server.received if one.path == "/without")
    assert not any("May I cancel?" in str(one.json) for one in server.received if one.path == "/without")
    assert all("Worst answer: gone" in text for text in texts.values())


async def test_the_end_of_an_acknowledged_alert_names_the_person(
    redis: Any, redis_url: str, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "REFRESH_S", 0.0)
    async with notifier(redis_url, settings_for(server.url)):
        add(redis, "a")
        await until(lambda: len(server.received) == 1)
        async with connect_async(redis_url) as client:
            await acknowledge(client, "ragtide", "a", "ann")
        add(redis, "a", "resolved")
        await until(lambda: len(server.received) == 2)
    assert "acknowledged by ann" in server.received[1].json["text"]
