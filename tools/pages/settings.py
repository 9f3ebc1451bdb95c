"""Makes the tables of settings in the documentation; `python -m tools.pages.settings` prints all settings."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ragtide_runtime.settings.environment import PREFIX
from ragtide_runtime.settings.labelers import ServiceName, ServiceSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import AlertRule
from ragtide_schemas.descriptions import descriptions

_HEADER: Final = ("| setting | default | meaning |", "|---|---|---|")

_SECTIONS: Final[Mapping[str, str]] = {
    "redis_url": "Redis",
    "partitions": "Partitions and streams",
    "producer.policy": "Producers",
    "hash_user_ids": "Users and feedback",
    "labeler": "Labelers and metrics",
    "judge.timeout_s": "The judge",
    "models.support": "Models in the worker",
    "services.NAME.timeout_s": "HTTP services",
    "cascade.proxy": "The cascade",
    "worker_batch": "Workers",
    "confidence": "Aggregators",
    "recorder.url": "The recorder",
    "specimens.enabled": "Specimens",
    "ingest.default_pipeline": "Traces",
    "serve.host": "The HTTP service",
    "otel.endpoint": "OpenTelemetry",
    "clusters.by": "Clusters",
    "stall.labeling_s": "Alerts about the pipeline itself",
    "segments": "Estimates, keys and windows",
    "history.enabled": "History",
    "budget.false_alarms": "Alert rules",
    "moves.enabled": "Moves of levels",
    "notify.allow_private": "Notifications",
    "web.operators": "The page",
    "prometheus.segments": "Prometheus",
    "log_level": "Logs and HTTP",
}
"""Title of each section, by its first setting."""


def settings_table() -> str:
    """Return every setting of a deployment with its variable, as a Markdown table for each section."""
    lines = []
    for name, default, meaning in _rows(Settings):
        if name in _SECTIONS:
            lines += ["", f"## {_SECTIONS[name]}", "", *_HEADER]
        variable = "" if ".NAME." in name else f"<br>`{variable_of(name)}`"
        lines.append(f"| `{name}`{variable} | {default} | {meaning} |")
    return "\n".join(lines).lstrip() + "\n"


def variable_of(name: str) -> str:
    """Return the environment variable of a setting.

    >>> variable_of("judge.base_url")
    'RAGTIDE_JUDGE_BASE_URL'
    """
    return PREFIX + name.replace(".", "_").upper()


def table_of(model: type[BaseModel]) -> str:
    """Return the fields of a model, with default and meaning, as a Markdown table; inner fields as `table.name`."""
    lines = [*_HEADER, *(f"| `{name}` | {default} | {meaning} |" for name, default, meaning in _rows(model))]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    meanings = descriptions(model)
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{prefix}{name}.")
            continue
        if field.annotation == dict[ServiceName, ServiceSettings]:
            yield from _rows(ServiceSettings, f"{prefix}{name}.NAME.")
            continue
        default = field.get_default(call_default_factory=True) if name != "data_dir" else "~/.local/share/ragtide"
        yield prefix + name, _default_text(default), " ".join(meanings.get(name, "").split())


def _default_text(default: object) -> str:
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
    print(settings_table(), end="")
