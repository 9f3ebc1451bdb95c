"""The question in an input and the answer in an output, in the shapes in which applications pass them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .literals import Constructed
from .messages import Author, last_of, messages_of

DEPTH_MAX: Final = 6
"""Levels of an input or output that are searched."""
QUESTION_KEYS: Final = (
    "question", "query", "user_question", "user_query", "query_str", "query_text", "query_bundle", "user_input",
    "user_message", "input", "str_or_query_bundle", "inputs", "prompt", "text", "message", "args", "kwargs", "body",
)  # fmt: skip
"""Keys of an input that may have the question, the surest first."""
ANSWER_KEYS: Final = (
    "answer", "response", "final_answer", "output", "outputs", "result", "reply", "replies", "answers",
    "generation", "completion", "text", "content", "output_text", "message", "choices", "data", "response_txt",
)  # fmt: skip
"""Keys of an output that may have the answer, the surest first."""
_OPAQUE: Final = re.compile(r"<(?:async_)?[A-Za-z_][\w.]*(?: object| at 0x|\()")
_CUT_CALL: Final = re.compile(r"[A-Z]\w{2,80}\([a-z_]\w{0,60}=[A-Z<'\"\[{(]")
MESSAGE_KEYS: Final = ("messages", "chat_messages", "history", "chat_history", "conversation")


def question_in(value: Any, keys: Sequence[str]) -> str | None:
    """Return the question in the input of a span.

    Args:
        value: text, list of messages, arguments of a function, or state of a workflow.
        keys: keys that may have the question, the surest first.
    """
    return _search(value, keys, "user")


def answer_in(value: Any, keys: Sequence[str]) -> str | None:
    """Return the answer in the output of a span.

    Args:
        value: text, list of messages, reply of a model service, or state of a workflow.
        keys: keys that may have the answer, the surest first.
    """
    return _search(value, keys, "assistant")


def _search(value: Any, keys: Sequence[str], author: Author) -> str | None:
    level = [value]
    for _ in range(DEPTH_MAX):
        for item in level:
            found = _here(item, keys, author)
            if found is not None:
                return found
        level = [inner for item in level for inner in _inside(item)]
    return None


def _here(value: Any, keys: Sequence[str], author: Author, depth: int = 0) -> str | None:
    """Return the text in a value itself, or under its surest key."""
    if isinstance(value, str):
        return _clean(value)
    messages = messages_of(value)
    if messages:
        return last_of(messages, author)
    if isinstance(value, dict):
        found = _under_keys(value, keys, author, depth)
        return _clean(value.text) if found is None and isinstance(value, Constructed) else found
    if isinstance(value, list):
        texts = (text for item in value if isinstance(item, str) and (text := _clean(item)))
        return next(texts, None)
    return None


def _under_keys(value: Mapping[str, Any], keys: Sequence[str], author: Author, depth: int) -> str | None:
    if depth > DEPTH_MAX:
        return None
    for key in keys:
        if value.get(key):
            found = _here(value[key], keys, author, depth + 1)
            if found is not None:
                return found
    for key in MESSAGE_KEYS:
        found = last_of(messages_of(value.get(key)), author)
        if found is not None:
            return found
    return None


def _inside(value: Any) -> Iterator[Any]:
    """Yield the mappings in a mapping, such as the inputs of the components of a Haystack pipeline.

    Lists are searched under known keys only: another list may have the documents.
    """
    if isinstance(value, dict):
        yield from (item for item in value.values() if isinstance(item, dict))


def _clean(text: str) -> str | None:
    stripped = text.strip()
    return stripped if stripped and not is_opaque(stripped) else None


def is_opaque(text: str) -> bool:
    """Whether a text is the `repr` of an object that cannot be read.

    Examples are `<generator object f at 0x7f>`, `<NodeWithScore(...)>`, and `StopEvent(result=AgentOutput(respo...`.
    """
    if text[:1] == "<":
        return text[-1:] == ">" and bool(_OPAQUE.match(text))
    return text[-1:] != ")" and bool(_CUT_CALL.match(text))
