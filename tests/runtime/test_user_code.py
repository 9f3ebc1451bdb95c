"""Code of users: whatever it raises ends one call."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
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
    never_waits,
    run_at_once,
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


async def _awaits() -> None:
    await asyncio.sleep(0)


async def _iterates() -> list[int]:
    return [number async for number in _numbers()]


async def _numbers() -> AsyncIterator[int]:
    yield 7


async def _enters() -> None:
    async with asyncio.timeout(1):  # noqa: ASYNC100 - the body is of no account
        pass


async def _waits_by_a_branch(asked: bool = False) -> int:
    return 7 if not asked else await _never()


async def _never() -> int:
    return 7


class Traced:
    """Waits before it calls a function, and passes for it, as the objects do that tracing puts around functions."""

    def __init__(self, function: Any) -> None:
        self._function = function

    __class__ = property(lambda self: type(self._function))

    @property
    def __code__(self) -> Any:
        return self._function.__code__

    async def __call__(self, *arguments: Any) -> Any:
        await asyncio.sleep(0)
        return await self._function(*arguments)


class Scored:
    async def label(self) -> int:
        return 7

    traced = Traced(label)


WAITING: tuple[object, ...] = (
    _awaits,
    _iterates,
    _enters,
    _waits_by_a_branch,
    _numbers,
    Traced(_never),
    Scored().traced,
)


def test_a_method_without_an_await_is_run_without_a_task() -> None:
    assert never_waits(Scored().label)
    assert run_at_once(Scored().label) == 7


@pytest.mark.parametrize("code", [*WAITING, len, print, object()])
def test_code_that_may_wait_is_not_run_without_a_task(code: object) -> None:
    assert not never_waits(code)


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


async def test_a_coroutine_without_an_await_runs_at_once_in_a_context_of_its_own() -> None:
    async def code() -> tuple[str, asyncio.Task[Any] | None]:
        before = SEEN.get()
        SEEN.set("something")
        return before, asyncio.current_task()

    assert never_waits(code)
    assert run_at_once(code) == run_at_once(code) == ("nothing", asyncio.current_task())


@pytest.mark.parametrize("error", EXITS, ids=lambda error: type(error).__name__)
async def test_an_exception_that_is_no_error_ends_a_call_at_once_with_its_name(error: BaseException) -> None:
    async def code() -> None:
        raise error

    with pytest.raises((UnexpectedExit, RuntimeError), match=type(error).__name__):
        run_at_once(code)


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


def test_a_module_is_found_beside_the_file_that_names_it_then_beside_the_settings_then_in_the_current_folder(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [elsewhere / name for name in ("of_the_file", "of_the_settings")] + [elsewhere]
    for number, folder in enumerate(folders):
        folder.mkdir(exist_ok=True)
        for later in range(number, len(folders)):
            (folder / f"found_{later}.py").write_text(f"class A:\n    b = {number}\n")
    monkeypatch.setenv("RAGTIDE_CONFIG", "of_the_settings/ragtide.toml")
    assert [attribute(f"found_{number}:A.b", folders[0]) for number in (2, 1, 0)] == [0, 0, 0]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(folders[0])])
    for number in range(3):
        del sys.modules[f"found_{number}"]
    assert attribute("found_2:A.b") == 1
    assert sys.path[-2:] == [str(folders[1]), str(elsewhere)]


@pytest.mark.parametrize("name", ["random", "queue", "numpy", "ragtide"])
def test_no_file_of_a_user_replaces_a_module_and_the_file_is_named(elsewhere: Path, name: str) -> None:
    (elsewhere / f"{name}.py").write_text("class Mine: ...\nraise SystemExit\n")
    with pytest.raises(ConfigurationError, match=f"comes before {elsewhere / name}.py") as raised:
        attribute(f"{name}:Mine")
    assert "rename" in str(raised.value)


def test_two_modules_of_one_name_in_folders_of_the_user_are_never_confused(tmp_path: Path, elsewhere: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of_one_name.py").write_text(f"A = {name!r}\n")
    assert attribute("of_one_name:A", tmp_path / "first") == "first"
    with pytest.raises(ConfigurationError, match="rename"):
        attribute("of_one_name:A", tmp_path / "second")


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("", "not_there:A", r"no module not_there in {folder}, .*PYTHONPATH"),
        ("", "own_package.not_there:A", r"no module own_package.not_there in {folder}, .*PYTHONPATH"),
        ("", "own_package:A.b", r"{folder}/own_package/__init__.py has no A.b: correct the name"),
        ("import not_there_either", "own_package:A", r"No module named 'not_there_either', {file}, line 3"),
        ("from own_package import other", "own_package:A", r"ImportError: cannot import name 'other'.*{file}, line 3"),
        ("import re; re.compile('(')", "own_package:A", r"rror: missing \).*, {file}, line 3\)"),
        ("raise SystemExit('no GPU')", "own_package:A", r"SystemExit: no GPU.*, {file}, line 3\)"),
        ("def broken(:", "own_package:A", r"SyntaxError: .*, {file}, line 3\)"),
    ],
)
def test_a_mistake_is_named_with_its_place_in_the_code_of_the_user(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, text: str, path: str, said: str
) -> None:
    file = elsewhere / "own_package" / "__init__.py"
    file.parent.mkdir()
    file.write_text(f"# mine\n\n{text}\n")
    monkeypatch.delitem(sys.modules, "own_package", raising=False)
    said = said.format(folder=elsewhere, file=file)
    with pytest.raises(ConfigurationError, match=rf"^labeler: {path} cannot be loaded.*{said}"):
        attribute_at("labeler", path)


def test_no_module_comes_from_a_folder_to_which_every_user_may_write(elsewhere: Path) -> None:
    (elsewhere / "planted.py").write_text("A = 1\n")
    elsewhere.chmod(0o777)
    with pytest.raises(ConfigurationError, match="every user may write"):
        attribute("planted:A")
    assert str(elsewhere) not in sys.path
