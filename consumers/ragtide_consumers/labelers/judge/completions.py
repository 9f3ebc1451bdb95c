"""Reads chat completions: text, tokens and cost of a reply, any value of which may be missing or malformed."""

from collections.abc import Mapping

from ragtide_schemas.limits import REPLY_TOKENS_MAX

from .answers import JudgeAnswer
from .prices import CallPrice


def read_reply(reply: object, price: CallPrice | None) -> JudgeAnswer:
    """Return the answer in a reply; a missing text gives an empty answer."""
    counted = _part(reply, "usage")
    prompt_tokens, completion_tokens = _whole(counted, "prompt_tokens"), _whole(counted, "completion_tokens")
    cached_tokens = min(_whole(_part(counted, "prompt_tokens_details"), "cached_tokens"), prompt_tokens)
    choices = reply.get("choices") if isinstance(reply, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = _part(choice, "message")
    cost_usd = price and price.cost_usd(
        prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cached_tokens=cached_tokens
    )
    return JudgeAnswer(
        text=_text(message, "content") or "",
        finish=_text(choice, "finish_reason") or "stop",
        refusal=_text(message, "refusal"),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        cost_usd=cost_usd or 0.0,
        cost_source=None if price is None or cost_usd is None else price.source,
    )


def is_completion(reply: object) -> bool:
    """Return whether a reply is a chat completion, and not an error or page of a gateway with status 200.

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
    # An impossible count is ignored, because it would stay in cost and spend for ever.
    return number if isinstance(number, int) and 0 < number <= REPLY_TOKENS_MAX else 0


def _text(value: object, name: str) -> str | None:
    text = value.get(name) if isinstance(value, Mapping) else None
    return text if isinstance(text, str) else None
