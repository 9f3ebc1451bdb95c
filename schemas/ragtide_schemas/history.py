"""The earlier turns of a conversation, which tell the meaning of a follow-up question."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints

from .base import NotBlank, WireModel
from .limits import HISTORY_MAX_CHARS, HISTORY_TURNS_MAX


class EarlierTurn(WireModel):
    """One earlier question of a conversation, with its response."""

    question: Annotated[str, StringConstraints(max_length=HISTORY_MAX_CHARS), NotBlank]
    """The question of the user."""
    response: Annotated[str, StringConstraints(max_length=HISTORY_MAX_CHARS)] = ""
    """The response to it; empty if there was none."""


def _bounded(turns: tuple[EarlierTurn, ...] | None) -> tuple[EarlierTurn, ...] | None:
    size = sum(len(turn.question) + len(turn.response) for turn in turns or ())
    if size > HISTORY_MAX_CHARS:
        raise ValueError(
            f"has {size:,} characters; at most {HISTORY_MAX_CHARS:,} are allowed: send only the last turns"
        )
    return turns or None


History = Annotated[
    Annotated[tuple[EarlierTurn, ...], Field(max_length=HISTORY_TURNS_MAX)] | None, AfterValidator(_bounded)
]
"""Earlier turns, oldest first; an empty list counts as not given."""

_TEXTS: Final = tuple(EarlierTurn.model_fields)


def last_turns(turns: Sequence[Any]) -> list[Any]:
    """Return the last turns that an interaction may have; older turns are left out.

    A turn that alone is too long is left out with all turns before it.

    >>> last_turns([{"question": "Is it new?", "response": "x" * 100_000}, {"question": "Why?", "response": ""}])
    [{'question': 'Why?', 'response': ''}]

    Args:
        turns: mappings or `EarlierTurn`, oldest first. A turn of another type has no length: validation refuses it.
    """
    kept: list[Any] = []
    size = 0
    for turn in reversed(turns):
        size += _length(turn)
        if size > HISTORY_MAX_CHARS or len(kept) == HISTORY_TURNS_MAX:
            break
        kept.append(turn)
    return kept[::-1]


def with_last_turns(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an interaction with no more earlier turns than an interaction may have."""
    history = fields.get("history")
    if not isinstance(history, (list, tuple)):
        return fields
    return {**fields, "history": last_turns(history)}


def _length(turn: Any) -> int:
    texts = [turn.get(name) if isinstance(turn, Mapping) else getattr(turn, name, None) for name in _TEXTS]
    return sum(len(text) for text in texts if isinstance(text, str))
