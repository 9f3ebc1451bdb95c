"""Attributes of a span by name and by the columns of the table of dialects, flattened ones put together again."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, get_type_hints

from .conventions import (
    CONVENTIONS,
    DECISIVE,
    NO_SEARCHES,
    PREPARING_WORDS,
    REDACTED,
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
    if _column.name not in ("kinds", "marks") and get_type_hints(Convention)[_column.name] == tuple[str, ...]:
        _names = dict.fromkeys(name for row in CONVENTIONS for name in getattr(row, _column.name))
        for _place, _name in enumerate(_names):
            PLACES.setdefault(_name, []).append((_column.name, _place))
EVENTS: Final[dict[str, list[EventContent]]] = {}
"""The contents of events by the name of the event."""
for _row in CONVENTIONS:
    for _event in _row.events:
        EVENTS.setdefault(_event.name, []).append(_event)
RESULT_EVENTS: Final = frozenset(name[:-1] for row in CONVENTIONS for name in row.documents if name.endswith("."))
"""Events of which each is a found document."""

_PREFIXES: Final = {OWN, *(name for name in PLACES if name.endswith("."))}
_PREFIX: Final = re.compile("|".join(map(re.escape, sorted(_PREFIXES, key=len, reverse=True))))
"""Beginnings of all flattened names, and of ragtide's own; of two that fit a name, the longer counts."""
ROLES: Final = [(name, row.roles) for row in CONVENTIONS for name in row.kinds]
"""Attributes that name the role, with the role by value, the preferred first."""
ROLE_NAMES: Final = frozenset(name for name, _ in ROLES)
DECISIVE_KINDS: Final = [name for row in DECISIVE for name in row.kinds]
_INDEX: Final = re.compile(r"\d{1,6}")


class Flattened(NamedTuple):
    """A list that stood in flattened attributes."""

    items: list[Any]
    gap: bool
    """Whether an index is missing, or is that of a hidden content: a blank one is not."""


NO_LIST: Final = Flattened([], gap=False)


def flattened(attributes: Mapping[str, Any]) -> Flattened:
    """Return the list under names such as `0.document.content`; of an item that is blank an empty mapping."""
    by_index: dict[int, Any] = {}
    for name, value in attributes.items():
        index, _, rest = name.partition(".")
        if _INDEX.fullmatch(index) and not is_hidden(value):
            _put(by_index, int(index), rest.split(".") if rest else [], value)
        elif _INDEX.fullmatch(index) and value == "":
            by_index.setdefault(int(index), {})
    items = [_lists(by_index[index]) for index in sorted(by_index)]
    return Flattened(items, gap=bool(by_index) and max(by_index) + 1 != len(by_index))


def _put(parent: dict[Any, Any], key: Any, path: list[str], value: Any) -> None:
    for part in path[:8]:
        inner = parent.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        parent, key = inner, part
    parent.setdefault(key, value)


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(_INDEX.fullmatch(str(key)) for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(inner) for key, inner in value.items()}


def is_hidden(value: Any) -> bool:
    """Whether a value is absent: empty, or a word that stands for a hidden content."""
    return value is None or value == "" or (isinstance(value, str) and value.strip() in REDACTED)


def first(attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first of the attributes that is present and not hidden; None if none is."""
    for name in names:
        value = attributes.get(name)
        if value is not None and not is_hidden(value):
            return value
    return None


def with_prefix(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the attributes whose names begin so, by the rest of their names, without hidden ones."""
    return visible({name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)})


def visible(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are not hidden."""
    return {name: value for name, value in attributes.items() if not is_hidden(value)}


def group_by_prefix(attributes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
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
    for word in NO_SEARCHES:
        lowered = lowered.replace(word, "")
    if any(word in lowered for word in RERANK_WORDS):
        return "rerank"
    if any(word in lowered for word in (*RETRIEVAL_WORDS, *tools)):
        return "other" if any(word in lowered for word in PREPARING_WORDS) else "retrieval"
    return "llm" if any(word in lowered for word in llm) else "other"
