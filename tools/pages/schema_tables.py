"""Tables of the fields of a JSON Schema, for the pages of the HTTP API and of the streams."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .fields import type_in_words


def cell(text: object) -> str:
    """Return a text as it stands in a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def default_in_words(schema: Mapping[str, Any]) -> str:
    """Return the default of a value, for its cell; empty if it has none, or an empty one."""
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else f", default `{json.dumps(default, ensure_ascii=False)}`"


def fields_table(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the fields of an object, with type and meaning, or the values that a schema has."""
    if "properties" not in schema:
        return f"{type_in_words(schema, definitions).capitalize()}."
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *_rows(schema, definitions)])


def _rows(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        kind = type_in_words(field, definitions) + (", **required**" if name in required else default_in_words(field))
        yield f"| `{name}` | {cell(kind)} | {cell(field.get('description', ''))} |"
