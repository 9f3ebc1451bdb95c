"""The question in an input and the answer in an output, in the shapes in which applications pass them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, isnan
from typing import Any, Final, Literal

from ragtide_schemas.opaque import is_opaque

from .literals import Constructed
from .literals import UnreadableError as UnreadableError  # noqa: PLC0414 - doors catch it, and read texts here
from .messages import Author, last_of, messages_of
from .spelled import spelled

Meaning = Literal["question", "answer", "reference"]

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
_KEYS: Final[Mapping[Meaning, tuple[str, ...]]] = {
    "question": QUESTION_KEYS, "answer": ANSWER_KEYS, "reference": (*ANSWER_KEYS, "reference_answer", "expected"),
}  # fmt: skip
MESSAGE_KEYS: Final = ("messages", "chat_messages", "history", "chat_history", "conversation")


def text_in(
    value: Any, meaning: Meaning, keys: Sequence[str] | None = None, left_out: Counter[str] | None = None
) -> str | None:
    """Return the text of a value whose meaning is known; None if it holds none, as null, NaN, or a call of a tool.

    Args:
        value: text, number, bytes, content parts, messages, chunks of a stream, reply of a model service, or an object
            or a text that has or spells one of them.
        meaning: what the text is.
        keys: keys of an object that may have the text, the surest first; by default those that are known.
        left_out: counts by name what was left out on purpose, such as `image` or `reasoning`.

    Raises:
        UnreadableError: the value cannot be read without guessing.
    """
    value = spelled(value) if isinstance(value, str) else value
    if meaning == "answer" and keys is None:
        return answer_of(value)
    if isinstance(value, list) and meaning == "reference":
        value = next((item for item in value if item is not None and item != ""), None)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | int | float):
        return answer_of(value)
    if isinstance(value, list) and sum(isinstance(item, str) and bool(item.strip()) for item in value) > 1:
        raise UnreadableError("it has several questions: give one row for each")
    if isinstance(value, int | float):
        return answer_of(value)
    return _search(value, keys or _KEYS[meaning], "user" if meaning == "question" else "assistant")


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


def answer_of(value: Any) -> str | None:
    """Return the one answer in a value of a column; None without one. A number is its text, true is "true".

    >>> answer_of(1889), answer_of(True), answer_of(["In 1889."]), answer_of(4.0), answer_of(None)
    ('1889', 'true', 'In 1889.', '4', None)

    Raises:
        UnreadableError: there are several answers.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return text_of_number(value)
    if isinstance(value, list) and not messages_of(value):
        given = [item for item in value if item != "" and not _is_nothing(item)]
        texts = {item.strip() if isinstance(item, str) else str(item) for item in given}
        if len(texts) > 1:
            raise UnreadableError("it has several answers: give the one that was shown to the user")
        return answer_of(given[0]) if given else None
    if isinstance(value, dict):
        for key in ANSWER_KEYS:
            if isinstance(value.get(key), int | float) or (isinstance(value.get(key), list) and value[key]):
                found = answer_of(value[key])
                if found is not None:
                    return found
            elif value.get(key):
                break
    return answer_in(value, ANSWER_KEYS)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def text_of_number(value: float) -> str | None:
    """Return a number as a text, a whole one without a point; None for NaN.

    >>> text_of_number(1889.0), text_of_number(0.5), text_of_number(float("nan"))
    ('1889', '0.5', None)
    """
    if _is_nothing(value):
        return None
    if isinstance(value, float) and isfinite(value) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
