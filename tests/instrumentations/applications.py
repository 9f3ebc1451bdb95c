"""Applications with the real libraries, traced into `ragtide up`: their answers become interactions with scores.

`make instrumentations` runs it. Each library has an environment of its own (`environments.py`).
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.end_to_end.test_serve import port_in
from tests.instrumentations.capture import ENVIRONMENT
from tests.instrumentations.environments import ENVIRONMENTS
from tests.instrumentations.model_server import ANSWER, ModelServer
from tests.support.conditions import wait_until
from tests.support.doc_pages import page_text, tagged_block
from tests.support.roles import STREAMS, running

from ragtide_schemas import DeadLetter, RagInteraction

HERE = Path(__file__).parent
TEXTS = {"The tower was built in 1889.", "It stands in Paris."}
QUESTION = "When was the tower built?"
SETTINGS = {"RAGTIDE_SERVE_PORT": "0", "RAGTIDE_INGEST_SETTLE_S": "0.5", "RAGTIDE_INGEST_QUIET_S": "60"}


@dataclass(frozen=True)
class Application:
    """An application and the questions that it asks."""

    environment: str
    source: str
    """File in `apps`, or block of a page such as `langchain: langchain`; several are joined by `+`."""
    argument: str = ""
    questions: tuple[str, ...] = (QUESTION,)
    history: tuple[str, ...] = ()
    """Questions of the earlier turns of the interaction that has some."""
    session: str | None = None
    variables: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset(TEXTS)
    nothing_found: str = ""
    """The question whose search finds nothing."""

    @property
    def code(self) -> str:
        """The source."""
        if self.source.endswith(".py"):
            return (HERE / "apps" / self.source).read_text("utf-8")
        page, _, blocks = self.source.partition(": ")
        return "\n".join(tagged_block(page_text(page), tag) for tag in blocks.split(" + "))


CHAIN = (
    QUESTION, "Who built the tower?", "Where is it?", "How high is it?", "How heavy is it?", "How deep is the river?",
)  # fmt: skip
AGENT = (QUESTION, "How old is the tower?")
LANGCHAIN = "langchain: langchain"
BACKEND = "langfuse-phoenix: "
LANGFUSE_KEYS = ("LANGFUSE_PUBLIC_KEY=pk-lf-1", "LANGFUSE_SECRET_KEY=sk-lf-1")
NOWHERE = "http://127.0.0.1:9"
"""Address at which no backend listens: the application goes on without it."""

APPLICATIONS = [
    Application("langchain", LANGCHAIN),
    Application("langchain", f"{LANGCHAIN} + langchain session", questions=(QUESTION, QUESTION), session="s-81"),
    Application("langchain", "langchain_chain.py", "openinference", CHAIN),
    Application("openllmetry", "langchain_chain.py", "openllmetry", CHAIN),
    Application("genai", "langchain_chain.py", "genai", CHAIN),
    Application("langchain", "langchain_agent.py", "openinference", AGENT, ("Is it open?",)),
    Application("openllmetry", "langchain_agent.py", "openllmetry", AGENT, ("Is it open?",)),
    Application("genai", "langchain_agent.py", "genai", AGENT, ("Is it open?",)),
    Application(
        "langfuse", "langchain_agent.py", "langfuse", AGENT, ("Is it open?",),
        variables=(*LANGFUSE_KEYS, "LANGFUSE_BASE_URL={serve}", "OTEL_SERVICE_NAME=helpdesk"),
    ),
    Application("langchain", "langgraph_steps.py", "openinference"),
    Application("openllmetry", "langgraph_steps.py", "openllmetry"),
    Application(
        "langfuse", "langgraph_steps.py", "langfuse",
        variables=(*LANGFUSE_KEYS, "LANGFUSE_BASE_URL={serve}", "OTEL_SERVICE_NAME=helpdesk"),
    ),
    Application("langfuse", f"{BACKEND}langfuse", variables=(*LANGFUSE_KEYS, f"LANGFUSE_BASE_URL={NOWHERE}")),
    Application(
        "langfuse", "langfuse_direct.py",
        variables=(*LANGFUSE_KEYS, "LANGFUSE_BASE_URL={serve}", "OTEL_SERVICE_NAME=helpdesk"),
    ),
    Application("langchain", "phoenix", variables=(f"PHOENIX_COLLECTOR_ENDPOINT={NOWHERE}",)),
    Application("llamaindex", "llamaindex: llamaindex"),
    Application(
        "llamaindex", "llamaindex_chat.py",
        questions=(QUESTION, "And where is it?", "Who built the tower?", AGENT[1]), history=(QUESTION,),
    ),
    Application(
        "haystack", "haystack: haystack",
        texts=frozenset({"The tower was built in 1889.", "The tower stands in Paris."}),
    ),
    Application("pydantic-ai", "pydantic_ai_agent.py"),
    Application("semantic-kernel", "semantic_kernel_agent.py", questions=AGENT, nothing_found=AGENT[1]),
    Application(
        "strands", "strands_agent.py", "default", (*AGENT, "Where is the tower?"), nothing_found=AGENT[1]
    ),
    Application("strands", "strands_agent.py", "latest", (*AGENT, "Where is the tower?"), nothing_found=AGENT[1]),
]  # fmt: skip


def code_of(application: Application) -> str:
    if application.source != "phoenix":
        return application.code
    # The block of Phoenix is a set-up: the application is that of LangChain without its own.
    chain = tagged_block(page_text("langchain"), "langchain")
    lines = [line for line in chain.split("\n") if not line.startswith(("otel.configure", "LangChainInstrumentor"))]
    return tagged_block(page_text("langfuse-phoenix"), "langchain phoenix") + "\n".join(lines)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def parameters() -> list[Any]:
    return [
        pytest.param(
            application,
            id=re.sub(
                r"[^\w.+-]", "", f"{application.environment}-{application.source}-{application.argument}".rstrip("-")
            ),
        )
        for application in APPLICATIONS
    ]


@pytest.mark.parametrize("application", parameters())
def test_answers_become_interactions_and_scores_appear(
    application: Application, redis: Any, redis_url: str, model: ModelServer, tmp_path: Path
) -> None:
    python, log, script = (
        ENVIRONMENTS.python_of(application.environment),
        tmp_path / "up.log",
        tmp_path / "application.py",
    )
    script.write_text(code_of(application), "utf-8")
    # Finished interactions are trimmed, unless a group still has to read them.
    redis.xgroup_create(STREAMS.interactions, "test", id="0", mkstream=True)
    with running("up", redis_url, log, SETTINGS):
        serve = f"http://127.0.0.1:{port_in(log)}"
        given = dict(variable.format(serve=serve).split("=", 1) for variable in application.variables)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))},
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "sk-test",
            "RAGTIDE_OTEL_ENDPOINT": serve,
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "10000",
            **given,
        }
        done = subprocess.run(
            [python, script, *([application.argument] if application.argument else [])],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        wait_until(lambda: _scored(serve) >= len(application.questions) or bool(_letters(redis)))
        assert not _letters(redis)
        assert _scored(serve) == len(application.questions)
    _check(application, _interactions(redis))


def _check(application: Application, found: list[RagInteraction]) -> None:
    assert sorted(interaction.question for interaction in found) == sorted(application.questions)
    assert {interaction.pipeline for interaction in found} == {"helpdesk"}
    for interaction in found:
        texts = {text for document in interaction.documents for text in document.text.split("\n\n")}
        assert texts == (set() if interaction.question == application.nothing_found else application.texts)
        assert interaction.response.strip() == ANSWER
        assert interaction.metadata["model"] == "gpt-4o-mini"
        assert interaction.usage is not None
        assert interaction.usage.prompt_tokens in (50, 100, 150)
        assert interaction.usage.latency_s
    turns = {turn.question for interaction in found for turn in interaction.history or ()}
    assert turns == set(application.history)
    assert application.session in {interaction.session_id for interaction in found} | {None}


def _scored(serve: str) -> int:
    with urlopen(f"{serve}/v1/estimates?pipeline=helpdesk&metric=trace.adherence", timeout=60) as reply:
        return sum(one["n"] + one["n_absent"] for one in json.loads(reply.read()) if one["segment"] is None)


def _interactions(redis: Any) -> list[RagInteraction]:
    entries = redis.xrange(STREAMS.interactions)
    return [RagInteraction.from_entry(entry.decode(), fields[b"data"]) for entry, fields in entries]


def _letters(redis: Any) -> list[str]:
    return [DeadLetter.decode(fields[b"data"]).detail for _, fields in redis.xrange(STREAMS.dead_letters)]


def test_every_environment_and_every_application_is_used() -> None:
    used = {application.environment for application in APPLICATIONS}
    assert used | set(ENVIRONMENT.values()) == set(ENVIRONMENTS.names)
    assert {application.source for application in APPLICATIONS if application.source.endswith(".py")} == {
        file.name for file in HERE.glob("apps/*.py") if not file.name.startswith(("constructions_", "truth"))
    }
