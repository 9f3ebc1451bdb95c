"""How an endpoint copes: which of its failures pass, which are the operator's to mend, and when to leave it alone."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

import openai
import structlog

from ragtide_runtime.settings.judge import JudgeSettings

from ...metrics.scores import AbsentReason
from ..outage import Seldom
from ..remote.breaker import Breaker
from ..remote.pacing import AdaptiveLimit
from .answers import Answer
from .dialect import Dialect
from .errors import ContextTooLong, JudgeMisconfigured, NoLabels
from .replies import retry_after_s
from .transport import ReplyTooLarge

SHOWN_CHARS: Final = 200
"""Characters of an endpoint's answer that are shown in messages."""

CLEANED_CHARS: Final = 10_000
"""Characters of a message of the endpoint that are looked at."""

log = structlog.get_logger("ragtide.judge")


class Again(Exception):  # noqa: N818  # never leaves the client
    """The call failed in a way that may pass."""

    def __init__(self, said: str, retry_after_s: float | None = None, *, of_content: bool = False) -> None:
        super().__init__(said)
        self.retry_after_s = retry_after_s
        self.of_content = of_content
        """Whether it may be about this interaction alone."""


class NoCompletion(ValueError):  # noqa: N818  # never leaves the client
    """The endpoint answered with success, and the answer is no chat completion."""

    def __init__(self, shown: str) -> None:
        super().__init__(f"the reply is no chat completion: {shown}")


class Endpoint:
    """State of an endpoint, updated by the outcome of every call.

    Args:
        settings: of the judge.
        host: of its address.
        secret: the key, which no message may hold.
    """

    def __init__(self, settings: JudgeSettings, host: str, *, secret: str) -> None:
        self._secret = secret
        self.breaker = Breaker(failures=settings.breaker_failures, pause_s=settings.breaker_pause_s)
        self.at_once = AdaptiveLimit(settings.max_in_flight)
        self.dialect = Dialect(settings, host)
        self.resume_at = 0.0
        """Monotonic time before which it asked not to be called."""
        self.answers = 0
        """Chat completions received so far."""
        self.last_error = ""
        """The last failure, since which no call succeeded."""
        self.last_busy = float("-inf")
        """Monotonic time at which it last said that it has too much to do."""
        self._busy = Seldom()

    def answered(self, answer: Answer, usable: Callable[[Answer], bool], latency_s: float) -> None:
        """Take note of a chat completion; one without labels counts as a failure."""
        self.at_once.answered(latency_s)
        self.answers += 1
        try:
            good = usable(answer)
        except BaseException:
            self.breaker.abandoned()
            raise
        if good:
            self.breaker.succeeded()
            self.last_error = ""
        else:
            # The text is not shown: a model may repeat what the interaction says.
            self._failed(f"the answer of {len(answer.text)} characters holds no labels")

    def failed(self, error: Exception, parameters: Mapping[str, Any], latency_s: float) -> Exception:
        """Take note of a failed call, and return the error that it means."""
        said = self._cleaned(error)
        if isinstance(error, openai.RateLimitError):
            if getattr(error, "code", None) == "insufficient_quota":
                return self._misconfigured(said)
            self.at_once.overloaded(latency_s)
            self.breaker.abandoned()  # an endpoint that says it is busy works
            wait_s = retry_after_s(error.response.headers)
            self.last_busy = monotonic()
            if wait_s is not None:
                self.resume_at = max(self.resume_at, monotonic() + wait_s)
            if self._busy.due():
                log.warning("the judge has too much to do; calls slow down", retry_after_s=wait_s, said=said)
            return Again(said, wait_s)
        if (
            isinstance(error, openai.APIStatusError)
            and 300 <= error.status_code < 500
            and error.status_code not in {408, 409}
        ):
            return self._refused(error, parameters, said)
        if isinstance(error, NoCompletion) and (about := _about_content(said)) is not None:
            self.breaker.abandoned()
            return about
        wait_s = None
        if isinstance(error, openai.APIStatusError):
            wait_s = retry_after_s(error.response.headers)
            if error.status_code == 503:
                self.at_once.overloaded(latency_s)
        elif isinstance(error, TimeoutError | openai.APITimeoutError):
            self.at_once.overloaded(latency_s)
        self._failed(said)
        return Again(said, wait_s, of_content=isinstance(error, NoCompletion))

    def _refused(self, error: openai.APIStatusError, parameters: Mapping[str, Any], said: str) -> Exception:
        """Return the error that a reply of the 3xx or 4xx kind means."""
        if error.status_code < 400:
            location = self.clean(error.response.headers.get("location", "nowhere"))
            return self._misconfigured(f"it redirects to {location[:200]} with status {error.status_code}")
        if error.status_code in {401, 403, 404}:
            return self._misconfigured(said)
        self.breaker.abandoned()
        if (about := _about_content(said)) is not None:
            return about
        if self.dialect.learn(f"{getattr(error, 'param', '')} {said}", parameters):
            log.info("the judge takes a simpler request", because=said)
            return Again(said, 0.0)
        # Before any answer it is the request's form that is refused; later it is what this interaction says.
        return NoLabels(AbsentReason.JUDGE_REFUSED, said) if self.answers else self._misconfigured(said)

    def _failed(self, said: str, *, at_once: bool = False) -> None:
        """Take note of a failure."""
        self.last_error = said
        if self.breaker.failed(at_once=at_once):
            log.info("the judge is left alone for a while", pause_s=round(self.breaker.resumes_in_s, 1), error=said)

    def _misconfigured(self, said: str) -> JudgeMisconfigured:
        self._failed(said, at_once=True)
        return JudgeMisconfigured(
            f"the judge refuses to be asked: {said}; correct its key, model, address or quota, then restart",
            self.breaker.resumes_in_s,
        )

    def _cleaned(self, error: Exception) -> str:
        if isinstance(error.__cause__, ReplyTooLarge):
            error = error.__cause__
        return self.clean(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)[:500]

    def clean(self, text: str) -> str:
        """Return a text of the endpoint without the key, without control characters, and on one line."""
        if len(self._secret) > 3:
            text = text.replace(self._secret, "***")
        return "".join(letter if letter.isprintable() else " " for letter in " ".join(text[:CLEANED_CHARS].split()))


def _about_content(said: str) -> Exception | None:
    """Return what an error means that is about the text of one interaction; None if it is about something else."""
    lower = said.lower()
    if any(words in lower for words in ("context_length", "context length", "maximum context", "too many tokens")):
        return ContextTooLong(said)
    if "content_filter" in lower or "content management policy" in lower:
        return NoLabels(AbsentReason.JUDGE_REFUSED, said)
    return None
