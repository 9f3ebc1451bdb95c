"""The fields of a JSON Schema in words: their types, bounds, defaults and meanings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DescribedField:
    """A field of an object."""

    name: str
    kind: str
    """Type and bounds, with names and values in backticks."""
    required: bool
    default: str
    """Default, after a comma; empty for a required field, and without one."""
    meaning: str


def described_fields(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[DescribedField]:
    """Return the fields of an object; none for another value.

    Args:
        definitions: schemas by the name that references have.
    """
    required = schema.get("required", ())
    return [
        DescribedField(
            name,
            type_in_words(field, definitions),
            name in required,
            "" if name in required else default_in_words(field),
            field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def default_in_words(schema: Mapping[str, Any]) -> str:
    """Return the default of a value, for its cell; empty if it has none, or an empty one."""
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else f", default `{json.dumps(default, ensure_ascii=False)}`"


def type_in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type and the bounds of a value, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = definitions[name]
        return f"object `{name}`" if "properties" in target else type_in_words(target, definitions)
    if "anyOf" in schema:
        types = [type_in_words(choice, definitions) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(types))
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return " or ".join(f"`{value}`" for value in values) or _plain_type(schema, definitions)


def _plain_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        part = schema.get("items") or {"anyOf": schema["prefixItems"]}
        text = f"list of {type_in_words(part, definitions)}{_bounds(schema, 'Items', ' entries')}"
    elif kind == "object":
        patterns = schema.get("patternProperties", {})
        values = schema.get("additionalProperties") or next(iter(patterns.values()), None)
        inner = type_in_words(values, definitions) if isinstance(values, dict) and values else "any JSON"
        text = f"object of {inner}{_bounds(schema, 'Properties', ' entries')}"
    elif schema.get("format") == "date-time":
        text = "time"
    elif kind == "string":
        text = f"text{_bounds(schema, 'Length', ' characters')}"
    elif kind in ("integer", "number"):
        text = ("whole number" if kind == "integer" else "number") + _range(schema)
    else:
        text = "true or false" if kind == "boolean" else "any JSON"
    return text


def _bounds(schema: Mapping[str, Any], of: str, unit: str) -> str:
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    return _limits([least, most], [f"from {least}{unit}", f"at most {most:,}{unit}" if most is not None else ""], unit)


def _range(schema: Mapping[str, Any]) -> str:
    least = schema.get("minimum")
    most = schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g}"
    words = [f"{value:g}" if value is not None else "" for value in (least, most)]
    return _limits([least, most], [f"from {words[0]}", f"at most {words[1]}"], "")


def _limits(limits: Sequence[float | None], words: Sequence[str], unit: str) -> str:
    least, most = limits
    if least is not None and least == most:
        return f", always {least:g}"
    if least is not None and most is not None:
        return f", {least:g} to {most:,}{unit}" if unit else f", {least:g} to {most:g}"
    wanted = [word for limit, word in zip(limits, words, strict=True) if limit is not None]
    return f", {wanted[0]}" if wanted else ""
