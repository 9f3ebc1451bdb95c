"""One call of a judge's endpoint: the request, the reply, and the meaning of each failure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from pydantic_core import to_json

from ...metrics.scores import AbsentReason
from ..remote.access import Access
from ..remote.endpoint import Call
from ..remote.errors import ContextTooLong, NoLabels
from ..remote.posting import POST_ERRORS, ErrorReply, Poster
from ..remote.replies import CallFailure, FailureKind, failure_of_status
from ..remote.usage import Usage
from .answers import JudgeAnswer
from .completions import read_body, read_reply
from .costs import CallPrice
from .dialect import LIMITS, Dialect, Message
from .faults import NoCompletion
from .prompts import Prompt
from .refusals import About, EndpointRefusal, read_refusal

SHOWN_MESSAGE: Final = 500
"""Characters of an endpoint's refusal that are shown in messages."""

log = structlog.get_logger("ragtide.judge")


@dataclass(kw_only=True)
class ChatCall(Call[JudgeAnswer]):
    """A prompt, sent over the chat completions protocol."""

    errors = (*POST_ERRORS, ErrorReply, ValueError, RecursionError)

    poster: Poster
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
    prompt_tokens: int
    """Tokens of the messages, by estimate."""
    answer_tokens: Callable[[], int]
    """Returns the probable number of tokens of the answer."""
    raised: bool = False
    """Whether the answer before was cut off at its limit."""

    def __post_init__(self) -> None:
        """Set the attributes of the span."""
        self.span = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.dialect.model}
        self._parameters: Mapping[str, Any] = {}

    def tokens(self) -> int:
        """Return the probable number of tokens of the call."""
        return self.prompt_tokens + self.answer_tokens()

    async def make(self) -> JudgeAnswer:
        """Return the judge's answer to a request in the dialect of the endpoint."""
        self._parameters = self.dialect.parameters(
            self.prompt, self.corrections, self.prompt_tokens, raised=self.raised
        )
        answer = await self.poster.post(to_json(self._parameters), lambda body: read_reply(read_body(body), self.price))
        self.usage.prompt_tokens += answer.prompt_tokens
        self.usage.completion_tokens += answer.completion_tokens
        self.usage.spent(answer.cost_usd, answer.cost_source)
        self.access.telemetry.spent(
            answer.cost_usd,
            self.usage.pipeline,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
        )
        if answer.fault is not None:
            raise answer.fault
        return replace(
            answer, limit=next((self._parameters[name] for name in LIMITS if name in self._parameters), None)
        )

    def defect(self, reply: JudgeAnswer) -> str:
        """Return the reason why an answer holds no labels; empty if it holds labels."""
        # The text is not shown: a model may repeat a text of the interaction.
        if self.usable(reply):
            return ""
        cut = ", and was cut off at its limit (judge.answer_tokens)" if reply.finish == "length" else ""
        return f"the answer of {len(reply.text)} characters holds no labels{cut}"

    def result(self, reply: JudgeAnswer) -> Mapping[str, int]:
        """Return the tokens of an answer, for the call's span."""
        return {
            "gen_ai.usage.input_tokens": reply.prompt_tokens,
            "gen_ai.usage.output_tokens": reply.completion_tokens,
        }

    def failure(self, error: Exception) -> CallFailure:
        """Return the meaning of an error of the client."""
        if isinstance(error, ErrorReply):
            return self._refusal(error)
        times_out = isinstance(error, TimeoutError)
        outcome = "timeout" if times_out else "no_connection" if isinstance(error, POST_ERRORS) else "unreadable"
        shown = f"{self.access.endpoint.described(error)}{self.poster.through}"
        return CallFailure(FailureKind.FAILED, outcome, shown, overloaded=times_out)

    def _refusal(self, error: ErrorReply) -> CallFailure:  # noqa: PLR0911 - one answer a cause
        status, headers, clean = error.status, error.headers, self.access.endpoint.clean
        inside, answered = isinstance(error, NoCompletion), self.access.endpoint.answered
        refusal = read_refusal(status, error.text)
        message = clean(refusal.message or (error.text if inside else ""))[:SHOWN_MESSAGE]
        shown = f"status {status}" if not inside else "status 200 with an error inside"
        if status == 200:
            shown = "status 200 with a reply that is no chat completion"
        shown += f": {message}{self.poster.through}" if message else self.poster.through
        if status == 200 and not answered:
            return CallFailure(FailureKind.MISCONFIGURED, "unreadable", shown, remedy=_REMEDIES[About.ADDRESS])
        if status == 429 and refusal.about is About.QUOTA:
            return CallFailure(FailureKind.MISCONFIGURED, "rate_limited", shown, remedy=_REMEDIES[About.QUOTA])
        failure = failure_of_status(502 if status == 200 else status, headers, shown, clean=clean)
        if status < 400 or failure.kind is FailureKind.BUSY or status in {408, 409}:
            return failure
        # The words of a page are not about the call: their footer may name rules about contents.
        if (inside or status >= 500) and not error.text.lstrip().startswith(("{", "[", '"')):
            return failure
        # If the endpoint never answered a call, its words may name nothing and still mean the form of the request.
        if (less := self._ask_for_less(refusal, shown, blindly=400 <= status < 500 and not answered)) is not None:
            return less
        if not 400 <= status < 500:
            return failure
        if refusal.about is About.FORM and answered:
            if inside:  # a gateway says so of any failure behind it
                return failure_of_status(502, headers, shown, clean=clean)
            return CallFailure(FailureKind.REFUSED, "refused", shown, remedy=_REMEDIES[About.FORM])
        return CallFailure(FailureKind.MISCONFIGURED, "refused", shown, remedy=_REMEDIES[refusal.about])

    def _ask_for_less(self, refusal: EndpointRefusal, shown: str, *, blindly: bool) -> CallFailure | None:
        if refusal.about is About.CONTENT:
            return CallFailure(FailureKind.REFUSED, "refused", shown, final=NoLabels(AbsentReason.JUDGE_REFUSED, shown))
        if refusal.about not in (About.FORM, About.LENGTH, About.ANSWER_LIMIT):
            return None
        before = self.dialect.adapted
        if self.dialect.learn(refusal, self._parameters, self.prompt_tokens, blindly=blindly, raised=self.raised):
            if self.dialect.adapted != before:
                log.info("the endpoint is asked for less", endpoint="judge", now=self.dialect.adapted, because=shown)
            return CallFailure(FailureKind.REPHRASED, "refused", shown)
        if refusal.about is About.FORM:
            return None
        window = self.dialect.window
        known = f"the window is {window:,} tokens" if window else "the window is not known"
        too_long = ContextTooLong(f"{shown} ({known}): set judge.window_tokens to the tokens that the model takes")
        return CallFailure(FailureKind.REFUSED, "refused", shown, final=too_long)


_REMEDIES: Final = {
    About.KEY: "correct its key (judge.api_key) or the rights of the key, then restart",
    About.QUOTA: "raise the quota or the balance of the account",
    About.MODEL: "correct judge.model, then restart",
    About.ADDRESS: "correct judge.base_url, which often ends with /v1, then restart",
    About.FORM: "it accepted no form of the request: see judge.structured, judge.temperature and judge.answer_tokens, "
    "then restart",
}
