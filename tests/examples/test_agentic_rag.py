"""The example of an agent: its tools are a real MCP server, and an alert names the tool that breaks."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.support.roles import environment

from ragtide import RagInteraction, load

EXAMPLE = Path(__file__).parents[2] / "examples" / "agentic_rag"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def agent() -> Iterator[ModuleType]:
    """`agent` of the example, imported as a script beside it would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        yield import_module("agent")
        sys.modules.pop("agent", None)


async def runs_of(agent: ModuleType, *questions: str, options: tuple[str, ...] = ()) -> list[RagInteraction]:
    """Ask the agent, whose tools are in a process of their own, and read the runs as ragtide does."""
    program = StdioServerParameters(command=sys.executable, args=[str(EXAMPLE / "server.py"), *options])
    async with Client(program) as tools:
        rows: list[dict[str, Any]] = [
            {"pipeline": "library", "messages": await agent.answered(question, tools)} for question in questions
        ]
    return list(load(rows))


def calls_of(run: RagInteraction) -> list[tuple[int | None, str, str | None]]:
    """Return round, tool and error of each call."""
    return [(call.round, call.name, call.error) for call in run.calls]


async def test_the_agent_asks_in_rounds_and_ragtide_reads_its_calls_and_documents(agent: ModuleType) -> None:
    due, reminded, told, unknown = await runs_of(
        agent,
        "When are loans 3 and 4 due?",
        "Please remind the reader of loan 5.",
        "who talks for simba in the lion king",
        "zebra xylophones?",
    )
    assert calls_of(due) == [(1, "find_loan", None)] * 2
    assert [document.text.partition(" is ")[0] for document in due.documents] == ["Loan 3", "Loan 4"]
    assert calls_of(reminded) == [(1, "find_loan", None), (2, "send_reminder", None)]
    assert [call.returned for call in reminded.calls] == [1, None], "a reminder is no evidence"
    assert calls_of(told) == [(1, "search_articles", None)]
    assert "Simba" in told.response
    assert told.response in " ".join(document.text for document in told.documents)
    assert calls_of(unknown) == [(1, "search_articles", None), (2, "search_articles", None)]


@pytest.mark.parametrize(("fault", "error", "returned"), [("timeout", "tool_error", None), ("nothing", None, 0)])
async def test_a_fault_breaks_the_search_and_no_other_tool(
    agent: ModuleType, fault: str, error: str | None, returned: int | None
) -> None:
    searched, due = await runs_of(
        agent, "who talks for simba in the lion king", "When are loans 3 and 4 due?", options=(fault,)
    )
    assert [(call.error, call.returned) for call in searched.calls] == [(error, returned)] * 2
    assert searched.documents == ()
    assert calls_of(due) == [(1, "find_loan", None)] * 2


@pytest.mark.heavy
def test_the_alert_names_the_tool_that_breaks(redis_url: str) -> None:
    """The script as a user starts it, with the roles that it starts."""
    done = subprocess.run(
        [sys.executable, EXAMPLE / "main.py"], env=environment(redis_url), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "firing] tool.search_articles.failed of library rose from 0" in done.stdout
    assert done.stdout.endswith("What moved: search_articles\n")
    explained = re.sub(r"\s+", " ", README.split('explained: "')[1].split('"')[0])
    assert explained in done.stdout


def test_two_commands_lead_to_the_alert() -> None:
    commands = re.findall(r"^    (\S.*)$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] == ".venv/bin/python examples/agentic_rag/main.py"
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLE.glob("*.py")) <= 250
