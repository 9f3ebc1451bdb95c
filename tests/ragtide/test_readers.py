"""Commands that read streams anybody may write to: what cannot be read is skipped, counted and told."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.conditions import wait_until
from tests.support.in_process import run_command
from tests.support.redis_processes import RedisProcess
from tests.support.roles import environment
from tests.support.told import drift
from tests.web.page.test_item import keep, specimen

from ragtide.cli.printing import SafeConsole
from ragtide.cli.running.watching import LiveWatch, Screen
from ragtide_consumers.notify.silences import Silence, acknowledge, add_silence
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.workspaces import list_workspaces
from ragtide_schemas import DeadLetter, Reason, Workspace, utc_now
from ragtide_schemas.limits import ENTRY_MAX_BYTES

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)


@pytest.fixture(autouse=True)
def _this_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")


def letter(entry_id: str, **fields: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "stream": STREAMS.interactions,
        "entry_id": entry_id,
        "reason": Reason.INVALID,
        "detail": f"detail of {entry_id}",
        "payload": json.dumps({"pipeline": "p", "question": "q", "response": "r", "documents": [{"text": "t"}]}),
        "failed_at": utc_now(),
        "component": "w",
    }
    return DeadLetter(**given | fields)


def foreign_alerts(redis: Any) -> None:
    redis.xadd(STREAMS.alerts, {"data": alert("good").encode()})
    redis.xadd(STREAMS.alerts, {"data": '{"alert_id":"a"}'})
    redis.xadd(STREAMS.alerts, {"else": "x"})


def test_alerts_shows_the_readable_ones_and_counts_the_others(redis: Any, capsys: pytest.CaptureFixture[str]) -> None:
    foreign_alerts(redis)
    done = run_command(capsys, "alerts", "--json")
    assert [json.loads(line)["alert_id"] for line in done.stdout.splitlines()] == ["good"]
    assert "2 alerts cannot be read and are skipped; the first is" in done.stderr
    assert done.code == 0


async def _act(redis_url: str, alert_id: str, silence: Silence) -> None:
    async with connect_async(redis_url) as client:
        await keep(client, specimen("i-1"))
        await acknowledge(client, "ragtide", alert_id, "ann")
        await add_silence(client, "ragtide", silence)


def test_alerts_show_what_people_did_and_the_questions_of_worst_answers(
    redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fell = drift(labeler="local", labeler_version="1", worst_interaction_ids=("i-1",))
    redis.xadd(STREAMS.alerts, {"data": fell.encode()})
    until = utc_now() + timedelta(hours=1)
    asyncio.run(_act(redis_url, fell.alert_id, Silence(id="s", until=until, by="bob", created_at=utc_now())))
    (line,) = run_command(capsys, "alerts", "--json").stdout.splitlines()
    assert json.loads(line)["acknowledged_by"] == "ann"
    assert datetime.fromisoformat(json.loads(line)["silenced_until"]) == until
    shown = run_command(capsys, "alerts", "--firing").stdout
    assert "FIRING, acknowledged, silenced" in shown
    assert "acknowledged by ann;" in shown
    assert "May I cancel?" in shown


def test_watch_shows_the_readable_alerts_and_counts_the_others(redis: Any, capsys: pytest.CaptureFixture[str]) -> None:
    foreign_alerts(redis)
    done = run_command(capsys, "watch", "--once")
    assert "2 alerts cannot be read" in done.stdout


def test_a_dead_letter_of_which_only_the_beginning_was_kept_is_shown_and_not_retried(
    redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = b"x" * (ENTRY_MAX_BYTES + 1)
    cut = DeadLetter.of(
        payload,
        stream=STREAMS.interactions,
        entry_id="1-1",
        reason=Reason.TOO_LARGE,
        detail="too " + "large " * 100_000,
        component="w",
    )
    entry_id = redis.xadd(STREAMS.dead_letters, {"data": cut.encode()}).decode()
    done = run_command(capsys, "dead-letters")
    assert entry_id in done.stdout
    assert len(done.stdout) < 4000
    assert "xxx" not in done.stdout
    done = run_command(capsys, "dead-letters", "--json")
    assert json.loads(done.stdout)["size_bytes"] == len(payload)
    done = run_command(capsys, "dead-letters", "retry", entry_id)
    assert "only the beginning of its 4,194,305 bytes is stored: publish a smaller interaction" in done.stderr
    assert "0 published again" in done.stderr
    assert (redis.xlen(STREAMS.dead_letters), redis.xlen(STREAMS.interactions)) == (1, 0)


def test_dead_letters_shows_and_retries_the_readable_ones(redis: Any, capsys: pytest.CaptureFixture[str]) -> None:
    redis.xadd(STREAMS.dead_letters, {"data": "junk"})
    redis.xadd(STREAMS.dead_letters, {"data": letter("1-1").encode()})
    redis.xadd(STREAMS.dead_letters, {"data": letter("99999999999999999-0").encode()})
    redis.xadd(STREAMS.dead_letters, {"data": letter("1-2", payload="é", payload_encoding="base64").encode()})
    done = run_command(capsys, "dead-letters", "--json")
    assert [json.loads(line)["entry_id"] for line in done.stdout.splitlines()] == ["1-1", "99999999999999999-0", "1-2"]
    assert "1 dead letter cannot be read and is skipped" in done.stderr
    done = run_command(capsys, "dead-letters", "retry", "--all")
    assert "2 published again" in done.stderr
    assert "2 dead letters cannot be read and are skipped" in done.stderr
    assert redis.xlen(STREAMS.interactions) == 2
    assert redis.xlen(STREAMS.dead_letters) == 2


def test_runs_shows_the_readable_ones_and_removes_any(
    redis: Any, async_redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    del async_redis
    redis.hset(STREAMS.workspaces, "good", Workspace(run="good", kind="replay", source="s").encode())
    redis.hset(STREAMS.workspaces, "bad", '{"x":1}')
    redis.hset(STREAMS.workspaces, "other", Workspace(run="good", kind="replay", source="s").encode())
    redis.hset(STREAMS.workspaces, "*", "junk")
    redis.set("ragtide.run.bad:{0}:checkpoint", "x")
    redis.set("ragtide.run.good:{0}:checkpoint", "x")
    done = run_command(capsys, "workspaces", "--json")
    assert [info["run"] for info in json.loads(done.stdout)] == ["good"]
    assert "3 workspaces cannot be read and are skipped" in done.stderr
    done = run_command(capsys, "alerts", "--workspace", "bad")
    assert done.code == 1
    assert "workspace 'bad' cannot be read" in done.stderr
    assert "ragtide replay workspaces remove bad" in done.stderr
    done = run_command(capsys, "alerts", "--workspace", "nowhere")
    assert "There are: good" in done.stderr
    assert run_command(capsys, "workspaces", "remove", "bad", "*").code == 0
    assert not redis.exists("ragtide.run.bad:{0}:checkpoint")
    # The name `*` is no pattern.
    assert redis.exists("ragtide.run.good:{0}:checkpoint")
    assert set(redis.hkeys(STREAMS.workspaces)) == {b"good", b"other"}


async def test_a_run_under_another_name_is_not_listed(async_redis: Any) -> None:
    await async_redis.hset(STREAMS.workspaces, "a", Workspace(run="b", kind="replay", source="s").encode())
    assert await list_workspaces(async_redis, load_settings()) == []


def test_alerts_follow_survives_a_restart_of_redis(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        printed = tmp_path / "printed"
        with printed.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ragtide", "alerts", "--follow", "--json"],
                env=environment(server.url),
                stdout=file,
                stderr=subprocess.DEVNULL,
            )

        def seen() -> list[str]:
            return [json.loads(line)["alert_id"] for line in printed.read_text().splitlines()]

        try:
            server.client.xadd(STREAMS.alerts, {"data": alert("a").encode()})
            wait_until(lambda: seen() == ["a"])
            server.kill()
            server.start()
            server.client.xadd(STREAMS.alerts, {"data": '{"alert_id":"a"}'})
            server.client.xadd(STREAMS.alerts, {"data": alert("b").encode()})
            wait_until(lambda: seen() == ["a", "b"])
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


async def test_watch_survives_a_restart_of_redis(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        async with connect_async(server.url) as client:
            drawn = StringIO()
            screen = Screen(client, load_settings(redis_url=server.url))
            console = SafeConsole(file=drawn, width=200, force_terminal=True)
            watching = asyncio.create_task(LiveWatch(console, screen, segments=False).run(0.05))

            async def until(words: str) -> None:
                place = drawn.tell()
                await asyncio.to_thread(wait_until, lambda: words in drawn.getvalue()[place:] or watching.done(), 60)
                assert not watching.done()

            await until("scored")
            await asyncio.to_thread(server.kill)
            await until("Redis does not answer")
            await asyncio.to_thread(server.start)
            await until("scored")
            await end(watching)
