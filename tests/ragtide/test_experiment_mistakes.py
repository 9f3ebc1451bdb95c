"""Mistakes in experiments: misspelt parameters, configs whose calls fail again and again, commands without a driver."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.ragtide.test_experiment import QUESTIONS, Target, experiment
from tests.support.in_process import run_command

from ragtide import Experiment, ExperimentControl
from ragtide_offline.experiments.errors import ExperimentError
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas.experiments import DRIVER, Command

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide.run.try", 0)


@pytest.fixture(autouse=True)
def _this_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("RAGTIDE_LEASE_S", "1")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"qualty": [0.3, 0.4]}, "no parameter of the target 'qualty'; did you mean 'quality'?"),
        ({"quality": [0.3], "top_k": [1, 2]}, "no parameter of the target 'top_k'"),
    ],
)
def test_a_parameter_that_the_target_does_not_take_is_refused_before_anything_is_called(
    redis: Any, redis_url: str, grid: dict[str, Any], words: str
) -> None:
    target = Target()
    with pytest.raises(ExperimentError, match=words.replace("?", r"\?")):
        experiment(redis_url, target, grid=grid).run()
    assert not target.calls
    assert not redis.keys("*run*")


def test_a_parameter_that_the_target_needs_must_be_there(redis_url: str) -> None:
    with pytest.raises(ExperimentError, match="config 'a' has no parameter 'quality', which the target needs"):
        experiment(redis_url, Target(), grid=None, configs={"a": {}}).run()


@pytest.fixture
def done(redis_url: str) -> Experiment:
    made = experiment(redis_url, Target(), data=QUESTIONS[:10], race={"enabled": False})
    made.run()
    return made


@pytest.mark.usefixtures("done")
def test_a_clone_with_a_misspelt_parameter_is_refused(
    redis: Any, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = run_command(capsys, "experiment", "clone", "try", "#0", "bad", "--set", "qualty=0.5")
    assert refused.code == 1
    assert "no parameter 'qualty'; did you mean 'quality'?" in refused.stderr
    # An order that another program writes into the log changes nothing either.
    order = Command(op="clone", config="quality=0.3", clone="bad", parameters={"qualty": 0.5})
    redis.xadd(STREAMS.experiment, {DATA_FIELD: order.encode()})
    assert "bad" not in {row.name for row in ExperimentControl("try").board().rows}


def anything(question: str, **parameters: Any) -> tuple[list[str], str]:
    return ["It was built in 1889."], f"In {1889 + len(parameters)}."


def test_where_the_target_takes_any_parameter_one_that_no_config_has_is_refused(redis_url: str) -> None:
    made = Experiment(
        "try", anything, data=QUESTIONS[:5], grid={"top_k": [1, 2]}, metric="trace.adherence", redis_url=redis_url
    )
    made.run()
    with pytest.raises(ExperimentError, match="no parameter 'topk'; did you mean 'top_k'"):
        made.control.clone("#0", "bad", topk=5)
    made.control.clone("#0", "good", top_k=5)
    assert made.run().completed


@pytest.mark.usefixtures("done")
def test_a_command_says_that_no_driver_runs(redis: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("stop", "try", "#0"),
        ("resume", "try", "#0"),
        ("clone", "try", "#1", "more", "--set", "quality=0.9"),
        ("delete", "try", "#2"),
        ("limits", "try", "--max-tokens", "5"),
    ):
        told = run_command(capsys, "experiment", *arguments).stderr
        assert "No driver runs, so this takes effect when the experiment continues" in told
    shown = run_command(capsys, "experiment", "show", "try").stderr
    assert "No driver runs, so no config of try is called." in shown
    # One that drives holds this key.
    redis.set(STREAMS.driver, "host-1")
    assert "driver" not in run_command(capsys, "experiment", "stop", "try", "#1").stderr
    assert "driver" not in run_command(capsys, "experiment", "show", "try").stderr


@pytest.mark.usefixtures("done")
def test_a_complete_experiment_needs_no_driver(capsys: pytest.CaptureFixture[str]) -> None:
    assert "driver" not in run_command(capsys, "experiment", "show", "try").stderr


def fails(question: str, quality: float) -> bool:
    return quality == 0.4


def test_a_config_whose_calls_fail_with_one_error_is_stopped_and_is_no_contender(
    redis_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = Target(fails=fails)
    made = experiment(redis_url, target, race={"enabled": False}, tries=1, concurrency=2, same_failures=5)
    board = made.run()
    assert board.completed
    row = {row.name: row for row in board.rows}["quality=0.4"]
    assert (row.status, row.stopped_by) == ("stopped", DRIVER)
    # Calls that were going on when the fifth one failed may have failed too.
    assert re.fullmatch(
        r"([5-9]|\d\d) calls in a row failed with the same error: RuntimeError: the retriever is away", row.reason or ""
    )
    assert 5 <= sum(count for (_, quality), count in target.calls.items() if quality == 0.4) < len(QUESTIONS)
    assert "calls in a row failed" in run_command(capsys, "experiment", "show", "try").stdout
    run_command(capsys, "report", "try", "--output", "r.html")
    said = (tmp_path / "r.html").read_text()
    assert "Not surely behind it" not in said
    assert "Without a score: quality=0.4 (#1)." in said


def test_a_config_that_is_resumed_has_its_failures_counted_anew(redis_url: str) -> None:
    target = Target(fails=fails)
    fields: dict[str, Any] = {"race": {"enabled": False}, "tries": 1, "concurrency": 2, "same_failures": 5}
    experiment(redis_url, target, **fields).run()
    before = target.calls.total()
    made = experiment(redis_url, target, **fields)
    made.control.resume("quality=0.4")
    board = made.run()
    assert {row.name: row.stopped_by for row in board.rows}["quality=0.4"] == DRIVER
    assert target.calls.total() - before >= 5
    # One that is mended runs to the end.
    mended = experiment(redis_url, Target(), **fields)
    mended.control.resume("quality=0.4")
    found = {row.name: row for row in mended.run().rows}["quality=0.4"]
    assert (found.status, found.stopped_by) == ("complete", None)
    assert found.estimates["own.score"].n > 0


def test_failures_that_differ_or_come_with_successes_stop_no_config(redis_url: str) -> None:
    target = Target(fails=lambda question, quality: quality == 0.4 and "3" in question)
    board = experiment(redis_url, target, race={"enabled": False}, tries=1, same_failures=12).run()
    assert {row.name: row.status for row in board.rows}["quality=0.4"] in {"running", "complete"}


def test_an_answer_that_no_entry_can_hold_is_a_failure_and_not_tried_for_ever(redis_url: str) -> None:
    def odd(question: str, k: int) -> dict[str, Any]:
        if k == 1:
            raise ValueError("\ud800")
        return {"documents": ["d"], "response": "r", "prompt_tokens": 1.5}

    made = Experiment(
        "odd", odd, data=QUESTIONS[:3], grid={"k": [1, 2]}, metric="trace.adherence", redis_url=redis_url, tries=1
    )
    board = made.run()
    assert [row.n_failed for row in board.rows] == [3, 3]
    json.dumps(board.as_dict())
