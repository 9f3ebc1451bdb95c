"""Replies that a test scripts for a server: an answer, an error, or a fault of the network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .judge_prompt import JudgePrompt
from .sentence_labels import Labels


@dataclass(frozen=True)
class Says:
    """Replies with a chat completion of this text, or of the text that a function returns for the prompt.

    The text may be anything, such as malformed JSON.
    """

    text: str | Callable[[JudgePrompt], str]
    finish: str = "stop"
    """Finish reason, such as `length` or `content_filter`."""
    refusal: str | None = None
    """Refusal, which replaces the text."""
    tool_calls: bool = False
    """Whether a tool call replaces the text."""
    prompt_tokens: int | None = None
    """Tokens of the prompt in the reply's usage; by default one for every four characters."""
    completion_tokens: int | None = None
    """Tokens of the answer in the reply's usage; by default one for every four characters."""


@dataclass(frozen=True)
class Status:
    """Replies with an HTTP error."""

    code: int
    message: str = "an error"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers, such as `{"retry-after": "2"}`."""
    kind: str | None = None
    """Type and code of the error, such as `insufficient_quota`."""
    param: str | None = None
    """Parameter that the error names."""


@dataclass(frozen=True)
class Hangs:
    """Reads the request and never replies."""


@dataclass(frozen=True)
class Drops:
    """Sends half of the usual reply and closes the connection."""


@dataclass(frozen=True)
class Slow:
    """Sends the usual reply after this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Raw:
    """Replies with these bytes as they are, `times` over."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1


Reply = Labels | Says | Status | Hangs | Drops | Slow | Raw
"""One reply of a script."""
