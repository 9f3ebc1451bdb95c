"""What is asked: a Python callable, sync or async, or an HTTP endpoint."""

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..items import Item
from .answers import Answer, answer_from
from .errors import AnswerError, ExperimentError

SHOWN_CHARS = 200
"""Characters of an endpoint's error that are kept."""


class Target(Protocol):
    """Answers questions with given knobs."""

    async def answer(self, item: Item, knobs: Mapping[str, Any]) -> Answer:
        """Return the answer to an item.

        Raises:
            Exception: it has none; whatever is raised counts as a failed call.
        """


class CallableTarget:
    """A function `question, **knobs -> documents, response`; it also gets `item` if it has a parameter of that name.

    Args:
        function: sync (run in threads) or async.
        threads: where sync ones are run.
    """

    def __init__(self, function: Callable[..., Any], threads: ThreadPoolExecutor) -> None:
        self._function = function
        self._threads = threads
        self._with_item = "item" in _parameters(function)

    async def answer(self, item: Item, knobs: Mapping[str, Any]) -> Answer:
        """Return the function's answer."""
        given = {**knobs, "item": item} if self._with_item else dict(knobs)
        if inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(
            getattr(self._function, "__call__", None)  # noqa: B004 - whether calling it is asynchronous
        ):
            return answer_from(await self._function(item.question, **given))
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._threads, lambda: self._function(item.question, **given))
        return answer_from(await value if inspect.isawaitable(value) else value)


class HttpTarget:
    """An endpoint: takes `{"question", "item_id", "knobs"}`, returns an object with `documents` and `response`."""

    def __init__(self, url: str, session: Any) -> None:
        self._url = url
        self._session = session

    async def answer(self, item: Item, knobs: Mapping[str, Any]) -> Answer:
        """Return the endpoint's answer."""
        asked = {"question": item.question, "item_id": item.item_id, "knobs": dict(knobs)}
        async with self._session.post(self._url, json=asked) as reply:
            if reply.status != 200:
                raise AnswerError(f"the endpoint answered {reply.status}: {(await reply.text())[:SHOWN_CHARS]}")
            try:
                value = await reply.json(content_type=None)
            except ValueError as error:
                raise AnswerError(f"the endpoint's answer is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise AnswerError(f"the endpoint's answer is {type(value).__name__}: it must be an object")
        return answer_from(value)


@asynccontextmanager
async def target_of(
    target: str | Callable[..., Any], *, folder: Path | None = None, concurrency: int = 8
) -> AsyncIterator[Target]:
    """Give what a plan's target means, and close it in the end.

    Args:
        target: a function, `module:function`, or an http(s) URL.
        folder: where a module is looked for first.
        concurrency: most calls at once.

    Raises:
        ExperimentError: there is no such function.
    """
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        # Late: nobody else here needs an HTTP client.
        import aiohttp  # noqa: PLC0415

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:
            yield HttpTarget(target, session)
        return
    function = function_of(target, folder, "target") if isinstance(target, str) else target
    threads = ThreadPoolExecutor(concurrency, thread_name_prefix="ragtide-target")
    try:
        yield CallableTarget(function, threads)
    finally:
        # A call that hangs must not keep the experiment from ending; its thread dies with the process.
        threads.shutdown(wait=False, cancel_futures=True)


def function_of(path: str, folder: Path | None, what: str) -> Callable[..., Any]:
    """Return the function that `module:function` names.

    Raises:
        ExperimentError: there is none.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise ExperimentError(f"{what} is {path!r}: write it as module:function, or give an http(s) URL")
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the user's module: whatever importing it raises
        raise ExperimentError(
            f"{what} {path} cannot be loaded ({type(error).__name__}: {error}): correct the name or the module"
        ) from error
    if not callable(found):
        raise ExperimentError(f"{what} {path} is {type(found).__name__}: it must be a function")
    function: Callable[..., Any] = found
    return function


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return {}
