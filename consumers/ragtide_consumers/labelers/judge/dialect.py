"""Learns the parameters that an endpoint accepts from its refusals, because compatible endpoints differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragtide_runtime.settings.judge import JudgeSettings

from .prompts import Prompt

STRUCTURED: Final = ("json_schema", "json_object", "text")
"""Ways to request the form of the answer, the strictest first."""

OPENAI: Final = "api.openai.com"

Message = Mapping[str, str]


class Dialect:
    """The parameters for an endpoint; they become fewer and simpler after refusals."""

    def __init__(self, settings: JudgeSettings, host: str) -> None:
        self._settings = settings
        self.model = settings.model or ""
        self._structured = STRUCTURED.index("json_schema" if settings.structured == "auto" else settings.structured)
        self._may_change_form = settings.structured == "auto"
        self._temperature = settings.temperature
        self._grammar = settings.grammar
        # OpenAI's newer models take only `max_completion_tokens`, many compatible servers only `max_tokens`.
        self._limit = "max_completion_tokens" if host == OPENAI else "max_tokens"
        self._limits_tried = {self._limit}

    def parameters(self, prompt: Prompt, corrections: Sequence[Message] = ()) -> dict[str, Any]:
        """Return the parameters of one call."""
        in_lines = self._settings.prompt == "keys"
        form = "text" if in_lines else STRUCTURED[self._structured]
        rules = prompt.rules if in_lines or form == "json_schema" else f"{prompt.rules}\n{prompt.form}\n"
        parameters: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [{"role": "system", "content": rules}, {"role": "user", "content": prompt.data}, *corrections],
            self._limit: self._settings.most_answer_tokens,
        }
        if form == "json_schema":
            schema = {"name": prompt.name, "schema": prompt.schema, "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif form == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        if in_lines and self._grammar == "vllm":
            parameters["structured_outputs"] = {"grammar": prompt.grammar}
        elif in_lines and self._grammar == "llama.cpp":
            parameters["grammar"] = prompt.grammar
        if self._temperature is not None:
            parameters["temperature"] = self._temperature
        return parameters

    def learn(self, complaint: str, sent: Mapping[str, Any]) -> bool:
        """Change or drop the parameter that an endpoint refused; return whether another call may succeed.

        Args:
            complaint: the error's parameter and message.
            sent: the refused parameters. Concurrent calls are refused together, so if the parameters have changed since
                then, this refusal changes nothing more.
        """
        lower = complaint.lower()
        now = self.parameters(Prompt("", "", "", {}))
        names = ("response_format", "structured_outputs", "grammar", "temperature", self._limit)
        if any(_form(sent.get(name)) != _form(now.get(name)) for name in names):
            return True
        if self._grammar is not None and ("grammar" in lower or "structured_outputs" in lower):
            self._grammar = None
            return True
        if self._may_change_form and self._structured < len(STRUCTURED) - 1 and _about_form(lower):
            self._structured += 1
            return True
        if self._temperature is not None and "temperature" in lower:
            self._temperature = None
            return True
        if "max_tokens" in lower or "max_completion_tokens" in lower:
            other = "max_tokens" if self._limit == "max_completion_tokens" else "max_completion_tokens"
            if other not in self._limits_tried:
                self._limit = other
                self._limits_tried.add(other)
                return True
        return False


def _form(value: object) -> object:
    if isinstance(value, str):
        return "a grammar"  # each prompt has another one
    return value.get("type") if isinstance(value, Mapping) else value


def _about_form(complaint: str) -> bool:
    return any(word in complaint for word in ("response_format", "json_schema", "json_object", "structured", "guided"))
