"""The settings in effect for the page, without secrets. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined, to_json

from ragtide_runtime.redis.url import redact
from ragtide_runtime.settings.model import Settings

HIDDEN_VALUE: Final = "***"
"""Stands for a secret."""
SECRET_TABLES: Final = frozenset({"storage_options"})
"""Tables with names that ragtide does not know: every value of them may be a secret."""
SHOWN_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting."""

    name: str
    """Name in the TOML file, such as `judge.model`."""
    value: str
    changed: bool
    """Whether it differs from its default."""


def shown_settings(settings: Settings) -> list[ShownSetting]:
    """Return every setting without secrets, in the order of the documentation."""
    return list(_of(settings, ""))


def _of(model: BaseModel, prefix: str) -> Iterator[ShownSetting]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _of(value, f"{prefix}{name}.")
            continue
        default = field.get_default(call_default_factory=True)
        changed = default is PydanticUndefined or value != default
        if name not in SECRET_TABLES and _has_models(value):
            for key, member in _members(value):
                yield ShownSetting(f"{prefix}{name}.{key}", _text(_changed_fields(member)), changed)
            continue
        shown = HIDDEN_VALUE if name in SECRET_TABLES and value else _text(without_secrets(value))
        yield ShownSetting(prefix + name, shown, changed)


def _has_models(value: object) -> bool:
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    return any(isinstance(member, BaseModel) for member in members)


def _members(value: Any) -> Iterator[tuple[str, BaseModel]]:
    if isinstance(value, Mapping):
        yield from ((str(key), member) for key, member in value.items())
    else:
        yield from ((_without_user(str(getattr(member, "name", place))), member) for place, member in enumerate(value))


def _changed_fields(model: BaseModel) -> dict[str, Any]:
    return {
        name: without_secrets(getattr(model, name))
        for name in type(model).model_fields
        if name in model.model_fields_set
    }


def without_secrets(value: Any) -> Any:
    """Return a value of the settings as JSON, with `***` in the place of secrets and of parts of addresses.

    >>> without_secrets("https://user:word@judge.internal/v1?key=word")
    'https://***@judge.internal/v1?***'
    """
    if isinstance(value, SecretStr):
        return HIDDEN_VALUE if value.get_secret_value() else ""
    if isinstance(value, BaseModel):
        return _changed_fields(value)
    if isinstance(value, Mapping):
        return {
            str(key): HIDDEN_VALUE if key in SECRET_TABLES else without_secrets(member) for key, member in value.items()
        }
    if isinstance(value, tuple | list | set | frozenset):
        return [without_secrets(member) for member in value]
    return value if value is None or isinstance(value, bool | int | float) else _without_user(str(value))


def _without_user(text: str) -> str:
    if "@" not in text and "://" not in text:
        return text
    address, query, _ = redact(text).partition("?")
    return f"{address}?{HIDDEN_VALUE}" if query else address


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    text = value if isinstance(value, str) else to_json(value).decode()
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"
