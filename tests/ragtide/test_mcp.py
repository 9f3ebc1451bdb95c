"""`ragtide mcp`: the SDK's own client starts it and reads a real `ragtide serve` through its tools."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters
from tests.consumers.specimens.test_keeping import worked
from tests.end_to_end.test_serve import port_in
from tests.support.doc_pages import blocks_of, page_text
from tests.support.roles import running
from tests.support.stored_releases import store, watched_release
from tests.support.worse_answers import EVENTS, RULE, worse_answers
from tests.web.page.test_item import METRIC
from tests.web.test_details import OPERATOR, READER, SECRET, TOKENS
from tests.web.test_details import seed as seed_details

from ragtide import LocalLabeler
from ragtide.mcp_server.serving import ANSWER_CHARS, answered, service_of
from ragtide.testing import interaction
from ragtide_offline.replay.plan import open_recording
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import selection
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.service_client import ServiceClient
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import McpSettings
from ragtide_runtime.stored_criteria import StoredCriterion, store_criterion
from ragtide_schemas import utc_now
from ragtide_schemas.criterion import Criterion

pytestmark = pytest.mark.processes

SHORT = Criterion(name="short", question="Is the response short?", scale="yes_no")

CALLS: dict[str, dict[str, Any]] = {
    "fleet": {"last": "all"},
    "alerts": {"firing": True},
    "alert": {"alert_id": "A-1"},
    "estimate": {"pipeline": "shop", "metric": METRIC, "last": "all"},
    "verdict": {"pipeline": "shop"},
    "explain_metric": {"metric": "adherence", "pipeline": "shop"},
    "items": {"list": "worst", "pipeline": "shop", "metric": METRIC},
    "item": {"interaction_id": "i-1"},
    "why_not_scored": {"interaction_id": "i-9"},
}
"""A call of every tool that reads the service."""


async def seed(redis: Any) -> None:
    """What the tools ask about."""
    await seed_details(redis)
    await store(redis, watched_release(fall=0.3))


class Called(NamedTuple):
    """The answer to a call."""

    failed: bool
    text: str
    content: Any


class Session:
    """A client of a running `ragtide mcp`."""

    def __init__(self, client: Client, log: Path) -> None:
        self.client = client
        self.log = log

    async def call(self, tool: str, **arguments: Any) -> Called:
        found = await self.client.call_tool(tool, arguments)
        (block,) = found.content
        assert block.type == "text"
        if not found.is_error:
            assert json.loads(block.text) == found.structured_content
        return Called(found.is_error, block.text, found.structured_content)


@asynccontextmanager
async def mcp_session(
    tmp_path: Path, *options: str, environment: Mapping[str, str] | None = None, mode: Any = "auto"
) -> AsyncIterator[Session]:
    """Start `ragtide mcp` as a program with a model does, and speak with it over its standard input and output."""
    log = tmp_path / "mcp.log"
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "ragtide", "mcp", *options],
        env={"RAGTIDE_DATA_DIR": str(tmp_path / "data"), **(environment or {})},
        cwd=tmp_path,
    )
    with log.open("w") as errors:
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(program, errlog=errors), mode=mode) as client:
            yield Session(client, log)


@asynccontextmanager
async def served(redis_url: str, tmp_path: Path, **more: str) -> AsyncIterator[str]:
    """Run `ragtide serve` as a process, and yield its address."""
    log = tmp_path / "serve.log"
    extra = {"RAGTIDE_SERVE_PORT": "0", "RAGTIDE_SERVE_TOKENS": json.dumps(TOKENS), **more}
    with running("serve", redis_url, log, extra):
        port = await asyncio.to_thread(port_in, log)
        yield f"http://127.0.0.1:{port}"


def token(value: str) -> dict[str, str]:
    return {"RAGTIDE_MCP_TOKEN": value}


def places_of(word: str, content: Any, place: str = "") -> Iterator[str]:
    """Yield the names of the fields whose text has a word."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from places_of(word, value, name)
    elif isinstance(content, list):
        for value in content:
            yield from places_of(word, value, place)
    elif word in str(content):
        yield place


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_answers_with_what_the_service_says(
    mode: str, async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await worked(async_redis, [interaction(1, interaction_id="i-5", pipeline="tea")], LocalLabeler())
    await seed(async_redis)
    await store_criterion(async_redis, "ragtide", StoredCriterion(criterion=SHORT, by="ann", at=utc_now()))
    async with (
        served(redis_url, tmp_path) as url,
        mcp_session(tmp_path, "--url", f"{url}/", environment=token(OPERATOR), mode=mode) as session,
    ):
        listed = (await session.client.list_tools()).tools
        assert [tool.name for tool in listed] == list(CALLS)
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in listed)
        assert all(tool.input_schema["additionalProperties"] is False for tool in listed)
        # A model reads all of this before its first question.
        assert len(json.dumps([tool.model_dump(mode="json", exclude_none=True) for tool in listed])) < 12_000
        found = {name: await session.call(name, **arguments) for name, arguments in CALLS.items()}
        assert {name: call.text for name, call in found.items() if call.failed} == {}
        answers = {name: call.content for name, call in found.items()}
        (shop,) = answers["fleet"]["pipelines"]
        assert (shop["pipeline"], shop["state"], shop["firing"]) == ("shop", "firing", [METRIC])
        (number,) = answers["estimate"]["numbers"]
        assert (number["estimate"], number["n"], number["range"]) == (0.55, 100, "all time")
        assert number["lower"] < 0.55 < number["upper"]
        assert shop["numbers"] == [number]
        (line,) = answers["alerts"]["alerts"]
        assert (line["alert_id"], line["state"]) == ("A-1", "firing")
        assert {fact["name"] for fact in answers["alert"]["facts"]} >= {"Cause", "Diagnosis", "How sure"}
        assert [item["interaction_id"] for item in answers["alert"]["worst"]] == ["i-1"]
        assert answers["verdict"]["verdict"] == "worse"
        assert "v2 is worse than v1" in answers["verdict"]["sentence"]
        assert "points" not in answers["verdict"]["metrics"][0]
        explained = answers["explain_metric"]
        assert explained["definition"]["metric"] == METRIC
        assert explained["definition"]["does_not_tell"]
        assert [each["metric"] for each in explained["numbers"]] == [METRIC]
        stored = (await session.call("explain_metric", metric="criteria.short")).content
        assert stored["definition"]["meaning"] == SHORT.question
        assert [item["interaction_id"] for item in answers["items"]["items"]] == ["i-1", "i-2"]
        assert answers["item"]["response"][0]["support"] == "supported"
        assert answers["why_not_scored"]["outcome"] == "dead letter"
        scored = (await session.call("why_not_scored", interaction_id="i-5", pipeline="tea")).content
        assert scored["outcome"].startswith("scored")


async def test_texts_of_users_are_bounded_and_stand_in_marked_fields_only(
    async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await seed(async_redis)
    async with (
        served(redis_url, tmp_path) as url,
        mcp_session(tmp_path, "--url", url, environment=token(OPERATOR)) as session,
    ):
        places: set[str] = set()
        for name, arguments in CALLS.items():
            places |= set(places_of(SECRET, (await session.call(name, **arguments)).content))
        assert places == {"untrusted_text"}
        short = (await session.call("item", interaction_id="i-1", chars=100)).content
        assert sum(len(text) for text in re.findall(r'"untrusted_text": "([^"]*)"', json.dumps(short))) <= 120


async def test_a_token_that_may_not_see_texts_gets_none_through_any_tool(
    async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await seed(async_redis)
    async with served(redis_url, tmp_path) as url:
        async with mcp_session(tmp_path, "--url", url, environment=token(OPERATOR)) as session:
            seen = {name for name, given in CALLS.items() if SECRET in (await session.call(name, **given)).text}
        assert seen == {"alert", "items", "item", "why_not_scored"}
        async with mcp_session(tmp_path, "--url", url, environment=token(READER)) as session:
            for name, arguments in CALLS.items():
                found = await session.call(name, **arguments)
                assert not found.failed, found.text
                assert SECRET not in found.text, name
            assert "web.texts" in (await session.call("item", **CALLS["item"])).content["texts_hidden"]
        async with mcp_session(tmp_path, "--url", url, environment=token("bank-0123456789ab")) as session:
            assert (await session.call("fleet")).content == {"pipelines": [], "left_out": 0}
            assert "there is no alert" in (await session.call("alert", **CALLS["alert"])).text
            assert (await session.call("why_not_scored", **CALLS["why_not_scored"])).content["outcome"] == "unknown"


async def test_a_failure_is_one_sentence_without_the_token(async_redis: Any, redis_url: str, tmp_path: Path) -> None:
    secret = "wrong-0123456789ab"
    async with served(redis_url, tmp_path) as url:
        for environment, words in (
            (token(secret), "does not know the token: set RAGTIDE_MCP_TOKEN"),
            ({}, "needs a token: set RAGTIDE_MCP_TOKEN"),
            (token("writer-0123456789ab"), "may not read"),
        ):
            async with mcp_session(tmp_path, "--url", url, environment=environment) as session:
                found = await session.call("fleet")
                assert found.failed
                assert words in found.text
                assert "\n" not in found.text
                assert secret not in found.text + session.log.read_text()
        async with mcp_session(tmp_path, "--url", f"{url}/nowhere", environment=token(OPERATOR)) as session:
            assert "there is no /nowhere/v1/fleet" in (await session.call("fleet")).text
    async with mcp_session(tmp_path, environment={"RAGTIDE_MCP_ENDPOINT": url, **token(secret)}) as session:
        found = await session.call("alerts")
        assert found.failed
        assert found.text.startswith(f"ragtide serve does not answer at {url}: start it")
        assert session.log.read_text() == ""


async def test_wrong_arguments_are_named(async_redis: Any, redis_url: str, tmp_path: Path) -> None:
    await seed(async_redis)
    async with (
        served(redis_url, tmp_path) as url,
        mcp_session(tmp_path, "--url", url, environment=token(OPERATOR)) as session,
    ):
        for tool, arguments, words in (
            ("fleet", {"limit": 0}, "limit input should be greater than or equal to 1 (got 0)"),
            ("fleet", {"pipline": "shop"}, "there is no argument 'pipline'"),
            ("alert", {}, "alert_id"),
            ("estimate", {"pipeline": "shpo"}, "there is no pipeline 'shpo'; did you mean 'shop'?"),
            ("estimate", {"last": "yesterday"}, "last"),
            ("explain_metric", {"metric": "adherense"}, "did you mean 'adherence'?"),
            ("item", {"interaction_id": "i-77"}, "the item 'i-77' is not kept"),
            ("items", {"list": "worst"}, "give pipeline"),
            ("test_rule", {}, "there is no tool 'test_rule'"),
        ):
            found = await session.call(tool, **arguments)
            assert (found.failed, words in found.text) == (True, True), (tool, found.text)
            assert "\n" not in found.text
        assert session.log.read_text() == ""


async def test_a_rule_is_tested_on_the_recording_as_by_the_command(tmp_path: Path) -> None:
    worse_answers(tmp_path / "recording", utc_now())
    rule = json.loads(RULE.definition)
    expected = await RuleTest(
        Settings(), open_recording(str(tmp_path / "recording"), Settings()), selection(), (RULE,)
    ).run(asyncio.Event(), lambda _: None)
    async with mcp_session(tmp_path, "--recording", "recording") as session:
        found = (await session.call("test_rule", rule=rule)).content
        assert (found["n"], found["total"], found["complete"]) == (EVENTS, EVENTS, True)
        assert found["fired"] == 1
        (fired,) = found["alerts"]
        (alert,) = expected.alerts
        assert fired["fired_at"] == alert.fired_at.isoformat().replace("+00:00", "Z")
        strict = await session.call("test_rule", rule={**rule, "target": 0.01, "name": "low"})
        assert strict.failed
        assert "could never fire" in strict.text
        lenient = (await session.call("test_rule", rule={**rule, "target": 0.2, "name": "low"})).content
        assert lenient["fired"] == 0
        for arguments, words in (
            ({"rule": {**rule, "kind": "treshold"}}, "rule.kind"),
            ({"rule": rule, "since": "soon"}, "'soon' is not a time"),
            ({"rule": rule, "pipeline": "bank"}, "there is no pipeline 'bank'"),
        ):
            refused = await session.call("test_rule", **arguments)
            assert (refused.failed, words in refused.text) == (True, True), refused.text
    async with mcp_session(tmp_path, "--recording", "nowhere") as session:
        assert "holds no recording" in (await session.call("test_rule", rule=rule)).text


@pytest.mark.parametrize("url", ["ftp://here", "127.0.0.1:8080", "http://", "http://ann:secret@here"])
def test_an_address_that_cannot_be_used_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RAGTIDE_MCP_ENDPOINT") as refused:
        service_of(McpSettings(endpoint=url))
    assert "secret" not in str(refused.value)


async def test_the_settings_of_the_page_lead_to_the_pipelines_of_its_token(
    async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await seed(async_redis)
    page = page_text("mcp")
    (settings,) = (block.code for block in blocks_of(page) if block.language == "toml")
    (tmp_path / "ragtide.toml").write_text(settings, encoding="utf-8")
    blocks = [json.loads(block.code) for block in blocks_of(page) if block.tag == "mcp"]
    servers = [block.get("mcpServers", block.get("servers"))["ragtide"] for block in blocks]
    assert [server["command"] for server in servers] == ["ragtide", "ragtide"]
    with running("serve", redis_url, tmp_path / "serve.log", {"RAGTIDE_SERVE_PORT": "0"}):
        port = await asyncio.to_thread(port_in, tmp_path / "serve.log")
        (tmp_path / "ragtide.toml").unlink()
        for server in servers:
            (first, *options) = server["args"]
            assert first == "mcp"
            given = [*options[: options.index("--url")], "--url"] if "--url" in options else ["--url"]
            async with mcp_session(tmp_path, *given, f"http://127.0.0.1:{port}", environment=server["env"]) as session:
                (shop,) = (await session.call("fleet")).content["pipelines"]
                assert shop["pipeline"] == "shop"
                assert SECRET not in (await session.call("item", interaction_id="i-1")).text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            ModuleNotFoundError("No module named 'scipy'", name="scipy"),
            "needs scipy: pip install 'ragtide[mcp,service,recorder]'",
        ),
        (ZeroDivisionError("secret"), "is a fault of ragtide mcp: its log has the cause"),
    ],
)
async def test_a_tool_that_breaks_answers_with_a_sentence(error: Exception, words: str) -> None:
    async def broken(service: ServiceClient) -> dict[str, Any]:
        raise error

    async with service_of(McpSettings()) as service:
        found = await answered(broken, service, {})
    (block,) = found.content
    assert block.type == "text"
    assert (found.is_error, words in block.text, "secret" in block.text) == (True, True, False)


async def test_an_answer_that_is_too_long_is_refused_with_what_to_ask() -> None:
    async def endless(service: ServiceClient) -> dict[str, Any]:
        return {"pipelines": [{"pipeline": "x" * ANSWER_CHARS}], "left_out": 0}

    async with service_of(McpSettings()) as service:
        found = await answered(endless, service, {})
    assert found.is_error
    assert found.structured_content is None
    assert len(str(found.content)) < 1000


MISSING = """
import sys
sys.modules["mcp"] = None
sys.argv = ["ragtide", "mcp"]
from ragtide.cli import run
run()
"""

EVERYTHING_ELSE = """
import sys
import ragtide, ragtide.cli.app, ragtide.cli.running.roles
import ragtide_roles.serving, ragtide_roles.worker_processes, ragtide_web.server
print(sorted({"mcp", "mcp_types"} & set(sys.modules)))
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)


def test_without_the_extra_the_command_names_it() -> None:
    done = python(MISSING)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ragtide: ragtide mcp needs mcp: pip install 'ragtide[mcp]'\n"


def test_no_role_and_no_other_command_imports_the_sdk() -> None:
    done = python(EVERYTHING_ELSE)
    assert done.stdout == "[]\n", done.stderr
