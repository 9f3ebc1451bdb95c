"""Makes the tables of settings in the documentation; `python -m ragtide_runtime.settings.table` prints all settings."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ragtide_schemas import AlertRule

from .model import Settings
from .remote import ServiceName, ServiceSettings


def settings_table() -> str:
    """Return every setting of a deployment as a Markdown table."""
    return table_of(Settings)


def table_of(model: type[BaseModel]) -> str:
    """Return the fields of a model, with default and meaning, as a Markdown table; inner fields as `table.name`."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in _rows(model)]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{prefix}{name}.")
            continue
        if field.annotation == dict[ServiceName, ServiceSettings]:
            yield from _rows(ServiceSettings, f"{prefix}{name}.NAME.")
            continue
        default = field.get_default(call_default_factory=True) if name != "data_dir" else "~/.local/share/ragtide"
        yield prefix + name, _shown(default), " ".join((field.description or "").split())


def _shown(default: object) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None or default in ("", (), {}):
        return ""
    if isinstance(default, tuple):
        return ", ".join(rule.name if isinstance(rule, AlertRule) else f"`{rule}`" for rule in default)
    if isinstance(default, float):
        return f"`{default:.0f}`" if default.is_integer() else f"`{default:g}`"
    return f"`{default}`"


if __name__ == "__main__":
    print(settings_table(), end="")  # noqa: T201 - for the documentation
