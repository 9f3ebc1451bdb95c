"""Experiments as users run them from Python: real Redis, real roles, a target that counts its calls."""

import asyncio
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.conditions import wait_until

from ragtide import Experiment, ExperimentControl
from ragtide.testing import JudgePrompt, Labels, ScriptedJudge
from ragtide_offline.experiments.board import Board
from ragtide_offline.experiments.errors import ExperimentError
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.workspaces import list_workspaces, register_workspace, remove_workspace
from ragtide_schemas import Workspace

pytestmark = pytest.mark.processes

METRICS = {"score": {"is_algebraic": True, "value_range": (0, 1)}}

QUESTIONS = [f"Question number {number}?" for number in range(60)]


def score(question: str, quality: float) -> float:
    """Some questions are harder than others, for everybody."""
    hard = Random(question).uniform(-0.2, 0.2)
    return min(max(quality + hard + Random(f"{question}{quality}").gauss(0, 0.05), 0.0), 1.0)


class Target:
    """Answers, and counts how often it was asked what."""

    def __init__(self, *, fails: Callable[[str, float], bool] = lambda question, quality: False) -> None:
        self.calls: Counter[tuple[str, float]] = Counter()
        self._fails = fails
        self._lock = threading.Lock()

    def __call__(self, question: str, quality: float) -> dict[str, Any]:
        with self._lock:
            self.calls[question, quality] += 1
        if self._fails(question, quality):
            raise RuntimeError("the retriever is away")
        return {
            "documents": ["It was built in 1889."],
            "response": "In 1889.",
            "cost_usd": 0.001,
            "prompt_tokens": 5,
            "metadata": {"score": score(question, quality)},
        }


def measure(item: Any, answer: Any) -> dict[str, Any]:
    return {"score": {"value": answer.metadata["score"]}}


def experiment(url: str, target: Any, name: str = "try", **more: Any) -> Experiment:
    fields: dict[str, Any] = {
        "data": QUESTIONS,
        "metric": "score",
        "grid": {"quality": [0.3, 0.4, 0.6, 0.7]},
        "measure": measure,
        "metrics": METRICS,
        "redis_url": url,
        **more,
    }
    return Experiment(name, target, **fields)


def numbers(board: Board) -> list[tuple[Any, ...]]:
    """The part of a leaderboard that does not depend on timing."""
    return [
        (row.name, row.status, row.n_items, row.n_failed, row.estimates["own.score"], row.behind, row.reason)
        for row in board.rows
    ]


def test_the_best_is_found_with_less_work_and_running_again_calls_nothing(redis_url: str) -> None:
    target = Target()
    made = experiment(redis_url, target)
    board = made.run()
    assert board.completed
    assert board.leader is not None
    assert board.leader.name == "quality=0.7"
    assert board.leader.status == "complete"
    known = [score(question, 0.7) for question in QUESTIONS]
    mean = sum(known) / len(known)
    found = board.leader.estimates["own.score"]
    assert found.estimate == found.lower == found.upper == pytest.approx(mean)
    # The scores of the labeler are there too.
    assert board.leader.estimates["trace.context_utilization"].n == 60
    assert [row.status for row in board.rows[1:]] == ["stopped"] * 3
    assert board.share_of_work < 0.8
    assert sum(target.calls.values()) == board.executed
    assert set(target.calls.values()) == {1}
    assert board.cost_usd == pytest.approx(0.001 * board.executed)
    assert board.tokens == 5 * board.executed
    again = experiment(redis_url, other := Target())
    # The target has the same name, as that of a program that is run again.
    assert numbers(again.run()) == numbers(board)
    assert not other.calls


def test_the_numbers_do_not_depend_on_how_much_is_done_at_once(redis_url: str) -> None:
    boards = [
        experiment(redis_url, Target(), f"at-once-{concurrency}", concurrency=concurrency).run()
        for concurrency in (1, 16)
    ]
    assert numbers(boards[0]) == numbers(boards[1])


def test_another_plan_under_the_same_name_is_refused(redis_url: str) -> None:
    experiment(redis_url, Target(), data=QUESTIONS[:5]).run()
    with pytest.raises(ExperimentError, match="another seed, order_digest: give the new experiment another name"):
        experiment(redis_url, Target(), data=QUESTIONS[:5], seed=8).run()
    with pytest.raises(ExperimentError, match="another data_digest, population_size"):
        experiment(redis_url, Target(), data=QUESTIONS[:6], shards=5).run()


async def test_a_run_that_is_something_else_is_refused(redis_url: str, async_redis: Any) -> None:
    settings = load_settings(redis_url=redis_url)
    await register_workspace(async_redis, settings, Workspace(run="try", kind="replay", source="x"))
    with pytest.raises(ExperimentError, match="workspace 'try' is a replay"):
        await experiment(redis_url, Target()).run_async()


def test_failed_calls_are_tried_again_and_then_counted_as_failures(redis_url: str) -> None:
    flaky: set[str] = set()

    def fails(question: str, quality: float) -> bool:
        if quality != 0.7:
            return False
        if question in QUESTIONS[:6]:
            return True
        first = question not in flaky
        flaky.add(question)
        return first and question in QUESTIONS[6:9]

    target = Target(fails=fails)
    board = experiment(redis_url, target, tries=2, data=QUESTIONS[:20]).run()
    row = next(row for row in board.rows if row.name == "quality=0.7")
    assert (row.n_items, row.n_failed, row.estimates["own.score"].n) == (20, 6, 14)
    expected = [score(question, 0.7) for question in QUESTIONS[6:20]]
    assert row.estimates["own.score"].estimate == pytest.approx(sum(expected) / len(expected))
    # The score of every possible item is known, so no uncertainty is left.
    assert row.estimates["own.score"].lower == row.estimates["own.score"].upper
    assert {target.calls[question, 0.7] for question in QUESTIONS[:9]} == {2}


def test_answers_that_are_none_are_not_tried_again(redis_url: str) -> None:
    calls = Counter[str]()

    def target(question: str, quality: float) -> Any:
        calls[question] += 1
        return ["only documents"]

    board = experiment(redis_url, target, data=QUESTIONS[:3], grid={"quality": [1]}).run()
    assert set(calls.values()) == {1}
    assert board.rows[0].n_failed == 3
    assert board.leader is None


def test_what_is_measured_otherwise_than_declared_stops_everything_with_a_word(redis_url: str) -> None:
    with pytest.raises(ExperimentError, match=r"own.score is 7, outside 0 to 1"):
        experiment(redis_url, Target(), measure=lambda item, answer: {"score": 7}).run()


def test_an_async_target_and_its_timeout(redis_url: str) -> None:
    async def target(question: str, quality: float) -> tuple[list[str], str]:
        if question == QUESTIONS[1]:
            await asyncio.sleep(60)
        return ["It was built in 1889."], "In 1889."

    board = experiment(
        redis_url, target, data=QUESTIONS[:3], grid={"quality": [1]}, measure=None, metric="trace.context_utilization",
        metrics=None, timeout_s=0.3, tries=1,
    ).run()  # fmt: skip
    assert (board.rows[0].n_items, board.rows[0].n_failed) == (3, 1)


def test_a_call_that_hangs_costs_its_timeout_and_does_not_keep_the_process(redis_url: str, tmp_path: Path) -> None:
    program = tmp_path / "hangs.py"
    program.write_text(
        "import sys, time\n"
        "from ragtide import Experiment\n"
        "def answer(question, k):\n"
        "    if question == 'b':\n"
        "        time.sleep(600)\n"
        "    return ['It was built in 1889.'], 'In 1889.'\n"
        "board = Experiment('hangs', answer, data=['a', 'b', 'c'], metric='trace.context_utilization',\n"
        "                   configs={'one': {'k': 1}}, timeout_s=0.3, tries=1, redis_url=sys.argv[1]).run()\n"
        "print(board.rows[0].n_items, board.rows[0].n_failed)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), redis_url], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["3", "1"], done.stderr


def test_a_limit_halts_and_a_new_one_lets_it_go_on(redis_url: str) -> None:
    target = Target()
    fields: dict[str, Any] = {"limits": {"max_cost_usd": 0.02}, "concurrency": 4, "race": {"enabled": False}}
    board = experiment(redis_url, target, **fields).run()
    assert not board.completed
    assert "raise max_cost_usd" in (board.paused or "")
    # Only the items that were running when the limit was reached exceed it.
    assert 20 <= board.executed <= 20 + 4
    assert experiment(redis_url, target, **fields).run().executed == board.executed
    made = experiment(redis_url, target, **fields)
    made.control.limits(max_cost_usd=10)
    done = made.run()
    assert done.completed
    assert done.executed == 4 * 60
    assert set(target.calls.values()) == {1}


def running(made: Experiment) -> threading.Thread:
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    return thread


async def test_an_endpoint_is_raced_as_a_function_is(redis_url: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        quality = asked["parameters"]["quality"]
        if asked["question"] == QUESTIONS[0]:
            return web.Response(status=500, text="away")
        value = score(asked["question"], quality)
        return web.json_response({"documents": ["Built in 1889."], "response": "1889.", "metadata": {"score": value}})

    app = web.Application()
    app.router.add_post("/answer", answer)
    async with TestServer(app) as server:
        board = await experiment(redis_url, str(server.make_url("/answer")), data=QUESTIONS[:20]).run_async()
    assert board.leader is not None
    assert board.leader.name == "quality=0.7"
    assert {row.n_failed for row in board.rows} == {1}
    known = [score(question, 0.7) for question in QUESTIONS[1:20]]
    assert board.leader.estimates["own.score"].estimate == pytest.approx(sum(known) / len(known))


class Gate(Target):
    """Lets so many calls through and then waits until it is opened."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._left = threading.Semaphore(calls)
        self.open = threading.Event()

    def __call__(self, question: str, quality: float) -> dict[str, Any]:
        while not self.open.is_set() and not self._left.acquire(timeout=0.01):
            pass
        return super().__call__(question, quality)


def test_configs_are_stopped_resumed_cloned_and_deleted_while_it_runs(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_LEASE_S", "1")
    gate = Gate(60)
    made = experiment(redis_url, gate, race={"enabled": False}, concurrency=4)
    thread = running(made)
    control = ExperimentControl("try", redis_url=redis_url, by="ann")
    wait_until(lambda: _compared(control) >= 10)
    with pytest.raises(ExperimentError, match="another process drives 'try'"):
        experiment(redis_url, Gate(0), race={"enabled": False}, concurrency=4).run()
    control.stop("quality=0.3", "too bad")
    control.delete("#1")
    control.clone("quality=0.7", "better", quality=0.9)
    control.clone("quality=0.7", "same")
    with pytest.raises(ExperimentError, match="there is no config 'nobody'"):
        control.stop("nobody")
    with pytest.raises(ExperimentError, match="stopped already"):
        control.stop("quality=0.3")
    gate.open.set()
    thread.join(60)
    board = control.board()
    rows = {row.name: row for row in board.rows}
    assert set(rows) == {"quality=0.3", "quality=0.6", "quality=0.7", "better", "same"}
    assert board.completed
    assert (rows["quality=0.3"].status, rows["quality=0.3"].stopped_by) == ("stopped", "ann")
    assert rows["quality=0.3"].reason == "too bad"
    assert rows["quality=0.3"].n_items < 60
    assert (rows["better"].n_items, rows["better"].parent) == (60, "quality=0.7")
    # With the same parameters nothing is called: the answers are taken over.
    assert rows["same"].estimates["own.score"] == rows["quality=0.7"].estimates["own.score"]
    assert rows["same"].cost_usd < rows["quality=0.7"].cost_usd
    assert gate.calls[QUESTIONS[0], 0.9] == 1
    assert max(gate.calls.values()) <= 2  # a clone that was faster than its parent
    control.resume("quality=0.3")
    done = made.run()
    assert {row.name: row.n_items for row in done.rows}["quality=0.3"] == 60
    with pytest.raises(ExperimentError, match="was deleted"):
        control.resume("quality=0.4")


def _compared(control: ExperimentControl) -> int:
    try:
        return control.board().compared
    except ConfigurationError:
        return 0


async def test_it_runs_inside_of_a_running_loop_and_is_listed_and_removed(redis_url: str, async_redis: Any) -> None:
    # As in a notebook, where a loop is running already.
    made = experiment(redis_url, Target(), data=QUESTIONS[:10])
    board = made.run()
    assert board.compared == 10
    settings = load_settings(redis_url=redis_url)
    (info,) = await list_workspaces(async_redis, settings)
    assert (info.run, info.kind, info.population_size) == ("try", "experiment", 10)
    await remove_workspace(async_redis, settings, "try")
    left = [key.decode() for key in await async_redis.keys("*")]
    assert not [key for key in left if key.startswith("ragtide.run.")]
    with pytest.raises(ConfigurationError, match="there is no workspace 'try'"):
        await asyncio.to_thread(made.control.board)


def test_calls_whose_code_leaves_or_never_returns_fail_and_the_experiment_ends(redis_url: str) -> None:
    ways = {0.3: SystemExit(3), 0.4: StopIteration("x"), 0.6: asyncio.CancelledError()}

    async def target(question: str, quality: float) -> dict[str, Any]:
        while quality == 0.7 and question == "b?":
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        return await asyncio.to_thread(answered, question, quality)

    def answered(question: str, quality: float) -> dict[str, Any]:
        if quality in ways:
            raise ways[quality]
        return {"documents": ["It was built in 1889."], "response": "In 1889.", "metadata": {"score": 0.5}}

    def measuring(item: Any, answer: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    made = experiment(redis_url, target, "leaves", data=["a?", "b?", "c?"], measure=measuring, timeout_s=2, tries=1)
    board = made.run()
    assert board.completed
    assert {row.name: row.n_failed for row in board.rows} == {
        "quality=0.3": 3, "quality=0.4": 3, "quality=0.6": 3, "quality=0.7": 1,
    }  # fmt: skip


FRIENDLY = "How friendly is the response?"
TONE = {"name": "tone", "question": FRIENDLY, "scale": "1-5", "rate": 0.1, "pipelines": ["x"]}


def friendly(question: str, quality: float) -> dict[str, Any]:
    """Answer; the text says how friendly it is."""
    grade = 1 + round(4 * score(question, quality))
    return {"documents": ["It was built in 1889."], "response": f"Friendliness {grade}."}


def grade_of(prompt: JudgePrompt) -> Labels:
    (grade,) = re.findall(r"Friendliness ([1-5])", str(prompt.body["messages"]))[-1:]
    return Labels(answers={FRIENDLY: grade})


def test_a_criterion_decides_an_experiment_on_its_own_scale_and_is_asked_of_every_answer(redis_url: str) -> None:
    with ScriptedJudge(always=grade_of) as judge:
        settings = judge.settings(criteria=[TONE], families=[])
        settings = settings.model_copy(update={"redis_url": redis_url})
        made = Experiment(
            "tone", friendly, metric="criteria.tone", data=QUESTIONS, settings=settings,
            grid={"quality": [0.2, 0.8]}, race={"margin": 0.1},
        )  # fmt: skip
        board = made.run()
        assert board.leader is not None
        assert (board.completed, board.leader.name) == (True, "quality=0.8")
        at = board.leader.estimates["criteria.tone"]
        known = [1 + round(4 * score(question, 0.8)) for question in QUESTIONS]
        assert at.n == 60
        assert at.estimate == pytest.approx(sum(known) / 60)
        assert at.value_range == (1.0, 5.0)
        (loser,) = board.rows[1:]
        assert loser.status == "stopped"
        assert made.plan.criterion is not None
        assert (made.plan.criterion.rate, made.plan.criterion.question) == (1.0, FRIENDLY)


def test_a_criterion_needs_a_labeler_that_answers_it(redis_url: str) -> None:
    with pytest.raises(ExperimentError, match='set labeler = "judge"'):
        experiment(redis_url, Target(), metric="answer.relevance")
    with pytest.raises(ExperimentError, match="did you mean"):
        experiment(redis_url, Target(), metric="answer.relevanse")
