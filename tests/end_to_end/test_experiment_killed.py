"""An experiment of real processes: driver, worker and aggregator are killed in mid-run; the numbers are the same."""

import contextlib
import json
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.roles import command, environment, kill, start

from ragtide_schemas.experiments import Execution

CONCURRENCY = 6

TARGET = """
import os, random, time
from pathlib import Path

def answer(question, quality):
    # One line a call: appending less than a page is atomic.
    with open(Path(__file__).with_name("calls.txt"), "a") as file:
        file.write(f"{question}|{quality}\\n")
    time.sleep(0.01)
    if question.endswith("3"):
        raise RuntimeError("the retriever is away")
    hard = random.Random(question).uniform(-0.2, 0.2)
    noise = random.Random(f"{question}{quality}").gauss(0, 0.1)
    value = min(max(quality + hard + noise, 0.0), 1.0)
    return {"documents": ["It was built in 1889."], "response": "In 1889.", "metadata": {"value": value}}

def measure(item, answer):
    return {"value": answer.metadata["value"]}
"""

PLAN = f"""
name = "race"
target = "target:answer"
data = "questions.jsonl"
measure = "target:measure"
metric = "own.value"
concurrency = {CONCURRENCY}
tries = 1
[metrics.value]
is_algebraic = true
value_range = [0, 1]
[grid]
quality = [0.3, 0.4, 0.5, 0.55, 0.6, 0.62]
"""


def folder(path: Path) -> Path:
    path.mkdir()
    (path / "target.py").write_text(TARGET)
    (path / "experiment.toml").write_text(PLAN)
    (path / "questions.jsonl").write_text("".join(json.dumps({"question": f"Question {n}"}) + "\n" for n in range(150)))
    return path


def driver(url: str, place: Path) -> ForkedProcess:
    arguments = ["experiment", "run", "experiment.toml", "--no-roles", "--json"]
    with (place / "driver.log").open("ab") as log, (place / "board.json").open("wb") as board:
        return ForkedProcess(arguments, environment(url), place, board, log)


def numbers(board: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The part of a result that must not depend on which process died, and when."""
    return [
        (row["name"], row["status"], row["n_items"], row["n_failed"], row["estimates"]["own.value"], row["reason"])
        for row in board["rows"]
    ]


def shown(url: str) -> dict[str, Any]:
    done = command(url, "experiment", "show", "race", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def estimates(url: str) -> dict[tuple[str, str], tuple[int, float]]:
    """The numbers of the aggregator from all executions."""
    done = command(url, "estimates", "--json", extra={"RAGTIDE_PREFIX": "ragtide.run.race"})
    assert done.returncode == 0, done.stderr
    return {(one["pipeline"], one["metric"]): (one["n"], one["estimate"]) for one in json.loads(done.stdout)}


def looked(redis: Any) -> int:
    entries = redis.xrange("ragtide.run.race:{0}:experiment")
    return max([json.loads(fields[b"data"]).get("item", 0) for _, fields in entries], default=0)


def got_to(redis: Any, item: int) -> bool:
    return looked(redis) >= item


@pytest.mark.heavy
def test_whoever_is_killed_the_numbers_are_those_of_a_quiet_run(redis: Any, redis_url: str, tmp_path: Path) -> None:
    joined = {"RAGTIDE_PREFIX": "ragtide.run.race"}

    quiet = folder(tmp_path / "quiet")
    with contextlib.chdir(quiet):
        done = command(redis_url, "experiment", "run", "experiment.toml", "--json")
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)
    assert expected["completed"]
    redis.flushall()

    place = folder(tmp_path / "killed")
    random = Random(5)
    kills = 0
    processes = {role: start(role, redis_url, place / f"{role}.log", joined) for role in ("worker", "aggregator")}
    processes["driver"] = driver(redis_url, place)
    try:
        for role in ("driver", "worker", "driver", "aggregator", "worker", "driver"):
            wait_until(partial(got_to, redis, looked(redis) + random.choice([5, 10])))
            kill(processes[role])
            kills += role == "driver"
            processes[role] = (
                driver(redis_url, place) if role == "driver" else start(role, redis_url, place / f"{role}.log", joined)
            )
        assert processes["driver"].wait(120) == 0, (place / "driver.log").read_text()
        found = shown(redis_url)
        assert numbers(found) == numbers(expected)
        assert json.loads((place / "board.json").read_text()) == found

        calls = Counter((place / "calls.txt").read_text().splitlines())
        executions = [
            Execution.decode(fields[b"data"]) for _, fields in redis.xrange("ragtide.run.race:{0}:executions")
        ]
        assert (
            len({(execution.config, execution.item) for execution in executions})
            == len(executions)
            == found["executed"]
        )
        # Only what was going on when a driver died was called for nothing.
        assert len(executions) <= sum(calls.values()) <= len(executions) + kills * CONCURRENCY
        # The aggregator has counted every answer once, too.
        answered = Counter(execution.config for execution in executions if execution.failure is None)

        def aggregated() -> bool:
            seen = estimates(redis_url)
            return all(seen.get((config, "own.value"), (0, 0.0))[0] == n for config, n in answered.items())

        wait_until(aggregated)
    finally:
        for process in processes.values():
            kill(process)


@pytest.mark.heavy
def test_an_experiment_is_begun_in_one_folder_and_goes_on_from_another(redis_url: str, tmp_path: Path) -> None:
    place = folder(tmp_path / "here")
    (place / "questions.jsonl").write_text('{"question": "one"}\n{"question": "two"}\n')
    begun = command(redis_url, "experiment", "run", "here/experiment.toml")
    assert begun.returncode == 0, begun.stderr
    # A config is its number and the values of its parameters.
    assert all(quality in begun.stdout for quality in ("quality", "0.3", "0.55")), begun.stdout
    calls = (place / "calls.txt").read_text()
    assert command(redis_url, "experiment", "clone", "race", "#0", "more", "--set", "quality=0.9").returncode == 0
    resume = ("experiment", "resume", "race", "--file", "here/experiment.toml", "--json")
    goes_on = command(redis_url, *resume, "--fail-if", "own.value.n < 1", "--config", "more")
    assert goes_on.returncode == 0, goes_on.stderr
    assert json.loads(goes_on.stdout)["gate"]["outcome"] == "pass"
    assert command(redis_url, *resume, "--fail-if", "own.value.n < 100").returncode == 4
    found = {row["name"]: row["n_items"] for row in json.loads(goes_on.stdout)["rows"]}
    assert found["more"] == found["quality=0.3"] == 2
    assert (place / "calls.txt").read_text().removeprefix(calls).count("\n") == 2
