"""Mistakes of users that the command line tells of: unknown names, empty files, many bad rows."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.conditions import wait_until
from tests.support.in_process import run_command
from tests.support.metric_events import event

from ragtide_offline.experiments.errors import kind_of
from ragtide_roles.serving import aggregate
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import load_settings

STREAMS = Streams("ragtide", 0)


@pytest.fixture(autouse=True)
def _this_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def scored(redis: Any, redis_url: str) -> None:
    """Aggregate scores of two pipelines."""
    last = b""
    for number in range(4):
        data = event(number, {"trace.adherence": 0.5}, pipeline=("shop", "search")[number % 2]).encode()
        last = redis.xadd(STREAMS.metrics, {DATA_FIELD: data})

    async def run() -> None:
        stop = asyncio.Event()
        role = asyncio.create_task(aggregate(load_settings(), redis_url, stop))
        await asyncio.to_thread(wait_until, lambda: redis.hget(STREAMS.checkpoint, "position") == last, 60)
        stop.set()
        await role

    asyncio.run(run())


@pytest.mark.usefixtures("scored")
@for_each(
    "arguments, words",
    [
        (("estimates", "--pipeline", "shpo"), "no pipeline 'shpo'; did you mean 'shop'? There are: search, shop"),
        (("estimates", "--metric", "trace.adherance"), "did you mean 'trace.adherence'?"),
        (("estimates", "--segment", "lang=de"), "no segment 'lang=de'"),
        (("compare", "shop", "serch"), "no pipeline 'serch'; did you mean 'search'?"),
        (("compare", "shop", "serch", "--share", "0.5"), "no pipeline 'serch'; did you mean 'search'?"),
        (("compare", "zzz", "shop"), "no pipeline 'zzz'. There are: search, shop"),
        (
            ("compare", "shop", "--labeler", "test", "--labeler", "tst"),
            "no labeler of shop 'tst'; did you mean 'test'?",
        ),
        (("estimates", "--pipeline", "shp"), "no pipeline 'shp'; did you mean 'shop'?"),
    ],
)
def test_an_unknown_name_says_which_there_are(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    done = run_command(capsys, *arguments)
    assert words in done.stderr
    assert "No estimates yet" not in done.stderr
    assert done.code == 1
    assert json.loads(run_command(capsys, *arguments, "--json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("estimates", "--window", "al"), "no window 'al'; did you mean 'all'? There are: all, 1h"),
        (("estimates", "--estimator", "prediction-powered"), "did you mean 'prediction_powered'?"),
        (("estimates", "--strategy", "runing"), "no strategy 'runing'; did you mean 'running'?"),
        (("estimates", "--strategy", "wilson"), "strategy 'wilson' is for offline evals"),
        (("compare", "shop", "search", "--window", "ALL"), "no window 'ALL'; did you mean 'all'?"),
        (("score", "rows.jsonl", "--strategy", "norml"), "no strategy 'norml'; did you mean 'normal'?"),
        (("score", "rows.jsonl", "--reference", "clapn"), "no published result for 'clapn'; did you mean 'ClapNQ'?"),
        (("score", "rows.jsonl", "--format", "josnl"), "no format 'josnl'; did you mean 'jsonl'?"),
        (("score", "rows.jsonl", "--labeler", "locl"), "no labeler 'locl'; did you mean 'local'?"),
        (("score", "rows.jsonl", "--profile", "ragbnch"), "no profile 'ragbnch'; did you mean 'ragbench'?"),
        (("trust", "agreement", "scores.jsonl", "--metric", "trace.adherance"), "did you mean 'trace.adherence'?"),
        (("estimates", "--undecided", "pss"), "no choice 'pss'; did you mean 'pass'? There are: undecided, pass, fail"),
        (("doctor", "--role", "workr"), "no choice 'workr'; did you mean 'worker'?"),
        (("report", "x", "--format", "htm"), "no choice 'htm'; did you mean 'html'?"),
        (("dead-letters", "--reason", "not_jsn"), "no reason 'not_jsn'; did you mean 'not_json'?"),
        (
            ("feedback", "--pipeline", "p", "--interaction", "i", "--gold", "trace.adherance=1"),
            "no metric 'trace.adherance'; did you mean 'trace.adherence'?",
        ),
    ],
)
def test_an_unknown_choice_is_suggested(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(0))
    score = {"interaction_id": "1", "pipeline": "p", "labeler": "a", "labeler_version": "1", "profile": ""}
    line = {**score, "scores": {"trace.adherence": 0.5}, "absent": {}, "gold_scores": {"trace.adherence": 0.5}}
    (tmp_path / "scores.jsonl").write_text(json.dumps(line) + "\n")
    done = run_command(capsys, *arguments)
    assert words in done.told
    assert done.code in {1, 2}


@pytest.mark.usefixtures("scored")
def test_watch_says_that_a_pipeline_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'shop'?" in run_command(capsys, "watch", "--once", "--pipeline", "shpo").stdout


@pytest.mark.usefixtures("scored")
def test_watch_in_a_pipe_prints_one_screen_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "watch")
    assert done.code == 0
    assert "shop" in done.stdout
    assert "\x1b" not in done.stdout
    assert "The output is no terminal, so this is one screen" in done.stderr
    assert run_command(capsys, "watch", "--once").stderr == ""


def test_without_any_estimates_the_next_step_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "run a worker and an aggregator" in run_command(capsys, "estimates", "--pipeline", "shop").stderr


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_scoring_an_empty_file_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (tmp_path / "empty.jsonl").write_text(content)
    done = run_command(capsys, "score", "empty.jsonl")
    assert done.code == 1
    assert "empty.jsonl has no interactions to score" in done.stderr


def rows(count: int) -> str:
    """Rows with two kinds of problems, and a good one at the end."""
    bad = [
        {"pipeline": "p", "question": f"q {number}", "response": "r", "documents": ["d"], "segmets": f"t {number}"}
        if number % 2
        else {"pipeline": "p", "question": {"score": number}, "response": "r", "documents": ["d"]}
        for number in range(count)
    ]
    good = {"pipeline": "p", "question": "q", "response": "The tower is iron.", "documents": ["The tower is iron."]}
    return "\n".join(json.dumps(row) for row in [*bad, good]) + "\n"


@pytest.mark.parametrize("command", ["score", "publish"])
def test_problems_of_many_rows_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (tmp_path / "rows.jsonl").write_text(rows(220))
    done = run_command(capsys, command, "rows.jsonl")
    assert done.code == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("rows.jsonl:")]
    assert len(lines) == 12
    assert sum("105 more like it" in line for line in lines) == 2
    assert "question" in lines[0]
    assert len(done.stderr) < 5000


def test_problems_of_feedback_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "feedback.jsonl").write_text('{"pipeline": "p"}\n' * 110)
    done = run_command(capsys, "feedback", "feedback.jsonl")
    assert done.code == 1
    assert done.stderr.count("interaction_id is missing") == 6
    assert "105 more like it" in done.stderr


def test_messages_that_differ_in_a_value_are_of_one_kind() -> None:
    assert kind_of("KeyError: 'a7'") == kind_of("KeyError: 'b'")
    assert kind_of("row 7 took 1.5 s") == kind_of("row 12 took 30 s")
    assert kind_of("KeyError: 'a'") != kind_of("IndexError: 'a'")
