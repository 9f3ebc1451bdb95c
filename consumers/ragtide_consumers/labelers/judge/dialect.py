"""Learns the parameters that an endpoint accepts from its refusals, because compatible endpoints differ."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, Final

from ragtide_runtime.settings.labelers import JudgeSettings

from .prompts import Prompt
from .refusals import About, EndpointRefusal

STRUCTURED: Final = ("json_schema", "json_object", "text")
"""Ways to request the form of the answer, the strictest first."""

OPENAI: Final = "api.openai.com"

LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""Names of the limit of an answer."""

SMALLEST_ANSWER: Final = 256
"""Tokens of an answer below which the prompt counts as too long."""

RAISED: Final = 4
"""Times the limit of the settings that an answer may have after it was cut off: thoughts count as a part of it."""

SMALLEST_WINDOW: Final = 1024
"""Tokens below which a number in a refusal is no window."""

_BLIND: Final = ("structured", "structured", "grammar", "temperature", "limit_name", "roles", "limit_name")
"""Features in the order in which they are given up if the words of a refusal name none."""

_WORDS: Final = {
    "json_object": "a JSON object instead of a schema",
    "text": "the form of the answer in words only",
    "no_temperature": "no temperature",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_completion_tokens",
    "no_limit": "no limit of the answer",
    "one_message": "the rules in the message of the user",
    "no_grammar": "no grammar",
}

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AcceptedParameters:
    """The parameters that an endpoint accepts, as far as they are known."""

    structured: int = 0
    """Index of `STRUCTURED`."""
    temperature: bool = True
    grammar: bool = True
    limit: str = "max_tokens"
    """Name of the limit of the answer; empty to send none."""
    limits_refused: int = 0
    system_role: bool = True
    answer_cap: int | None = None
    """Most tokens of an answer."""
    answer_tokens: int | None = None
    """Raised limit of an answer, if one needed it; None for that of the settings."""


class Dialect:
    """The parameters for an endpoint; they become fewer and simpler after refusals.

    What is learned counts for all calls of the process. `memory` and `remember` carry it to other processes.
    """

    def __init__(self, settings: JudgeSettings, host: str) -> None:
        self._settings = settings
        self.model = settings.model or ""
        self._may_change_form = settings.structured == "auto"
        # OpenAI's newer models take only `max_completion_tokens`, many compatible servers only `max_tokens`.
        self._first = AcceptedParameters(
            structured=STRUCTURED.index("json_schema" if settings.structured == "auto" else settings.structured),
            temperature=settings.temperature is not None,
            grammar=settings.grammar is not None,
            limit="max_completion_tokens" if host == OPENAI else "max_tokens",
        )
        self._now = self._first
        self._before_blind: AcceptedParameters | None = None
        self._blind_steps = 0
        self._all_tried = False
        self._unconfirmed = False
        self.window: int | None = settings.window_tokens
        """Tokens that the model takes in all, by the settings or by the endpoint's words; None if it is not known."""
        self._tokens_of_estimate = 1.0

    def parameters(
        self, prompt: Prompt, corrections: Sequence[Message] = (), tokens: int = 0, *, raised: bool = False
    ) -> dict[str, Any]:
        """Return the parameters of one call.

        Args:
            prompt: the question.
            corrections: messages after it.
            raised: whether the answer before was cut off at its limit.
        """
        now = self._now
        in_lines = self._settings.prompt == "keys"
        form = "text" if in_lines else STRUCTURED[now.structured]
        rules = prompt.rules if in_lines or form == "json_schema" else f"{prompt.rules}\n{prompt.form}\n"
        messages = [{"role": "system", "content": rules}, {"role": "user", "content": prompt.data}]
        if not now.system_role:
            messages = [{"role": "user", "content": f"{rules}\n{prompt.data}"}]
        parameters: dict[str, Any] = {"model": self._settings.model, "messages": [*messages, *corrections]}
        if now.limit:
            parameters[now.limit] = self.answer_tokens(tokens, raised=raised)
        if form == "json_schema":
            schema = {"name": prompt.name, "schema": prompt.schema, "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif form == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        if in_lines and now.grammar and self._settings.grammar == "vllm":
            parameters["structured_outputs"] = {"grammar": prompt.grammar}
        elif in_lines and now.grammar and self._settings.grammar == "llama.cpp":
            parameters["grammar"] = prompt.grammar
        if now.temperature:
            parameters["temperature"] = self._settings.temperature
        return parameters

    def answer_tokens(self, tokens: int, *, raised: bool = False) -> int:
        """Return the most tokens of an answer.

        Args:
            raised: whether the answer before was cut off at its limit.
        """
        usual = self._settings.most_answer_tokens
        most = RAISED * self._settings.answer_tokens if raised else max(usual, self._now.answer_tokens or 0)
        most = min(most, self._now.answer_cap or most)
        if self.window is None or (self._settings.window_tokens is not None and most <= usual):
            return most
        return min(most, max(self.window - self.tokens(tokens) - 32, SMALLEST_ANSWER))

    def needs(self, answer_tokens: int) -> None:
        """Note that an answer was complete only with a raised limit, so that further answers begin with it."""
        self._now = replace(self._now, answer_tokens=max(answer_tokens, self._now.answer_tokens or 0))
        self._unconfirmed = True

    def tokens(self, estimate: int) -> int:
        """Return the tokens of a text as the endpoint counts them, from their estimate."""
        return ceil(estimate * self._tokens_of_estimate)

    @property
    def reserved_answer(self) -> int:
        """Tokens of the window that belong to the answer."""
        most = self._settings.answer_tokens
        return most if self.window is None else min(most, self.window // 4)

    def learn(
        self, refusal: EndpointRefusal, sent: Mapping[str, Any], tokens: int, *, blindly: bool, raised: bool = False
    ) -> bool:
        """Ask for less after a refusal; return whether another call may succeed.

        Args:
            sent: the refused parameters. Concurrent calls are refused together, so if the parameters have changed since
                then, this refusal changes nothing more.
            blindly: whether features may be given up that the words do not name: the endpoint never accepted a call.
            raised: whether the limit of the answer was a raised one.
        """
        if refusal.about in (About.ANSWER_LIMIT, About.LENGTH):
            return self._learn_limit(refusal, sent, tokens, raised=raised)
        if self._features_of(sent) != self._features_of(self.parameters(_NOTHING)):
            return True
        for name in refusal.features:
            if self._give_up(name):
                return True
        return blindly and self._give_up_next()

    def _features_of(self, parameters: Mapping[str, Any]) -> tuple[object, ...]:
        form = parameters.get("response_format")
        limit = next((name for name in LIMITS if name in parameters), "")
        roles = [message["role"] for message in parameters["messages"][:1]]
        grammar = "grammar" in parameters or "structured_outputs" in parameters
        return form and form["type"], limit, roles, grammar, "temperature" in parameters

    def _give_up_next(self) -> bool:
        if self._all_tried:
            return False
        if self._before_blind is None:
            self._before_blind = self._now
        while self._blind_steps < len(_BLIND):
            name = _BLIND[self._blind_steps]
            self._blind_steps += 1
            if self._give_up(name):
                return True
        # Nothing helped, so the form was not the reason.
        self._now, self._before_blind, self._all_tried = self._before_blind, None, True
        return False

    def _give_up(self, name: str) -> bool:
        now, in_lines = self._now, self._settings.prompt == "keys"
        if name == "grammar" and now.grammar and in_lines:
            self._now = replace(now, grammar=False)
        elif name == "structured" and self._may_change_form and not in_lines and now.structured < len(STRUCTURED) - 1:
            self._now = replace(now, structured=now.structured + 1)
        elif name == "temperature" and now.temperature:
            self._now = replace(now, temperature=False)
        elif name == "roles" and now.system_role:
            self._now = replace(now, system_role=False)
        elif name == "limit_name" and now.limit:
            other = "max_tokens" if now.limit == "max_completion_tokens" else "max_completion_tokens"
            self._now = replace(now, limit="" if now.limits_refused else other, limits_refused=now.limits_refused + 1)
        else:
            return False
        self._unconfirmed = True
        return True

    def _learn_limit(self, refusal: EndpointRefusal, sent: Mapping[str, Any], tokens: int, *, raised: bool) -> bool:
        limit = next((sent[name] for name in LIMITS if name in sent), None)
        prompt = refusal.prompt_tokens
        if prompt is None and refusal.requested is not None and limit is not None and refusal.requested > limit:
            prompt = refusal.requested - limit
        if prompt is not None and 0 < tokens < prompt < 20 * tokens:
            self._tokens_of_estimate = max(self._tokens_of_estimate, 1.02 * prompt / tokens)
        window = refusal.window
        # A window that the call was within is another number.
        if window is not None and SMALLEST_WINDOW <= window <= 2 * self.tokens(tokens) + (limit or 0) + 1:
            self.window = window if self.window is None else min(window, self.window)
        if refusal.about is About.LENGTH:
            return False
        if limit is None or (window is not None and prompt is not None and window - prompt < SMALLEST_ANSWER):
            return False
        cap = refusal.answer_cap
        if cap is not None and 0 < cap < limit:
            self._now = replace(self._now, answer_cap=min(cap, self._now.answer_cap or cap))
            self._unconfirmed = True
        if self.answer_tokens(tokens, raised=raised) < limit or not self._now.limit:
            return True
        if raised and self.answer_tokens(tokens) < limit:  # without a number: the usual limit is accepted
            self._now = replace(self._now, answer_cap=self.answer_tokens(tokens))
            return True
        if window is not None and prompt is not None:
            return False
        self._now = replace(self._now, limit="")
        self._unconfirmed = True
        return True

    def succeeded(self) -> bool:
        """Note that the endpoint accepted a call; return whether something new is to be remembered."""
        news, self._unconfirmed, self._before_blind, self._blind_steps = self._unconfirmed, False, None, 0
        return news

    @property
    def limits(self) -> bool:
        """Whether calls have a limit of the answer."""
        return bool(self._now.limit)

    @property
    def memory(self) -> list[Any]:
        """The learned parameters, for other processes."""
        return list(asdict(self._now).values())

    def remember(self, memory: object) -> None:
        """Take over what another process learned; a memory of another form changes nothing."""
        kinds = [int, bool, bool, str, int, bool, int | None, int | None]
        if not isinstance(memory, list) or len(memory) != len(kinds):
            return
        if not all(isinstance(value, kind) for value, kind in zip(memory, kinds, strict=True)):
            return
        learned = AcceptedParameters(*memory)
        if not 0 <= learned.structured < len(STRUCTURED) or learned.limit not in ("", *LIMITS):
            return
        first = self._first
        self._now = replace(
            learned,
            structured=max(learned.structured, first.structured) if self._may_change_form else first.structured,
            temperature=learned.temperature and first.temperature,
            grammar=learned.grammar and first.grammar,
            answer_tokens=learned.answer_tokens and min(learned.answer_tokens, RAISED * self._settings.answer_tokens),
        )

    @property
    def adapted(self) -> str:
        """What the endpoint is asked for less or in another way, in words; empty if nothing."""
        now, first = self._now, self._first
        changes = [
            _WORDS[STRUCTURED[now.structured]] if now.structured != first.structured else "",
            _WORDS["no_temperature"] if now.temperature != first.temperature else "",
            _WORDS["no_grammar"] if now.grammar != first.grammar else "",
            _WORDS[now.limit or "no_limit"] if now.limit != first.limit else "",
            _WORDS["one_message"] if not now.system_role else "",
            f"at most {now.answer_cap:,} tokens of answer" if now.answer_cap else "",
            f"up to {now.answer_tokens:,} tokens of answer" if now.answer_tokens else "",
            f"a window of {self.window:,} tokens"
            if self.window != self._settings.window_tokens and self.window
            else "",
        ]
        return ", ".join(words for words in changes if words)


_NOTHING: Final = Prompt("", "", "", {})
