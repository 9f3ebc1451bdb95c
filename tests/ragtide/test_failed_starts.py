"""A command that cannot start says so in one sentence, and leaves the folder and the machine as they were."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.runtime.test_embedded import processes_of
from tests.support.in_process import run_command
from tests.support.recorded import record
from tests.support.relabeling import interaction

from ragtide.cli.app import COMMANDS
from ragtide.testing import ScriptedJudge, Status
from ragtide_runtime.recordings import EntryKind, RecordedEntry

pytestmark = pytest.mark.processes

JUDGE: Final = {"RAGTIDE_LABELER": "judge", "RAGTIDE_JUDGE_MODEL": "m"}

LABELERS: Final[tuple[Mapping[str, str], ...]] = (
    {"RAGTIDE_LABELER": "not_there:X"},
    {"RAGTIDE_LABELER": "own_labelers:Broken"},
    JUDGE,  # it has no key
    {"RAGTIDE_METRICS": '["not_there:x"]'},
)
"""Settings with which no labeler can be built."""

REDACTION: Final = {"RAGTIDE_SPECIMENS_REDACT_FUNCTION": "own_labelers:Absent"}
METRICS: Final = LABELERS[-1:]
RECORDER: Final = {"RAGTIDE_RECORDER_REDACT_FUNCTION": "not_there:x", "RAGTIDE_RECORDER_URL": "new"}
PORT: Final = {"RAGTIDE_HTTP_PORT": "taken"}

TABLE: Final[dict[str, tuple[Mapping[str, str], ...]]] = {
    "up --no-page": (*LABELERS, REDACTION, RECORDER, PORT),
    "up --port 0": (*LABELERS, REDACTION, RECORDER, PORT),
    "up --port taken": ({},),
    "worker": (*LABELERS, REDACTION, PORT),
    "aggregator": (*METRICS, PORT),
    "recorder": ({}, RECORDER),
    "serve --port 0": METRICS,
    "serve --port taken": ({},),
    "bridge": ({},),
    "bridge --from http://localhost/x": ({},),
    "notify test": ({},),
    "score answers.jsonl --output new --labels": LABELERS,
    "score answers.jsonl --output new --processes 2": LABELERS,
    "score absent.jsonl --output new": ({},),
    "score merge parts": ({},),
    "trust answers.jsonl": ({},),
    "trust figures answers.jsonl": LABELERS[:3],
    "judge check answers.jsonl": LABELERS[:3],
    "score batch answers.jsonl": LABELERS[:3],
    "fit answers.jsonl --judged answers.jsonl --output new": ({},),
    "fit --kept --reference judge": ({},),
    "trust agreement absent.jsonl --gold absent.jsonl": ({},),
    "recorder inspect absent": ({},),
    "replay recording --relabel": LABELERS,
    "replay recording --relabel --processes 2": LABELERS,
    "replay recording --relabel --labeler own_labelers:Broken": ({},),
    "replay absent": ({},),
    "experiment run experiment.toml": LABELERS,
    "experiment run broken.toml": ({},),
    "experiment report absent --output new": ({},),
    "dataset from-worst --metric trace.adherence --output new": ({},),
    "replay workspaces remove absent": ({},),
    "rules check absent.toml": ({},),
    "criteria check absent.toml": ({},),
    "criteria try absent --file answers.jsonl": ({},),
    "capacity plan trace.adherence --half-width 0.02 --traffic 5000": METRICS,
    "capacity --rate 5 --costs absent": ({},),
    "doctor": (*LABELERS,),
    "explain trace.adherence": METRICS,
    "alerts explain shop": ({},),
    "estimates --fail-if 'x.y < 1'": METRICS,
    "compare shop": ({},),
    "alerts --pipeline": ({},),
    "watch --pipeline": ({},),
    "items --forget": ({},),
    "items annotate --annotator": ({},),
    "items absent": ({},),
    "items trace absent": ({},),
    "dead-letters replay absent": ({},),
    "alerts ack absent": ({},),
    "alerts silence remove absent": ({},),
    "mcp": METRICS,
    "release watch --pipeline shop --from v1 --to v1": ({},),
    "publish absent.jsonl": ({},),
    "feedback absent.jsonl": ({},),
    "publish traces absent.json": ({},),
    "capacity repartition 0": ({},),
    "demo --faster": ({},),
}
"""Commands, each with the settings that end it at its start."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder with what the commands read; data would be in `data`."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("RAGTIDE_WORKER_PROCESSES", "0")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_labelers.py").write_text(
        "class Broken:\n    def __init__(self):\n        open('absent')\n\ndef answer(question, k):\n    return []\n"
    )
    row = {"pipeline": "shop", "interaction_id": "i-1", "question": "When?", "documents": ["In 1889."], "response": "1"}
    (tmp_path / "answers.jsonl").write_text(json.dumps(row) + "\n")
    for name, target in (("experiment", "own_labelers:answer"), ("broken", "own_labelers:Absent")):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "try"\ntarget = "{target}"\ndata = "answers.jsonl"\n'
            'metric = "trace.adherence"\n[grid]\nk = [1, 2]\n'
        )
    entries = [
        (EntryKind.INTERACTIONS, RecordedEntry(0, f"{number + 1}-0", interaction(number, "shop"))) for number in (0, 1)
    ]
    record(entries, tmp_path / "recording", steps=1)
    return tmp_path


def tree(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_every_command_is_in_the_table() -> None:
    assert {line.split()[0] for line in TABLE} == {*COMMANDS} - {"docs"}


@pytest.mark.parametrize("line", TABLE)
def test_a_start_that_fails_leaves_nothing_behind(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for changes in TABLE[line]:
            with monkeypatch.context() as patch:
                for name, value in changes.items():
                    patch.setenv(name, value.replace("taken", port))
                done = run_command(capsys, *shlex.split(line.replace("taken", port)))
            assert done.code != 0, (changes, done)
            assert "Traceback" not in done.stderr, (changes, done)
            assert "http://127.0.0.1" not in done.stderr, (changes, done)
            assert tree(folder) == before, (changes, done)
    assert processes_of(folder / "data") == []


@pytest.mark.parametrize("mistake", ["variable", "file"])
def test_no_command_makes_anything_with_a_mistake_in_the_settings(
    mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if mistake == "variable":
        monkeypatch.setenv("RAGTIDE_LABLER", "local")
    else:
        (folder / "ragtide.toml").write_text('labler = "local"\n')
    before = tree(folder)
    for line in TABLE:
        done = run_command(capsys, *shlex.split(line.replace("taken", "0")))
        assert done.code != 0 or line.startswith("inspect"), (line, done)
        assert tree(folder) == before, (line, done)


@pytest.mark.parametrize(
    "line", ["score answers.jsonl --output new", "score answers.jsonl --output new --shard 1/1", "batch answers.jsonl"]
)
def test_an_endpoint_that_refuses_the_first_call_leaves_no_empty_file_or_folder(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(folder)
    with ScriptedJudge(always=Status(401, "the key is unknown")) as judge:
        for name, value in {**JUDGE, **judge.environment}.items():
            monkeypatch.setenv(name, value)
        done = run_command(capsys, *line.split())
    assert (done.code, "Error code: 404" in done.told or "401" in done.told) == (1, True), done  # no files here
    assert tree(folder) == before


def test_code_of_a_user_that_ends_its_process_ends_a_start_in_one_sentence(folder: Path) -> None:
    (folder / "ends_at_once.py").write_text("import os; os._exit(3)\n")
    before = tree(folder)
    environment = {**os.environ, "RAGTIDE_LABELER": "ends_at_once:X", "PYTHONDONTWRITEBYTECODE": "1"}
    del environment["RAGTIDE_WORKER_PROCESSES"]
    command = [str(Path(sys.executable).with_name("ragtide")), "worker", "--processes", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "exit code 3" in done.stderr
    assert tree(folder) == before
