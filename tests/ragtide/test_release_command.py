"""`ragtide release`: the verdict on a release at the terminal, and as a gate of a rollout."""

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from pydantic import SecretStr
from tests.support.conditions import until
from tests.support.http_service import http_service
from tests.support.in_process import Done, run_command
from tests.support.redis_processes import free_port
from tests.support.stored_releases import store, watched_release
from tests.web.test_verdict import SHOP, TOKENS, V1_V2, seed

from ragtide.cli.running import VerdictLimits
from ragtide.cli.running.releases import question_of, watch_release, with_reader
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import McpSettings

OF_SHOP = ("--pipeline", "shop", "--from", "v1", "--to", "v2")
AT_ONCE = ("--until", "0s")


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)


async def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> Done:
    return await asyncio.to_thread(run_command, capsys, "release", *arguments)


@pytest.mark.parametrize(
    ("answers", "options", "code", "outcome"),
    [
        ({"fall": 0.3}, (), 4, "failures"),
        ({"n": 3_000}, (), 0, "tests"),
        ({"n": 20}, (), 5, "skipped"),
        ({"n": 20}, ("--undecided", "pass"), 0, "tests"),
        ({"n": 20}, ("--undecided", "fail"), 4, "failures"),
        ({"n": 100}, ("--metric", "adherence", "--margin", "0.3"), 0, "tests"),
    ],
)
async def test_the_exit_code_is_that_of_a_gate(
    answers: Any, options: Any, code: int, outcome: str, *, async_redis: Any, capsys: Any, tmp_path: Path
) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release(**answers))
    junit, summary = tmp_path / "release.xml", tmp_path / "release.md"
    files = ("--junit", str(junit), "--summary", str(summary))
    done = await ran(capsys, "watch", *OF_SHOP, *AT_ONCE, *options, *files)
    assert done.code == code, done
    record = watched_release(**answers).record().metrics[0]
    assert record.before is not None
    assert record.after is not None
    for text in (done.stdout, junit.read_text(), summary.read_text()):
        assert [f"{mean.estimate:.4g}" in text for mean in (record.before, record.after)] == [True, True]
    assert int(fromstring(junit.read_text()).attrib[outcome]) == 2


async def test_json_is_the_answer_of_the_service(
    async_redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Redis, over HTTP with a token, and in the answer itself; the traffic of now is all that may differ."""
    await seed(async_redis)
    await store(async_redis, watched_release(fall=0.3))
    monkeypatch.setenv("RAGTIDE_MCP_TOKEN", SHOP)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        _, answer = await service.get(V1_V2, SHOP)
        for url in ((), ("--url", service.url)):
            for words in (("watch", *OF_SHOP, *AT_ONCE), ("show", "--pipeline", "shop")):
                done = await ran(capsys, *words, *url, "--json")
                assert done.code == (4 if words[0] == "watch" else 0), done
                printed = json.loads(done.stdout)
                assert printed.keys() == answer.keys()
                assert steady(printed) == steady(answer)
                assert SHOP not in done.stdout + done.stderr
    assert (await ran(capsys, "--json")).stdout.count('"shop"') == 1


def steady(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what the time of reading changes."""
    metrics = [{**metric, "would_see": None} for metric in record["metrics"]]
    return {**record, "an_hour": None, "metrics": metrics}


async def test_mistakes_end_at_once(
    async_redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release(n=20))
    mistakes = (
        ((*OF_SHOP, "--pipeline", "shpo"), "did you mean 'shop'"),
        ((*OF_SHOP, "--metric", "trace.adherance"), "did you mean 'trace.adherence'"),
    )
    of_options = (
        ((*OF_SHOP, "--to", "v1"), "v1"),
        ((*OF_SHOP, "--until", "soon"), "--until"),
        ((*OF_SHOP, "--margin", "0"), "--margin"),
        ((*OF_SHOP, "--alpha", "0.9"), "--alpha"),
        ((*OF_SHOP, "--junit", "no/x.xml"), "no folder"),
    )
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        over_http = ("--url", service.url)
        done = await ran(capsys, "watch", *OF_SHOP, *over_http)
        assert (done.code, "RAGTIDE_MCP_TOKEN" in done.stderr) == (2, True), done
        monkeypatch.setenv("RAGTIDE_MCP_TOKEN", SHOP)
        for url, cases in (((), (*mistakes, *of_options)), (over_http, mistakes)):
            for options, words in cases:
                done = await ran(capsys, "watch", *options, *url)
                assert done.code == 2, done
                assert words in " ".join(done.stderr.split()), done


@pytest.mark.parametrize("over_http", [False, True])
async def test_a_version_that_comes_later_is_waited_for(
    async_redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str], over_http: bool
) -> None:
    await seed(async_redis)
    async with http_service(redis_url) as service:
        url = ("--url", service.url) if over_http else ()
        done = await ran(capsys, "watch", *OF_SHOP, *AT_ONCE, "--to", "v7", *url)
        assert (done.code, "v7" in done.stdout) == (5, True), done
        done = await ran(capsys, "watch", *OF_SHOP, *AT_ONCE, "--to", "v7", "--undecided", "pass", *url)
        assert done.code == 5  # nothing was measured, so nothing passes
        asked, lines = question_of("shop", ("v1", "v7"), VerdictLimits()), list[str]()
        watching = asyncio.create_task(watched(redis_url, asked, lines, service.url if over_http else None))
        await until(lambda: bool(lines))
        await store(async_redis, watched_release("v1", "v7", fall=0.3))
        assert (await watching).verdict == "worse"
        assert len(lines) == 2  # a line for each change, however often it looked


async def watched(redis_url: str, asked: Any, lines: list[str], url: str | None, token: str | None = None) -> Any:
    """Watch a release in a thread, as the command does."""
    mcp = McpSettings(token=None if token is None else SecretStr(token))
    settings = Settings(redis_url=redis_url, mcp=mcp)
    return await asyncio.to_thread(
        with_reader,
        settings,
        asked,
        url,
        lambda read: watch_release(read, asked, lines.append, until_s=300, every_s=0.02),
    )


async def test_a_service_that_goes_away_and_returns_ends_nothing(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    port, lines = free_port(), list[str]()
    asked = question_of("shop", ("v1", "v2"), VerdictLimits())
    serve = {"tokens": TOKENS, "port": port}
    watching = asyncio.create_task(watched(redis_url, asked, lines, f"http://127.0.0.1:{port}", SHOP))
    opened = watched_release(n=20)
    await store(async_redis, opened)
    await until(lambda: len(lines) == 1)
    assert "does not answer" in lines[0]
    async with http_service(redis_url, serve=serve):
        await until(lambda: len(lines) == 2)
    await until(lambda: len(lines) == 3)
    assert ("undecided" in lines[1], "does not answer" in lines[2]) == (True, True)
    async with http_service(redis_url, serve=serve):
        await until(lambda: len(lines) == 4)
        assert not watching.done()
        await store(async_redis, watched_release(fall=0.3))
        assert (await watching).verdict == "worse"
    assert SHOP not in "".join(lines)


async def test_releases_are_listed_with_both_numbers(
    async_redis: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert (await ran(capsys)).code == 0
    await seed(async_redis)
    worse = watched_release(fall=0.3)
    await store(async_redis, worse, watched_release("v2", "v3", n=20, pipeline="bank"))
    done = await ran(capsys)
    (row,) = worse.record().metrics
    assert row.before is not None
    assert row.after is not None
    assert {f"{row.before.estimate:.3g}", f"{row.after.estimate:.3g}"} <= set(done.stdout.split())
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert ("bank" in done.stdout, "bank" in (await ran(capsys, "--pipeline", "shop")).stdout) == (True, False)
    done = await ran(capsys, "show", "--pipeline", "shop")
    assert worse.record().sentence in " ".join(done.stdout.split())
    assert all(len(line) <= 80 for line in done.stdout.splitlines()[1:])
