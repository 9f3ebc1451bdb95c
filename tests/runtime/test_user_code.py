"""Code of users: whatever it raises ends one call."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.user_code import (
    UnexpectedExit,
    attribute,
    attribute_at,
    contained,
    error_text,
    run_limited,
)
from ragtide_runtime.processes.waiting import end


class Own(BaseException):
    """A base exception of a user's library."""


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise ValueError


EXITS = (
    SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), StopIteration("x"),
    StopAsyncIteration(), Own("b"), BaseExceptionGroup("g", [SystemExit(4)]),
)  # fmt: skip


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
async def test_an_exception_that_is_no_error_ends_the_call_with_its_name(error: BaseException) -> None:
    async def code() -> None:
        await asyncio.sleep(0)
        raise error

    name = type(error).__name__
    with pytest.raises(UnexpectedExit, match=name), contained():
        raise error
    # A coroutine that raises StopIteration has raised RuntimeError, by the language.
    with pytest.raises((UnexpectedExit, RuntimeError), match=name):
        await run_limited(code, 60)


async def test_errors_pass_as_they_are_and_results_come_back() -> None:
    async def code() -> int:
        raise KeyError("x")

    async def right() -> int:
        return 7

    with pytest.raises(KeyError):
        await run_limited(code, 60)
    assert await run_limited(right, 60) == 7


async def _ignoring(entered: asyncio.Event) -> None:
    while True:
        entered.set()
        try:
            await asyncio.sleep(3600)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the mistake that is tested
            continue


async def _forgetting(entered: asyncio.Event) -> None:
    entered.set()
    await asyncio.get_running_loop().create_future()


ENDLESS: dict[str, Callable[[asyncio.Event], Awaitable[None]]] = {
    "waits for ever": _forgetting,
    "ignores its cancellation": _ignoring,
}


@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_coroutine_without_end_is_left_when_its_time_is_over_or_its_caller_is_cancelled(
    kind: str,
) -> None:
    entered = asyncio.Event()
    with pytest.raises(TimeoutError, match="no result"):
        await run_limited(lambda: ENDLESS[kind](entered), 0.01)
    entered.clear()
    calling = asyncio.create_task(run_limited(lambda: ENDLESS[kind](entered), 3600))
    await entered.wait()
    await end(calling)
    assert calling.cancelled()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()} or {calling})


async def test_a_coroutine_that_cancels_its_own_task_ends_only_its_call() -> None:
    async def code() -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(UnexpectedExit, match="CancelledError"):
        await run_limited(code, 60)


def test_an_error_whose_message_cannot_be_read_is_named() -> None:
    assert error_text(UnreadableError()).startswith("UnreadableError")
    assert error_text(SystemExit()) == "SystemExit"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which is on no path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in {"", str(tmp_path)}])
    return tmp_path


def test_a_module_of_the_current_folder_is_found_after_all_installed_ones(elsewhere: Path) -> None:
    (elsewhere / "found_in_the_folder.py").write_text("class A:\n    b = 3\n")
    (elsewhere / "json.py").write_text("dumps = 'not the real one'\n")
    assert attribute("found_in_the_folder:A.b") == 3
    assert callable(attribute("json:dumps"))
    assert sys.path[-1] == str(elsewhere)


def test_a_module_that_is_nowhere_is_named_with_the_remedy(elsewhere: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^labeler: not_there:A cannot be loaded .*PYTHONPATH"):
        attribute_at("labeler", "not_there:A")
    (elsewhere / "lacks_another.py").write_text("import not_there_either\n")
    with pytest.raises(ModuleNotFoundError, match="not_there_either") as raised:
        attribute("lacks_another:A")
    assert "PYTHONPATH" not in str(raised.value), "the module itself was found"


def test_no_module_comes_from_a_folder_to_which_every_user_may_write(elsewhere: Path) -> None:
    (elsewhere / "planted.py").write_text("A = 1\n")
    elsewhere.chmod(0o777)
    with pytest.raises(ModuleNotFoundError, match="every user may write"):
        attribute("planted:A")
    assert str(elsewhere) not in sys.path
