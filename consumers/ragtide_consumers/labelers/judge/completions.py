"""Reads chat completions: text, tokens and cost of a reply, any value of which may be missing or malformed.

Endpoints put an answer into different places of the message: a text, a list of parts, the arguments of a call,
`parsed`, or the field of the reasoning. Its reasoning beside an answer is never read.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from ragtide_schemas.limits import REPLY_TOKENS_MAX

from ...text.reasoning import before_open_block
from .answers import JudgeAnswer, last_object, whole_characters
from .costs import CallPrice

_CUT_OFF: Final = frozenset({"length", "maxtokens", "maxoutputtokens", "modellength", "modelcontextwindowexceeded"})
_FILTERED: Final = (
    "contentfilter", "safety", "imagesafety", "recitation", "blocklist", "prohibitedcontent", "spii", "refusal",
    "sensitive", "guardrailintervened", "blocked",
)  # fmt: skip
"""Reasons of an end, in letters: of OpenAI, Anthropic, Gemini, Mistral, Bedrock, Zhipu."""
_PARTS: Final = 1000
"""Most parts of a message that are read."""


def read_reply(reply: object, price: CallPrice | None) -> JudgeAnswer:
    """Return the answer in a reply; a missing text gives an empty answer."""
    counted = _part(reply, "usage")
    prompt_tokens, completion_tokens = _whole(counted, "prompt_tokens"), _whole(counted, "completion_tokens")
    cached_tokens = min(_whole(_part(counted, "prompt_tokens_details"), "cached_tokens"), prompt_tokens)
    choice = _first_choice(reply)
    message = _part(choice, "message")
    finish = _finish(choice)
    text, refusal = _answer(message, cut_off=finish == "length")
    if blocked := _blocked(reply):
        finish, refusal = "content_filter", blocked
    cost_usd = price and price.cost_usd(
        prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cached_tokens=cached_tokens
    )
    return JudgeAnswer(
        text=text,
        finish=finish,
        refusal=refusal,
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
    first = _first_choice(reply)
    return (isinstance(first, dict) and isinstance(first.get("message"), dict)) or bool(_blocked(reply))


def _first_choice(reply: object) -> object:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    return choices[0] if isinstance(choices, list) and choices else None


def _blocked(reply: object) -> str:
    """Return the reason for which Gemini blocked the prompt, so that there is no choice; empty if it did not."""
    if _first_choice(reply) is not None:
        return ""
    for name in ("promptFeedback", "prompt_feedback"):
        feedback = _part(reply, name)
        if reason := _text(feedback, "blockReason") or _text(feedback, "block_reason"):
            return f"the prompt was blocked: {reason}"
    return ""


def _finish(choice: object) -> str:
    """Return the reason of the end: `stop`, `length` or `content_filter`."""
    for name in ("finish_reason", "native_finish_reason", "stop_reason"):
        reason = _text(choice, name) or ""
        letters = "".join(letter for letter in reason.lower() if letter.isalpha())
        if letters in _CUT_OFF:
            return "length"
        if letters.startswith(_FILTERED):
            return "content_filter"
    return "stop"


def _answer(message: Mapping[str, object], *, cut_off: bool) -> tuple[str, str | None]:
    """Return the text with the answer, and the refusal if the model refused."""
    content, refusals, thoughts = _spoken_parts(message.get("content"))
    called = "\n".join(_arguments(message))
    if called and content:
        content = f"{before_open_block(content)}\n{called}"  # a thought without an end does not hide the call
    text = content or called
    refusal = "\n".join([*refusals, (_text(message, "refusal") or "").strip()]).strip()
    if not text and "{" in refusal:
        text, refusal = refusal, ""
    if not text and not refusal and not cut_off:
        # Servers that take the whole answer for reasoning: it counts only if it ends with the object.
        for name in ("reasoning_content", "reasoning", "thinking"):
            text = text or last_object(_text(message, name) or "")
        text = text or last_object("\n".join(thoughts))
    return whole_characters(text), whole_characters(refusal) or None


def _spoken_parts(content: object) -> tuple[str, list[str], list[str]]:
    """Return the text of a content, its refusals, and its thoughts."""
    if isinstance(content, str):
        return content, [], []
    if isinstance(content, Mapping):
        content = [content]
    said: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    for part in content[:_PARTS] if isinstance(content, list) else ():
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, Mapping):
            kind = str(part.get("type", ""))[:40].lower()
            if any(word in kind for word in ("think", "reason", "thought", "redacted")) or part.get("thought") is True:
                thoughts += _texts_in(part)
            elif "refusal" in kind:
                refusals += _texts_in(part)
            elif (text := _text(part, "text")) is not None:
                said.append(text)
            elif "type" not in part or kind in ("json", "output_json", "object"):
                inner = part.get("json", part.get("object", part))
                said.append(inner if isinstance(inner, str) else _as_json(inner))
            else:
                said += _texts_in(part) if "text" in kind else _arguments_of(part)
    return "".join(said), refusals, thoughts


def _texts_in(part: Mapping[str, object]) -> list[str]:
    found: list[str] = []
    for name in ("text", "refusal", "thinking", "reasoning", "content"):
        value = part.get(name)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += [text for inner in value[:_PARTS] if (text := _text(inner, "text")) is not None]
        elif isinstance(value, Mapping) and (text := _text(value, "value")) is not None:
            found.append(text)
    return found


def _arguments(message: Mapping[str, object]) -> Iterable[str]:
    """Yield the arguments of calls in a message, and what the endpoint parsed."""
    calls = message.get("tool_calls")
    for call in calls[:_PARTS] if isinstance(calls, list) else ():
        yield from _arguments_of(_part(call, "function") or call)
    yield from _arguments_of(message.get("function_call"))
    parsed = message.get("parsed")
    if isinstance(parsed, dict | list) and parsed:
        yield _as_json(parsed)


def _arguments_of(call: object) -> Iterable[str]:
    for name in ("arguments", "input", "args", "parameters"):
        value = call.get(name) if isinstance(call, Mapping) else None
        if isinstance(value, str) and value.strip():
            yield value
        elif isinstance(value, Mapping) and value:
            yield _as_json(value)


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""


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
