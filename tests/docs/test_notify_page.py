"""The blocks of docs/live/notify.md do on a real Redis what the page says."""

import asyncio
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.conditions import until
from tests.support.doc_pages import blocks_of, page_text
from tests.support.metric_events import event
from tests.support.redis_cli import redis_cli
from tests.support.roles import running

from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.keys import Streams

pytestmark = pytest.mark.processes

PAGE = page_text("notify")
PYTHON = [block.code for block in blocks_of(PAGE) if block.language == "python"]
STREAM = Streams("ragtide", 0).alerts


class EnoughError(Exception):
    """Ends a loop of the page that would go on."""


def names_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "documentation", "exec"), names)
    return names


def add(redis: Any, *names: str) -> None:
    for name in names:
        redis.xadd(STREAM, {"data": alert(name, severity="page").encode()})


async def test_the_subscribers_of_the_page_print_alerts(
    redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    redis.xgroup_create(STREAM, "pager", id="0", mkstream=True)
    names = names_of(PYTHON[0])
    add(redis, "a")
    page = asyncio.create_task(names["page"]())
    await until(lambda: "firing shop Alert a." in capsys.readouterr().out)
    await end(page)

    def ends(*_: Any) -> None:
        raise EnoughError

    redis.xadd(STREAM, {"data": alert("b", pipeline="shop-de").encode()})
    names["print"] = ends
    with pytest.raises(EnoughError):
        await asyncio.to_thread(names["page_blocking"])
    assert redis.xpending(STREAM, "pager")["pending"] == 1, "the body of b raised"


async def test_the_commands_of_the_page_work(redis: Any, redis_url: str) -> None:
    add(redis, "a")
    (block,) = (block.code for block in blocks_of(PAGE) if block.code.startswith("redis-cli "))
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "redis-cli"
        reply = redis_cli(redis_url, *arguments)
        if arguments[0] == "XREADGROUP":
            assert "Alert a." in reply
    assert redis.xinfo_groups(STREAM) == []


def test_the_loop_of_redis_py_takes_alerts_once(redis: Any) -> None:
    add(redis, "a", "b")
    got: list[str] = []

    def handle(found: dict[str, Any]) -> None:
        if found["alert_id"] == "b" and "b" not in got:
            got.append("b")
            raise EnoughError
        got.append(found["alert_id"])

    follow = names_of(PYTHON[1])["follow"]
    with pytest.raises(EnoughError):
        follow(redis, handle)
    assert got == ["a", "b"]
    assert redis.xpending(STREAM, "oncall")["pending"] == 1, "b is not finished"


async def test_the_application_of_the_page_of_faststream_gets_alerts(redis: Any, redis_url: str) -> None:
    (block,) = (block.code for block in blocks_of(page_text("faststream")) if block.language == "python")
    add(redis, "a")
    got: list[str] = []
    app = names_of(block)["application"](redis_url, lambda found: got.append(found.alert_id))
    await app.start()
    try:
        await until(lambda: got == ["a"] and redis.xpending(STREAM, "my-team")["pending"] == 0)
    finally:
        await app.stop()


def test_new_estimates_come_as_the_aggregator_publishes_them(redis: Any, redis_url: str, tmp_path: Path) -> None:
    redis.xadd(Streams("ragtide", 0).metrics, {"data": event(1, {"trace.adherence": 0.5}).encode()})
    with running("aggregator", redis_url, tmp_path / "log", {"RAGTIDE_ESTIMATES_INTERVAL_S": "0.1"}):
        _, estimate = next(names_of(PYTHON[2])["new_estimates"](redis))
    assert (estimate.pipeline, estimate.segment, estimate.window) == ("shop", None, "all")
