import asyncio
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schemas.test_experiments import plan

from ragtide_offline.experiments import Answer
from ragtide_offline.experiments.answers import answer_from, interaction_of
from ragtide_offline.experiments.drafts import Draft, draft_of, grid_of, permutation, plan_of, read_draft
from ragtide_offline.experiments.errors import AnswerError, ExperimentError, MeasureError
from ragtide_offline.experiments.execution_log import ExecutionLog
from ragtide_offline.experiments.measuring import measured
from ragtide_offline.experiments.schedule import Schedule, ahead
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.experiments.targets import CallableTarget, Target, function_of, target_of
from ragtide_producers.files.items import Item, items_of
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas.experiments import Command, Config, Execution, Limits, Look, OwnMetric, Paused

ITEM = items_of([{"id": "q1", "question": "When was it built?", "reference_answer": "In 1889.", "year": 1889}])[0]


def draft(**more: Any) -> Draft:
    fields = {"name": "e", "metric": "trace.adherence", "grid": {"k": [1, 2]}, **more}
    return draft_of(fields)


# Drafts.


def test_a_grid_is_every_combination() -> None:
    configs = grid_of({"k": [1, 2], "mode": ["a", "b"], "fast": [True]})
    assert [config.name for config in configs] == [
        "k=1,mode=a,fast=true", "k=1,mode=b,fast=true", "k=2,mode=a,fast=true", "k=2,mode=b,fast=true",
    ]  # fmt: skip
    assert configs[1].parameters == {"k": 1, "mode": "b", "fast": True}


@settings(max_examples=50)
@given(size=st.integers(1, 300), seed=st.integers(0, 10**9))
def test_the_order_is_a_permutation_that_the_seed_decides(size: int, seed: int) -> None:
    order = permutation(size, seed)
    assert sorted(order) == list(range(size))
    assert order == permutation(size, seed)


def test_items_are_shuffled_uniformly_before_they_are_cut_into_shards() -> None:
    # Of data sorted by difficulty, every place of the order has every item about as often: chi-squared over 20 x 20.
    counts = [[0] * 20 for _ in range(20)]
    for seed in range(4000):
        for place, item in enumerate(permutation(20, seed)):
            counts[place][item] += 1
    chi_squared = sum((count - 200) ** 2 / 200 for row in counts for count in row)
    assert 361 - 5 * (2 * 361) ** 0.5 < chi_squared < 361 + 5 * (2 * 361) ** 0.5


def test_a_plan_records_the_order_and_gives_the_items_in_it() -> None:
    items = items_of([f"question {number}" for number in range(50)])
    made, ordered = plan_of(draft(seed=3), items, labeler="local")
    assert [one.question for one in ordered] == [items[place].question for place in permutation(50, 3)]
    other, _ = plan_of(draft(seed=4), items, labeler="local")
    fewer, _ = plan_of(draft(seed=3), items[:49], labeler="local")
    assert len({one.order_digest for one in (made, other, fewer)}) == 3
    assert made.data_digest == other.data_digest != fewer.data_digest
    assert (made.population_size, made.shards, made.labeler) == (50, 8, "local")


def test_what_rapidfire_says_of_intervals_and_metrics_is_taken() -> None:
    made, _ = plan_of(
        draft(
            metric="Precision",
            metrics={
                "Precision": {"is_algebraic": True, "value_range": (0, 1)},
                "Hits": {"is_distributive": True, "value_range": (0, 10)},
            },
            online_strategy_kwargs={"strategy_name": "wilson", "confidence_level": 0.9, "use_fpc": False},
        ),
        items_of(["a", "b"]),
        labeler="local",
    )
    assert made.metric == "own.precision"
    assert [(one.name, one.kind.value, one.upper) for one in made.metrics] == [
        ("own.precision", "algebraic", 1.0), ("own.hits", "distributive", 10.0),
    ]  # fmt: skip
    assert (made.intervals.strategy, made.intervals.confidence, made.intervals.use_fpc) == ("wilson", 0.9, False)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        # A setting under another name than the right one is never ignored.
        ({"online_strategy_kwargs": {"strategy": "wilson"}}, "online_strategy_kwargs has strategy, which is unknown"),
        ({"online_strategy_kwargs": {"confidence": 0.9}}, "use strategy_name, confidence_level, use_fpc"),
        ({"online_strategy_kwargs": {"strategy_name": "best"}}, "online_strategy_kwargs: strategy"),
        ({"online_strategy_kwargs": {"confidence_level": 95}}, "online_strategy_kwargs: confidence"),
        ({"online_strategy_kwargs": {"confidence_level": "0.95"}}, "online_strategy_kwargs: confidence"),
        ({"online_strategy_kwargs": {"use_fpc": "no"}}, "online_strategy_kwargs: use_fpc"),
        ({"online_strategy_kwargs": {"use_fpc": True}, "intervals": {"strategy": "normal"}}, "give one of them"),
        ({"confidence_level": 0.9}, "confidence_level is not a field"),
        ({"race": {"looks": 3}}, "race.looks is not a field"),
        ({"metric": "Recall"}, "metric 'Recall' is unknown"),
        ({"metrics": {"x": {"is_algebraic": True, "is_distributive": True}}}, "a mean or a sum"),
        ({"metrics": {"x": {"range": (0, 1)}}}, "range is not a field"),
        ({"grid": {}}, "configs and grid are both missing"),
        ({"grid": {"k": []}}, "grid.k"),
        ({"name": "a b"}, "name"),
        ({"grid": {"k": [1, 1]}}, "configs has two named 'k=1'"),
    ],
)
def test_what_is_wrong_in_a_draft_is_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words.replace("(", r"\(")):
        plan_of(draft(**wrong), items_of(["a"]), labeler="local")


def test_an_experiment_needs_items() -> None:
    with pytest.raises(ExperimentError, match="has no items"):
        plan_of(draft(), [], labeler="local")


def test_a_file_names_data_beside_it(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question": "why?"}\n')
    file = tmp_path / "experiment.toml"
    file.write_text('name = "e"\nmetric = "trace.adherence"\ndata = "questions.jsonl"\n[grid]\nk = [1]\n')
    assert read_draft(file).data == str(tmp_path / "questions.jsonl")
    file.write_text("name = ")
    with pytest.raises(ExperimentError, match="not TOML"):
        read_draft(file)
    with pytest.raises(ExperimentError, match="cannot be read"):
        read_draft(tmp_path / "nothing.toml")


# Answers.


@pytest.mark.parametrize(
    "value",
    [
        (["a"], "b"),
        [["a"], "b"],
        {"documents": ["a"], "response": "b"},
        Answer(["a"], "b"),
    ],
)
def test_an_answer_may_be_given_in_several_forms(value: object) -> None:
    assert answer_from(value) == Answer(["a"], "b")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "return \\(documents, response\\)"),
        (None, "NoneType"),
        (("a", "b"), "documents is str"),
        ({"documents": ["a"]}, "give documents, response"),
        ({"documents": ["a"], "response": "b", "tokens": 3}, "give documents, response"),
        ({"documents": ["a"], "response": "b", "cost_usd": -1}, "cost_usd is -1"),
        ({"documents": ["a"], "response": "b", "cost_usd": float("nan")}, "cost_usd is nan"),
        ({"documents": ["a"], "response": "b", "prompt_tokens": "3"}, "prompt_tokens is '3'"),
    ],
)
def test_what_is_no_answer_is_refused(value: object, words: str) -> None:
    with pytest.raises(AnswerError, match=words):
        answer_from(value)


def test_an_answer_becomes_an_interaction_of_its_config_and_run() -> None:
    made = interaction_of(
        plan(), Config(name="c1"), 4, item=ITEM, answer=Answer([{"text": "x", "id": "d"}], "y"), scores={"own.f1": 0.5}
    )
    assert (made.interaction_id, made.pipeline, made.run, made.population_size) == ("item-4", "c1", "e", 20)
    assert (made.question, made.reference_answer, made.response) == ("When was it built?", "In 1889.", "y")
    assert made.metadata == {"year": 1889, "item_id": "q1", "ragtide_scores": {"own.f1": 0.5}}


@pytest.mark.parametrize(("documents", "response"), [([1], "x"), ([""], "x"), (["a"], 3), (["a"], None)])
def test_an_answer_of_another_type_is_a_failed_call(documents: list[Any], response: Any) -> None:
    with pytest.raises(AnswerError, match="cannot be scored"):
        interaction_of(plan(), Config(name="c"), 0, item=ITEM, answer=Answer(documents, response), scores={})


@pytest.mark.parametrize(("documents", "response"), [([], "x"), (["a"], " "), ([], "")])
def test_an_empty_answer_is_an_outcome_and_no_failed_call(documents: list[Any], response: str) -> None:
    made = interaction_of(plan(), Config(name="c"), 0, item=ITEM, answer=Answer(documents, response), scores={})
    assert (made.nothing_retrieved, made.no_response) == (not documents, response != "x")


# Targets.


async def test_sync_async_and_item_taking_functions_are_called_with_the_parameters() -> None:
    def sync(question: str, *, k: int) -> tuple[list[str], str]:
        return [question] * k, "sync"

    async def asynchronous(question: str, k: int) -> tuple[list[str], str]:
        await asyncio.sleep(0)
        return [question] * k, "async"

    def with_item(question: str, item: Item, k: int) -> tuple[list[str], str]:
        return [item.item_id] * k, question

    class Callable:
        async def __call__(self, question: str, k: int) -> tuple[list[str], str]:
            return [question], f"object {k}"

    found = [
        await CallableTarget(function).answer(ITEM, {"k": 2})
        for function in (sync, asynchronous, with_item, Callable())
    ]
    assert [(len(one.documents), one.response) for one in found] == [
        (2, "sync"), (2, "async"), (2, ITEM.question), (1, "object 2"),
    ]  # fmt: skip


async def test_sync_functions_run_beside_each_other() -> None:
    inside = 0
    most = 0

    def slow(question: str) -> tuple[list[str], str]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        deadline = time.monotonic() + 5
        while most < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        inside -= 1
        return [question], "x"

    async with target_of(slow, concurrency=3) as target:
        await asyncio.gather(*(target.answer(ITEM, {}) for _ in range(3)))
    assert most == 3


async def test_an_endpoint_is_asked_over_http() -> None:
    asked: list[Mapping[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        k = asked[-1]["parameters"]["k"]
        if k == 0:
            return web.Response(status=503, text="busy")
        if k == 1:
            return web.Response(text="no json")
        if k == 2:
            return web.json_response(["list"])
        return web.json_response({"documents": ["a"], "response": "b", "completion_tokens": 7, "cost_usd": 0.5})

    app = web.Application()
    app.router.add_post("/answer", answer)
    async with TestServer(app) as server, target_of(str(server.make_url("/answer"))) as target:
        for k, words in ((0, "answered 503: busy"), (1, "not JSON"), (2, "must be an object")):
            with pytest.raises(AnswerError, match=words):
                await target.answer(ITEM, {"k": k})
        found = await target.answer(ITEM, {"k": 3})
    assert (found.response, found.tokens, found.cost_usd) == ("b", 7, 0.5)
    assert asked[-1] == {"question": ITEM.question, "item_id": "q1", "parameters": {"k": 3}}


@asynccontextmanager
async def endpoint(reply: Callable[[], web.Response]) -> AsyncIterator[tuple[Target, str]]:
    """Serve a reply, and return the target that asks for it, and its URL."""

    async def answer(_: web.Request) -> web.Response:
        return reply()

    app = web.Application()
    app.router.add_post("/answer", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/answer"))
        async with target_of(url) as target:
            yield target, url


def packed(body: bytes, encoding: str = "gzip", status: int = 200) -> Callable[[], web.Response]:
    data = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    return lambda: web.Response(status=status, body=data, headers={"Content-Encoding": encoding})


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked(encoding: str) -> None:
    body = json.dumps({"documents": ["d" * 300_000], "response": "r"}).encode()
    async with endpoint(packed(body, encoding)) as (target, _):
        assert (await target.answer(ITEM, {})).documents == ["d" * 300_000]


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_unpacks_to_too_much_is_refused_while_it_is_read(status: int) -> None:
    async with endpoint(packed(b" " * 200_000_000, status=status)) as (target, _):
        tracemalloc.start()
        try:
            with pytest.raises(AnswerError, match="larger than 8 MB after decompression"):
                await target.answer(ITEM, {})
            assert tracemalloc.get_traced_memory()[1] < 60_000_000
        finally:
            tracemalloc.stop()


async def test_an_answer_of_any_size_is_not_read_whole() -> None:
    async with endpoint(lambda: web.Response(body=b"[" * 9_000_000)) as (target, _):
        with pytest.raises(AnswerError, match="larger than 8 MB"):
            await target.answer(ITEM, {})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (lambda: web.Response(body=b"[" * 200_000), "not JSON"),
        (lambda: web.Response(body=b"x", headers={"Content-Encoding": "br"}), "has the compression 'br'"),
        (lambda: web.Response(body=b"no gzip at all", headers={"Content-Encoding": "gzip"}), "is not gzip"),
        (lambda: web.Response(status=307, headers={"Location": "http://other/x"}), "a redirect to 'http://other/x'"),
    ],
)
async def test_an_answer_that_is_none_is_told_in_a_sentence(reply: Callable[[], web.Response], words: str) -> None:
    async with endpoint(reply) as (target, _):
        with pytest.raises(AnswerError, match=words):
            await target.answer(ITEM, {})


async def test_a_redirect_is_not_followed() -> None:
    async with (
        endpoint(lambda: web.json_response({"documents": ["a"], "response": "b"})) as (_, where),
        endpoint(lambda: web.Response(status=307, headers={"Location": where})) as (target, _),
    ):
        with pytest.raises(AnswerError, match="redirects are not followed"):
            await target.answer(ITEM, {})


@pytest.mark.parametrize("wrong", [5.5, -1, 10**20, True, "7", None])
async def test_a_count_of_tokens_that_is_none_is_refused(wrong: object) -> None:
    fields = {"documents": ["a"], "response": "b", "prompt_tokens": wrong}
    with pytest.raises(AnswerError, match=r"prompt_tokens is .*: give a whole number"):
        answer_from(fields)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rag", "write it as module:function"),
        ("no_such_module:x", "cannot be loaded"),
        ("json:nothing", "cannot be loaded"),
        ("json:__name__", "must be a function"),
    ],
)
def test_a_target_that_is_none_is_named(path: str, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        function_of(path, None, "target")


# Own metrics.

F1 = OwnMetric(name="own.f1")


@pytest.mark.parametrize("value", [0.5, {"value": 0.5}, {"value": 0.5, "is_algebraic": True}])
async def test_a_measured_value_may_be_given_as_rapidfire_does(value: object) -> None:
    assert await measured(lambda item, answer: {"F1": value}, (F1,), ITEM, Answer([], "")) == {"own.f1": 0.5}


async def test_an_undefined_value_is_left_out_and_measure_may_be_async() -> None:
    async def measure(item: Item, answer: Answer) -> dict[str, Any]:
        return {"f1": None}

    assert await measured(measure, (F1,), ITEM, Answer([], "")) == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"f2": 1}, "'f2', which is not declared"),
        ({"f1": 1.5}, "outside 0 to 1: declare its value_range"),
        ({"f1": float("nan")}, "own.f1 is nan"),
        ({"f1": "much"}, "must return numbers"),
        (0.5, "must return values by metric"),
    ],
)
async def test_a_value_that_was_not_declared_so_is_refused(value: Any, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        await measured(lambda item, answer: value, (F1,), ITEM, Answer([], ""))


# What is executed next.


def all_next(schedule: Schedule, state: ExperimentState) -> list[tuple[str, int]]:
    found = []
    while (pair := schedule.next(state)) is not None:
        schedule.start(*pair)
        found.append(pair)
    return found


def executed(state: ExperimentState, *pairs: tuple[str, int]) -> None:
    for config, item in pairs:
        state.results.add_execution(
            Execution(config=config, item=item, item_id=f"q{item}", interaction_id=f"item-{item}")
        )


def test_items_are_run_one_by_one_over_all_configs() -> None:
    state = ExperimentState(plan(3, size=20, concurrency=7))
    assert all_next(Schedule(), state) == [
        ("c0", 0), ("c1", 0), ("c2", 0), ("c0", 1), ("c1", 1), ("c2", 1), ("c0", 2),
    ]  # fmt: skip


def test_one_slow_config_does_not_take_every_call() -> None:
    state = ExperimentState(plan(2, size=20, concurrency=4, concurrency_per_config=2))
    schedule = Schedule()
    assert sorted(all_next(schedule, state)) == [("c0", 0), ("c0", 1), ("c1", 0), ("c1", 1)]
    # c1 answers, c0 does not: c0 keeps its two calls and no more.
    for _ in range(2):
        schedule.end("c1")
    assert all_next(schedule, state) == [("c1", 2), ("c1", 3)]


def test_nothing_far_ahead_of_the_last_comparison_point_is_executed() -> None:
    state = ExperimentState(plan(2, size=200, concurrency=10))
    schedule = Schedule()

    def until_it_waits() -> int:
        count = 0
        while pairs := all_next(schedule, state):
            count += len(pairs)
            for config, _ in pairs:
                schedule.end(config)
        return count

    assert until_it_waits() == 2 * ahead(state.plan, 2) < 2 * 200
    state.apply(Look(item=10))
    assert until_it_waits() == 2 * 10


def test_what_was_executed_or_is_stopped_or_paused_is_not_executed() -> None:
    state = ExperimentState(plan(2, size=3, concurrency=99))
    executed(state, ("c0", 0), ("c1", 1))
    assert all_next(Schedule(), state) == [("c1", 0), ("c0", 1), ("c0", 2), ("c1", 2)]
    state.apply(Command(op="stop", config="c0"))
    assert {config for config, _ in all_next(Schedule(), state)} == {"c1"}
    state.apply(Paused(reason="x"))
    assert all_next(Schedule(), state) == []


def test_a_clone_begins_with_the_items_still_to_come_and_runs_on_the_rest_at_the_end() -> None:
    state = ExperimentState(plan(1, size=10, concurrency=99))
    state.apply(Look(item=5))
    state.apply(Command(op="clone", config="c0", clone="copy", parameters={"k": 7}))
    executed(state, *(("c0", item) for item in range(10)))
    schedule = Schedule()
    assert all_next(schedule, state) == [("copy", item) for item in range(5, 10)]
    state.apply(Look(item=10))
    assert all_next(schedule, state) == [("copy", item) for item in range(5)]


# The execution log.


async def test_an_execution_is_written_once_with_its_answer(async_redis: Any) -> None:
    streams = Streams("ragtide.run.e", 0)
    executions = ExecutionLog(async_redis, streams, dedupe_window_s=60)
    interaction = interaction_of(plan(), Config(name="c"), 4, item=ITEM, answer=Answer(["a"], "b"), scores={})
    answered = Execution(config="c", item=4, item_id="q1", interaction_id="item-4")
    failed = Execution(config="c", item=5, item_id="q2", failure="no")
    assert await executions.write(answered, interaction)
    # Sent again after a lost reply, or by a process that should have been dead: nothing is added.
    assert not await executions.write(answered, interaction)
    assert not await executions.write(answered.model_copy(update={"interaction_id": None, "failure": "late"}), None)
    assert await executions.write(failed, None)
    written = await async_redis.xrange(streams.executions)
    assert [Execution.decode(fields[DATA_FIELD]) for _, fields in written] == [answered, failed]
    assert await async_redis.xlen(streams.interactions) == 1
    assert await executions.answer("c", 4) == interaction
    assert await executions.answer("c", 5) is None
    assert await executions.answer("d", 4) is None


def test_limits_are_reached_by_cost_or_tokens() -> None:
    assert Limits(max_cost_usd=1, max_tokens=100).reached(0.6, 40) is None
    assert "raise max_cost_usd" in (Limits(max_cost_usd=1, max_tokens=100).reached(1.0, 60) or "")
    assert "raise max_tokens" in (Limits(max_tokens=100).reached(1.0, 100) or "")
    assert Limits().reached(1.0, 100) is None


def test_a_parameter_may_be_anything_json_can_say() -> None:
    (config,) = grid_of({"prompt": [{"system": "short", "temperature": 0}]})
    assert json.loads(config.name.removeprefix("prompt=")) == {"system": "short", "temperature": 0}
