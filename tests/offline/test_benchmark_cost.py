"""`ragtide trust figures --dry-run`: the cost of a judge before it is paid."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide.testing import ScriptedJudge

pytestmark = pytest.mark.processes

ROWS = 12


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with ScriptedJudge() as running:
        yield running


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    found = [
        {
            "question": f"When was tower {number} built?",
            "documents": [
                "The tower was built in 1889. It stands in Paris.",
                f"The river flows through Paris, {number}.",
            ],
            "response": f"The tower {number} was built in 1889. Penguins admire it.",
            "gold_scores": {"trace.adherence": 0.0},
        }
        for number in range(ROWS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def command(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, **extra: str
) -> Result:
    for name, value in {**server.environment, **extra}.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(cli, ["trust", "figures", str(rows), *arguments])


def plan(server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, **extra: str) -> Any:
    shown = command(server, rows, monkeypatch, "--dry-run", "--json", *arguments, **extra)
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


BOTH = {"RAGTIDE_JUDGE_FAMILIES": '["trace", "ragchecker"]'}
SMALL = {**BOTH, "RAGTIDE_JUDGE_PROMPT": "keys", "RAGTIDE_JUDGE_WINDOW_TOKENS": "2048"}


@pytest.mark.parametrize("extra", [{}, BOTH, SMALL], ids=["trace", "both families", "a small window"])
def test_the_planned_calls_are_those_that_are_made(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    planned = plan(server, rows, monkeypatch, **extra)
    assert server.requests == []
    assert planned["rows"] == ROWS
    done = command(server, rows, monkeypatch, "--json", **extra)
    assert done.exit_code == 0, done.output
    assert len(server.requests) == planned["calls"] > 0
    # Every request has its usage: a token for each four characters.
    sent = sum(sum(len(message["content"]) for message in request["messages"]) // 4 for request in server.requests)
    assert sent == pytest.approx(planned["prompt_tokens"], rel=0.35)
    again = plan(server, rows, monkeypatch, **extra)
    assert again["calls"] == 0
    assert again["cached"] == ROWS * (1 if not extra else 2)


def test_rows_that_are_labeled_twice_count_twice(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan(server, rows, monkeypatch, "--reorder", "1")["calls"] == 2 * ROWS
    assert plan(server, rows, monkeypatch, "--limit", "5")["calls"] == 5
    assert plan(server, rows, monkeypatch, RAGTIDE_JUDGE_REPEAT_SHARE="1")["calls"] == 2 * ROWS


def test_dollars_come_from_the_price_and_without_one_none_are_named(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = command(server, rows, monkeypatch, "--dry-run")
    assert "The price of the model is not known: set it under judge.prices." in unknown.stdout
    assert plan(server, rows, monkeypatch)["cost_usd"] is None
    prices = json.dumps({server.environment["RAGTIDE_JUDGE_MODEL"]: {"input": 1.0, "output": 2.0}})
    found = plan(server, rows, monkeypatch, RAGTIDE_JUDGE_PRICES=prices)
    tokens = found["prompt_tokens"] + 2 * found["completion_tokens"]
    assert found["cost_usd"] == pytest.approx(tokens / 1e6)
    assert "About $" in command(server, rows, monkeypatch, "--dry-run", RAGTIDE_JUDGE_PRICES=prices).stdout
    assert server.requests == []


def test_other_labelers_make_no_calls_or_are_refused(
    server: ScriptedJudge, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan(server, rows, monkeypatch, "--labeler", "local")["calls"] == 0
    refused = command(server, rows, monkeypatch, "--dry-run", "--labeler", "cascade")
    assert refused.exit_code != 0
    assert "cannot foresee the calls of cascade" in str(refused.exception)
