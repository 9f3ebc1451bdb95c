"""Loads and calls users' code: whatever it raises ends that call only, and no wait for it is endless."""

import asyncio
import stat
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from ragtide_runtime.errors import ConfigurationError

T = TypeVar("T")

GRACE_S: Final = 1.0
"""Seconds in which a coroutine may clean up after it was cancelled."""


class UnexpectedExit(Exception):  # noqa: N818 - it names what the code did
    """A user's code raised an exception that is no error, such as SystemExit, CancelledError or StopIteration."""


class contained:  # noqa: N801 - used as a statement, as contextlib.suppress
    """Raise `UnexpectedExit` in place of an exception that would end more than the call of a user's code.

    Left alone, SystemExit and KeyboardInterrupt end the event loop, CancelledError looks as if ragtide cancelled the
    call, and no future can hold StopIteration. A cancellation by ragtide passes.
    """

    def __enter__(self) -> None:
        """Begin the user's code."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave errors alone, and replace other exceptions.

        Raises:
            UnexpectedExit: the code raised an exception that is no error.
        """
        if error is None or (isinstance(error, Exception) and not isinstance(error, _STOPS)):
            return
        if isinstance(error, asyncio.CancelledError) and _being_cancelled():
            return
        raise UnexpectedExit(f"{error_text(error)} (it is no error: raise another exception)")


_STOPS: Final = (StopIteration, StopAsyncIteration)


async def run_limited(call: Callable[[], Awaitable[T]], limit_s: float) -> T:
    """Return the result of a user's coroutine, which runs as a task of its own.

    A coroutine that ignores its cancellation is closed after `GRACE_S`, so that nothing waits for it.

    Raises:
        TimeoutError: there is no result after `limit_s` seconds.
        UnexpectedExit: the code raised an exception that is no error.
        Exception: any error of the code.
    """
    running = asyncio.create_task(_contained(call))
    try:
        await asyncio.wait([running], timeout=limit_s)
        if not running.done():
            raise TimeoutError(f"no result after {limit_s:g} s")
    finally:
        if not running.done():
            await _abandon(running)
    with contained():
        return running.result()


async def _contained(call: Callable[[], Awaitable[T]]) -> T:
    with contained():
        return await call()


async def _abandon(running: asyncio.Task[T]) -> None:
    # Its error is of no use to anyone, so asyncio must not report it as never retrieved.
    running.add_done_callback(lambda task: task.cancelled() or task.exception())
    running.cancel()
    try:
        await asyncio.wait([running], timeout=GRACE_S)
    finally:  # the caller may be cancelled again
        if not running.done():
            with suppress(UnexpectedExit, RuntimeError):  # the last if it ignores its end, too
                running.get_coro().close()
            running.cancel()


def _being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop
        return False
    return task is not None and task.cancelling() > 0


def error_text(error: BaseException) -> str:
    """Return the name and the message of an exception of a user's code, whose message may not be readable."""
    if isinstance(error, UnexpectedExit):  # its message begins with the name of the exception
        return str(error)
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the exception is a user's code, too
        message = "its message cannot be read"
    return f"{name}: {message}" if message else name


def attribute_at(origin: str, path: str) -> Any:
    """Return the value of `module:attribute`.

    Raises:
        ConfigurationError: it cannot be loaded; the message begins with the origin.
    """
    return load_value(f"{origin}: {path}", lambda: attribute(path))


def attribute(path: str, folder: Path | None = None) -> Any:
    """Return the value of `module:attribute`; any error of the module is raised.

    A module that is not installed is looked for in the current folder, as `python -m` does. It is the last place, so a
    file there never replaces an installed module, and it is no place if every user of the machine may write to it.

    Args:
        path: such as `my_module:Length`.
        folder: of the file that names the module, which is the first place.

    Raises:
        ValueError: the path has another form.
        ModuleNotFoundError: no place has the module; the message names the remedy.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError("write it as module:attribute")
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:  # the module is there, and lacks another one
            raise
        here = _current_folder()
        if here is None:
            raise _not_found(error, "set PYTHONPATH to its folder; every user may write to the current one") from None
        if str(here) not in sys.path:
            sys.path.append(str(here))
        try:
            found = import_module(module)
        except ModuleNotFoundError as again:
            if again.name != module.partition(".")[0]:
                raise
            raise _not_found(again, "start ragtide in its folder, or set PYTHONPATH to that folder") from None
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _current_folder() -> Path | None:
    """Return the current folder; None if it was removed, or if every user of the machine may write to it."""
    try:
        here = Path.cwd()
        return None if here.stat().st_mode & stat.S_IWOTH else here
    except OSError:
        return None


def _not_found(error: ModuleNotFoundError, remedy: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"{error}: {remedy}", name=error.name)


def load_value(origin: str, load: Callable[[], Any]) -> Any:
    """Return what `load` returns.

    Raises:
        ConfigurationError: it fails; the message begins with the origin.
    """
    try:
        with contained():
            return load()
    except Exception as error:
        raise ConfigurationError(f"{origin} cannot be loaded ({error_text(error)}): correct or remove it") from error
