"""Calls of tools and their results in messages, by the words that model services and client libraries have for them.

Sources: OpenAI (chat, Responses, Agents), Anthropic, Gemini, Bedrock Converse, OpenTelemetry GenAI, LangChain,
LlamaIndex, Haystack, Pydantic AI, Vercel AI SDK.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from .literals import CLASS
from .parts import HUMP

CALL_KEYS: Final = (
    "tool_calls", "function_call", "toolCalls", "tool_call_id", "tool_call_chunks", "invalid_tool_calls",
)  # fmt: skip
"""Keys of a message that asks for tools, or answers such a message."""
CALL_BLOCKS: Final = ("toolUse", "functionCall", "function_call", "tool_call", "toolInvocation")
"""Keys of blocks that ask for a tool: Bedrock and Strands, Gemini, Haystack, Vercel."""
RESULT_BLOCKS: Final = ("toolResult", "functionResponse", "function_response", "tool_call_result")
CALL_IDS: Final = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "id")
_LISTS_OF_CALLS: Final = ("tool_calls", "toolCalls", "invalid_tool_calls")
_NAMES: Final = ("name", "tool_name", "toolName")
_ARGUMENTS: Final = (
    "arguments", "args", "input", "tool_kwargs", "tool_args", "parameters", "queries", "query", "action", "code",
)  # fmt: skip
_RESULTS: Final = ("result", "response", "content", "output", "outputs", "results", "value", "blocks", "parts")
_OF_A_TEXT: Final = frozenset(("type", "block_type", "text", "annotations", "cache_control", CLASS))
"""What the only part of a result has that is nothing but a text."""
_TYPES: Final = ("type", "part_kind", "block_type", "kind")
_ENDS_OF_CALLS: Final = ("tool_call", "tool_use", "function_call", "custom_tool_call", "tool_invocation", "_call")
_ENDS_OF_RESULTS: Final = (
    "tool_result", "_call_output", "call_response", "tool_return", "call_result", "function_response", "retry_prompt",
)  # fmt: skip
_ASKING: Final = (
    "function_call", "tool_call", "tool_use", "tool_invocation", "computer_call", "shell_call", "apply_patch_call",
)  # fmt: skip
"""Calls whose result is another item; the service itself makes the others, and writes the result into them."""
_FAILED: Final = frozenset(("error", "failed", "failure", "incomplete", "denied", "output_error", "output-error"))
_WRAPPED: Final = frozenset(("text", "json", "content", "error_text", "error_json", "execution_denied"))
"""Kinds of a result of Vercel's SDK that has its value in `value`."""
NEW_STEP: Final = "step_start"
"""Kind of the part that begins a further round in a message."""
NO_RESULT: Final = object()
"""The result of a call to which none is known."""


class AskedCall(NamedTuple):
    """A call as a message asks for it."""

    name: str
    arguments: Any
    call_id: str | None


class CallResult(NamedTuple):
    """The result of a call."""

    name: str | None
    call_id: str | None
    result: Any
    is_error: bool
    """Whether the message says so; the result may be an error without it."""


def tool_parts_in(part: Mapping[str, Any]) -> Iterator[AskedCall | CallResult]:
    """Yield the call or the result that a part of a message is, or an item of a list of items; of some items both."""
    for keys, read in ((CALL_BLOCKS, _call), (RESULT_BLOCKS, _result)):
        inner = next((part[key] for key in keys if isinstance(part.get(key), Mapping)), None)
        if inner is not None:
            yield read({**inner, "id": _first(inner, CALL_IDS) or part.get("id")}, "")
            if "state" in inner and _has_result(inner):
                yield _result(inner, "")
            return
    kind = kind_of_item(part)
    if part.get("toolCallId") and part.get("state"):  # Vercel: tool-NAME
        call = _call(part, kind)
        yield call if _first(part, _NAMES) else call._replace(name=str(part.get("type")).removeprefix("tool-"))
        if _has_result(part):
            yield _result(part, kind)
    elif kind.endswith(_ENDS_OF_RESULTS):
        # What a validation of the answer asks for is no result.
        if kind != "retry_prompt" or _first(part, _NAMES):
            yield _result(part, kind)
    elif kind.endswith(_ENDS_OF_CALLS):
        yield _call(part, kind)
        if not kind.endswith(_ASKING):
            yield _result(part, kind)
    elif part.get("tool_name") and part.get("arguments") is not None:  # Haystack's ToolCall
        yield _call(part, kind)
    elif part.keys() >= {"result", "origin"} and isinstance(part["origin"], Mapping):  # Haystack's ToolCallResult
        yield _result(part, kind)


def kind_of_item(part: Mapping[str, Any]) -> str:
    """Return the kind of a part or an item in lower case with underscores; empty if it has none."""
    name = next((part[key] for key in (*_TYPES, CLASS) if isinstance(part.get(key), str)), "")
    return _plain(name[:60])


@lru_cache(maxsize=1_024)
def _plain(name: str) -> str:
    plain = HUMP.sub("_", name).replace("-", "_").replace(".", "_").lower()
    return plain.removesuffix("_part").removesuffix("_block")


def calls_beside(message: Mapping[str, Any]) -> Iterator[AskedCall]:
    """Yield the calls that stand beside the content of a message: OpenAI, LangChain, Ollama."""
    more = message.get("additional_kwargs")
    for place in (message, more if isinstance(more, Mapping) else {}):
        calls = [call for key in _LISTS_OF_CALLS if isinstance(place.get(key), list) for call in place[key]]
        calls += [place["function_call"]] if isinstance(place.get("function_call"), Mapping) else []
        if calls:
            yield from (_call(call, "") for call in calls if isinstance(call, Mapping))
            return


def result_message(message: Mapping[str, Any]) -> CallResult:
    """Return the result that the message of a tool is: its objects, if it has some beside its text."""
    more = message.get("additional_kwargs")
    call_id = _first(message, CALL_IDS[:-1]) or (_first(more, CALL_IDS[:-1]) if isinstance(more, Mapping) else None)
    has_objects = bool(message.get("artifact") or message.get("raw_output"))
    result = {**message, "tool_call_id": call_id} if has_objects else _value(message)
    name = _first(message, _NAMES) or (_first(more, _NAMES) if isinstance(more, Mapping) else None)
    return CallResult(name, call_id, result, _is_failed(message))


def _call(part: Mapping[str, Any], kind: str) -> AskedCall:
    if isinstance(part.get("tool_call"), Mapping):  # OpenInference
        part = part["tool_call"]
    inner = next((part[key] for key in ("function", "custom") if isinstance(part.get(key), Mapping)), part)
    if kind == "tool_invocation" and isinstance(part.get("toolInvocation"), Mapping):
        inner = part["toolInvocation"]
    name = _first(inner, _NAMES) or kind.removeprefix("tool_").removesuffix("_call")
    arguments = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), None)
    if isinstance(arguments, Mapping) and inner.get("action") == arguments:  # of a search by the service
        known = {key: value for key, value in arguments.items() if key in ("query", "url", "pattern") and value}
        arguments = known or arguments
    return AskedCall(name or "tool", arguments, _first(part, CALL_IDS) or _first(inner, CALL_IDS))


def _result(part: Mapping[str, Any], kind: str) -> CallResult:
    origin = part.get("origin")
    asked = _call(origin, "") if isinstance(origin, Mapping) else None
    name = asked.name if asked else _first(part, _NAMES)
    call_id = asked.call_id if asked else _first(part, CALL_IDS)
    value, is_error = _value(part), _is_failed(part) or kind == "retry_prompt"
    if isinstance(value, Mapping) and value.keys() <= {"type", "value", "reason", "providerOptions"}:
        inner = kind_of_item(value)
        if inner in _WRAPPED:
            value, is_error = value.get("value"), is_error or inner.startswith(("error", "execution"))
    is_error = is_error or (isinstance(value, Mapping) and kind_of_item(value).endswith("_error"))
    return CallResult(name, call_id, value, is_error)


def _value(part: Mapping[str, Any]) -> Any:
    error = part.get("error") or part.get("errorText")
    if error and not isinstance(error, bool):
        return error
    values = [part[key] for key in _RESULTS if part.get(key) is not None]
    return next(filter(None, values), values[0] if values else NO_RESULT)


def only_text(value: Any) -> Any:
    """Return the text of a result that has nothing but one text as a part; another result as it is."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
        only = value[0]
        return only["text"] if isinstance(only.get("text"), str) and only.keys() <= _OF_A_TEXT else value
    return value


def _has_result(part: Mapping[str, Any]) -> bool:
    return bool(_is_failed(part)) or str(part.get("state")) in ("result", "output-available", "output_available")


def _is_failed(part: Mapping[str, Any]) -> bool:
    marks = (part.get("is_error"), part.get("isError"), part.get("error"), part.get("errorText"))
    states = (part.get("status"), part.get("state"), part.get("outcome"))
    return any(marks) or any(isinstance(state, str) and state.lower() in _FAILED for state in states)


def _first(part: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((part[key] for key in keys if isinstance(part.get(key), str) and part[key]), None)
