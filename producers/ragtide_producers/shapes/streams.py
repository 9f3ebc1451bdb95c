"""Chunks of a stream and events of a response, which are joined in order.

Sources: OpenAI (chat chunks, events of Responses, Assistants and Realtime, the helper's `content.delta`), Anthropic
(raw events and those of its helper), Bedrock (ConverseStream, InvokeModelWithResponseStream), Gemini, Cohere, Ollama,
text-generation-inference, LangChain (message chunks, `astream_events`), LangGraph, LlamaIndex, Haystack, Vercel AI SDK.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from .literals import CLASS, BrokenTextError, UnreadableError, is_cut
from .messages import message_of
from .parts import HUMP, joined, kind_of, text_of_content

NOTHING, DELTA, SHOWN, BLOCK, PART, ITEM, WHOLE, STEP = range(8)
"""What an item of a stream has: no text, the next text, the same for a program that shows it, a finished text (of a
block, a part, an item of the output, or of all), or a call of a tool: a text without another one after it is a step."""
_NAMES: Final = ("type", "event", "event_type", "event_kind", "object")
_DELTAS: Final = ("delta", "chunk", "stream", "text_generation")
_ENDS: Final = ("done", "completed", "incomplete", "end", "stop", "failed")
_LINE: Final = re.compile(r"[0-9a-z]:[\[{\"]")
_STARTS: Final = ("start", "started", "created", "added", "in_progress", "queued", "ping")
_TOOLS: Final = ("function_call_arguments", "tool_input_start", "tool_input_available")
FIRST: Final = 200
"""Items of a list that are looked at to know whether it is a stream."""
_TEXTS: Final = ("delta", "textDelta", "text", "chunk", "transcript", "refusal", "data", "content")
_FINISHED: Final = (
    ("response", WHOLE), ("message", WHOLE), ("item", ITEM), ("part", PART), ("content_block", BLOCK), ("text", BLOCK),
    ("refusal", BLOCK), ("transcript", BLOCK), ("content", BLOCK),
)  # fmt: skip
_OF_BEDROCK: Final = (
    "messageStart",
    "contentBlockStart",
    "contentBlockStop",
    "messageStop",
    "metadata",
    "trace",
    "citation",
)
_MARKS: Final = frozenset(
    (*_NAMES, *_OF_BEDROCK, "choices", "candidates", "serverContent", "server_content", "token", "done", "delta",
     "contentBlockDelta", "chunk", "data", "snapshot", CLASS)
)  # fmt: skip
"""Keys of which every item of a stream has one."""


class Piece(NamedTuple):
    """An item of a stream."""

    level: int
    text: str


def piece_of(item: Any) -> Piece | None:
    """Return what an item has as a part of a stream; None if it is surely no such item."""
    if isinstance(item, list) and len(item) == 2:  # LangGraph: (chunk, metadata), or ("messages", (chunk, metadata))
        inner = item[1] if item[0] == "messages" else item[0]
        return piece_of(inner) if isinstance(item[1], list | dict) and isinstance(inner, list | dict) else None
    if not isinstance(item, dict):
        return Piece(DELTA, item) if isinstance(item, str) else None
    if _MARKS.isdisjoint(item):
        return None
    name = next((item[key] for key in _NAMES if isinstance(item.get(key), str)), "")
    if not name and str(item.get(CLASS)).endswith("Event"):
        name = HUMP.sub("_", item[CLASS]).removesuffix("_Event")
    if name.lower().endswith("messagechunk") or item.get(CLASS) in _CHUNKS:
        return _message_piece(item)
    data = item.get("data")
    if isinstance(data, dict | str) and item.keys() <= {"data", "event", "id", "retry", CLASS} and not name:
        inner = data if isinstance(data, dict) else _json(data)
        return piece_of(inner) if isinstance(inner, dict) else Piece(NOTHING, "")
    return (
        _reply_piece(item)
        or _bedrock_piece(item)
        or _event_piece(name.lower().replace("-", "_").replace(".", "_"), item)
    )


_CHUNKS: Final = (
    "AIMessageChunk",
    "StreamingChunk",
    "GenerationChunk",
    "ChatGenerationChunk",
    "ChoiceDelta",
    "ChatMessageStreamDelta",
)


def _reply_piece(item: Mapping[str, Any]) -> Piece | None:
    if isinstance(item.get("choices"), list):
        return _choice_piece([choice for choice in item["choices"] if isinstance(choice, dict)])
    live = item.get("serverContent", item.get("server_content"))
    if isinstance(live, dict):  # Gemini Live
        return _message_piece(live.get("modelTurn", live.get("model_turn")))
    if isinstance(item.get("candidates"), list):
        candidate = next(iter(item["candidates"]), None)
        return _message_piece(candidate.get("content")) if isinstance(candidate, dict) else None
    return _text_piece(item)


_NAMED: Final = (
    ("type", "completion", "completion"),
    ("event", "message", "answer"),
    ("event", "agent_message", "answer"),
)
"""Key and name of an item, and the key of its text: Anthropic's completions, Dify."""


def _text_piece(item: Mapping[str, Any]) -> Piece | None:
    for key, name, text in _NAMED:
        if item.get(key) == name and isinstance(item.get(text), str):
            return Piece(DELTA, item[text])
    if isinstance(item.get("token"), dict) and "text" in item["token"]:
        whole = item.get("generated_text")
        said = "" if item["token"].get("special") else item["token"].get("text") or ""
        return Piece(WHOLE, whole) if isinstance(whole, str) else Piece(DELTA, str(said))
    if isinstance(item.get("done"), bool) and ("message" in item or "response" in item):
        content = item.get("message", item.get("response"))
        return _message_piece(content) if isinstance(content, dict) else Piece(DELTA, text_of_content(content, ""))
    if isinstance(item.get("delta"), str) and any(key in item for key in ("text", "message", "response", "raw")):
        return Piece(DELTA, item["delta"])  # LlamaIndex: the rest is the text so far
    return None


def _message_piece(content: Any) -> Piece:
    message = message_of({**content, "role": "assistant"}) if isinstance(content, dict) else None
    if message is not None and message.calls_tools:
        return Piece(STEP, "")
    return Piece(DELTA, message.text if message is not None else "")


def _choice_piece(choices: Sequence[Mapping[str, Any]]) -> Piece | None:
    first = next((choice for choice in choices if choice.get("index") in (0, None)), {})
    delta = first.get("delta")
    if isinstance(delta, dict):
        return _message_piece(delta)
    if isinstance(first.get("text"), str):
        return Piece(DELTA, first["text"])
    return None if any("message" in choice for choice in choices) else Piece(NOTHING, "")


def _bedrock_piece(item: Mapping[str, Any]) -> Piece | None:
    delta = item.get("contentBlockDelta")
    if isinstance(delta, dict):
        return Piece(DELTA, text_of_content(delta.get("delta"), ""))
    if isinstance(start := item.get("contentBlockStart"), dict) and "toolUse" in (start.get("start") or ()):
        return Piece(STEP, "")
    chunk = item.get("chunk")
    if isinstance(chunk, dict) and "bytes" in chunk:
        inner = _json(chunk["bytes"])
        return piece_of(inner) or Piece(DELTA, _model_text(inner)) if isinstance(inner, dict) else None
    return Piece(NOTHING, "") if len(item) == 1 and next(iter(item)) in _OF_BEDROCK else None


def _model_text(item: Mapping[str, Any]) -> str:
    outputs = item.get("outputs") or item.get("generations")
    first = outputs[0] if isinstance(outputs, list) and outputs and isinstance(outputs[0], dict) else item
    return next(
        (first[key] for key in ("outputText", "generation", "text", "completion") if isinstance(first.get(key), str)),
        "",
    )


def _json(value: Any) -> Any:
    for decode in (lambda text: text, b64decode):
        with suppress(ValueError, RecursionError, TypeError):
            return json.loads(decode(value))
    return None


def _event_piece(name: str, item: Mapping[str, Any]) -> Piece | None:
    begun = item.get("content_block") or item.get("item")
    of_tool = isinstance(begun, dict) and begun.get("type") in ("tool_use", "function_call", "custom_tool_call")
    if name == "part_start" or of_tool or any(word in name for word in _TOOLS):
        return _message_piece({"parts": [item.get("part")]}) if name == "part_start" else Piece(STEP, "")  # Pydantic AI
    if not name.endswith((*_DELTAS, *_ENDS, *_STARTS)):
        is_snapshot = isinstance(item.get("snapshot"), str) and isinstance(item.get("text"), str)
        return Piece(SHOWN, item["text"]) if is_snapshot else None
    if name.endswith(_STARTS) or kind_of({"type": name}) not in ("text", "mark"):
        return Piece(NOTHING, "")
    data = item.get("data")
    item = data if isinstance(data, dict) else item
    if name.endswith(_DELTAS):
        content = next((item[key] for key in _TEXTS if isinstance(item.get(key), str | dict | list)), None)
        inner = piece_of(content) if isinstance(content, dict) else None
        text = inner.text if inner is not None else text_of_content(content, "")
        return Piece(SHOWN if "snapshot" in item and name != "chunk" else DELTA, text)
    if "output" in item:  # LangChain: on_chat_model_end
        return Piece(WHOLE if name == "on_chat_model_end" else NOTHING, _whole_text(item["output"]))
    finished = ((item[key], level) for key, level in _FINISHED if item.get(key))
    value, level = next(finished, (item, WHOLE if name.startswith("thread_message") else NOTHING))
    return Piece(level, _whole_text(value) if level else "")


def _whole_text(value: Any) -> str:
    output = value.get("output") if isinstance(value, dict) else None
    if isinstance(output, list):
        return text_of_output(output) or ""
    message = message_of(value)
    return message.text if message is not None else text_of_content(value, "")


def text_of_output(output: Sequence[Any]) -> str | None:
    """Return the text in the output of a reply of OpenAI's Responses; None if it only asks for tools."""
    messages = [item for item in output if isinstance(item, dict) and item.get("type") in ("message", None)]
    calls = any(isinstance(item, dict) and item.get("type") in ("function_call", "custom_tool_call") for item in output)
    return None if calls else text_of_content(messages, "")


def text_of_stream(items: Sequence[Any]) -> str | None:
    """Return the text of a stream's items, joined in their order; None if the items are no stream.

    Raises:
        UnreadableError: the items are of several streams, or only some are of one.
    """
    others = [item for item in items[:FIRST] if not isinstance(item, str)]
    if not any(piece.level for piece in map(piece_of, others) if piece) or any(
        piece_of(item) is None and message_of(item) is not None for item in others
    ):
        return None
    items = _items_of_last_run(items)
    pieces = [piece_of(item) for item in items]
    texts: list[list[str]] = [[] for _ in range(STEP + 1)]
    last = next((piece.level for piece in reversed(pieces) if piece and (piece.level == STEP or piece.text.strip())), 0)
    if last == STEP:
        return ""
    for piece, item in zip(pieces, items, strict=True):
        if piece is not None:
            texts[piece.level].append(piece.text)
        elif not isinstance(item, dict) or not any(isinstance(item.get(key), str) for key in _NAMES):
            raise UnreadableError("some of its items are chunks of a stream, and others are not: give one text")
        elif isinstance(item.get("text"), str) and kind_of(item) == "text":
            texts[DELTA].append(item["text"])
    wholes = list(dict.fromkeys(text.strip() for text in texts[WHOLE] if text.strip()))
    if len(wholes) > 1:
        raise UnreadableError("it has the streams of several calls: give the one text that was shown")
    candidates = [
        joined(texts[DELTA]),
        joined(texts[SHOWN]),
        *(text_of_content(texts[level], "") for level in (BLOCK, PART, ITEM)),
    ]
    return wholes[0] if wholes else max(candidates, key=len)


_RUNS: Final = ("on_chat_model_stream", "on_llm_stream", "on_parser_stream", "on_chain_stream")


def _items_of_last_run(items: Sequence[Any]) -> Sequence[Any]:
    runs = {(item.get("event"), item.get("run_id")): item for item in items if isinstance(item, dict)}
    kind = next((kind for kind in _RUNS if any(name == kind for name, _ in runs)), "")
    last = next((run for name, run in reversed(runs) if name == kind), None)
    if not kind:
        return items
    kept = [item for item in items if not isinstance(item, dict) or item.get("event") not in _RUNS]
    streams = [item for item in items if isinstance(item, dict) and item.get("event") == kind]
    spoken = {item.get("run_id") for item in streams if (piece := piece_of(item)) and piece.text.strip()}
    if len(spoken) > 1 and kind in _RUNS[:2]:
        raise UnreadableError("it has the streams of several calls: give the one text that was shown")
    return [
        *(
            item
            for item in streams
            if item.get("run_id") in spoken and (kind in _RUNS[:2] or item.get("run_id") == last)
        ),
        *kept,
    ]


def values_of_lines(text: str) -> list[Any] | None:
    """Return the values in a text that is a stream as it was on the wire: server-sent events, or lines of JSON.

    None for another text.

    Raises:
        BrokenTextError: the text begins as a stream, and a later line is cut.
    """
    if not text.startswith(("data:", "event:", "{")) and not _LINE.match(text):
        return None
    values: list[Any] = []
    texts: list[str] = []
    for line in filter(str.strip, text.split("\n")):
        head, _, rest = line.partition(":")
        value = _json(line if line[0] == "{" else rest) if line[0] == "{" or head in ("data", "0") else ""
        if isinstance(value, dict):
            values.append(value)
        elif head == "0" and isinstance(value, str):  # Vercel AI SDK 4
            texts.append(value)
        elif rest.strip() != "[DONE]" and head not in ("event", "id", "retry", "") and not _LINE.match(line):
            if texts or any(piece_of(item) for item in values) or is_cut(rest):
                raise BrokenTextError(f"the line {line[:40]!r} of a stream is cut")
            return None
    return [*values, *([{"type": "text-delta", "delta": "".join(texts)}] if texts else [])]
