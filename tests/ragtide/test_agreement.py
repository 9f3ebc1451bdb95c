"""`ragtide trust agreement`: scores against gold or another labeler, joined by interaction, with a picture."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli

pytestmark = pytest.mark.processes

DATA = Path(__file__).parents[1] / "data"
ROWS = DATA / "ragbench" / "ragbench_sample.jsonl"


@pytest.fixture(autouse=True)
def _logging_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)


def run(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == exit_code, result.output + str(result.exception)
    return result


@pytest.fixture(scope="module")
def scored() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)
        return run("score", ROWS, "--json").stdout


@pytest.fixture
def scores(scored: str, tmp_path: Path) -> Path:
    path = tmp_path / "scores.jsonl"
    path.write_text(scored, encoding="utf-8")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_local_labeler_is_compared_with_the_stored_scores_beside_a_constant(scores: Path) -> None:
    (found,) = [json.loads(line) for line in run("trust", "agreement", scores, "--json").stdout.splitlines()]
    assert (found["labeler"], found["profile"], found["matched"]) == ("local", "ragbench", 80)
    relevance = found["metrics"]["trace.context_relevance"]
    pairs = [
        (line["scores"]["trace.context_relevance"], line["gold_scores"]["trace.context_relevance"])
        for line in lines(scores)
    ]
    assert relevance["n"] == 80
    assert relevance["rmse"]["value"] == pytest.approx((sum((p - g) ** 2 for p, g in pairs) / 80) ** 0.5)
    assert relevance["rmse"]["lower"] < relevance["rmse"]["value"] < relevance["rmse"]["upper"]
    assert relevance["rmse"]["value"] < relevance["constant_rmse"]
    assert found["metrics"]["trace.completeness"]["n"] == 0
    assert found["metrics"]["trace.completeness"]["absent"] > 0
    assert 0 < found["families"]["trace"]["consistency"]["value"] < 1
    shown = run("trust", "agreement", scores).stdout
    for words in ("Spearman", "always the mean", "AUROC", "kappa", "aggregated RMSE", "consistency score"):
        assert words in shown


def test_gold_scores_may_be_in_another_file_and_what_does_not_match_is_counted(scores: Path, tmp_path: Path) -> None:
    inline = json.loads(run("trust", "agreement", scores, "--json").stdout)
    apart = json.loads(run("trust", "agreement", scores, "--gold", ROWS, "--json").stdout)
    assert apart["metrics"] == inline["metrics"]
    gold = tmp_path / "gold.jsonl"
    some = [{name: line[name] for name in ("interaction_id", "gold_scores")} for line in lines(scores)[:30]]
    other = {"interaction_id": "x", "pipeline": "ragbench", "gold_scores": {"trace.adherence": 1}}
    gold.write_text("\n".join(map(json.dumps, [*some, other])))
    found = json.loads(run("trust", "agreement", scores, "--gold", gold, "--json").stdout)
    assert (found["matched"], found["without_reference"], found["without_prediction"]) == (30, 50, 1)
    clustered = json.loads(run("trust", "agreement", scores, "--gold", ROWS, "--by-question", "--json").stdout)
    assert clustered["metrics"]["trace.adherence"]["rmse"]["value"] == pytest.approx(
        inline["metrics"]["trace.adherence"]["rmse"]["value"]
    )


def test_a_labeler_agrees_with_itself_and_less_with_another(scores: Path, tmp_path: Path) -> None:
    itself = json.loads(run("trust", "agreement", scores, "--against", scores, "--json").stdout)
    assert itself["metrics"]["trace.adherence"]["rmse"]["value"] == 0.0
    assert itself["metrics"]["trace.adherence"]["kappa"]["value"] == 1.0
    stored = tmp_path / "stored.jsonl"
    stored.write_text(run("score", ROWS, "--labeler", "stored", "--json").stdout)
    one_metric = run("trust", "agreement", scores, "--against", stored, "--metric", "trace.adherence", "--json")
    other = json.loads(one_metric.stdout)
    assert other["reference"].startswith("stored 1")
    assert list(other["metrics"]) == ["trace.adherence"]
    assert other["metrics"]["trace.adherence"]["rmse"]["value"] > 0.1


def test_two_labelers_in_one_file_are_kept_apart(scores: Path) -> None:
    other = [{**line, "labeler": "other"} for line in lines(scores)]
    scores.write_text("\n".join(map(json.dumps, [*lines(scores), *other])))
    found = [json.loads(line) for line in run("trust", "agreement", scores, "--json").stdout.splitlines()]
    assert [one["labeler"] for one in found] == ["local", "other"]


@pytest.mark.parametrize("ending", ["svg", *(pytest.param(one, marks=pytest.mark.heavy) for one in ("png", "pdf"))])
def test_a_picture_is_drawn_and_is_the_same_each_time(ending: str, scores: Path, tmp_path: Path) -> None:
    pictures = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
    for picture in pictures:
        run("trust", "agreement", scores, "--plot", picture)
    first, second = (picture.read_bytes() for picture in pictures)
    assert len(first) > 5000
    if ending == "svg":
        assert first == second
        assert b"context_relevance" in first


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "holds no scores"),
        ("nonsense", ":1: the entry is not valid JSON"),
        ('{"scores": {}}', ":1: interaction_id is missing"),
        ('{"interaction_id": "a"}', ":1: scores is missing"),
        ('{"interaction_id": "a", "scores": {"trace.adherence": "high"}}', "scores.trace.adherence is 'high'"),
        ('{"interaction_id": "a", "scores": {}}\n{"interaction_id": "a", "scores": {}}', ":2: interaction_id a"),
        ('{"interaction_id": "a", "scores": {"trace.adherence": 1}}', "no scores in common"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(content)
    result = CliRunner().invoke(cli, ["trust", "agreement", str(path)])
    assert result.exit_code == 1
    assert said in str(result.exception)


def test_options_that_do_not_fit_together_are_refused(scores: Path) -> None:
    run("trust", "agreement", scores, "--gold", ROWS, "--against", scores, exit_code=2)
    run("trust", "agreement", scores, "--by-question", exit_code=2)
    unknown = CliRunner().invoke(cli, ["trust", "agreement", str(scores), "--metric", "trace.other"])
    assert "no metric 'trace.other' in the gold scores in the lines" in str(unknown.exception)
    result = CliRunner().invoke(cli, ["trust", "agreement", str(scores), "--plot", "x.doc"])
    assert "svg, png or pdf" in str(result.exception)
