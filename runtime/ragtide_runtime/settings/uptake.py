"""How roles take up each setting: while they run, or at a restart. `UPTAKE` is the only place that says so."""

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, SecretStr

from ..redis.url import redact
from .model import Settings

RUNNING: Final = ("worker", "aggregator", "recorder", "notify", "serve", "bridge")
"""The roles that report which settings they have in force."""

_ROLES: Final = frozenset(RUNNING)


@dataclass(frozen=True, slots=True)
class Uptake:
    """How a setting is taken up after a change of the settings' file or of a file of secrets."""

    live: frozenset[str] = frozenset()
    """Roles that take it while they run."""
    restart: frozenset[str] = frozenset()
    """Roles that have it after a restart."""
    note: str = ""
    """A further process that reads it, in words."""

    @property
    def sentence(self) -> str:
        """How a change comes into force, in words."""
        parts = []
        if self.live:
            parts.append(f"live in {_named(self.live)}")
        if self.restart:
            parts.append(f"restart {_named(self.restart)}")
        parts += [self.note] if self.note else []
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."


def _named(roles: frozenset[str]) -> str:
    names = [role for role in RUNNING if role in roles]
    return "every role" if len(names) == len(RUNNING) else ", ".join(names)


def _live(*roles: str, restart: tuple[str, ...] = (), note: str = "") -> Uptake:
    return Uptake(frozenset(roles), frozenset(restart), note)


def _restart(*roles: str, note: str = "") -> Uptake:
    return Uptake(restart=frozenset(roles or RUNNING), note=note)


_APPLICATIONS: Final = "restart applications that publish"
_RULES: Final = _live("worker", "aggregator", "serve")
_LABELING: Final = _live("worker", "serve")
_WORKER: Final = _restart("worker")
_AGGREGATOR: Final = _restart("aggregator")
_COUNTING: Final = _restart("aggregator", "serve")
_STREAMS: Final = _restart("worker", "serve", "bridge", note=_APPLICATIONS)

UPTAKE: Final[Mapping[str, Uptake]] = {
    **dict.fromkeys(("redis_url", "redis_username", "redis_password"), _restart(note=_APPLICATIONS)),
    **dict.fromkeys(("redis_ca_file", "redis_cert_file", "redis_key_file"), _restart(note=_APPLICATIONS)),
    **dict.fromkeys(("data_dir", "prefix"), _restart(note=_APPLICATIONS)),
    **dict.fromkeys(("partitions", "splits"), _restart(note="ragtide capacity repartition changes it in Redis")),
    **dict.fromkeys(("dedupe_window_s", "interactions_cap", "interactions_bytes"), _STREAMS),
    **dict.fromkeys(("producer", "hash_user_ids", "user_id_salt"), _STREAMS),
    "feedback_window_s": _restart("worker", "aggregator", "serve", note=_APPLICATIONS),
    **dict.fromkeys(("labeler", "evaluators", "profile", "claim_profile"), _LABELING),
    **dict.fromkeys(("local", "judge", "models", "services", "cascade"), _LABELING),
    **dict.fromkeys(("judge.reasons", "judge.sentinels", "judge.sentinels_every_s"), _WORKER),
    **dict.fromkeys(("metrics", "covariates"), _restart("worker", "aggregator", "serve")),
    **dict.fromkeys(("worker_processes", "worker_batch", "worker_concurrency", "worker_min_idle_s"), _WORKER),
    **dict.fromkeys(("max_deliveries", "events_cap"), _WORKER),
    "confidence": _COUNTING,
    **dict.fromkeys(("aggregator_batch", "commit_interval_s", "estimates_cap", "estimates_interval_s"), _AGGREGATOR),
    **dict.fromkeys(("events_keep", "alert_cap", "dead_letters_bytes"), _AGGREGATOR),
    "lease_s": _restart("worker", "aggregator", "recorder", "notify"),
    "recorder": _restart("recorder", "serve"),
    "specimens": _restart("worker", "aggregator", "serve"),
    "ingest": _restart("serve"),
    "serve": _restart("serve"),
    "bridge": _restart("bridge"),
    "otel": _restart("worker", note=_APPLICATIONS),
    **dict.fromkeys(("clusters", "segments", "keys_cap", "partition_keys_cap", "windows", "lateness_s"), _COUNTING),
    **dict.fromkeys(("quantiles", "history", "moves", "releases"), _COUNTING),
    "stall": _live("aggregator"),
    **dict.fromkeys(("budget", "alert_defaults", "alerts"), _RULES),
    "rules_poll_s": _live(*RUNNING),
    "notify": _live("notify", "serve"),
    "web": _restart("serve"),
    "mcp": _live(note="restart ragtide mcp"),
    "prometheus": _COUNTING,
    **dict.fromkeys(("log_level", "http_port", "http_host"), _restart()),
}
"""How each setting is taken up, by its name. The name of a table stands for all of its settings without an entry."""


def uptake_of(name: str) -> Uptake:
    """Return how a setting is taken up.

    Args:
        name: in the TOML file, such as `judge.model`.

    Raises:
        KeyError: there is no such setting.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        uptake = UPTAKE.get(".".join(parts[:length]))
        if uptake is not None:
            return uptake
    raise KeyError(name)


def leaf_settings(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and default of every setting; a list of tables is one setting."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from leaf_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.get_default(call_default_factory=True)


def changed_settings(first: Settings, second: Settings) -> list[str]:
    """Return the names of the settings in which two differ, secrets included."""
    values = {name: value for name, value, _ in leaf_settings(first)}
    return [name for name, value, _ in leaf_settings(second) if values.get(name) != value]


def with_live_settings(settings: Settings, loaded: Settings) -> Settings:
    """Return settings with the values of others, where a role takes them while it runs."""
    return _merge_live(settings, loaded, "")


Model = TypeVar("Model", bound=BaseModel)


def _merge_live(model: Model, loaded: Model, prefix: str) -> Model:
    changes: dict[str, object] = {}
    for name in type(model).model_fields:
        ours, theirs = getattr(model, name), getattr(loaded, name)
        if isinstance(ours, BaseModel):
            value = _merge_live(ours, theirs, f"{prefix}{name}.")
            changes |= {} if value == ours else {name: value}
        elif ours != theirs and uptake_of(f"{prefix}{name}").live:
            changes[name] = theirs
    return model.model_copy(update=changes) if changes else model


DIGEST_CHARS: Final = 8


def digests(settings: Settings) -> dict[str, str]:
    """Return a short digest of each setting that has another value than its default, by name.

    No secret is part of a digest: only whether a secret is given. The same holds for user and password of an address.
    """
    key = f"ragtide {settings.prefix}".encode()
    by_name: dict[str, str] = {}
    for name, value, default in leaf_settings(settings):
        if value != default:
            text = json.dumps(_plain(bool(value) if name in SECRET_TABLES else value), sort_keys=True)
            by_name[name] = hmac.digest(key, text.encode(), "sha256").hex()[:DIGEST_CHARS]
    return by_name


SECRET_TABLES: Final = frozenset({"recorder.storage_options"})
"""Settings with names that ragtide does not know: every value of them may be a secret."""


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return bool(value.get_secret_value())
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(member) for member in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return redact(text) if "@" in text and "://" in text else text


def roles_with(name: str, roles: frozenset[str]) -> frozenset[str]:
    """Return which of some roles read a setting."""
    uptake = uptake_of(name)
    return roles & (uptake.live | uptake.restart) & _ROLES
