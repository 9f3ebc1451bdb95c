"""`ragtide score`: the contract with programs, resuming, stored labels, RAGChecker's JSON, a judge."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ragtide import LocalLabeler, hashed_user_id
from ragtide.cli.app import cli
from ragtide.testing import ScriptedJudge, Status
from ragtide_producers import FileOptions, read_rows
from ragtide_schemas import METRICS, MetricEvent

pytestmark = pytest.mark.processes

DATA = Path(__file__).parents[1] / "data"
ROWS = DATA / "ragbench" / "ragbench_sample.jsonl"
OUTPUTS = DATA / "ragchecker-example" / "checking_outputs.json"


@pytest.fixture(autouse=True)
def _logging_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    # The command runs in this process, and its standard error is closed when it ends.
    monkeypatch.setattr("ragtide_runtime.telemetry.logs.configure_logging", lambda level: None)


def score(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["score", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output + str(result.exception)
    return result


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_that_repeat_an_id_are_told(tmp_path: Path) -> None:
    row = {
        "pipeline": "p",
        "interaction_id": "a",
        "question": "q",
        "documents": ["It is red."],
        "response": "It is red.",
    }
    rows = [row, row, {**row, "pipeline": "other"}, {**row, "interaction_id": "b"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert "1 times a row repeats the interaction id of another row" in " ".join(
        score(tmp_path / "rows.jsonl").stderr.split()
    )
    (tmp_path / "good.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows[1:]))
    assert "a row repeats" not in score(tmp_path / "good.jsonl").stderr


def test_json_is_one_object_per_interaction_in_order_and_everything_else_is_on_standard_error() -> None:
    result = score(ROWS, "--labeler", "local", "--json")
    found = lines(result.stdout)
    rows = [row.interaction for row in read_rows(ROWS, FileOptions())]
    assert [line["interaction_id"] for line in found] == [row.interaction_id for row in rows if row]
    for line, row in zip(found, rows, strict=True):
        assert row is not None
        assert (line["pipeline"], line["labeler"], line["profile"]) == ("ragbench", "local", "ragbench")
        outcomes = {"retrieval.empty": 0, "response.empty": 0, "retrieval.documents": len(row.documents)}
        assert line["scores"] == {**LocalLabeler().label_now(row).scores, **outcomes}
        trace = {name for name in METRICS if name.startswith("trace.")}
        assert set(line["scores"]) | set(line["absent"]) == trace | {"retrieval.match", *outcomes}
    assert "80 scored" in result.stderr


def test_session_turn_user_and_cluster_are_in_the_lines_and_the_user_is_hashed(tmp_path: Path) -> None:
    names = {"session_id": "s-1", "turn": 4, "user_id": "alice", "cluster": "batch-7"}
    row = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r", **names}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    result = score(tmp_path / "rows.jsonl", "--output", tmp_path / "scores.jsonl", "--json")
    (line,) = lines(result.stdout)
    assert {name: line[name] for name in names} == {**names, "user_id": hashed_user_id("alice")}
    assert "alice" not in result.output + (tmp_path / "scores.jsonl").read_text()


def test_the_summary_has_means_intervals_and_errors_beside_the_gold_scores() -> None:
    result = score(ROWS)
    for words in ("context_relevance", "rmse.adherence", "normal, 95%", " to "):
        assert words in result.stdout


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    score(ROWS, "--output", whole)
    content = whole.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(content[:30]) + content[30][:50])  # killed in the middle of a line
    result = score(ROWS, "--output", cut)
    assert "50 scored, 30 scored before" in result.stderr
    scores = [[line["scores"] for line in lines(path.read_text())] for path in (whole, cut)]
    assert scores[0] == scores[1]
    assert "0 scored, 80 scored before" in score(ROWS, "--output", cut).stderr


def test_scores_of_another_profile_are_not_gone_on_with(tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    score(ROWS, "--labeler", "stored", "--profile", "ragbench", "--limit", 2, "--output", output)
    score(ROWS, "--labeler", "stored", "--profile", "ragbench", "--limit", 4, "--output", output)
    for arguments, words in (
        (["--labeler", "stored", "--profile", "capstone"], "scores of the profile ragbench"),
        (["--labeler", "local"], "scores of stored 1 ragbench, and the labeler is local"),
    ):
        result = CliRunner().invoke(cli, ["score", str(ROWS), *arguments, "--output", str(output)])
        assert words in str(result.exception)


def test_scores_of_another_labeler_are_not_gone_on_with(tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    event = {**lines(score(ROWS, "--json", "--limit", 1).stdout)[0], "labeler_version": "older"}
    output.write_text(json.dumps(event) + "\n")
    result = CliRunner().invoke(cli, ["score", str(ROWS), "--output", str(output)])
    assert "has scores of local older" in str(result.exception)
    output.write_text('{"something": "else"}\n')
    result = CliRunner().invoke(cli, ["score", str(ROWS), "--output", str(output)])
    assert "not an output of ragtide score" in str(result.exception)


def test_bad_rows_are_named_and_make_the_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    good = {"pipeline": "p", "question": "q", "documents": ["Built in 1889."], "response": "In 1889."}
    file.write_text(
        "\n".join([json.dumps(good), "nonsense", json.dumps({**good, "response": ["a", "b"]}), json.dumps(good)])
    )
    result = score(file, "--json", exit_code=1)
    assert len(lines(result.stdout)) == 2
    assert f"{file}:2: " in result.stderr
    assert f"{file}:3: response, " in result.stderr


def test_stored_labels_of_ragbench_reproduce_its_stored_scores() -> None:
    found = lines(score(ROWS, "--labeler", "stored", "--profile", "ragbench_raw", "--json").stdout)
    for line in found:
        assert line["labeler"] == "stored"
        for metric, gold in line["gold_scores"].items():
            assert line["scores"][metric] == pytest.approx(gold, abs=1e-12)


def test_a_hugging_face_data_set_is_scored_as_the_file_it_is_made_of(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_bytes(ROWS.read_bytes())
    of_set, of_file = (
        [(line["interaction_id"], line["scores"]) for line in lines(score(source, "--json", "--limit", 5).stdout)]
        for source in (f"hf:{tmp_path}?split=test", ROWS)
    )
    assert of_set == of_file
    assert len(of_set) == 5


def test_ragcheckers_outputs_are_scored_compared_and_written_back(tmp_path: Path) -> None:
    exported = tmp_path / "again.json"
    result = score(
        OUTPUTS, "--labeler", "stored", "--reference", "ClapNQ", "--export-ragchecker", exported, "--claim-profile",
        "ragchecker",
    )  # fmt: skip
    assert "E5-Mistral + GPT-4" in result.stdout
    assert "+16.7" in result.stdout  # precision 76.4 against 59.7
    written, original = (json.loads(path.read_text()) for path in (exported, OUTPUTS))
    printed = {name: value for group in original["metrics"].values() for name, value in group.items()}
    assert {name: value for group in written["metrics"].values() for name, value in group.items()} == printed
    for ours, theirs in zip(written["results"], original["results"], strict=True):
        assert {name: ours[name] for name in ours if name != "metrics"} == {
            name: theirs[name] for name in theirs if name != "metrics"
        }
    again = lines(score(exported, "--labeler", "stored", "--json").stdout)
    assert [line["profile"] for line in again] == ["ragchecker_strict"] * 2


def test_rows_without_labels_say_so(tmp_path: Path) -> None:
    result = score(DATA / "ragchecker-example" / "checking_inputs.json", "--labeler", "stored", exit_code=1)
    assert "the row has no labels" in result.stderr


def test_a_judge_scores_a_file_with_labels_money_and_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", '{"m": {"input": 1.0, "output": 2.0}}')
    output = tmp_path / "scores.jsonl"
    with ScriptedJudge() as server:
        judge = ("--labeler", "judge", "--model", "m", "--base-url", server.url, "--families", "trace,ragchecker")
        result = score(ROWS, *judge, "--limit", 6, "--output", output, "--labels")
        assert "6 scored, 0 problems, $0." in result.stderr
        again = score(ROWS, *judge, "--limit", 6, "--output", output)
        calls = len(server.requests)
    assert "0 scored, 6 scored before" in again.stderr
    assert calls == 18
    for line in lines(output.read_text()):
        assert line["profile"] == "ragbench+ragchecker_strict"
        assert line["prompts"] == ["trace.en.1", "claims.en.1", "verdicts.en.1"]
        assert line["labels"][0]["n_document_sentences"] > 0
        assert line["cost_usd"] > 0
        assert isinstance(line["diagnosis"], list)
        MetricEvent.from_fields({name: value for name, value in line.items() if name not in {"labels", "diagnosis"}})


@pytest.mark.parametrize(
    ("refusal", "remedy"), [(Status(401, "bad key"), "judge.api_key"), (Status(404, "no such model"), "judge.model")]
)
def test_a_judge_that_refuses_its_key_stops_the_run_with_one_sentence(refusal: Status, remedy: str) -> None:
    with ScriptedJudge() as server:
        server.always = refusal
        arguments = ["score", str(ROWS), "--labeler", "judge", "--model", "m", "--base-url", server.url]
        result = CliRunner().invoke(cli, arguments)
        # Calls begin with half of judge.max_in_flight.
        assert len(server.requests) <= 32
    assert result.exit_code == 1
    assert remedy in str(result.exception)


def limited(monkeypatch: pytest.MonkeyPatch, dollars: float) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", '{"m": {"input": 100.0, "output": 400.0}}')
    monkeypatch.setenv("RAGTIDE_JUDGE_SPEND_PER_DAY_USD", str(dollars))


def test_at_a_spend_limit_everything_that_was_paid_for_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that cost less than expected make room for further ones, which are under way when a refused row is met."""
    limited(monkeypatch, 2.5)
    monkeypatch.setenv("RAGTIDE_JUDGE_MAX_IN_FLIGHT", "2")
    output = tmp_path / "scores.jsonl"
    with ScriptedJudge(latency_s=0.2) as server:
        judge = ("score", str(ROWS), "--labeler", "judge", "--model", "m", "--base-url", server.url)
        result = CliRunner().invoke(cli, [*judge, "--output", str(output)])
        paid = server.answered
        again = CliRunner().invoke(cli, [*judge, "--output", str(output)])
        asked = server.answered
    assert result.exit_code == again.exit_code == 1
    assert "spend limit of the day is reached" in str(result.exception)
    assert "spend limit of the day is reached" in str(again.exception)
    assert paid > 1
    written = lines(output.read_text())
    assert len(written) == asked
    assert sum(line["cost_usd"] for line in written) <= 2.5


def test_a_spend_limit_is_that_of_all_runs_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 1.0)
    with ScriptedJudge() as server:
        judge = ("score", str(ROWS), "--labeler", "judge", "--model", "m", "--base-url", server.url)
        costs = []
        for _ in range(4):
            result = CliRunner().invoke(cli, [*judge, "--json"])
            assert "spend limit of the day is reached" in str(result.exception)
            costs += [line["cost_usd"] for line in lines(result.stdout)]
    assert 0 < sum(costs) <= 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--labeler", "nobody"], "There are: local, judge, "),
        (["--labeler", "judge"], "judge.model is not set"),
        (["--labeler", "stored", "--profile", "other"], "other"),
        (["--strategy", "magic"], "There are: auto, running"),
        (["--reference", "magic"], "There are: ClapNQ"),
        (["--format", "xml"], "There are: jsonl"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["score", str(ROWS), "--limit", "1", *arguments])
    assert result.exit_code != 0
    unboxed = " ".join(re.sub("[│╭╮╰╯─]", " ", result.output).split())
    assert said in unboxed + str(result.exception)
