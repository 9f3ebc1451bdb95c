"""Attributes of a span by name, flattened ones put together again."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from .conventions import REDACTED

_INDEX: Final = re.compile(r"\d{1,6}")


class Flattened(NamedTuple):
    """A list that stood in flattened attributes."""

    items: list[Any]
    gap: bool
    """Whether an index is missing, or is that of a hidden content: a blank one is not."""


def flattened(attributes: Mapping[str, Any]) -> Flattened:
    """Return the list under names such as `0.document.content`; of an item that is blank an empty mapping."""
    found: dict[int, Any] = {}
    for name, value in attributes.items():
        index, _, rest = name.partition(".")
        if _INDEX.fullmatch(index) and not hidden(value):
            _put(found, int(index), rest.split(".") if rest else [], value)
        elif _INDEX.fullmatch(index) and value == "":
            found.setdefault(int(index), {})
    items = [_lists(found[index]) for index in sorted(found)]
    return Flattened(items, gap=bool(found) and max(found) + 1 != len(found))


def _put(parent: dict[Any, Any], key: Any, path: list[str], value: Any) -> None:
    for part in path[:8]:
        inner = parent.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        parent, key = inner, part
    parent.setdefault(key, value)


def _lists(value: Any) -> Any:
    """Return the value with mappings by index as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(_INDEX.fullmatch(str(key)) for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(inner) for key, inner in value.items()}


def hidden(value: Any) -> bool:
    """Whether a value is absent: empty, or a word that stands for a hidden content."""
    return value is None or value == "" or (isinstance(value, str) and value.strip() in REDACTED)


def first(attributes: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first of the attributes that is present and not hidden; None if none is."""
    for name in names:
        value = attributes.get(name)
        if value is not None and not hidden(value):
            return value
    return None


def under(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the attributes whose names begin so, by the rest of their names, without hidden ones."""
    return shown({name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)})


def shown(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are not hidden."""
    return {name: value for name, value in attributes.items() if not hidden(value)}
