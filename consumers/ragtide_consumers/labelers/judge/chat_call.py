"""One call of a judge's endpoint: the request, the reply, and the meaning of each failure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import openai

from ...metrics.scores import AbsentReason
from ..remote.access import Access
from ..remote.endpoint import Call
from ..remote.errors import ContextTooLong, NoLabels
from ..remote.replies import CallFailure, FailureKind, ReplyTooLarge, failure_of_status
from ..remote.usage import Usage
from .answers import JudgeAnswer
from .completions import is_completion, read_reply
from .dialect import Dialect, Message
from .prices import CallPrice
from .prompts import Prompt

SHOWN_CHARS: Final = 200
"""Characters of an endpoint's answer that are shown in messages."""


class NoCompletion(ValueError):  # noqa: N818  # never leaves the client
    """The endpoint answered with success, and the answer is no chat completion."""

    def __init__(self, shown: str) -> None:
        super().__init__(f"the reply is no chat completion: {shown}")


@dataclass(kw_only=True)
class ChatCall(Call[JudgeAnswer]):
    """A prompt, sent over the chat completions protocol."""

    errors = (openai.OpenAIError, TimeoutError, ValueError, RecursionError)

    client: openai.AsyncOpenAI
    access: Access
    dialect: Dialect
    """Knows the parameters that the endpoint accepts."""
    price: CallPrice | None
    prompt: Prompt
    corrections: Sequence[Message]
    """Messages after the prompt."""
    usage: Usage
    """Counts tokens and dollars of every reply, usable or not."""
    usable: Callable[[JudgeAnswer], bool]
    """Returns whether an answer holds labels."""
    probable_tokens: Callable[[], int]
    """Returns the probable number of tokens of the call."""

    def __post_init__(self) -> None:
        """Set the attributes of the span."""
        self.span = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.dialect.model}
        self._parameters: Mapping[str, Any] = {}

    def tokens(self) -> int:
        """Return the probable number of tokens of the call."""
        return self.probable_tokens()

    async def make(self) -> JudgeAnswer:
        """Return the judge's answer to a request in the dialect of the endpoint."""
        self._parameters = self.dialect.parameters(self.prompt, self.corrections)
        # `post` takes half the time of `chat.completions.create`, which walks through the whole request and builds
        # models of the reply.
        reply = await self.client.post("/chat/completions", cast_to=object, body=self._parameters)
        answer = read_reply(reply, self.price)
        self.usage.prompt_tokens += answer.prompt_tokens
        self.usage.completion_tokens += answer.completion_tokens
        self.usage.spent(answer.cost_usd, answer.cost_source)
        self.access.telemetry.spent(
            answer.cost_usd,
            self.usage.pipeline,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )
        if not is_completion(reply):
            raise NoCompletion(self.access.endpoint.clean(str(reply))[:SHOWN_CHARS])
        return answer

    def defect(self, reply: JudgeAnswer) -> str:
        """Return the reason why an answer holds no labels; empty if it holds labels."""
        # The text is not shown: a model may repeat a text of the interaction.
        return "" if self.usable(reply) else f"the answer of {len(reply.text)} characters holds no labels"

    def result(self, reply: JudgeAnswer) -> Mapping[str, int]:
        """Return the tokens of an answer, for the call's span."""
        return {
            "gen_ai.usage.input_tokens": reply.prompt_tokens,
            "gen_ai.usage.output_tokens": reply.completion_tokens,
        }

    def failure(self, error: Exception) -> CallFailure:
        """Return the meaning of an error of the client."""
        cause = error.__cause__
        message = self.access.endpoint.described(cause if isinstance(cause, ReplyTooLarge) else error)
        if isinstance(error, openai.APIStatusError):
            return self._refused(error, message)
        of_content = isinstance(error, NoCompletion)
        return CallFailure(
            FailureKind.FAILED,
            _outcome(error),
            message,
            overloaded=isinstance(error, TimeoutError | openai.APITimeoutError),
            of_content=of_content,
            final=_about_content(message) if of_content else None,
        )

    def _refused(self, error: openai.APIStatusError, message: str) -> CallFailure:
        if error.status_code == 429 and getattr(error, "code", None) == "insufficient_quota":
            return CallFailure(FailureKind.MISCONFIGURED, "rate_limited", message)
        failure = failure_of_status(
            error.status_code, error.response.headers, message, clean=self.access.endpoint.clean
        )
        if failure.kind is FailureKind.REFUSED:
            if (about := _about_content(message)) is not None:
                return CallFailure(failure.kind, failure.outcome, message, final=about)
            if self.dialect.learn(f"{getattr(error, 'param', '')} {message}", self._parameters):
                return CallFailure(FailureKind.REPHRASED, failure.outcome, message)
        return failure


def _outcome(error: Exception) -> str:
    """Return the name of a failure without an HTTP status."""
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return "timeout"
    return "no_connection" if isinstance(error, openai.APIConnectionError) else "unreadable"


def _about_content(message: str) -> Exception | None:
    """Return the error of a message about the text of one interaction; None if it is about something else."""
    lower = message.lower()
    if any(words in lower for words in ("context_length", "context length", "maximum context", "too many tokens")):
        return ContextTooLong(message)
    if "content_filter" in lower or "content management policy" in lower:
        return NoLabels(AbsentReason.JUDGE_REFUSED, message)
    return None
