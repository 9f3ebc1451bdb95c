"""The earlier turns of the conversation that a group of spans continues."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ragtide_schemas.interaction import last_turns

from ..shapes.documents import Found
from ..shapes.literals import UnreadableError, value_of
from ..shapes.messages import messages_of
from ..shapes.turns import HISTORY_KEYS, Turn, drop_present_turn, turns_before_question, turns_of
from .grouping import SpanGroup
from .reading import if_readable

START_CHARS: Final = 24
"""Characters at the start of a document by which it is found in a text; a shorter document stays there."""

MISSES_MAX: Final = 100
"""Places of one text that begin as a document and continue differently, before the search ends."""


def history_of(
    group: SpanGroup,
    explicit: Any,
    question: str | None,
    documents: Iterable[Found] | None,
    *,
    given_only: bool = False,
) -> list[Turn]:
    """Return the last turns before the question, oldest first; empty if the spans do not have them.

    The attribute `ragtide.history` wins; then the input of the anchor, then the chat messages of the last model call
    that has earlier turns. The texts of the documents are left out of the turns. A history that is cut is no history.

    Args:
        group: spans of the interaction.
        explicit: value of `ragtide.history`; None without the attribute.
        question: the question of the interaction.
        documents: its documents.
        given_only: whether the messages of the spans are no history.

    Raises:
        UnreadableError: `explicit` holds no turns.
    """
    if explicit is not None:
        stated = turns_of(if_readable(lambda: value_of(explicit), None) if isinstance(explicit, str) else explicit)
        if stated is None:
            form = 'give a list of JSON such as [{"question": "...", "response": "..."}]'
            raise UnreadableError(f"ragtide.history holds no turns (got {str(explicit)[:60]!r}): {form}")
        return last_turns(drop_present_turn(stated, question))
    for candidate in () if given_only else _candidates(group):
        turns = last_turns(drop_present_turn(candidate, question))
        if turns:
            return without_documents(turns, documents or ())
    return []


def _candidates(group: SpanGroup) -> Iterator[list[Turn]]:
    if group.turn is None and not group.anchor.span.dropped_attributes:
        with suppress(UnreadableError):
            value = group.anchor.inputs
            if isinstance(value, Mapping):
                named = next(filter(None, (turns_of(value.get(key)) for key in HISTORY_KEYS)), None)
                yield named or turns_before_question(messages_of(value.get("messages")))
            else:
                yield turns_before_question(messages_of(value))
    for call in reversed(group.calls):
        with suppress(UnreadableError):
            if not call.span.dropped_attributes:
                yield turns_before_question(call.input_messages)


def without_documents(turns: Sequence[Turn], documents: Iterable[Found]) -> list[Turn]:
    """Return turns without the texts of documents in their questions, and without turns that have only such texts.

    A prompt repeats the documents; a response that quotes a document stays whole.
    """
    starts: dict[str, str] = {}
    for text in (document.text or "" for document in documents):
        if len(text) >= START_CHARS and len(text) > len(starts.get(text[:START_CHARS], "")):
            starts[text[:START_CHARS]] = text
    if not starts:
        return list(turns)
    shortened = [{**turn, "question": _without(turn["question"], starts)} for turn in turns]
    return [turn for turn in shortened if turn["question"]]


def _without(text: str, starts: Mapping[str, str]) -> str:
    kept: list[str] = []
    begin = place = misses = 0
    while place + START_CHARS <= len(text) and misses < MISSES_MAX:
        document = starts.get(text[place : place + START_CHARS])
        if document is not None and text.startswith(document, place):
            kept.append(text[begin:place])
            begin = place = place + len(document)
            continue
        misses += document is not None
        place += 1
    return "".join([*kept, text[begin:]]).strip()
