"""A judge whose answers a test writes: an HTTP server with the chat completions protocol."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar

from ragtide_runtime.settings.model import Settings

from .judge_prompt import JudgePrompt
from .replies import Reply, Says
from .scripted_server import ScriptedServer
from .sentence_labels import Labels

MODEL = "scripted"
"""Name of the model in the settings of a scripted judge."""


class ScriptedJudge(ScriptedServer):
    """Answers the prompts of ragtide's judge with scripted labels; use it as a context manager.

    The judge labeler, its client and HTTP are the real ones, so a test covers retries, pauses, costs and absences.
    At the end of its block it warns of every sentence in `labels` that no prompt held.

    Args:
        labels: the usual answers: labels by sentence.
        script: replies to the first requests, in order.
        always: reply to every request after the script, or a function that returns it for a `JudgePrompt`; None for
            the usual answer.
        latency_s: seconds before every reply, except those above the capacity.
        capacity: requests at once above which further requests get the status 429.

    Raises:
        RuntimeError: at the end of the block, if a function in the script failed.
    """

    base: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/chat/completions"

    def __init__(
        self,
        labels: Labels | None = None,
        *,
        script: Iterable[Reply] = (),
        always: Reply | Callable[[JudgePrompt], Reply | None] | None = None,
        latency_s: float = 0.0,
        capacity: int | None = None,
    ) -> None:
        super().__init__(script=script, always=always, latency_s=latency_s, capacity=capacity)
        self.labels = labels or Labels()
        self._named: set[str] = set()

    @property
    def prompts(self) -> list[JudgePrompt]:
        """The prompts of all requests, in order."""
        return [JudgePrompt(request) for request in self.requests]

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with which a process or a test asks this judge."""
        return {
            "RAGTIDE_LABELER": "judge",
            "RAGTIDE_JUDGE_MODEL": MODEL,
            "RAGTIDE_JUDGE_BASE_URL": self.url,
            "RAGTIDE_JUDGE_API_KEY": "none",
        }

    def settings(self, *, labeler: str = "judge", **judge: Any) -> Settings:
        """Return settings with which this judge is asked.

        Args:
            labeler: name of the labeler, such as `cascade`.
            judge: changes of the settings under `judge.`, such as `timeout_s=1`.
        """
        fields = {"model": MODEL, "base_url": self.url, "api_key": "none", **judge}
        return Settings(labeler=labeler, judge=fields)

    def asked(self, request: dict[str, Any]) -> JudgePrompt:
        """Return the prompt of a request."""
        return JudgePrompt(request)

    def listing(self, path: str) -> Any | None:
        """Return the list of its one model."""
        return {"object": "list", "data": [{"id": MODEL, "object": "model"}]} if path == "/models" else None

    def usual(self, request: dict[str, Any], scripted: Reply | None) -> dict[str, Any]:
        """Return the chat completion with an answer."""
        prompt = JudgePrompt(request)
        if isinstance(scripted, Says):
            return _completion(
                prompt, scripted, scripted.text if isinstance(scripted.text, str) else scripted.text(prompt)
            )
        labels = scripted if isinstance(scripted, Labels) else self.labels
        self._named |= labels.named(prompt)
        text = labels.answer(prompt)
        says = Says(text, prompt_tokens=labels.prompt_tokens, completion_tokens=labels.completion_tokens)
        return _completion(prompt, says, text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        if kind is None:
            for sentence in sorted(self.labels.sentences - self._named):
                warnings.warn(
                    f"no prompt held {sentence!r}: labels are by whole sentence, as ragtide cuts the texts",
                    stacklevel=2,
                )


def _completion(prompt: JudgePrompt, says: Says, text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": says.refusal}
    if says.refusal is not None:
        message["content"] = None
    if says.tool_calls:
        call = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        message |= {"content": None, "tool_calls": [call]}
    prompt_tokens = sum(len(str(turn["content"])) for turn in prompt.body["messages"]) // 4
    sent = prompt_tokens if says.prompt_tokens is None else says.prompt_tokens
    answered = len(text) // 4 if says.completion_tokens is None else says.completion_tokens
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": prompt.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": says.finish, "logprobs": None}],
        "usage": {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered},
    }
