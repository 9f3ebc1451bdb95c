"""Reading an endpoint's replies: answers from bodies, waits from headers. The code takes no value for granted."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ragtide_runtime.settings.judge import Price
from ragtide_schemas.limits import REPLY_TOKENS_MAX

from .answers import Answer
from .prices import cost

LONGEST_RETRY_AFTER_S: Final = 300.0
"""Seconds an endpoint may ask us to wait."""


def read_reply(reply: object, price: Price | None) -> Answer:
    """Return the answer in a reply; a reply that lacks an expected value gives an empty answer."""
    counted = _part(reply, "usage")
    prompt_tokens, completion_tokens = _whole(counted, "prompt_tokens"), _whole(counted, "completion_tokens")
    cached_tokens = min(_whole(_part(counted, "prompt_tokens_details"), "cached_tokens"), prompt_tokens)
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = _part(choice, "message")
    return Answer(
        text=_text(message, "content") or "",
        finish=_text(choice, "finish_reason") or "stop",
        refusal=_text(message, "refusal"),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        cost_usd=cost(
            price, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cached_tokens=cached_tokens
        ),
    )


def is_completion(reply: object) -> bool:
    """Return whether a reply is a chat completion at all, and not a gateway's error or page with status 200.

    >>> is_completion({"choices": [{"message": {"content": "hello"}}]}), is_completion({"error": "no quota"})
    (True, False)
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(first, dict) and isinstance(first.get("message"), dict)


def _part(value: object, name: str) -> Mapping[str, object]:
    part = value.get(name) if isinstance(value, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _whole(value: object, name: str) -> int:
    number = value.get(name) if isinstance(value, Mapping) else None
    # Ignore an impossible count: it would stay in cost and spend for ever.
    return number if isinstance(number, int) and 0 < number <= REPLY_TOKENS_MAX else 0


def _text(value: object, name: str) -> str | None:
    text = value.get(name) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else None


def retry_after_s(headers: Any) -> float | None:
    """Return the seconds an endpoint asks us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.

    >>> retry_after_s({"retry-after": "2"}), retry_after_s({}), retry_after_s({"retry-after-ms": "250"})
    (2.0, None, 0.25)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _until(value)
        if seconds >= 0:
            return min(seconds, LONGEST_RETRY_AFTER_S)
    return None


def _until(date: str) -> float:
    """Return the seconds until an HTTP date, negative if it is none."""
    try:
        return max((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return -1.0
