"""Columns of a row that have room in metadata."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragtide_schemas.limits import METADATA_MAX_BYTES

ROOM_BYTES: Final = METADATA_MAX_BYTES * 3 // 4
"""Most bytes of JSON of a row's fields in its metadata; the rest is for the metadata of its answers."""


def that_fit(rest: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are JSON, in their order; if there is no room for all, without the largest."""
    sizes = {name: (value, size) for name, value, size in _as_json(rest) if name not in own}
    room = ROOM_BYTES - 2 - sum(size for _, _, size in _as_json(own))
    kept: set[str] = set()
    for name, (_, size) in sorted(sizes.items(), key=lambda entry: entry[1][1]):
        room -= size
        if room < 0:
            break
        kept.add(name)
    return {name: value for name, (value, _) in sizes.items() if name in kept}


def _as_json(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield name, value and bytes of the fields that JSON can represent; others, such as times and NaN, are skipped."""
    for name, value in fields.items():
        try:
            written = json.dumps({name: value}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            size = len(written.encode()) - 1  # without the braces, with a comma
        except (TypeError, ValueError, RecursionError):
            continue
        ((read_name, read_value),) = json.loads(written).items()
        yield read_name, read_value, size
