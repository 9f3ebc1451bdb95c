"""Loads and calls users' code: whatever it raises ends that call only, and no wait for it is endless."""

import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import copy_context
from dis import get_instructions
from importlib import import_module
from inspect import CO_COROUTINE
from pathlib import Path
from sysconfig import get_path
from traceback import walk_tb
from types import FunctionType, MethodType, TracebackType
from typing import Any, Final, TypeVar, cast

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


def never_waits(function: object) -> bool:
    """Return whether a function is an `async def` without any `await`, so that its coroutine ends in its first step.

    An object around a function, as tracing puts there, may wait although the function does not.

    >>> async def at_once(): return 7
    >>> async def after_a_turn(): await asyncio.sleep(0)
    >>> never_waits(at_once), never_waits(after_a_turn)
    (True, False)
    """
    plain = function.__func__ if type(function) is MethodType else function
    # Not isinstance: such an object claims to be a function.
    if type(plain) is not FunctionType or not plain.__code__.co_flags & CO_COROUTINE:
        return False
    return not any(instruction.opname in _WAITS for instruction in get_instructions(plain.__code__))


_WAITS: Final = frozenset({"SEND", "YIELD_VALUE"})
"""Instructions of which every `await`, `async for` and `async with` has one."""


def run_at_once(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of a user's coroutine that never waits, without a task.

    Neither a limit nor a cancellation could end it sooner. It has a context of its own, as a task has.

    Raises:
        UnexpectedExit: the code raised an exception that is no error.
        Exception: any error of the code.
    """
    with contained():
        coroutine = call()
        try:
            copy_context().run(coroutine.send, None)
        except StopIteration as ended:
            return cast("T", ended.value)
        coroutine.close()
        raise RuntimeError("the coroutine waits, although its code has no await")


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


def attribute_at(origin: str, path: str, folder: Path | None = None) -> Any:
    """Return the value of `module:attribute`; an error begins with the origin, such as the name of a setting.

    Args:
        origin: names the setting.
        path: as in `attribute`.
        folder: as in `attribute`.

    Raises:
        ConfigurationError: it cannot be loaded.
    """
    return load_value(f"{origin}: {path}", lambda: attribute(path, folder))


def function_at(origin: str, path: str, folder: Path | None = None) -> Callable[..., Any]:
    """Return the function of `module:attribute`; otherwise as `attribute_at`."""
    value = attribute_at(origin, path, folder)
    if not callable(value):
        raise ConfigurationError(f"{origin}: {path} is {type(value).__name__}: it must be a function")
    function: Callable[..., Any] = value
    return function


def attribute(path: str, folder: Path | None = None) -> Any:
    """Return the value of `module:attribute`; an error that the module raises passes.

    Installed modules come first, so no file of a user replaces a module that ragtide or a library imports. Then come
    `folder`, the folder of the file that `RAGTIDE_CONFIG` names, and the current folder, unless every user of the
    machine may write to that. They stay on the path, for modules that the module imports later.

    Args:
        path: such as `my_module:Length`.
        folder: of the file that names the module, other than the file of the settings.

    Raises:
        ConfigurationError: the path has another form, or there is no such module or attribute.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise ConfigurationError("write it as module:attribute")
    folders = [str(place) for place in _folders(folder)]
    sys.path += [place for place in folders if place not in sys.path]
    top = module.partition(".")[0]
    try:
        value: Any = import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # the module is there, and lacks another one
            raise
        places = " and ".join(folders) or "the current folder, to which every user may write"
        raise ConfigurationError(
            f"there is no module {error.name} in {places}, and none is installed: correct the name, start ragtide in "
            "the folder of the module, or set PYTHONPATH to that folder"
        ) from None
    files = [Path(place, file) for place in folders for file in (f"{top}.py", f"{top}/__init__.py")]
    own = next((file for file in files if file.is_file()), None)
    first, loaded = (getattr(sys.modules[part], "__file__", None) or f"{part} of Python" for part in (top, module))
    is_hidden = own is not None and own.resolve() != Path(first).resolve()
    is_beside = own is not None and folder is not None and own.is_relative_to(folder.absolute())
    # Elsewhere an installed module may be a copy of the user's own.
    if is_hidden and (is_beside or top in sys.stdlib_module_names):
        raise ConfigurationError(f"{first} comes before {own}: rename or remove one of them")
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            remedy = f"it comes before {own}, so rename that file" if is_hidden else "correct the name"
            raise ConfigurationError(f"the module {loaded} has no {name}: {remedy}") from None
    return value


def _folders(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder.absolute()
    if settings := os.environ.get("RAGTIDE_CONFIG"):
        yield Path(settings).absolute().parent
    with suppress(OSError):  # the current folder was removed
        if not (here := Path.cwd()).stat().st_mode & stat.S_IWOTH:
            yield here


def load_value(origin: str, load: Callable[[], Any]) -> Any:
    """Return what `load`, which runs code of a user, returns.

    Raises:
        ConfigurationError: it fails; the message begins with the origin, and names the place in the user's code.
    """
    try:
        with contained():
            return load()
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin} cannot be loaded: {error}") from None
    except Exception as error:
        raise ConfigurationError(
            f"{origin} cannot be loaded ({error_text(error)}{_place(error)}): correct or remove it"
        ) from error


def _place(error: BaseException) -> str:
    if isinstance(error, UnexpectedExit):
        error = error.__context__ or error
    if isinstance(error, SyntaxError):
        return f", {error.filename}, line {error.lineno}"
    frames = [(frame.f_globals.get("__name__", ""), frame, line) for frame, line in walk_tb(error.__traceback__)]
    files = [(frame.f_code.co_filename, line) for name, frame, line in frames if not name.startswith(_OURS)]
    own = [(file, line) for file, line in files if not file.startswith(_INSTALLED)]
    return "".join(f", {file}, line {line}" for file, line in (own or files)[-1:])


_OURS: Final = ("ragtide.", "ragtide_", "importlib.", "importlib", "_frozen_importlib")
"""First words of the names of modules that call code of users."""

_INSTALLED: Final = tuple(get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Folders of Python's own modules and of installed ones, in which a user's mistake shows and is not made."""
