"""Calls an HTTP service that takes and returns JSON, with everything that its labeler needs."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from ragtide_runtime.outside.answers import ForeignAnswerError
from ragtide_runtime.settings.labelers import ServiceSettings
from ragtide_schemas import RagInteraction

from ..protocol import Labeling
from .access import Access
from .cache import content_key
from .endpoint import Call
from .errors import NoLabels
from .posting import POST_ERRORS, ErrorReply, Poster
from .replies import CallFailure, FailureKind, failure_of_status
from .usage import SETTINGS_SOURCE, UnfinishedUsage, Usage

T = TypeVar("T")

SHOWN_CHARS = 200
"""Most characters of a reply in a message."""


class Ask(Protocol):
    """Calls the service for one interaction."""

    async def __call__(self, question: object, read: Callable[[Any], T]) -> T:
        """Return the value that `read` makes of the reply.

        Args:
            question: body of the request, as a JSON value.
            read: makes a value of the reply's JSON; it raises ValueError, TypeError or LookupError for an unusable
                reply, which then counts as a failure of the service.
        """


class HttpService:
    """A service of the settings, called through its cache, its limits and its circuit breaker.

    Args:
        access: its cache, limits and state.
        path: added to its address, such as `/predict`.
    """

    def __init__(self, settings: ServiceSettings, access: Access, path: str) -> None:
        self.settings = settings
        self.model = settings.model or urlsplit(settings.url).netloc.rpartition("@")[2]
        """Model that the service runs, or its host: a part of the labeler's version."""
        self._access = access
        key = settings.api_key
        headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
        self._poster = Poster(settings.url.rstrip("/") + path, headers)
        self._unfinished = UnfinishedUsage()

    async def label(
        self, interaction: RagInteraction, metrics: Iterable[str], labels: Callable[[Ask], Awaitable[Labeling]]
    ) -> Labeling:
        """Return the labeling that `labels` makes, with its cost and its calls.

        Args:
            metrics: qualified names of the metrics that are absent if the service gives no labels.
            labels: makes the labeling with the function that calls the service.

        Raises:
            LabelerUnavailable: the service cannot be called now; the interaction waits.
        """
        with self._unfinished.of(interaction) as usage:

            async def ask(question: object, read: Callable[[Any], T]) -> T:
                return await self._ask(question, read, usage)

            try:
                labeling = await labels(ask)
            except NoLabels as error:
                labeling = Labeling({}, dict.fromkeys(metrics, str(error.reason)))
        return usage.add_to(labeling)

    async def _ask(self, question: object, read: Callable[[Any], T], usage: Usage) -> T:
        body = to_json(question)
        key = content_key(self._poster.url, self.settings.model, body.decode("utf-8", "replace"))
        cached = await self._access.cache.get(key)
        if cached is not None:
            try:
                answer = read(cached)
            except _UNREADABLE:
                pass  # an entry of another form: call the service again
            else:
                usage.counters["cache_hits"] += 1
                self._access.found(self.settings.call_usd)
                return answer
        call = _Post(self._poster, body, read, self._access, usage, self.settings.call_usd)
        value, reply = await self._access.ask(call, usage, expected_usd=self.settings.call_usd)
        await self._access.cache.put(key, reply)
        return value

    async def aclose(self) -> None:
        """Close the connections."""
        await self._access.aclose()
        await self._poster.aclose()


_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)


class _UnusableReply(Exception):  # noqa: N818  # never leaves this module
    pass


@dataclass
class _Post(Call[tuple[T, Any]]):
    """One POST of JSON. Its reply is the value that `read` made, and the JSON that `read` got."""

    errors = (*POST_ERRORS, ErrorReply, _UnusableReply)

    poster: Poster
    body: bytes
    read: Callable[[Any], T]
    access: Access
    usage: Usage
    call_usd: float

    async def make(self) -> tuple[T, Any]:
        """Return the value of the reply, and the reply."""
        result = await self.poster.post(self.body, self._read_reply)
        self.usage.spent(self.call_usd, SETTINGS_SOURCE if self.call_usd else None)
        self.access.telemetry.spent(self.call_usd, self.usage.pipeline)
        if isinstance(result, _UnusableReply):
            raise result
        return result

    def _read_reply(self, body: bytes) -> tuple[T, Any] | _UnusableReply:
        """Return the value of the reply, and the reply; what is wrong with it if it cannot be used."""
        try:
            reply = from_json(body)
            return self.read(reply), reply
        except _UNREADABLE as error:
            reason = self.access.endpoint.described(error)
            beginning = self._beginning(body[:10_000].decode("utf-8", "replace"))
            return _UnusableReply(f"the reply cannot be used ({reason}): {beginning}")

    def _beginning(self, text: str) -> str:
        return self.access.endpoint.clean(text)[:SHOWN_CHARS]

    def failure(self, error: Exception) -> CallFailure:
        """Return the meaning of an error of the client."""
        endpoint = self.access.endpoint
        if isinstance(error, ErrorReply):
            beginning = self._beginning(error.text)
            message = f"status {error.status}: {beginning}" if beginning else f"status {error.status}"
            message += self.poster.through
            return failure_of_status(error.status, error.headers, message, clean=endpoint.clean)
        if isinstance(error, _UnusableReply | ForeignAnswerError):
            return CallFailure(FailureKind.FAILED, "unreadable", f"{error}{self.poster.through}", of_content=True)
        timed_out = isinstance(error, TimeoutError)
        outcome = "timeout" if timed_out else "no_connection"
        message = f"{endpoint.described(error)}{self.poster.through}"
        return CallFailure(FailureKind.FAILED, outcome, message, overloaded=timed_out)
