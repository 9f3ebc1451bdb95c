"""Tables of the fields of a JSON Schema, for the pages of the HTTP API and of the streams."""

from collections.abc import Mapping
from typing import Any

from ragtide_web.routes.schema_words import described_fields, type_in_words


def cell(text: object) -> str:
    """Return a text as it stands in a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def fields_table(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the fields of an object, with type and meaning, or the values that a schema has."""
    fields = described_fields(schema, definitions)
    if not fields:
        return f"{type_in_words(schema, definitions).capitalize()}."
    rows = [
        f"| `{field.name}` | {cell(field.kind + (', **required**' if field.required else field.default))} | "
        f"{cell(field.meaning)} |"
        for field in fields
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])
