"""The TypeScript of docs/connect/typescript.md, compiled strictly and run by Node.js, against a real `ragtide up`.

`make instrumentations` runs it; `make programs` installs Node.js.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.end_to_end.test_serve import port_in
from tests.instrumentations.environments import NODE, NODE_PACKAGES
from tests.support.conditions import wait_until
from tests.support.doc_pages import blocks_of, page_text
from tests.support.roles import STREAMS, dead_letters, running

from ragtide_schemas import RagInteraction

PAGE = page_text("typescript")
ADDRESS = "http://127.0.0.1:8080"
SETTINGS = {"RAGTIDE_SERVE_PORT": "0", "RAGTIDE_INGEST_SETTLE_S": "0.5"}


def code_of(tag: str) -> str:
    return "\n".join(block.code for block in blocks_of(PAGE) if block.tag == tag)


def run(code: str, serve: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile an application in which the address of the page is that of `serve`, and run it."""
    node = shutil.which("node")
    assert node is not None, "there is no Node.js on PATH: make programs installs it"
    modules = NODE_PACKAGES.modules()
    assert ADDRESS in code
    (folder / "application.ts").write_text(code.replace(ADDRESS, serve), "utf-8")
    for file in ("package.json", "tsconfig.json"):
        shutil.copy(NODE / file, folder)
    (folder / "node_modules").symlink_to(modules)
    compiled = subprocess.run(
        [node, modules / "typescript" / "bin" / "tsc", "--project", folder], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout
    return subprocess.run([node, folder / "application.js"], capture_output=True, text=True, timeout=120, check=False)


def headlines(serve: str) -> dict[str, int]:
    """Return the number of values of each metric."""
    with urlopen(f"{serve}/v1/headlines?pipeline=shop", timeout=60) as reply:
        return {found["metric"]: found["n"] for found in json.loads(reply.read())}


@pytest.mark.parametrize(
    ("tag", "metrics"),
    [
        ("node fetch", {"trace.adherence", "feedback.positive"}),
        ("node opentelemetry", {"trace.adherence"}),
    ],
)
def test_the_application_of_the_page_gets_scores(
    tag: str, metrics: set[str], redis: Any, redis_url: str, tmp_path: Path
) -> None:
    # Finished interactions are trimmed, unless a group still has to read them.
    redis.xgroup_create(STREAMS.interactions, "test", id="0", mkstream=True)
    log = tmp_path / "up.log"
    with running("up", redis_url, log, SETTINGS):
        serve = f"http://127.0.0.1:{port_in(log)}"
        done = run(code_of(tag), serve, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        wait_until(lambda: dead_letters(redis) or headlines(serve).items() >= dict.fromkeys(metrics, 1).items())
        assert dead_letters(redis) == []
    ((entry_id, fields),) = redis.xrange(STREAMS.interactions)
    interaction = RagInteraction.from_entry(entry_id.decode(), fields[b"data"])
    assert interaction.pipeline == "shop"
    assert interaction.question == "When was the tower built?"
    assert [document.text for document in interaction.documents] == ["The tower was built in 1889."]
    assert interaction.response == "In 1889."


def test_an_application_outlives_a_service_that_is_away(tmp_path: Path) -> None:
    done = run(code_of("node fetch"), "http://127.0.0.1:9", tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("No scores: ") == 2


def test_what_the_page_installs_is_what_is_tested() -> None:
    wanted = json.loads((NODE / "package.json").read_text("utf-8"))["dependencies"]
    named = {word for line in PAGE.splitlines() if "npm install " in line for word in line.split()[2:]}
    assert named == {name for name in wanted if name.startswith("@opentelemetry/")}


def test_fetch_takes_twenty_lines() -> None:
    block = next(block for block in blocks_of(PAGE) if block.tag == "node fetch")
    assert len([line for line in block.code.splitlines() if line]) <= 20
