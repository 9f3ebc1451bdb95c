"""The table of dialects by columns: the names of all dialects for one content, and the roles that words indicate."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_type_hints

from .conventions import (
    CONVENTIONS,
    DECISIVE,
    PREPARING_WORDS,
    RERANK_WORDS,
    RETRIEVAL_WORDS,
    Convention,
    EventContent,
    Role,
)

OWN: Final = "ragtide."
"""Beginning of the attributes that always win, such as `ragtide.question`."""


PLACES: Final[dict[str, list[tuple[str, int]]]] = {}
"""For each attribute the columns of contents that it stands in, with its place there: the preferred are first."""
for _column in fields(Convention):
    is_content = _column.name not in ("kinds", "marks", "result_events")
    if is_content and get_type_hints(Convention)[_column.name] == tuple[str, ...]:
        _names = dict.fromkeys(name for row in CONVENTIONS for name in getattr(row, _column.name))
        for _place, _name in enumerate(_names):
            PLACES.setdefault(_name, []).append((_column.name, _place))
EVENTS: Final[dict[str, list[EventContent]]] = {}
"""The contents of events by the name of the event."""
for _row in CONVENTIONS:
    for _event in _row.events:
        EVENTS.setdefault(_event.name, []).append(_event)
RESULT_EVENTS: Final = frozenset(name for row in CONVENTIONS for name in row.result_events)
"""Events of which each is a found document."""

_PREFIXES: Final = {OWN, *(name for name in PLACES if name.endswith("."))}
_PREFIX: Final = re.compile("|".join(map(re.escape, sorted(_PREFIXES, key=len, reverse=True))))
"""Beginnings of all flattened names, and of ragtide's own; of two that fit a name, the longer counts."""
ROLES: Final = [(name, row.roles) for row in CONVENTIONS for name in row.kinds]
"""Attributes that name the role, with the role by value, the preferred first."""
DECISIVE_KINDS: Final = [name for row in DECISIVE for name in row.kinds]


def by_prefix(attributes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attributes with flattened names: by their beginning, then by the rest of their names."""
    groups: dict[str, dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _PREFIX.match(name)
        if match is not None:
            groups.setdefault(match[0], {})[name[match.end() :]] = value
    return groups


def role_by_words(text: str, llm: tuple[str, ...] = (), tools: tuple[str, ...] = ()) -> Role:
    """Return the role that a name indicates; `llm` and `tools` are further words of model calls and of retrievals."""
    lowered = text[:200].lower()
    if any(word in lowered for word in RERANK_WORDS):
        return "rerank"
    if any(word in lowered for word in (*RETRIEVAL_WORDS, *tools)):
        return "other" if any(word in lowered for word in PREPARING_WORDS) else "retrieval"
    return "llm" if any(word in lowered for word in llm) else "other"
