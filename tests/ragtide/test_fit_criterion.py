"""`ragtide fit --criterion` at the command line: from a judge's answers to a file that scores the criterion."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_fit import lenient, written
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_consumers.labelers.local.correction_file import CorrectionInput, FittedScore, load_correction
from ragtide_consumers.labelers.local.labeler import SHIPPED_VERSION
from ragtide_offline.demo import demo_interactions
from ragtide_offline.local_fit.fitting import encoder_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metric_definitions import SIMILARITY

pytestmark = pytest.mark.processes

CRITERION = {"name": "asks_back", "question": "Does the response ask a question back?", "scale": "yes_no"}
METRIC = "criteria.asks_back"


def run(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == exit_code, result.output + str(result.exception)
    return result


def scored(rows: Path) -> list[dict[str, Any]]:
    """Return the results of the local labeler."""
    printed = run("score", rows, "--json").stdout.splitlines()
    return [json.loads(line) for line in printed if line.startswith('{"schema_version"')]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Interactions of which every third asks back, and a judge's answers to that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([CRITERION]))
    declared = {METRIC: Criterion.model_validate(CRITERION).declaration().model_dump(mode="json", exclude_none=True)}
    rows, answers = [], []
    for number, given in enumerate(demo_interactions()[:75]):
        asks = number % 3 == 0
        text = given.response + (" Which of them do you mean?" if asks else " That is all.")
        row = given.model_copy(update={"response": text, "response_sentences": None, "gold_scores": {}})
        rows.append(row.encode().decode())
        by = {"labeler": "judge", "labeler_version": "1", "profile": "ragbench"}
        key = {"interaction_id": row.interaction_id, "pipeline": row.pipeline}
        answers.append(json.dumps({**key, **by, "scores": {METRIC: float(asks)}, "declared": declared}))
    interactions, judged = tmp_path / "rows.jsonl", tmp_path / "judge.jsonl"
    interactions.write_text("\n".join(rows), encoding="utf-8")
    judged.write_text("\n".join(answers), encoding="utf-8")
    return interactions, judged


def test_a_proxy_is_added_to_the_file_and_the_labeler_that_loads_it_scores_the_criterion(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, judged = files
    found = json.loads(run("fit", rows, "--judged", judged, "--criterion", "asks_back", "--json").stdout)
    assert found["fitted"]
    assert found["cross_validated"]["upper"] < 0
    assert found["width"] < 0.8
    assert (found["metric"], found["reference"], found["file"]) == (METRIC, "judge 1 (ragbench)", "local-model.json")
    again = run("fit", rows, "--judged", judged, "--criterion", METRIC, exit_code=1)
    assert "has a proxy of asks_back already" in str(again.exception)
    assert "Correlation with the judge" in run("fit", rows, "--judged", judged, "--criterion", METRIC, "--force").stdout
    monkeypatch.setenv("RAGTIDE_LOCAL_MODEL", "local-model.json")
    scores = [line["scores"][METRIC] for line in scored(rows)]
    assert sum(scores[::3]) / len(scores[::3]) > sum(scores[1::3]) / len(scores[1::3]) + 0.3
    changed = [{**CRITERION, "question": "Does it ask for more?"}]
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps(changed))
    line = scored(rows)[0]
    assert line["absent"][METRIC] == "proxy_outdated"
    outdated = run("fit", rows, "--judged", judged, "--criterion", METRIC, "--force", exit_code=1)
    assert "no interaction has an answer to asks_back in its present words" in str(outdated.exception)


def test_a_fit_of_the_scores_keeps_the_proxies_of_criteria_in_the_file(files: tuple[Path, Path]) -> None:
    rows, judged = files
    path = Path("local-model.json")
    run("fit", rows, "--judged", judged, "--criterion", METRIC)
    before = load_correction(path, SHIPPED_VERSION).content
    gold = written(Path("gold.jsonl"), lenient)
    assert f"Proxies of criteria stay: {METRIC}" in run("fit", gold, "--force").stdout
    content = load_correction(path, SHIPPED_VERSION).content
    assert (content.criteria, bool(content.scores), bool(before.scores)) == (before.criteria, True, False)
    path.write_text("{}", encoding="utf-8")
    assert "are not kept" in run("fit", gold, "--force").stderr


def test_numbers_of_two_sentence_encoders_do_not_share_a_file() -> None:
    def reading(name: str) -> FittedScore:
        return FittedScore(inputs={name: CorrectionInput(coefficient=1.0, lowest=0.0, highest=1.0)})

    similar, plain = reading(SIMILARITY[0].name), reading("words")
    assert encoder_of([(similar, "a"), (plain, "b")]) == "a"
    assert encoder_of([(plain, "b")]) == ""
    with pytest.raises(ConfigurationError, match="another --output"):
        encoder_of([(similar, "a"), (similar, "b")])


def test_a_proxy_that_does_not_help_is_refused_and_nothing_is_written(files: tuple[Path, Path]) -> None:
    rows, judged = files
    lines = [json.loads(line) for line in judged.read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines):
        line["scores"] = {METRIC: float(hash_of(number) % 2)}
    judged.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = run("fit", rows, "--judged", judged, "--criterion", "asks_back", exit_code=4)
    assert "does not surely beat a constant" in found.stderr
    assert not Path("local-model.json").exists()


def test_a_criterion_about_sessions_has_no_proxy(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps([{**CRITERION, "unit": "session"}]))
    rows, judged = files
    found = run("fit", rows, "--judged", judged, "--criterion", "asks_back", exit_code=1)
    assert "criteria.asks_back is a criterion about whole sessions" in str(found.exception)


def hash_of(number: int) -> int:
    """Return a number that has nothing to do with the texts."""
    return (number * 2654435761 >> 7) & 0xFFFF


def test_mistakes_are_named(files: tuple[Path, Path]) -> None:
    rows, _ = files
    assert "did you mean 'asks_back'" in run("fit", rows, "--criterion", "ask_back", exit_code=2).stderr
    assert "--corruptions" in run("fit", rows, "--criterion", "asks_back", "--corruptions", exit_code=2).stderr
