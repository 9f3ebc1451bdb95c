"""Reads what an endpoint answers with success: an answer in the form of any API, a stream of it, or an error inside.

Endpoints put an answer into different places: a text, a list of parts, the arguments of a call, `parsed`, or the field
of the reasoning. Its reasoning beside an answer is never read. Gateways answer with the status 200 although they
failed: the cause is read from the structure of the reply, its codes and its types. Any value may be missing or wrong.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ragtide_schemas.limits import REPLY_TOKENS_MAX
from ragtide_schemas.plain_values import whole

from ...text.keys import letters_of
from ...text.reasoning import without_reasoning
from .answers import JudgeAnswer, last_object
from .costs import CallPrice
from .faults import Members, NoCompletion, as_json, fault_in

_CUT_OFF: Final = frozenset({
    "length", "maxtokens", "maxoutputtokens", "modellength", "modelcontextwindowexceeded", "incomplete", "limit",
})  # fmt: skip
_FILTERED: Final = (
    "contentfilter", "safety", "imagesafety", "recitation", "blocklist", "prohibitedcontent", "spii", "refusal",
    "sensitive", "guardrailintervened", "blocked", "errortoxic",
)  # fmt: skip
"""Reasons of an end, in letters: of OpenAI, Anthropic, Gemini, Mistral, Bedrock, Zhipu, Cohere."""
_FAILED: Final = frozenset({"failed", "abort", "aborted", "cancelled", "canceled", "insufficientsystemresource"})
"""Further ones of an answer that a server gave up, beside those that name an error."""
_UNFINISHED: Final = frozenset({"inprogress", "queued"})
"""States of a response that is made in the background."""
_FINISHES: Final = (
    "finish_reason", "native_finish_reason", "stop_reason", "finishReason", "stopReason", "done_reason", "stop_type",
    "completionReason", "status",
)  # fmt: skip
_SIGNS: Final = frozenset({*_FINISHES, "done", "stop", "model", "role", "usage"}) - {"status"}
"""Members of which one stands beside a text that is an answer."""
_CHOICES: Final = ("choices", "candidates", "completions", "predictions", "generations", "results", "outputs")
"""Lists of which the first entry has the answer: of OpenAI, Gemini, AI21, Vertex, Cohere, Titan, Mistral on Bedrock."""
_SEARCHED: Final = frozenset({"results", "outputs"})
"""Lists that other services have, too: an entry of them is an answer only as any text is one."""
_PARTS: Final = 1000
"""Most parts of a message that are read."""
_DEPTH: Final = 4
"""Most wrappers around an answer or a code."""

# --- The body ---


def read_body(body: bytes) -> object:
    r"""Return the value of a body: of JSON, the list of events of a stream, or the text.

    >>> read_body(b'data: {"a": 1}\n\ndata: [DONE]\n'), read_body(b'{"a": 1}\n{"a": 2}'), read_body(b"<p>no")
    ([{'a': 1}, {'done': True}], [{'a': 1}, {'a': 2}], '<p>no')
    """
    text = body.decode("utf-8-sig", "replace").strip()
    try:
        # `from_json` of Pydantic refuses half of a surrogate pair, which stands in an answer that was cut off.
        return json.loads(text)
    except (ValueError, RecursionError):
        events = [*_events(text)]
    return text if None in events or not events else events


def _events(text: str) -> Iterator[object]:
    begun: list[str] = []
    for line in [*text.split("\n"), ""]:
        name, colon, data = line.strip().partition(":")
        if line.lstrip()[:1] in ("{", "["):
            name, data = "data", line
        if name == "data" and data.strip() == "[DONE]":
            yield {"done": True}
        elif name == "data":
            begun.append(data)
            if len(begun) > 1 or (event := _json(data)) is None:
                continue  # an event of several lines
            begun.clear()
            yield event
        elif not line.strip():
            if begun:
                yield _json("\n".join(begun))
                begun.clear()
        elif not (colon and name in ("", "event", "id", "retry")):
            yield None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# --- The answer ---


def read_reply(reply: object, price: CallPrice | None) -> JudgeAnswer:
    """Return the answer in a reply, with `fault` if it has none; a missing text gives an empty answer."""
    if isinstance(reply, list) and reply and all(isinstance(event, dict) for event in reply):
        reply = _join_events(reply)
    message, holders = _message_in(reply)
    finish = _finish(holders)
    fault = fault_in(reply, message, holders, finish)
    if fault is None and any(
        letters_of(_text(holder, "status") or "") in _UNFINISHED and "output" in holder for holder in holders
    ):
        fault = NoCompletion(200, '{"message": "the response is not finished"}')
    text, refusal = _answer(message or {}, cut_off=finish == "length")
    if message is None and (blocked := _blocked(holders)):
        finish, refusal, fault = "content_filter", blocked, None
    prompt_tokens, completion_tokens, cached_tokens = _tokens(holders)
    cost_usd = price and price.cost_usd(
        prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cached_tokens=cached_tokens
    )
    return JudgeAnswer(
        text=text,
        finish=finish if finish in ("length", "content_filter") else "stop",
        refusal=refusal,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        cost_usd=cost_usd or 0.0,
        cost_source=None if price is None or cost_usd is None else price.source,
        fault=fault,
    )


def _message_in(reply: object, depth: int = 0) -> tuple[Members | None, list[Members]]:
    if not isinstance(reply, dict) or depth > _DEPTH:
        return None, []
    for message, around in _messages(reply):
        return message, [around, reply]
    for name in ("response", "result", "output", "data", "body"):
        inner, holders = _message_in(reply.get(name), depth + 1)
        if holders:
            return inner, [*holders, reply]
    choice = _choice(reply)[1]
    return ({} if _finish([choice]) in ("length", "content_filter") else None), [choice, reply]


def _messages(reply: Members) -> Iterator[tuple[Members, Members]]:
    yield from _messages_of_choice(*_choice(reply))
    if "choices" in reply:
        return
    if isinstance(items := reply.get("output"), list):  # of the Responses API
        yield {"content": items}, {}
    for name in ("message", "delta"):  # of Ollama, Bedrock, Cohere, and events of Anthropic
        if isinstance(message := reply.get(name), dict):
            yield _part(message, "message") or message, message
    content = reply.get("content")
    if (isinstance(content, list) and "role" in reply) or _is_answer(content, reply):  # of Anthropic, llama.cpp
        yield reply, {}
    if isinstance(text := _part(reply, "token").get("text"), str):  # an event of TGI
        yield {"content": "" if _part(reply, "token").get("special") else text}, {}
    if isinstance(text := reply.get("generated_text"), str):
        yield {"content": text}, _part(reply, "details")
    for name in ("response", "result", "output", "text", "data", "generation", "completion", "outputText", "reply"):
        # Of Ollama, gateways, Llama, older models of Anthropic, a stream of Titan.
        if _is_answer(text := reply.get(name), reply):
            yield {"content": text}, {}


def _messages_of_choice(listed: str, choice: Members) -> Iterator[tuple[Members, Members]]:
    for name in ("message", "delta", "content"):
        if isinstance(message := choice.get(name), dict):
            yield message, choice
    for holder in (choice, _part(choice, "data"), _choice(choice)[1]):
        for name in ("text", "outputText", "generated_text", "content"):
            text = holder.get(name)
            if isinstance(text, str) and (listed not in _SEARCHED or _is_answer(text, choice)):
                yield {"content": text}, choice


def _choice(reply: Members) -> tuple[str, Members]:
    for name in _CHOICES:
        entries = reply.get(name)
        if isinstance(entries, list) and entries and isinstance(entries[0], str):
            return name, {"text": entries[0]}
        if choice := _first(entries):
            return name, choice
    return "", {}


def _is_answer(text: object, beside: Members) -> bool:
    return isinstance(text, str) and ("{" in text or not _SIGNS.isdisjoint(beside))


def _join_events(events: Sequence[Members]) -> Members:
    texts: list[str] = []
    calls: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {"refusal": [], "reasoning": []}
    tokens = (0, 0, 0)
    finish, ended, is_empty = "", False, True
    for event in events:
        message, holders = _message_in(event)
        if fault_in(event, {}, holders, _finish(holders)) is not None:
            return event
        if _text(_part(event, "response"), "status") in ("completed", "incomplete") or _blocked(holders):
            return event  # the last one of the Responses API, with the whole answer; or Gemini's only one
        is_empty &= message is None
        is_whole = "message" in _first(event.get("choices")) or isinstance(event.get("generated_text"), str)
        ended |= is_whole or event.get("done") is True or event.get("type") == "message_stop"
        ended |= any(_text(holder, name) is not None for holder in holders for name in _FINISHES[:-1])
        finish = _finish(holders) or finish
        tokens = tuple(map(max, tokens, _tokens(holders)))  # type: ignore[assignment]  # three of three
        text, refusals, thoughts = _spoken_parts(_content(message))
        if is_whole and text and "token" not in event:
            texts.clear()  # such an event has all that came so far
        texts.append(text)
        others["refusal"] += [*refusals, _text(message, "refusal") or ""]
        others["reasoning"] += [*thoughts, *(_text(message, name) or "" for name in _REASONINGS)]
        for place, call in enumerate(_items(message, "tool_calls")):
            index = str(call.get("index", place) if isinstance(call, dict) else place)
            calls.setdefault(index, []).extend(_arguments_of(_part(call, "function") or call))
        if "type" in event:
            calls.setdefault("", []).extend(_arguments_of(message))
    if is_empty or not ended:
        return {"error": "the stream is empty" if is_empty and ended else "the stream broke off before its end"}
    message = {"content": "".join(texts), **{name: "".join(pieces) for name, pieces in others.items()}}
    message["tool_calls"] = [{"arguments": "".join(pieces)} for pieces in calls.values()]
    counts = dict(zip(("prompt_tokens", "completion_tokens"), tokens, strict=False))
    usage = {**counts, "prompt_tokens_details": {"cached_tokens": tokens[2]}}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _finish(holders: Iterable[Members]) -> str:
    for holder in holders:
        details = _part(holder, "incomplete_details")
        for reason in [
            _text(details, "reason"),
            _text(_part(holder, "finishReason"), "reason"),
            *(_text(holder, name) for name in _FINISHES),
        ]:
            letters = letters_of(reason or "")
            if letters in _CUT_OFF:
                return "length"
            if letters.startswith(_FILTERED):
                return "content_filter"
            if letters in _FAILED or "error" in letters:
                return "error"
        if holder.get("stopped_limit") is True:  # of llama.cpp
            return "length"
    return ""


def _blocked(holders: Iterable[Members]) -> str:
    """Return the reason for which Gemini blocked the prompt, so that there is no choice; empty if it did not."""
    for holder in holders:
        for name in ("promptFeedback", "prompt_feedback"):
            feedback = _part(holder, name)
            if reason := _text(feedback, "blockReason") or _text(feedback, "block_reason"):
                return f"the prompt was blocked: {reason}"
    return ""


# --- The message ---

_REASONINGS: Final = ("reasoning_content", "reasoning", "thinking")


def _answer(message: Members, *, cut_off: bool) -> tuple[str, str | None]:
    content, refusals, thoughts = _spoken_parts(_content(message))
    called = "\n".join(_arguments(message))
    if called and content:
        content = f"{without_reasoning(content)}\n{called}"  # a thought without an end does not hide the call
    text = content or called
    refusal = "\n".join([*refusals, (_text(message, "refusal") or "").strip()]).strip()
    if not text and "{" in refusal:
        text, refusal = refusal, ""
    if not text and not refusal and not cut_off:
        # Servers that take the whole answer for reasoning: it counts only if it ends with the object.
        for name in _REASONINGS:
            text = text or last_object(_text(message, name) or "")
        text = text or last_object("\n".join(thoughts))
    return whole(text), whole(refusal) or None


def _content(message: Members | None) -> object:
    if message is None:
        return None
    return message.get("content", message.get("parts", [message] if "type" in message else None))


def _spoken_parts(content: object, depth: int = 0) -> tuple[str, list[str], list[str]]:
    if isinstance(content, str):
        return content, [], []
    if isinstance(content, dict):
        content = [content]
    texts: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    for part in content[:_PARTS] if isinstance(content, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            kind = str(part.get("type", ""))[:40].lower()
            if any(word in kind for word in ("think", "reason", "thought", "redacted")) or part.get("thought") is True:
                thoughts += _texts_in(part)
            elif "refusal" in kind:
                refusals += _texts_in(part)
            elif (text := _text(part, "text")) is not None:
                texts.append(text)
            elif kind == "message" and depth < _DEPTH:  # an item of the Responses API
                text, *others = _spoken_parts(part.get("content"), depth + 1)
                texts.append(text)
                refusals += others[0]
                thoughts += others[1]
            elif "type" not in part or kind in ("json", "output_json", "object"):
                inner = part.get("json", part.get("object", part))
                texts.append(inner if isinstance(inner, str) else as_json(inner))
            else:
                texts += _texts_in(part) if "text" in kind else _arguments_of(part)
    return "".join(texts), refusals, thoughts


def _texts_in(part: Mapping[str, object]) -> list[str]:
    texts: list[str] = []
    for name in ("text", "refusal", "thinking", "reasoning", "content"):
        value = part.get(name)
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list):
            texts += [text for inner in value[:_PARTS] if (text := _text(inner, "text")) is not None]
        elif isinstance(value, dict) and (text := _text(value, "value")) is not None:
            texts.append(text)
    return texts


def _arguments(message: Mapping[str, object]) -> Iterable[str]:
    for call in _items(message, "tool_calls"):
        yield from _arguments_of(_part(call, "function") or call)
    yield from _arguments_of(message.get("function_call"))
    parsed = message.get("parsed")
    if isinstance(parsed, dict | list) and parsed:
        yield as_json(parsed)


def _arguments_of(call: object) -> Iterable[str]:
    for name in ("arguments", "input", "args", "parameters", "partial_json"):
        value = call.get(name) if isinstance(call, dict) else None
        if isinstance(value, str) and value.strip():
            yield value
        elif isinstance(value, dict) and value:
            yield as_json(value)


def _part(value: object, name: str) -> Mapping[str, object]:
    part = value.get(name) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _first(value: object) -> Members:
    first = value[0] if isinstance(value, list) and value else None
    return first if isinstance(first, dict) else {}


def _items(value: object, name: str) -> list[Any]:
    items = value.get(name) if isinstance(value, dict) else None
    return items[:_PARTS] if isinstance(items, list) else []


_PROMPT: Final = (
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "inputTokens",
    "prompt_eval_count",
    "prompt_token_count",
    "inputTextTokenCount",
)
_COMPLETION: Final = (
    "completion_tokens", "output_tokens", "outputTokens", "eval_count", "generation_token_count", "tokenCount",
    "totalOutputTextTokenCount",
)  # fmt: skip


def _tokens(holders: Iterable[Members]) -> tuple[int, int, int]:
    prompt_tokens = completion_tokens = cached_tokens = 0
    for holder in holders:
        for counted in (
            _part(holder, "usage"),
            _part(holder, "usageMetadata"),
            _part(_part(holder, "meta"), "billed_units"),
            holder,
        ):
            if not counted:
                continue
            prompt = max(_whole(counted, name) for name in _PROMPT)
            completion = max(_whole(counted, name) for name in _COMPLETION)
            completion += _whole(counted, "candidatesTokenCount") + _whole(counted, "thoughtsTokenCount")
            details = _part(counted, "prompt_tokens_details") or _part(counted, "input_tokens_details")
            prompt_tokens = prompt_tokens or prompt
            completion_tokens = completion_tokens or completion
            cached_tokens = cached_tokens or min(_whole(details, "cached_tokens"), prompt)
            if prompt_tokens and completion_tokens:
                return prompt_tokens, completion_tokens, cached_tokens
    return prompt_tokens, completion_tokens, cached_tokens


def _whole(value: object, name: str) -> int:
    number = value.get(name) if isinstance(value, dict) else None
    # An impossible count is ignored, because it would stay in cost and spend for ever.
    return number if isinstance(number, int) and 0 < number <= REPLY_TOKENS_MAX else 0


def _text(value: object, name: str) -> str | None:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None
