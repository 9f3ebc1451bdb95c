"""The tables of settings in the documentation."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ragtide.cli.printing.pages import pages, title_of
from ragtide_runtime.settings.environment import PREFIX
from ragtide_runtime.settings.labelers import ServiceName, ServiceSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.uptake import uptake_of
from ragtide_schemas import AlertRule
from ragtide_schemas.descriptions import descriptions

_HEADER: Final = ("| setting | default | meaning |", "|---|---|---|")
_OF_ROLES: Final = ("| setting | default | meaning | a change |", "|---|---|---|---|")

_SECTIONS: Final[Mapping[str, str]] = {
    "redis_url": "Redis",
    "partitions": "Partitions and streams",
    "producer.sample": "Producers",
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
    "releases.enabled": "Releases",
    "notify.allow_private": "Notifications",
    "web.operators": "The page",
    "mcp.endpoint": "Language models",
    "prometheus.segments": "Prometheus",
    "log_level": "Logs and HTTP",
}
"""Title of each section, by its first setting."""

_FIRST: Final[Mapping[str, str]] = {
    "redis_url": "use a Redis of your own, which all processes share",
    "labeler": "let a judge, a cascade or another labeler score",
    "judge.model": "name the judge's model",
    "judge.base_url": "use another endpoint than OpenAI's",
    "judge.spend_per_day_usd": "limit what the judge may cost",
    "cascade.rate": "choose the share of the answers that the judge scores",
    "alerts": "write alert rules of your own",
    "notify.destinations": "send alerts to Slack, mail, PagerDuty or a webhook",
    "history.segments": "have charts of each language, version or customer",
    "serve.tokens": "let other machines send answers or open the page",
    "recorder.url": "keep the traffic, to test rules and judges on it",
    "http_port": "let Prometheus or Kubernetes ask each role",
}
"""The settings that most deployments need, each with its purpose."""

_PAGE: Final = re.compile(r'docs/[\w/-]*?([\w-]+)\.md(?:, "([^"]+)")?')

_UNITS: Final = {
    "_s": ((86400, "d"), (3600, "h"), (60, "min")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
}
"""Larger units of settings whose names end in this way, with their sizes, largest first."""


def first_settings_table() -> str:
    """Return the settings that most deployments need, with their purposes and sections, as a Markdown table."""
    sections, section = {}, ""
    for name, _, _ in _rows(Settings):
        section = _SECTIONS.get(name, section)
        sections[name] = section
    lines = ["| to | set | section |", "|---|---|---|"]
    for name, purpose in _FIRST.items():
        anchor = sections[name].lower().replace(" ", "-")
        lines.append(f"| {purpose} | `{name}`<br>`{variable_of(name)}` | [{sections[name]}](settings.md#{anchor}) |")
    return "\n".join(lines) + "\n"


def settings_table() -> str:
    """Return every setting of a deployment with its variable, as a Markdown table for each section."""
    lines = []
    for name, default, meaning in _rows(Settings):
        if name in _SECTIONS:
            lines += ["", f"## {_SECTIONS[name]}", "", *_OF_ROLES]
        variable = "" if ".NAME." in name else f"<br>`{variable_of(name)}`"
        lines.append(f"| `{name}`{variable} | {default} | {meaning} | {uptake_of(name).sentence} |")
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
        meaning = _PAGE.sub(_link, " ".join(meanings.get(name, "").split()))
        yield prefix + name, _default_text(default) + _in_larger_unit(name, default), meaning


def _link(found: re.Match[str]) -> str:
    """Return the link that stands for the path of a page in a description."""
    page, section = found[1], found[2]
    anchor = "" if section is None else "#" + section.lower().replace(" ", "-")
    return f"[{section or title_of(pages()[page])}]({page}.md{anchor})"


def _in_larger_unit(name: str, default: object) -> str:
    """Return a default of seconds or bytes in a larger unit, if it is a whole number of it."""
    if not isinstance(default, (int, float)) or isinstance(default, bool):
        return ""
    units = next((units for ending, units in _UNITS.items() if name.endswith(ending)), ())
    shown = (f" ({default // size:.0f} {unit})" for size, unit in units if default and default % size == 0)
    return next(shown, "")


def _default_text(default: object) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None or default in ("", (), {}):
        return ""
    if isinstance(default, tuple):
        return ", ".join(rule.name if isinstance(rule, AlertRule) else f"`{rule}`" for rule in default)
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:.0f}`" if default.is_integer() else f"`{default:g}`"
    return f"`{default}`"
