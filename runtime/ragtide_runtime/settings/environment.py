"""Reads settings from variables and from files of secrets: lists and pairs with commas, unknown names, suggestions."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import closest

from ..errors import ConfigurationError
from .names import PAIRS, SETTINGS

PREFIX: Final = "RAGTIDE_"

SECRETS_DIR: Final = f"{PREFIX}SECRETS_DIR"
"""Variable that names the folder of `secret_files`."""

OTHERS: Final = frozenset({f"{PREFIX}CONFIG", SECRETS_DIR})
"""Variables with the prefix that are no settings; they name the file of settings and the folder of secrets."""

FIXED: Final[Mapping[str, str]] = {
    "worker_forget_s": "3600",
    "label_timeout_s": "3600",
    "judge.sentinels_max": "40",
    "judge.batch_price_share": "0.5",
    "models.similarity_threads": "1",
    "models.similarity_cache": "10,000",
    "models.overlap": "64",
    "models.max_inputs": "2,000",
    "models.batch_wait_ms": "5",
    "recorder.roll_bytes": "64 MiB",
    "specimens.judged_n": "200",
    "specimens.beyond_n": "50",
    "ingest.hold_s": "600",
    "ingest.trace_spans": "10,000",
    "ingest.trace_bytes": "32 MiB",
    "notify.storm_s": "600",
    "dead_letters_cap": "100,000",
    "recorder.roll_entries": "50,000",
    "specimens.partition_bytes": "1 GiB",
    "specimens.item_bytes": "256 KiB",
    "models.max_bytes": "8 GiB",
    "producer.queue_bytes": "256 MiB",
    "serve.decompressed_bytes": "64 MiB, or serve.body_bytes if that is more",
    "serve.decompressed_ratio": "50",
    "serve.body_items": "100,000",
    "serve.header_s": "10",
    "serve.body_s": "60",
    "serve.token_connections": "half of serve.connections",
    "web.updates_per_s": "4",
}
"""Former settings that nobody had a reason to change, with their values, which are fixed now."""

_OF_KUBERNETES: Final = re.compile(
    r"_SERVICE_(HOST|PORT(_[A-Z0-9_]{1,63})?)$|_PORT_[0-9]{1,5}_(TCP|UDP|SCTP)(_[A-Z]{1,5})?$"
)
"""Variables that Kubernetes sets in every pod for a service whose name begins with `ragtide`."""

_OF_KUBERNETES_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")


def known_variables() -> set[str]:
    """Return the variables of all settings and tables, in capital letters."""
    return {f"{PREFIX}{name.replace('.', '_')}".upper() for name in SETTINGS}


def secret_files() -> dict[str, str]:
    """Return the texts of the files in the folder that `RAGTIDE_SECRETS_DIR` names; empty without the variable.

    A file has the name of a setting's variable, in capitals or small letters, as Docker, Kubernetes and systemd mount
    secrets. White space around its text does not count. An empty file and a file with another name set nothing.

    Raises:
        ConfigurationError: the folder or a file cannot be read.
    """
    folder = os.environ.get(SECRETS_DIR)
    if folder is None:
        return {}
    try:
        files = sorted(file for file in Path(folder).iterdir() if file.name.upper().startswith(PREFIX))
    except OSError as error:
        raise ConfigurationError(
            f"{SECRETS_DIR} names {folder}, which is no folder that can be read ({error.strerror}): correct it"
        ) from None
    texts = {file.name: _secret(file) for file in files if file.is_file()}
    return {name: text for name, text in texts.items() if text}


def _secret(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read ({error.strerror}): let user {os.getuid()} read it, or remove it"
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} cannot be read: save it as UTF-8") from None


class UnknownVariable(NamedTuple):
    """A variable with the prefix that is no setting."""

    sentence: str
    """Its name, and the setting that was probably meant."""
    near: bool
    """Whether a setting was probably meant; otherwise the variable is probably one of the user's own."""


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[UnknownVariable]:
    """Return each variable with the prefix that is no setting of any process.

    Args:
        environment: by default the files of secrets and the environment of this process.
    """
    environment = {**secret_files(), **os.environ} if environment is None else environment
    given = {name: value for name, value in sorted(environment.items()) if name.upper().startswith(PREFIX)}
    known = known_variables() | OTHERS if given else set()
    # A pair of a setting may have a variable of its own, such as RAGTIDE_SPLITS_SHOP.
    prefixes = tuple(f"{PREFIX}{name}_".upper() for name in PAIRS)
    unknown = []
    for name, value in given.items():
        variable = name.upper()
        if variable in known or variable.startswith(prefixes) or _is_of_kubernetes(variable, value):
            continue
        unknown.append(_unknown(name, sorted(variable.removeprefix(PREFIX) for variable in known)))
    return unknown


def _is_of_kubernetes(variable: str, value: str | None) -> bool:
    is_port = variable.endswith("_PORT") and _OF_KUBERNETES_VALUE.match(value or "") is not None
    return is_port or _OF_KUBERNETES.search(variable) is not None


def _unknown(name: str, known: list[str]) -> UnknownVariable:
    wanted = re.sub("_+", "_", name.upper()).removeprefix(PREFIX)
    # A name without its table is a near miss, too: RAGTIDE_TOKENS for RAGTIDE_SERVE_TOKENS.
    without_table = (variable for variable in sorted(known, key=len) if variable.endswith(f"_{wanted}"))
    near = closest(wanted, known, likeness=0.7) or next(without_table, None)
    why = f"{printable(name)} is no setting"
    fixed = next((value for old, value in FIXED.items() if old.replace(".", "_").upper() == wanted), None)
    if fixed is not None:
        return UnknownVariable(f"{why} any more: it is fixed at {fixed}; unset it", near=True)
    if near is None:
        return UnknownVariable(f"{why} and is ignored: unset it, or see ragtide docs settings", near=False)
    if "__" in name:
        why = f"{why}: write one underscore between table and name, as in {PREFIX}{near}"
        return UnknownVariable(why, near=True)
    return UnknownVariable(f"{why}: did you mean {PREFIX}{near}?", near=True)


def values_of_variables(model: type[BaseModel], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a model that variables set, in which lists and pairs may be written with commas.

    `RAGTIDE_JUDGE_FAMILIES=trace,ragchecker` is a list, `RAGTIDE_CASCADE_BELOW=trace.adherence=0.3` are pairs. JSON is
    accepted too, and is required for a value with more than texts and numbers. Capital letters do not matter.
    Variables that Kubernetes sets for a service such as `ragtide-serve` are left out.

    Raises:
        ConfigurationError: a value cannot be read; the message never shows it, because it may be a secret.
    """
    given = {
        name.upper(): text
        for name, text in variables.items()
        if name.upper().startswith(PREFIX) and not _is_of_kubernetes(name.upper(), text)
    }
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items() if given else ():
        variable = f"{PREFIX}{name}".upper()
        if variable in given and (value := _value(variable, given[variable], field.annotation)) is not None:
            values[name] = value
        inner = _inside(f"{variable}_", given, field.annotation)
        if inner and isinstance(values.get(name, {}), dict):
            values[name] = with_stronger(values.get(name, {}), inner)
    return values


def with_stronger(values: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Return values in which those of a stronger source replace others; a table keeps what that source does not set."""
    merged = dict(values)
    for name, value in stronger.items():
        known = merged.get(name)
        merged[name] = with_stronger(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _inside(prefix: str, given: Mapping[str, str], annotation: Any) -> dict[str, Any]:
    if not _holds_tables(annotation) and kind_of(annotation) != "pairs":
        return {}
    fields = getattr(annotation, "model_fields", {})
    inner = [(variable.removeprefix(prefix).lower(), variable, text) for variable, text in given.items()]
    return {
        # An empty text in a table is no list: `RAGTIDE_RECORDER_REDACT=` must not turn the redaction off.
        name: _value(variable, text, fields[name].annotation) if text and name in fields else text
        for name, variable, text in inner
        if variable.startswith(prefix)
    }


def _value(variable: str, text: str, annotation: Any) -> Any:
    kind, stripped = kind_of(annotation), text.strip()
    if kind == "text":
        return text
    if kind == "json" or stripped[:1] in ("[", "{", '"'):
        return _from_json(variable, stripped, kind)
    parts = [part.strip() for part in stripped.split(",") if part.strip()]
    if kind == "list":
        return parts
    pairs = [part.rpartition("=") for part in parts]
    if not all(name for name, _, _ in pairs):
        raise ConfigurationError(f"{variable} holds pairs: {_FORMS[kind]}")
    return {name.strip(): number.strip() for name, _, number in pairs}


def _from_json(variable: str, text: str, kind: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        where = str(error).partition(":")[2].strip() or "the text"
        raise ConfigurationError(f"{variable} cannot be read as JSON ({where}): {_FORMS[kind]}") from None


_FORMS: Final = {
    "list": 'write a list such as one,two or the JSON ["one", "two"]',
    "pairs": 'write pairs such as name=0.5,other=1 or the JSON {"name": 0.5}',
    "json": 'write a JSON object or list, such as {"name": "value"}, or use the TOML file',
}


def kind_of(annotation: Any) -> str:
    """Return how a variable of this type is read: `text`, `list`, `pairs`, or `json` for what has more in it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(inner[0])
    if origin in (Union, UnionType):
        kinds = {kind_of(part) for part in inner if part is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "json"
    if origin is tuple and not _holds_tables(inner[0]):
        return "list"
    if origin is dict and not _holds_tables(inner[1]) and inner[1] is not object:
        return "pairs"
    return "json" if origin in (tuple, dict) or _holds_tables(annotation) else "text"


def _holds_tables(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
