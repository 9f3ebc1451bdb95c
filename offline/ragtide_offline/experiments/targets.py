"""Targets of experiments: the Python function (sync or async) or HTTP endpoint that answers the questions."""

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar, cast

from ragtide_producers.files.items import Item
from ragtide_runtime.processes.user_code import contained, error_text
from ragtide_schemas.experiments import Config
from ragtide_schemas.suggestions import unknown

from .answers import Answer, answer_from
from .endpoint import HEADERS, HttpTarget
from .errors import ExperimentError

T = TypeVar("T")


class Target(Protocol):
    """Answers questions with given parameters."""

    async def answer(self, item: Item, parameters: Mapping[str, Any]) -> Answer:
        """Return the answer to an item.

        Raises:
            Exception: any error counts as a failed call.
        """


class CallableTarget:
    """A function `question, **parameters -> documents, response`, which also gets `item` if it has that parameter.

    Args:
        function: sync or async; each call of a sync function has a thread of its own.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._with_item = "item" in _parameters(function)

    async def answer(self, item: Item, parameters: Mapping[str, Any]) -> Answer:
        """Return the function's answer."""
        call = partial(
            self._function, item.question, **({**parameters, "item": item} if self._with_item else parameters)
        )
        return answer_from(await called(self._function, call))


async def called(function: Callable[..., Any], call: Callable[[], Any]) -> Any:
    """Return the result of a call of a user's function: async functions run in this event loop, others in threads."""
    is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    value = await (call() if is_async else in_thread(call))
    return await value if inspect.isawaitable(value) else value


async def in_thread(call: Callable[[], T]) -> T:
    """Call a function in a daemon thread of its own, and return its result.

    A call that hangs in the thread of a pool would keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def end(result: T | None, error: Exception | None) -> None:
        if future.done():  # the caller no longer waits
            return
        if error is None:
            future.set_result(cast("T", result))
        else:
            future.set_exception(error)

    def run() -> None:
        result: T | None = None
        error: Exception | None = None
        try:
            with contained():
                result = call()
        except Exception as raised:  # noqa: BLE001 - the caller that awaits the result gets it
            error = raised
        with suppress(RuntimeError):  # the loop is closed: the experiment has ended
            loop.call_soon_threadsafe(end, result, error)

    Thread(target=copy_context().run, args=(run,), name="ragtide-target", daemon=True).start()
    return await future


@asynccontextmanager
async def target_of(
    target: str | Callable[..., Any], *, folder: Path | None = None, concurrency: int = 8
) -> AsyncIterator[Target]:
    """Yield the target of a plan, and close it in the end.

    Args:
        target: a function, `module:function`, or an http(s) URL.
        folder: folder in which a module is looked for first.
        concurrency: most calls in flight.

    Raises:
        ExperimentError: there is no such function.
    """
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        # Imported here, because functions need no HTTP client.
        import aiohttp  # noqa: PLC0415

        connector = aiohttp.TCPConnector(limit=concurrency)
        # `HttpTarget` decompresses replies itself, because aiohttp would decompress more than the limit.
        async with aiohttp.ClientSession(connector=connector, headers=HEADERS, auto_decompress=False) as session:
            yield HttpTarget(target, session)
        return
    function = function_of(target, folder, "target") if isinstance(target, str) else target
    yield CallableTarget(function)


def function_of(path: str, folder: Path | None, what: str) -> Callable[..., Any]:
    """Return the function that `module:function` names.

    Raises:
        ExperimentError: there is no such function.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise ExperimentError(f"{what} is {path!r}: write it as module:function, or give an http(s) URL")
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        with contained():
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
    except Exception as error:  # the user's module may raise any error
        raise ExperimentError(
            f"{what} {path} cannot be loaded ({error_text(error)}): correct the name or the module"
        ) from error
    if not callable(found):
        raise ExperimentError(f"{what} {path} is {type(found).__name__}: it must be a function")
    function: Callable[..., Any] = found
    return function


def check_parameters(function: Callable[..., Any], configs: Sequence[Config]) -> tuple[str, ...] | None:
    """Return the names of a function's parameters besides the question; None if it takes any parameter.

    Raises:
        ExperimentError: a config has a parameter that the function does not take, or lacks one that it needs.
    """
    parameters = _parameters(function)
    kinds = [parameter.kind for parameter in parameters.values()]
    if not parameters or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    # The first one is the question, whatever its name.
    named = [one for one in list(parameters.values())[1:] if one.kind in _BY_NAME and one.name != "item"]
    known = [one.name for one in named]
    needed = [one.name for one in named if one.default is inspect.Parameter.empty]
    for config in configs:
        for name in config.parameters:
            if name not in known:
                raise ExperimentError(f"config {config.name!r}: {unknown('parameter of the target', name, known)}")
        missing = [name for name in needed if name not in config.parameters]
        if missing:
            raise ExperimentError(
                f"config {config.name!r} has no parameter {missing[0]!r}, which the target needs: give it a value"
            )
    return tuple(known)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}
