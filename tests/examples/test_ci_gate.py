"""The gate of `examples/ci_gate`, as a command and as tests: it passes, fails, and says that it cannot decide."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci_gate"
COMMANDS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def run(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the workflow in a folder."""
    variables = {**os.environ, "PATH": COMMANDS, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The answers of the pipeline of the example."""
    done = run(sys.executable, EXAMPLE / "answer.py", folder=tmp_path_factory.mktemp("answers"))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def mixed_up(answers: list[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Return the answers; each so many-th is that to another question."""
    return [
        {**row, "response": answers[place - 7]["response"]} if place % every == 0 else row
        for place, row in enumerate(answers)
    ]


def test_a_gate_passes_fails_or_is_undecided(answers: list[dict[str, Any]], tmp_path: Path) -> None:
    for name, rows, code, outcomes in (
        ("right", answers[:60], 0, {"passed": 2}),
        ("mixed up", mixed_up(answers[:60], 1), 4, {"failed": 1, "passed": 1}),
        ("some mixed up", mixed_up(answers, 5)[:40], 5, None),
        ("too few", answers[:10], 4, {"failed": 1, "passed": 1}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        done = run("sh", EXAMPLE / "gate.sh", folder=folder)
        assert done.returncode == code, f"{name}: {done.stdout}{done.stderr}"
        assert "trace.adherence" in (folder / "gate.xml").read_text(encoding="utf-8")
        assert "trace.adherence" in (folder / "summary.md").read_text(encoding="utf-8")
        if outcomes is None:
            continue
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
        tests = run(sys.executable, "-m", "pytest", *options, EXAMPLE, folder=folder)
        assert tests.returncode == (0 if set(outcomes) == {"passed"} else 1), f"{name}: {tests.stdout}"
        assert all(f"{count} {outcome}" in tests.stdout for outcome, count in outcomes.items()), tests.stdout


def test_a_row_that_cannot_be_scored_does_not_pass(answers: list[dict[str, Any]], tmp_path: Path) -> None:
    rows = [*answers, {"pipeline": "bm25", "question": "Is it?"}]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert run("sh", EXAMPLE / "gate.sh", folder=tmp_path).returncode == 1


def test_the_workflow_runs_the_files_of_the_example() -> None:
    (job,) = yaml.safe_load((EXAMPLE / "gate.yml").read_text(encoding="utf-8"))["jobs"].values()
    steps = [step["run"].split() for step in job["steps"] if "run" in step]
    assert steps[0][:2] == ["pip", "install"]
    named = [EXAMPLE.parents[1] / word for step in steps for word in step if word.startswith("examples/")]
    assert [path.name for path in named] == ["answer.py", "gate.sh", "ci_gate"]
    assert all(path.exists() for path in named)
