"""Chat messages, as the model services and their client libraries spell them."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from .literals import CLASS
from .parts import joined, kind_of, text_of_content
from .tool_parts import (
    CALL_BLOCKS,
    CALL_IDS,
    CALL_KEYS,
    NO_RESULT,
    AskedCall,
    CallResult,
    kind_of_item,
    result_message,
    tool_parts_in,
)

Author = Literal["user", "assistant", "system", "tool"]

_WORDS: Final[Mapping[Author, str]] = {
    "user": "user human humanmessage humanmessagechunk",
    "assistant": "assistant ai model bot chatbot aimessage aimessagechunk",
    "system": "system developer systemmessage",
    "tool": "tool function toolmessage functionmessage",
}
AUTHORS: Final[Mapping[str, Author]] = {word: author for author, words in _WORDS.items() for word in words.split()}
"""The author of a message by the word that a library has for it, also as in `MessageRole.USER`."""
_AUTHOR_KEYS: Final = ("role", "_role", "type", "_type", "author", CLASS)
CONTENT_KEYS: Final = ("content", "_content", "parts", "contents", "blocks", "text", "message", "audio", "refusal")
_WRAPPERS: Final = ("message", "kwargs", "data", "content")
_CALL_PARTS: Final = ("tool_call", "tool_use", "tool-call", "function_call", "tool_call_response")
"""Parts that make a message a step; a search that the service itself makes is a part of the answer."""
_OF_PARTS: Final[Mapping[Any, Author]] = {
    "request": "user", "ModelRequest": "user", "response": "assistant", "ModelResponse": "assistant",
}  # fmt: skip
_QUOTE: Final = re.compile(
    r"For context:\s*(?:below is a transcript of what another agent did\b|\[[^\]\n]{1,100}\] (?:said: |called tool |`))"
)
"""How a text in the name of the user begins that quotes another agent (Google ADK 1 and 2)."""
TEXTS_DEPTH: Final = 20
"""Levels of a message in which its texts are."""
_NAMES_OF_MESSAGES: Final = frozenset((*_AUTHOR_KEYS, *CALL_IDS, "kind", "part_kind", "name", "finish_reason"))


class Message(NamedTuple):
    """One message of a chat."""

    author: Author
    text: str
    calls_tools: bool
    """Whether the message asks for a tool: it is a step, not an answer."""
    is_chunk: bool = False
    """Whether the next message of the same author goes on with its text."""


def messages_of(value: Any) -> list[Message]:
    """Return the messages that a value holds, oldest first; an empty list if it is no list of messages."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return []
    if len(value) == 1 and isinstance(value[0], list) and (batch := messages_of(value[0])):
        return batch  # LangChain: a batch with one conversation
    read = [
        None if isinstance(item, dict) and kind_of(item) == "reasoning" else (item, message_of(item)) for item in value
    ]
    has_question = any(pair and pair[1] and pair[1].author == "user" for pair in read)
    known: list[Message] = []
    for item, message in filter(None, read):
        if message is None and has_question and (made := _messages_of_item(item)) is not None:
            known += made
        elif message is None:
            return []
        else:
            known.append(message)
    messages: list[Message] = []
    for (is_chunk, author), run in groupby(known, key=lambda message: (message.is_chunk, message.author)):
        chunks = list(run)
        if is_chunk:
            calls = any(chunk.calls_tools for chunk in chunks)
            chunks = [Message(author, joined([chunk.text for chunk in chunks]), calls, is_chunk)]
        messages += chunks
    return messages


_OTHER_ITEMS: Final = (
    "item_reference",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "compaction",
)
"""Kinds of items of OpenAI's Responses that nobody said."""


def _messages_of_item(item: Any) -> list[Message] | None:
    if not isinstance(item, dict):
        return None
    pieces = list(tool_parts_in(item))
    messages = [
        Message("assistant", "", True)
        if isinstance(piece, AskedCall)
        else Message("tool", all_texts(piece.result), False)
        for piece in pieces
    ]
    return messages if messages or kind_of_item(item) in _OTHER_ITEMS else None


def message_of(item: Any) -> Message | None:
    """Return the message that a value is, or None."""
    if isinstance(item, list) and len(item) == 2:
        author = _author(item[0])
        return Message(author, text_of_content(item[1]), False) if author and isinstance(item[1], str) else None
    if not isinstance(item, dict):
        return None
    author = next(filter(None, (_author(item.get(key)) for key in _AUTHOR_KEYS)), None)
    if author is None and isinstance(item.get("parts"), list):  # Pydantic AI
        author = _OF_PARTS.get(item.get("kind") or item.get(CLASS))
    if author is None and "additional_kwargs" in item and any(item.get(key) for key in CALL_KEYS):
        author = "assistant"  # LangChain: the printed fields of a message
    if author is None:
        return _wrapped(item)
    content = next((item[key] for key in CONTENT_KEYS if item.get(key)), None)
    if content is None and not any(item.get(key) for key in CALL_KEYS):
        wrapped = _wrapped(item)
        return wrapped._replace(author=author) if wrapped else Message(author, "", False)
    calls = any(item.get(key) for key in CALL_KEYS) or _has_call(content)
    is_chunk = any(str(item.get(key)).endswith("Chunk") for key in ("type", CLASS))
    text = text_of_content(content, "" if author == "assistant" else "\n")
    return Message("system" if author == "user" and _QUOTE.match(text) else author, text, calls, is_chunk)


def _wrapped(item: Mapping[str, Any]) -> Message | None:
    for key in _WRAPPERS:
        inner = item.get(key)
        if isinstance(inner, dict):
            named = item.get("id")
            author = _author(named[-1]) if isinstance(named, list) and named else None
            message = message_of(inner if author is None else {**inner, "role": author})
            if message:
                return message
    return None


def _author(word: Any) -> Author | None:
    return AUTHORS.get(word.strip().lower().rpartition(".")[2]) if isinstance(word, str) and len(word) < 40 else None


def _has_call(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return any(
        isinstance(part, dict)
        and (
            (part.get("type") or part.get("part_kind")) in _CALL_PARTS
            or part.get(CLASS) in ("ToolCall", "ToolCallPart")
            or any(part.get(key) for key in CALL_BLOCKS)
            or part.keys() >= {"tool_name", "arguments"}
        )
        for part in parts
    )


def tool_results_of(value: Any) -> list[Any]:
    """Return the results of tools after the last text of the user in a list of messages, oldest first.

    Args:
        value: list of messages, as a model call got them.
    """
    newest_first: list[Any] = []
    for item in reversed(value if isinstance(value, list) else []):
        results = [result for _, result in _results_in(item)]
        message = None if results else message_of(item)
        if message is not None and message.author == "user" and message.text.strip():
            break
        newest_first.extend(reversed(results))
    return newest_first[::-1]


def results_by_call(value: Any) -> dict[str, Any]:
    """Return the results of tools in a list of messages, by the id of the call."""
    results: dict[str, Any] = {}
    for item in value if isinstance(value, list) else []:
        for call, result in _results_in(item):
            if call is not None:
                results.setdefault(call, result)
    return results


def all_texts(value: Any) -> str:
    """Return all texts in a value in their order, one in a line, but for the names of authors, kinds and calls.

    >>> all_texts([{"role": "tool", "content": [{"type": "text", "text": "In 1889."}], "tool_call_id": "7"}])
    'In 1889.'
    """
    texts: list[str] = []
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict) and depth < TEXTS_DEPTH:
            waiting += [(inner, depth + 1) for key, inner in reversed(item.items()) if key not in _NAMES_OF_MESSAGES]
        elif isinstance(item, list) and depth < TEXTS_DEPTH:
            waiting += [(inner, depth + 1) for inner in reversed(item)]
    return "\n".join(texts)


def _results_in(item: Any) -> list[tuple[str | None, Any]]:
    if not isinstance(item, dict):
        return []
    holder = holder_of(item)
    content = next((holder[key] for key in CONTENT_KEYS if holder.get(key)), None)
    if content is None:
        return []
    whole = result_message(holder)
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    read = [piece for part in parts for piece in tool_parts_in(part) if isinstance(piece, CallResult)]
    results = [
        (piece.call_id or whole.call_id, {"isError": True, "content": piece.result} if piece.is_error else piece.result)
        for piece in read
        if piece.result is not NO_RESULT
    ]
    message = None if results else message_of(item)
    if message is None or message.author != "tool":
        return results
    if message.text.strip():
        return [(whole.call_id, message.text)]
    return [(whole.call_id, content)] if isinstance(content, list) else []


def holder_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping with the content of a message, which may be wrapped."""
    for key in _WRAPPERS:
        inner = item.get(key)
        # The content of a message of a tool may be an object, too.
        if isinstance(inner, dict) and (key != "content" or not inner.keys().isdisjoint(("parts", "role", "content"))):
            return inner
    return item


def last_of(messages: Sequence[Message], author: Author) -> str | None:
    """Return the last text of an author that is not a call of a tool; None if there is none."""
    texts = (item.text for item in reversed(messages) if item.author == author and item.text.strip())
    return next(texts, None)
