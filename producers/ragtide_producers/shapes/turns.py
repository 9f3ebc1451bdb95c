"""The earlier turns of a conversation, from chat messages or from lists of questions with their responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .literals import value_of
from .messages import Message, messages_of

Turn = dict[str, str]
"""The fields of an earlier turn: `question` and `response`."""

HISTORY_KEYS: Final = ("chat_history", "conversation_history", "message_history", "history")
"""Names of earlier turns in inputs and in files, the surest first."""

_QUESTIONS: Final = ("question", "query", "user", "human", "user_input", "input")
_RESPONSES: Final = ("response", "answer", "assistant", "ai", "output")


def turns_of(value: Any) -> list[Turn] | None:
    """Return the turns that a value holds, oldest first; None if it holds none.

    >>> turns_of([{"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "Yes."}])
    [{'question': 'Is it open?', 'response': 'Yes.'}]

    Args:
        value: list of chat messages, of objects such as `{"question": ..., "answer": ...}`, or of pairs of texts, or a
            text that spells one.

    Raises:
        BrokenTextError: the text is the beginning of a list.
    """
    value = value_of(value) if isinstance(value, str) else value
    messages = messages_of(value)
    if messages:
        return turns_in(messages)
    if not isinstance(value, list):
        return None
    turns = [_turn(item) for item in value]
    return [turn for turn in turns if turn] if all(turns) else None


def turns_in(messages: Sequence[Message]) -> list[Turn]:
    """Return the turns in chat messages: texts of the user, each with the text of the assistant that follows.

    Messages of the system and of tools, calls of tools, and a greeting before the first question are left out. The last
    turn has an empty response if no response follows.
    """
    turns: list[tuple[list[str], list[str]]] = []
    for message in messages:
        text = message.text.strip()
        if not text or message.calls_tools:
            continue
        if message.author == "assistant" and turns:
            turns[-1][1].append(text)
        elif message.author == "user" and turns and not turns[-1][1]:
            turns[-1][0].append(text)
        elif message.author == "user":
            turns.append(([text], []))
    return [{"question": "\n".join(asked), "response": "\n".join(answered)} for asked, answered in turns]


def turns_before_question(messages: Sequence[Message]) -> list[Turn]:
    """Return the turns before the last question in chat messages."""
    last = max((place for place, message in enumerate(messages) if message.author == "user"), default=0)
    turns = turns_in(messages[: last + 1])
    return turns[:-1] if turns and not turns[-1]["response"] else turns


def drop_present_turn(turns: Sequence[Turn], question: object) -> list[Turn]:
    """Return turns without the last turn if it is the present question, with or without its response."""
    is_present = bool(turns) and isinstance(question, str) and turns[-1]["question"].strip() == question.strip()
    return list(turns[:-1] if is_present else turns)


def _turn(item: Any) -> Turn | None:
    if isinstance(item, Mapping):
        question, response = (
            next((item[name] for name in names if item.get(name) is not None), None)
            for names in (_QUESTIONS, _RESPONSES)
        )
    elif isinstance(item, list | tuple) and len(item) == 2:
        question, response = item
    else:
        return None
    if not isinstance(question, str) or not question.strip() or not isinstance(response, str | None):
        return None
    return {"question": question, "response": response or ""}
