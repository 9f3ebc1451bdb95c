"""Calls one remote endpoint, with limits, retries, and a circuit breaker for an endpoint that keeps failing."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import structlog

from ragtide_runtime.calls.breaker import Breaker
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.tracing import traced

from ...metrics.scores import AbsentReason
from .errors import EndpointMisconfigured, EndpointUnavailable, NoLabels
from .pacing import AdaptiveLimit, MinuteLimits
from .replies import CallFailure, FailureKind
from .telemetry import EndpointTelemetry

FIRST_WAIT_S: Final = 1.0
"""Most seconds before the second attempt, half of it on average; doubled for each further attempt."""

LONGEST_WAIT_S: Final = 30.0
"""Most seconds between two attempts, unless the endpoint asks for more."""

FAILED_WAIT_S: Final = 15.0
"""Seconds before an interaction is tried again if all its attempts failed and the breaker is closed."""

BUSY_S: Final = 15.0
"""Seconds after a 429 in which the endpoint counts as busy."""

SENDING_STEPS: Final = 3
"""Steps of the event loop in which a call that waited for a slot is sent.

The caller gets its reply after them: replies often arrive together, and reading one takes longer than sending a call,
so the endpoint would wait for the reader.
"""

CLEANED_CHARS: Final = 10_000
"""Characters of an endpoint's message that are kept and cleaned."""

Reply = TypeVar("Reply")

log = structlog.get_logger("ragtide.labeler")


class Call(ABC, Generic[Reply]):
    """One question to an endpoint; `make` is called again for each attempt."""

    errors: tuple[type[Exception], ...]
    """Exceptions of `make` that are failures of the endpoint. Every other exception is raised."""
    span: Mapping[str, str] = MappingProxyType({})
    """Attributes of the call's span."""

    @abstractmethod
    async def make(self) -> Reply:
        """Return the endpoint's reply."""

    @abstractmethod
    def failure(self, error: Exception) -> CallFailure:
        """Return the meaning of an exception of `make`."""

    def defect(self, reply: Reply) -> str:
        """Return the reason why a reply holds no labels, which counts as a failure; empty if it holds labels."""
        del reply
        return ""

    def result(self, reply: Reply) -> Mapping[str, int]:
        """Return attributes of a reply for the call's span."""
        del reply
        return {}

    def tokens(self) -> int:
        """Return the probable number of tokens of the call, for the limit of tokens a minute."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointInfo:
    """Names of an endpoint, and the reasons of its absent labels."""

    name: str
    """Name of the labeler that calls it, such as `judge`: in keys of Redis, counters of events and spans."""
    model: str
    """Model of the endpoint, for the state and for Prometheus."""
    subject: str
    """The endpoint in messages, such as `the judge`."""
    secret: str
    """Its key, which no message may hold."""
    refused: AbsentReason
    """Reason of metrics whose labels the endpoint refused."""
    unusable: AbsentReason
    """Reason of metrics for which the endpoint gave no usable reply."""


class _TryAgain(Exception):  # noqa: N818  # never leaves this module
    def __init__(self, failure: CallFailure, wait_s: float | None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.wait_s = wait_s


class _Rephrased(Exception):  # noqa: N818  # never leaves this module
    pass


class Endpoint:
    """An endpoint with its limits and its state, which the outcome of every call updates.

    A call waits, in this order, for the pause that the endpoint asked for (Retry-After), for calls and tokens a minute,
    and for a slot of the calls in flight; then the circuit breaker must admit it. It has a timeout. If its failure may
    be temporary, the call is made again after a growing wait with jitter.

    Args:
        info: names of the endpoint.
        settings: its limits.
        telemetry: counts calls.
        tokens_per_minute: most tokens that one worker sends and requests.
    """

    def __init__(
        self,
        info: EndpointInfo,
        settings: RemoteSettings,
        telemetry: EndpointTelemetry,
        *,
        tokens_per_minute: float | None = None,
    ) -> None:
        self._info = info
        self._settings = settings
        self._telemetry = telemetry
        self.breaker = Breaker(failures=settings.breaker_failures, pause_s=settings.breaker_pause_s)
        self.in_flight = AdaptiveLimit(settings.max_in_flight)
        self._a_minute = MinuteLimits(settings.requests_per_minute, tokens_per_minute)
        self._resume_at = 0.0
        self._busy_until = float("-inf")
        self._replies = 0
        self.last_error = ""
        """The last failure; empty if a call has succeeded since."""
        self._busy_warnings = LogLimit()
        self._random = random.Random()  # noqa: S311  # jitter is no secret
        telemetry.report(breaker_open=lambda: self.breaker.is_open, calls_allowed=lambda: self.in_flight.limit)

    @property
    def answered(self) -> bool:
        """Whether the endpoint has answered a call."""
        return self._replies > 0

    @property
    def asks_for_fewer_calls(self) -> bool:
        """Whether the endpoint asked for fewer calls in the last seconds (429)."""
        return monotonic() < max(self._resume_at, self._busy_until)

    async def call(self, call: Call[Reply], counts: Counter[str]) -> Reply:
        """Return the reply to a call; repeat the call while its failures may be temporary.

        Args:
            call: the question.
            counts: counts calls and retries of the interaction.

        Raises:
            EndpointUnavailable: every attempt failed, or the circuit breaker is open.
            EndpointMisconfigured: the endpoint refuses the key, the model or the address.
            NoLabels: the endpoint refuses this content, or gives an unusable reply to it alone.
            ContextTooLong: the question is longer than the endpoint takes.
        """
        replies = self._replies
        backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, random_share=1.0)
        for attempts_left in reversed(range(self._settings.attempts)):
            try:
                reply = await self._attempt(call, counts)
            except _TryAgain as error:
                last = error
            else:
                for _ in range(SENDING_STEPS):
                    await asyncio.sleep(0)
                return reply
            if attempts_left:
                pause_s = backoff.pause_s()
                if last.wait_s is not None:
                    pause_s = last.wait_s + self._random.uniform(0.0, FIRST_WAIT_S)
                await asyncio.sleep(pause_s)
                counts[f"{self._info.name}_retries"] += 1
        message = f"{self._info.subject} failed {self._settings.attempts} times, last with: {last}; check the endpoint"
        if last.failure.of_content and self._replies > replies:  # other calls were answered meanwhile
            raise NoLabels(self._info.unusable, message)
        raise EndpointUnavailable(message, self.breaker.resumes_in_s or FAILED_WAIT_S)

    async def _attempt(self, call: Call[Reply], counts: Counter[str]) -> Reply:
        # The waits differ a little, so that waiting calls do not continue all at once.
        if (left := self._resume_at - monotonic()) > 0:
            await asyncio.sleep(left * self._random.uniform(1.0, 1.1))
        if self._a_minute.any:
            await self._a_minute.wait(call.tokens())
        async with self.in_flight.slot():
            # The breaker is checked last, because the endpoint may have failed while calls waited for a slot.
            if not self.breaker.admits():
                raise EndpointUnavailable(
                    f"{self._info.subject} is paused after many failures, last: {self.last_error}; check the endpoint",
                    self.breaker.resumes_in_s,
                )
            while True:
                counts[f"{self._info.name}_calls"] += 1
                try:
                    return await self._make(call)
                except _Rephrased:  # the call has another form now; it changes a few times at most
                    continue

    async def _make(self, call: Call[Reply]) -> Reply:
        with traced(f"ragtide {self._info.name} call", "CLIENT", call.span) as span:
            started = monotonic()
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    reply = await call.make()
            except call.errors as error:
                failure = call.failure(error)
                span.failed(failure.outcome)
                self._telemetry.failed(failure.outcome)
                raise self._error_of(failure, monotonic() - started) from None
            except BaseException:
                self.breaker.abandoned()
                raise
            latency_s = monotonic() - started
            self._telemetry.answered(latency_s)
            self._record_answer(call, reply, latency_s)
            span.add(call.result(reply))
            return reply

    def _record_answer(self, call: Call[Reply], reply: Reply, latency_s: float) -> None:
        self.in_flight.answered(latency_s)
        self._replies += 1
        try:
            defect = call.defect(reply)
        except BaseException:
            self.breaker.abandoned()
            raise
        if defect:
            self._count_failure(defect)
        else:
            self.breaker.succeeded()
            self.last_error = ""

    def _error_of(self, failure: CallFailure, latency_s: float) -> Exception:
        if failure.overloaded:
            self.in_flight.overloaded(latency_s)
        if failure.kind is FailureKind.MISCONFIGURED:
            return self._misconfigured(failure)
        if failure.kind is FailureKind.FAILED and failure.final is None:
            self._count_failure(failure.message)
            return _TryAgain(failure, failure.retry_after_s)
        self.breaker.abandoned()  # an endpoint that gives a reason works
        if failure.final is not None:
            return failure.final
        if failure.kind is FailureKind.REPHRASED:
            return _Rephrased()
        if failure.kind is FailureKind.REFUSED:
            # Before the first reply a refusal is about the form of requests; later it is about this content.
            return NoLabels(self._info.refused, failure.message) if self._replies else self._misconfigured(failure)
        self._busy_until = monotonic() + BUSY_S
        if failure.retry_after_s is not None:
            self._resume_at = max(self._resume_at, monotonic() + failure.retry_after_s)
        if self._busy_warnings.due():
            log.warning(
                "the endpoint asks for fewer calls",
                endpoint=self._info.name,
                retry_after_s=failure.retry_after_s,
                message=failure.message,
            )
        return _TryAgain(failure, failure.retry_after_s)

    def _count_failure(self, message: str, *, at_once: bool = False) -> None:
        self.last_error = message
        if self.breaker.failed(at_once=at_once):
            pause_s = round(self.breaker.resumes_in_s, 1)
            log.info("the endpoint is paused", endpoint=self._info.name, pause_s=pause_s, error=message)

    def _misconfigured(self, failure: CallFailure) -> EndpointMisconfigured:
        self._count_failure(f"{failure.message}; {failure.remedy}", at_once=True)
        return EndpointMisconfigured(
            f"{self._info.subject} refuses calls: {failure.message}; {failure.remedy}",
            self.breaker.resumes_in_s,
        )

    def described(self, error: Exception) -> str:
        """Return an error in words: its kind and its message, cleaned."""
        return self.clean(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)[:500]

    def clean(self, text: str) -> str:
        """Return a text of the endpoint without the key, without control characters, and on one line."""
        if len(self._info.secret) > 3:
            text = text.replace(self._info.secret, "***")
        return "".join(letter if letter.isprintable() else " " for letter in " ".join(text[:CLEANED_CHARS].split()))
