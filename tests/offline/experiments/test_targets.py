"""Python functions as targets."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.offline.experiments.items import ITEM

from ragtide_offline.experiments import Answer
from ragtide_offline.experiments.errors import ExperimentError
from ragtide_offline.experiments.targets import CallableTarget, function_of, measure_answer, target_of
from ragtide_producers.files.items import Item
from ragtide_runtime.processes.user_code import UnexpectedExit, run_limited


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


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rag", "write it as module:attribute, or give an http"),
        ("no_such_module:x", "cannot be loaded"),
        ("json:nothing", "cannot be loaded"),
        ("json:__name__", "must be a function"),
    ],
)
def test_a_target_that_is_none_is_named(path: str, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        function_of(path, None, "target")


EXITS = (SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), StopIteration("x"))


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
async def test_whatever_a_target_or_a_measure_raises_ends_the_call_with_its_name(error: BaseException) -> None:
    def sync(*given: object) -> None:
        raise error

    async def asynchronous(*given: object) -> None:
        raise error

    def late(*given: object) -> object:
        return asynchronous()

    for function in (sync, asynchronous, late):
        for call in (
            lambda function=function: CallableTarget(function).answer(ITEM, {}),
            lambda function=function: measure_answer(function, (), ITEM, Answer([], "")),
        ):
            with pytest.raises((UnexpectedExit, RuntimeError), match=type(error).__name__):
                await asyncio.wait_for(run_limited(call, 60), 60)


def test_a_module_that_exits_when_it_is_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_at_once.py").write_text("import sys; sys.exit('no GPU')")
    with pytest.raises(ExperimentError, match="SystemExit: no GPU"):
        function_of("leaves_at_once:answer", tmp_path, "target")
