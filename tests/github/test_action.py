"""The action at the root of the repository: its scripts run here as GitHub would run them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ragtide.cli.app import cli

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
ANSWERS = ROOT / "offline" / "ragtide_offline" / "data" / "demo_interactions.jsonl"
LOCAL = "--labeler=local"
EXPRESSION = re.compile(r"\$\{\{\s*(\S+)\s*\}\}")

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Done:
    """What a job sees of the action."""

    outputs: dict[str, str]
    code: int
    printed: str
    summary: str


Act = Callable[..., Done]


class Job:
    """A job that uses the action: it has a workspace, a folder for temporary files, and the files of GitHub."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.temporary = folder / "temporary"
        self.summary = folder / "summary.md"
        self.workspace.mkdir()
        self.temporary.mkdir()
        self._files = folder

    def act(self, inputs: Mapping[str, str], steps: list[str]) -> Done:
        """Run the scripts of these steps in turn; the first that fails ends the action."""
        known = {f"inputs.{name}": str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in inputs.items()}
        assert inputs.keys() <= ACTION["inputs"].keys()
        known["steps.python.outputs.python-path"] = sys.executable
        code, printed = 0, ""
        for step in ACTION["runs"]["steps"]:
            if step["name"] in steps and code == 0:
                code, text, outputs = self._run(step, known)
                printed += text
                known |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in outputs.items()}
        outputs = {name: valued(given["value"], known) for name, given in ACTION["outputs"].items()}
        return Done(outputs, code, printed, self.summary.read_text(encoding="utf-8") if self.summary.exists() else "")

    def _run(self, step: dict[str, Any], known: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        output = self._files / "output"
        output.write_text("", encoding="utf-8")
        script = self._files / "script.sh"
        script.write_text(step["run"], encoding="utf-8")
        assert step["shell"] == "bash"
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "RUNNER_"))}
        variables |= {
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        variables |= {name: valued(value, known) for name, value in step["env"].items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.workspace,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        pairs = (line.split("=", 1) for line in output.read_text(encoding="utf-8").splitlines())
        return done.returncode, done.stdout, dict(pairs)


def valued(text: str, known: Mapping[str, str]) -> str:
    """Return a text of the action with the values of its expressions; an output of a step that did not run is empty."""
    return EXPRESSION.sub(lambda found: known.get(found[1], "") if "outputs." in found[1] else known[found[1]], text)


def installed_job(folder: Path) -> Job:
    """Return a job in which ragtide is installed already: the environment of the tests."""
    job = Job(folder)
    (job.temporary / "ragtide").mkdir()
    (job.temporary / "ragtide" / "bin").symlink_to(Path(sys.executable).parent)
    return job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job in which ragtide is installed already."""
    return installed_job(tmp_path)


def decide(job: Job, **inputs: str) -> Done:
    """Run the step that decides."""
    return job.act({name.replace("_", "-"): value for name, value in inputs.items()}, ["Decide"])


def test_a_gate_passes_fails_or_is_undecided_and_the_summary_of_the_job_has_the_outcome(job: Job) -> None:
    for condition, undecided, outcome, code in (
        ("trace.adherence < 0.5", "undecided", "pass", 0),
        ("\ntrace.adherence < 0.5\n\n trace.adherence.n < 500\n", "undecided", "fail", 4),
        ("trace.adherence < 0.93", "undecided", "undecided", 5),
        ("trace.adherence < 0.93", "pass", "pass", 0),
        ("trace.adherence < 0.93", "fail", "fail", 4),
        ("trace.adherense < 0.93", "undecided", "error", 2),
    ):
        job.summary.unlink(missing_ok=True)
        done = decide(job, file=str(ANSWERS), fail_if=condition, undecided=undecided, options=LOCAL)
        assert (done.outputs, done.code) == ({"outcome": outcome, "exit-code": str(code)}, code), done.printed
        assert ("trace.adherence" in done.summary) is (outcome != "error")


def test_a_baseline_is_compared_answer_by_answer(job: Job) -> None:
    options = f"{LOCAL}\n--output=main.jsonl"
    assert decide(job, file=str(ANSWERS), fail_if="trace.adherence < 0.5", options=options).code == 0
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        row["documents"] = other["documents"]
    changed = job.workspace / "changed answers.jsonl"
    changed.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    condition = "trace.adherence.difference < -0.2"
    for file, outcome in ((str(ANSWERS), "pass"), (changed.name, "fail")):
        done = decide(job, file=file, fail_if=condition, baseline="main.jsonl", options=LOCAL)
        assert done.outputs["outcome"] == outcome, done.printed


def test_no_input_is_run_as_a_program(job: Job) -> None:
    program = 'x"; touch "$GITHUB_WORKSPACE/../run"; $(touch run) `touch run` * #'
    others = dict.fromkeys(("file", "fail_if", "baseline", "undecided", "options"), program)
    for inputs in ({"command": program}, others):
        done = decide(job, **inputs)
        assert done.outputs["outcome"] == "error", done.printed
        assert [path.name for path in job.workspace.parent.rglob("run")] == []


def test_a_gate_without_a_condition_or_with_another_command_is_refused(job: Job) -> None:
    for inputs, remedy in (
        ({"file": str(ANSWERS), "fail_if": " \n"}, "fail-if"),
        ({"command": "demo", "fail_if": "trace.adherence < 0.5"}, "score"),
        ({"command": "", "fail_if": "trace.adherence < 0.5"}, "score"),
    ):
        done = decide(job, **inputs)
        assert (done.outputs, done.code) == ({"outcome": "error", "exit-code": "2"}, 2)
        (line,) = done.printed.splitlines()
        assert line.startswith("::error::")
        assert remedy in line


def test_a_release_needs_no_condition_and_takes_none(job: Job) -> None:
    refused = (
        {"command": "release watch", "fail_if": "trace.adherence < 0.5"},
        {"command": "release show"},
        {"command": "release"},
    )
    for inputs in refused:
        done = decide(job, **inputs)
        assert (done.outputs, done.code) == ({"outcome": "error", "exit-code": "2"}, 2)
        assert done.printed.startswith("::error::")


@pytest.mark.pure
def test_the_workflow_of_a_release_gives_the_action_inputs_that_it_has_and_rolls_back_only_what_failed() -> None:
    workflow = yaml.safe_load((ROOT / "deploy" / "rollouts" / "github.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["canary"]["steps"]
    (verdict,) = (step for step in steps if step.get("id") == "verdict")
    assert verdict["with"].keys() <= ACTION["inputs"].keys()
    assert "outcome" in ACTION["outputs"]
    assert steps[-1]["if"] == f"failure() && steps.{verdict['id']}.outputs.outcome == 'fail'"
    options = dict(line.split("=", 1) for line in verdict["with"]["options"].splitlines())
    group = typer.main.get_command(cli).commands["release"]  # type: ignore[attr-defined]
    known = {name for parameter in group.commands["watch"].params for name in parameter.opts}
    assert options.keys() <= known


@pytest.mark.heavy
def test_the_action_installs_the_ragtide_of_its_own_version(tmp_path: Path) -> None:
    inputs = {"file": str(ANSWERS), "fail-if": "trace.adherence < 0.5", "options": LOCAL}
    done = Job(tmp_path).act(inputs, ["Install ragtide", "Decide"])
    assert done.outputs["outcome"] == "pass", done.printed
    assert (tmp_path / "temporary" / "ragtide" / "bin" / "ragtide").exists()


@pytest.mark.pure
def test_no_script_contains_an_expression() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 2
    assert [script for script in scripts if "${{" in script] == []


@pytest.mark.pure
def test_the_page_of_gates_gives_the_action_inputs_that_it_has() -> None:
    page = (ROOT / "docs" / "offline" / "gates.md").read_text(encoding="utf-8")
    (block,) = [
        found for found in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "uses:" in found
    ]
    (step,) = [step for step in yaml.safe_load(block) if "uses" in step]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    section = page.split("## GitHub Actions")[1].split("\n## ")[0]
    assert [
        name
        for name in (*ACTION["inputs"], *ACTION["outputs"])
        if f"`{name}" not in section and f"{name}:" not in section
    ] == []
