"""`ragtide fit`: from judged interactions to a file that `ragtide score` loads, in the terminal and as JSON."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.screens import WIDTHS, drawn
from typer.testing import CliRunner, Result

from ragtide import LocalLabeler
from ragtide.cli.app import cli
from ragtide.cli.printing.laboratory import decisions, scores_table
from ragtide_consumers.labelers.local.correction_file import CrossValidated, Separated
from ragtide_offline.demo import demo_interactions
from ragtide_offline.local_fit.fitting import FitResult, ScoreResult

pytestmark = pytest.mark.processes

RELEVANCE = "trace.context_relevance"


def run(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == exit_code, result.output + str(result.exception)
    return result


def written(path: Path, judge: Callable[[float], float], count: int = 40) -> Path:
    """Write interactions whose gold relevance is a function of the labeler's."""
    labeler, lines = LocalLabeler(), []
    for interaction in demo_interactions()[:count]:
        gold = {RELEVANCE: judge(labeler.label_now(interaction).scores[RELEVANCE])}
        lines.append(interaction.model_copy(update={"gold_scores": gold}).encode().decode())
    path.write_text("\n".join([*lines, '{"pipeline": "p"}']), encoding="utf-8")
    return path


def lenient(relevance: float) -> float:
    return 0.3 + 0.6 * relevance


def test_a_fit_is_written_and_the_labeler_that_loads_it_is_nearer_to_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)
    rows = written(tmp_path / "rows.jsonl", lenient)
    dry = run("fit", rows, "--dry-run")
    assert "Dry run: nothing was written." in dry.stdout
    assert "rows.jsonl:41: " in dry.stderr
    assert not Path("local-model.json").exists()
    found = json.loads(run("fit", rows, "--json").stdout)
    assert found["scores"]["context_relevance"]["fitted"]
    assert found["scores"]["adherence"]["cross_validated"] is None
    assert (found["interactions"], found["reference"], found["file"]) == (40, "gold", "local-model.json")
    assert len(found["sha256"]) == 64
    assert "--force" in str(run("fit", rows, exit_code=1).exception)
    run("fit", rows, "--force", "--output", "local-model.json")
    error, versions = [], []
    for model in (None, "local-model.json"):
        if model is not None:
            monkeypatch.setenv("RAGTIDE_LOCAL_MODEL", model)
        printed = run("score", rows, "--json", exit_code=1).stdout.splitlines()
        lines = [json.loads(line) for line in printed if line.startswith('{"schema_version"')]
        error.append(sum((line["scores"][RELEVANCE] - line["gold_scores"][RELEVANCE]) ** 2 for line in lines))
        versions.append(lines[0]["labeler_version"])
    assert error[1] < error[0] / 4
    assert versions[0] == LocalLabeler.version
    assert versions[1].startswith(f"{versions[0]}-fit-")


def test_a_fit_that_is_not_better_writes_nothing_and_fails_as_a_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = written(tmp_path / "rows.jsonl", lambda relevance: relevance)
    found = run("fit", rows, exit_code=4)
    assert (
        "No score is surely better than the shipped labeler's on 40 questions, so nothing was written" in found.stderr
    )
    assert "context_relevance stays as shipped" in found.stdout
    assert not Path("local-model.json").exists()
    again: dict[str, Any] = json.loads(run("fit", rows, "--json", exit_code=4).stdout)
    assert again["file"] is None


def without_scores(path: Path, count: int) -> Path:
    """Write interactions that nobody has judged."""
    rows = [interaction.model_copy(update={"gold_scores": {}}) for interaction in demo_interactions()[:count]]
    path.write_text("\n".join(row.encode().decode() for row in rows), encoding="utf-8")
    return path


def test_corruptions_need_no_scores_and_are_refused_where_they_do_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = without_scores(tmp_path / "rows.jsonl", 60)
    assert "no interaction has scores" in str(run("fit", rows, exit_code=1).exception)
    found = json.loads(run("fit", rows, "--corruptions", "--json").stdout)
    assert (found["reference"], found["spoilt"], found["interactions"]) == ("corruptions", 60, 60)
    relevance = found["scores"]["context_relevance"]
    assert relevance["fitted"]
    assert relevance["separation"]["lower"] > 0
    assert relevance["cross_validated"] is None
    content = json.loads(Path("local-model.json").read_text(encoding="utf-8"))
    assert content["reference"] == "corruptions"
    assert not any(interaction.question in json.dumps(content) for interaction in demo_interactions()[:60])
    monkeypatch.setenv("RAGTIDE_LOCAL_MODEL", "local-model.json")
    assert "-fit-" in run("score", rows, "--json").stdout
    monkeypatch.delenv("RAGTIDE_LOCAL_MODEL")
    few = run("fit", without_scores(tmp_path / "few.jsonl", 25), "--corruptions", "--output", "few.json", exit_code=4)
    assert "context_relevance" in few.stdout
    assert not Path("few.json").exists()


def test_nothing_that_can_be_spoilt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    empty = [
        interaction.model_copy(update={"response": "", "gold_scores": {}}) for interaction in demo_interactions()[:3]
    ]
    Path("rows.jsonl").write_text("\n".join(one.encode().decode() for one in empty), encoding="utf-8")
    told = str(run("fit", "rows.jsonl", "--corruptions", exit_code=1).exception)
    assert "rows.jsonl" in told
    assert "nothing can be spoilt" in told
    few = str(run("fit", without_scores(tmp_path / "few.jsonl", 5), "--corruptions", exit_code=1).exception)
    assert "5 different questions" in few


def test_scores_of_a_judge_may_be_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = written(tmp_path / "rows.jsonl", lambda relevance: relevance)
    judged = [
        {
            "interaction_id": interaction.interaction_id,
            "pipeline": interaction.pipeline,
            "labeler": "judge",
            "labeler_version": "1",
            "profile": "ragbench",
            "scores": {RELEVANCE: lenient(LocalLabeler().label_now(interaction).scores[RELEVANCE])},
        }
        for interaction in demo_interactions()[:30]
    ]
    Path("judge.jsonl").write_text("\n".join(map(json.dumps, judged)), encoding="utf-8")
    found = json.loads(run("fit", rows, "--judged", "judge.jsonl", "--json", "--output", "mine.json").stdout)
    assert (found["reference"], found["interactions"]) == ("judge 1 (ragbench)", 30)
    assert json.loads(Path("mine.json").read_text(encoding="utf-8"))["reference"] == "judge 1 (ragbench)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a FILE of judged interactions"),
        (("a.jsonl", "--kept"), "FILE and --kept exclude each other"),
        (("--kept", "--judged", "b.jsonl"), "are for a FILE"),
    ],
)
def test_a_wrong_command_line_is_told(arguments: tuple[str, ...], said: str) -> None:
    assert said in run("fit", *arguments, exit_code=2).stderr


@pytest.mark.parametrize("width", WIDTHS)
def test_no_number_is_cut_at_any_width(width: int) -> None:
    loss = CrossValidated(
        interactions=1_234, questions=1_200, shipped=0.1234, fitted=0.1111,
        difference=-0.0123, lower=-0.0234, upper=-0.0012,
    )  # fmt: skip
    scores = [ScoreResult(name, loss, is_fitted=True, reason="") for name in ("context_utilization", "adherence")]
    result = FitResult(1_234, 1_200, {"no_response": 3}, 0.95, scores)
    text = drawn(scores_table(result, "judge trace.en.1 (ragbench)", width), width)
    for number in ("0.1234", "0.1111", "-0.0123", "-0.0234 to -0.0012"):
        assert text.count(number) == 2
    assert any("3 no_response" in sentence for sentence in decisions(result, 7))
    gain = Separated(
        pairs=1_234, questions=1_200, corruptions=9, shipped=0.812, fitted=0.934, gain=0.122, lower=0.101, upper=0.143
    )
    spoilt = FitResult(1_234, 1_200, {}, 0.95, [replace(score, separation=gain) for score in scores], spoilt=400)
    text = drawn(scores_table(spoilt, "judge trace.en.1 (ragbench) and corruptions", width), width)
    for number in ("0.812", "0.934", "+0.122", "+0.101 to +0.143"):
        assert text.count(number) == 2
    assert any("0.1234 shipped, 0.1111 fitted" in sentence for sentence in decisions(spoilt, 0))
