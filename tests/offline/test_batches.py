"""`ragtide score batch`: an answer is stored and paid for once, whatever happens at the endpoint or to the process."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.batch_endpoint import BatchEndpoint, DroppedError, RefusedError
from tests.support.conditions import wait_until
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide_consumers.labelers.judge import batches
from ragtide_offline.benchmark.batching import TRIES

pytestmark = pytest.mark.processes

ROWS = 6
BOTH = {"RAGTIDE_JUDGE_FAMILIES": '["trace", "ragchecker"]'}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchEndpoint]:
    with BatchEndpoint() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    found = [
        {
            "interaction_id": f"i-{number}",
            "pipeline": "shop",
            "question": f"When was tower {number} built?",
            "documents": ["The tower was built in 1889. It stands in Paris.", f"Rivers flow through Paris, {number}."],
            "response": f"The tower {number} was built in 1889. Penguins admire it.",
            "reference_answer": "The tower was built in 1889.",
        }
        for number in range(ROWS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def batch(rows: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["batch", str(rows), "--poll-s", "0.01", *arguments])


def found(rows: Path, *arguments: str) -> Any:
    shown = batch(rows, "--json", *arguments)
    assert shown.exit_code == 0, (shown.output, shown.exception)
    return json.loads(shown.stdout)


def scores(rows: Path, *arguments: str) -> list[dict[str, Any]]:
    shown = CliRunner().invoke(cli, ["score", str(rows), "--labeler", "judge", "--json", *arguments])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    return [one for one in lines if "scores" in one]


def ordinary(endpoint: BatchEndpoint) -> int:
    return endpoint.calls.count("POST /chat/completions")


def test_scores_after_a_batch_are_those_of_ordinary_calls_and_cost_half(
    endpoint: BatchEndpoint, rows: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in BOTH.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "ordinary"))
    expected = scores(rows)
    paid = sum(one["cost_usd"] for one in expected)
    assert ordinary(endpoint) == 3 * ROWS
    monkeypatch.setenv("RAGTIDE_DATA_DIR", str(tmp_path / "batches"))
    done = found(rows)
    # The verdicts need the claims, so there are two rounds.
    assert len(endpoint.batches) == 2
    assert done["stored"] == len(endpoint.asked) == 3 * ROWS
    assert done["cost_usd"] == pytest.approx(paid / 2)
    after = scores(rows)
    assert ordinary(endpoint) == 3 * ROWS
    assert [one["scores"] for one in after] == [one["scores"] for one in expected]
    assert sum(one["cost_usd"] for one in after) == 0
    assert found(rows) == {"stored": 0, "cost_usd": 0.0, "failed": 0, "reasons": {}, "waiting": None}


def test_without_waiting_the_command_tells_how_far_the_batch_is(endpoint: BatchEndpoint, rows: Path) -> None:
    endpoint.looks = 3
    first = found(rows, "--no-wait")
    assert first["waiting"] == {"batch": "batch_0", "status": "in_progress"}
    shown = batch(rows, "--no-wait")
    assert "batch_0: in_progress" in shown.stderr
    assert "give the same command again" in shown.stdout
    assert found(rows, "--no-wait")["stored"] == ROWS
    assert len(endpoint.batches) == 1


@pytest.mark.parametrize(
    "place",
    [
        "POST /batches",
        *(pytest.param(one, marks=pytest.mark.heavy) for one in ("POST /files", "GET /batches/batch_0", "GET /files/")),
    ],
)
def test_a_process_that_is_killed_pays_for_nothing_twice(
    endpoint: BatchEndpoint, rows: Path, tmp_path: Path, place: str
) -> None:
    """The endpoint has done the request, and the process is killed before it hears of it."""
    reached: list[str] = []
    reply = endpoint._reply

    def slow(method: str, path: str, body: bytes, kind: str) -> tuple[int, Any]:
        answer = reply(method, path, body, kind)
        if f"{method} {path.removeprefix('/v1')}".startswith(place) and not reached:
            reached.append(path)
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise DroppedError
        return answer

    endpoint._reply = slow  # type: ignore[assignment,method-assign]
    command = [sys.executable, "-m", "ragtide", "batch", str(rows), "--poll-s", "0.01"]
    process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: reached)
    process.wait()
    done = found(rows)
    assert done["stored"] == ROWS
    assert Counter(endpoint.asked).most_common(1)[0][1] == 1
    assert len(endpoint.batches) == 1
    scores(rows)
    assert ordinary(endpoint) == 0
    spend = tmp_path / "data" / "judge-spend.json"
    assert not spend.exists()


@pytest.mark.parametrize("place", ["POST /files", "POST /batches"])
def test_a_lost_connection_makes_no_second_batch(endpoint: BatchEndpoint, rows: Path, place: str) -> None:
    reply, lost = endpoint._reply, list[str]()

    def losing(method: str, path: str, body: bytes, kind: str) -> tuple[int, Any]:
        answer = reply(method, path, body, kind)
        if f"{method} {path.removeprefix('/v1')}" == place and not lost:
            lost.append(path)
            raise DroppedError
        return answer

    endpoint._reply = losing  # type: ignore[assignment,method-assign]
    assert "give the same command again" in str(batch(rows).exception)
    assert found(rows)["stored"] == ROWS
    assert len(endpoint.batches) == 1


def test_the_spend_limit_counts_a_batch_once_at_its_price(
    endpoint: BatchEndpoint, rows: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_SPEND_PER_DAY_USD", "1000")
    done = found(rows)
    spent = json.loads((tmp_path / "data" / "judge-spend.json").read_text())
    assert {round(amount, 6) for amount in spent.values()} == {round(done["cost_usd"], 6)}
    monkeypatch.setenv("RAGTIDE_JUDGE_SPEND_PER_DAY_USD", "0.001")
    monkeypatch.setenv("RAGTIDE_JUDGE_LANGUAGE", "ru")
    refused = batch(rows)
    assert "spend limit of the day does not allow a batch" in str(refused.exception)
    assert len(endpoint.batches) == 1


def test_answers_in_any_order_twice_missing_or_strange_are_taken_as_they_are(
    endpoint: BatchEndpoint, rows: Path
) -> None:
    seen: list[str] = []

    def answer(line: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(line["custom_id"])
        number = len(seen)
        usual = endpoint.usual(line)
        assert usual is not None
        if number == 1:
            return {"custom_id": line["custom_id"], "response": None, "error": {"message": "no capacity"}}
        if number == 2:
            return None
        if number == 3:
            return {**usual, "custom_id": ["no", "text"]}
        if number == 4:
            return {**usual, "response": {"status_code": 400, "body": {"error": {"message": "too long"}}}}
        return usual

    endpoint.answer = answer
    done = found(rows)
    # Two were refused by the endpoint; two had no answer, and are asked for again.
    assert done["stored"] == ROWS - 2
    assert done["failed"] == 2
    assert len(endpoint.batches) == 2
    assert len(endpoint.batches["batch_1"]["lines"]) == 2
    assert all(score["scores"] for score in scores(rows))
    assert ordinary(endpoint) == 2


def test_a_batch_that_expires_is_asked_for_again_and_not_for_ever(endpoint: BatchEndpoint, rows: Path) -> None:
    endpoint.end = "expired"
    endpoint.answer = lambda line: None
    done = found(rows)
    assert done["stored"] == 0
    assert done["reasons"] == {f"{TRIES} batches ended without an answer": ROWS}
    assert len(endpoint.batches) == TRIES


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_batch_that_fails_is_a_sentence_and_does_not_stay_open(endpoint: BatchEndpoint, rows: Path, end: str) -> None:
    endpoint.end = end
    shown = batch(rows)
    assert "batch batch_0" in str(shown.exception)
    assert ("the file is bad" in str(shown.exception)) is (end == "failed")
    endpoint.end = "completed"
    # The answers that a cancelled batch had are stored.
    assert found(rows)["stored"] == (ROWS if end == "failed" else 0)
    scores(rows)
    assert ordinary(endpoint) == 0


def test_an_endpoint_without_batches_is_a_sentence_without_the_key(endpoint: BatchEndpoint, rows: Path) -> None:
    def fault(method: str, path: str) -> None:
        raise RefusedError(404, "no files here, sk-very-secret-0123456789")

    endpoint.fault = fault
    shown = batch(rows)
    said = str(shown.exception)
    assert "no files here" in said
    assert "ordinary calls if the endpoint has no batches" in said
    assert "sk-very" not in said


def test_large_files_become_several_batches(
    endpoint: BatchEndpoint, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_REQUESTS", 4)
    assert found(rows)["stored"] == ROWS
    assert [len(one["lines"]) for one in endpoint.batches.values()] == [4, 2]
    monkeypatch.setattr(batches, "MOST_BYTES", 1)
    monkeypatch.setenv("RAGTIDE_JUDGE_LANGUAGE", "ru")
    assert found(rows)["stored"] == ROWS
    assert len(endpoint.batches) == 2 + ROWS


def test_two_processes_do_not_meet(endpoint: BatchEndpoint, rows: Path, tmp_path: Path) -> None:
    from ragtide_consumers.labelers.judge.batches import JudgeBatches

    class Client:
        def unbounded_client(self) -> None:
            return None

    with JudgeBatches(Client(), tmp_path / "data").alone():  # type: ignore[arg-type]
        shown = batch(rows)
    assert "another ragtide score batch uses" in str(shown.exception)


def test_a_damaged_file_of_open_batches_is_a_sentence(endpoint: BatchEndpoint, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "judge-batches.json").write_text("{")
    assert "judge-batches.json, which names the open batches" in str(batch(rows).exception)
    assert endpoint.batches == {}
