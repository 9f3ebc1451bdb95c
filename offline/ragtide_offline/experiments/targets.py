"""What an experiment calls: the target that answers the questions, and the function for its own metrics.

A target is a Python function (sync or async) or an HTTP endpoint. A redirect of an endpoint would send the question to
another host, and a reply of a few kilobytes may decompress to gigabytes, so replies are limited after decompression and
redirects are not followed.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from math import isfinite
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol, TypeVar, cast

from pydantic_core import from_json

from ragtide_producers.files.items import Item
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.answers import USUAL, ForeignAnswerError, collect, decode
from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.outside.proxies import proxy_of
from ragtide_runtime.processes.user_code import contained, function_at
from ragtide_schemas.experiments import Config, OwnMetric
from ragtide_schemas.suggestions import unknown

from .answers import Answer, answer_from
from .drafts import qualified_name
from .errors import AnswerError, ExperimentError, MeasureError

T = TypeVar("T")

SHOWN_CHARS: Final = 200
"""Most characters shown of an endpoint's error."""

HEADERS: Final = {"Accept-Encoding": "gzip, deflate"}
"""Header of each request: the packings that answers may have."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

MeasureFunction = Callable[[Item, Answer], Any]
"""Takes an item and an answer, and returns by metric a number, None if undefined, or `{"value": number}`."""


class Target(Protocol):
    """Answers questions with given parameters."""

    async def answer(self, item: Item, parameters: Mapping[str, Any]) -> Answer:
        """Return the answer to an item.

        Raises:
            Exception: any error counts as a failed call.
        """


def _text(body: bytes) -> str:
    return body.decode(errors="replace")[:SHOWN_CHARS]


class HttpTarget:
    """An endpoint that takes `{"question", "item_id", "parameters"}` and returns `{"documents", "response"}`.

    Args:
        session: an aiohttp session that does not decompress replies by itself.
    """

    def __init__(self, url: str, session: Any) -> None:
        self._url = url
        self._session = session

    async def answer(self, item: Item, parameters: Mapping[str, Any]) -> Answer:
        """Return the endpoint's answer.

        Raises:
            AnswerError: the reply is an error, a redirect, too large, or has no answer.
        """
        request = {"question": item.question, "item_id": item.item_id, "parameters": dict(parameters)}
        async with self._session.post(self._url, json=request, allow_redirects=False) as reply:
            if 300 <= reply.status < 400:
                location = reply.headers.get("Location", "nowhere")
                raise AnswerError(
                    f"the endpoint answered {reply.status}, a redirect to {location!r}: redirects are not "
                    "followed; give the final address as the target"
                )
            try:
                body = await collect(reply.content.iter_any(), USUAL.bytes)
                read = _text if reply.status != 200 else from_json
                value: Any = await decode(body, reply.headers.get("Content-Encoding"), read)
            except ForeignAnswerError as error:
                raise AnswerError(f"the endpoint's answer cannot be used: {error}") from None
            except ValueError as error:
                raise AnswerError(f"the endpoint's answer is not JSON ({error})") from None
        if reply.status != 200:
            raise AnswerError(f"the endpoint answered {reply.status}: {value}")
        if not isinstance(value, dict):
            raise AnswerError(f"the endpoint's answer is {type(value).__name__}: it must be an object")
        return answer_from(value)


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
        return answer_from(await call_function(self._function, call))


async def call_function(function: Callable[..., Any], call: Callable[[], Any]) -> Any:
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

        connector = aiohttp.TCPConnector(limit=concurrency, ssl=tls_context())
        # `HttpTarget` decompresses replies itself, because aiohttp would decompress more than the limit.
        proxy = proxy_of(target)
        address = None if proxy is None else proxy.url
        async with aiohttp.ClientSession(
            connector=connector, headers=HEADERS, auto_decompress=False, proxy=address
        ) as session:
            yield HttpTarget(target, session)
        return
    function = function_of(target, folder, "target") if isinstance(target, str) else target
    yield CallableTarget(function)


def function_of(path: str, folder: Path | None, what: str) -> Callable[..., Any]:
    """Return the function that `module:function` names.

    Raises:
        ExperimentError: there is no such function.
    """
    try:
        return function_at(what, path, folder)
    except ConfigurationError as error:
        raise ExperimentError(str(error) if ":" in path else f"{error}, or give an http(s) URL") from error


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
    named = [
        parameter
        for parameter in list(parameters.values())[1:]
        if parameter.kind in _BY_NAME and parameter.name != "item"
    ]
    known = [parameter.name for parameter in named]
    needed = [parameter.name for parameter in named if parameter.default is inspect.Parameter.empty]
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


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}


async def measure_answer(
    measure: MeasureFunction, metrics: tuple[OwnMetric, ...], item: Item, answer: Answer
) -> dict[str, float]:
    """Return the own metrics of an answer by qualified name, without undefined metrics.

    Raises:
        MeasureError: a value is not declared, not a number, or outside its range.
        Exception: any error of the function.
    """
    values = await call_function(measure, partial(measure, item, answer))
    if not isinstance(values, Mapping):
        raise MeasureError(f"measure returned {type(values).__name__}: it must return values by metric")
    known = {metric.name: metric for metric in metrics}
    scores: dict[str, float] = {}
    for own_name, value in values.items():
        name = qualified_name(str(own_name))
        if name not in known:
            raise MeasureError(
                f"measure returned {own_name!r}, which is not declared: declare it under metrics, which has "
                f"{', '.join(known) or '(none)'}"
            )
        number = value.get("value") if isinstance(value, Mapping) else value
        if number is not None:
            scores[name] = _number_in_range(known[name], number)
    return scores


def _number_in_range(metric: OwnMetric, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise MeasureError(f"{metric.name} is {type(value).__name__}: measure must return numbers") from None
    if not isfinite(number) or not metric.lower <= number <= metric.upper:
        raise MeasureError(
            f"{metric.name} is {number:g}, outside {metric.lower:g} to {metric.upper:g}: declare its value_range"
        )
    return number
