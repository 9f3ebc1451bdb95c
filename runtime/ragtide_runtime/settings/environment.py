"""Reads settings from variables and from files of secrets: lists and pairs with commas, unknown names, suggestions."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import closest

from ..errors import ConfigurationError

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


def fields_of(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the variable and the field of every setting; the fields of a table come after the table."""
    for name, field in model.model_fields.items():
        variable = f"{PREFIX}{name}".upper()
        yield variable, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from (
                (f"{variable}_{inner}".upper(), inner_field)
                for inner, inner_field in field.annotation.model_fields.items()
            )


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


def unknown_variables(model: type[BaseModel], environment: Mapping[str, str] | None = None) -> list[UnknownVariable]:
    """Return each variable with the prefix that is no setting.

    Args:
        model: the settings.
        environment: by default the files of secrets and the environment of this process.
    """
    environment = {**secret_files(), **os.environ} if environment is None else environment
    known = {variable for variable, _ in fields_of(model)} | OTHERS
    # A pair of a setting may have a variable of its own, such as RAGTIDE_SPLITS_SHOP.
    pairs = [name for name, field in model.model_fields.items() if _kind_of(field.annotation) == "pairs"]
    prefixes = tuple(f"{PREFIX}{name}_".upper() for name in pairs)
    unknown = []
    for name, value in sorted(environment.items()):
        variable = name.upper()
        if not variable.startswith(PREFIX) or variable in known or variable.startswith(prefixes):
            continue
        if _is_of_kubernetes(variable, value):
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


class Environment(EnvSettingsSource):
    """The environment as a source of settings, in which lists and pairs may be written with commas.

    `RAGTIDE_JUDGE_FAMILIES=trace,ragchecker` is a list, `RAGTIDE_CASCADE_BELOW=trace.adherence=0.3` are pairs. JSON is
    accepted too, and is required for a value with more than texts and numbers. Variables that Kubernetes sets for a
    service such as `ragtide-serve` are left out.
    """

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        given = self.env_vars.items()
        self.env_vars = {name: value for name, value in given if not _is_of_kubernetes(name.upper(), value)}

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Return the value of a variable.

        Raises:
            ConfigurationError: the value cannot be read; the message never shows it, because it may be a secret.
        """
        kind, text = _kind_of(field.annotation), str(value).strip()
        if kind == "json" or text[:1] in ("[", "{", '"'):
            return self._from_json(field_name, field, text, kind)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if kind == "list":
            return parts
        pairs = [part.rpartition("=") for part in parts]
        if not all(name for name, _, _ in pairs):
            raise ConfigurationError(f"{self._variable(field_name, field)} holds pairs: {_FORMS[kind]}")
        return {name.strip(): number.strip() for name, _, number in pairs}

    def _from_json(self, field_name: str, field: FieldInfo, text: str, kind: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            where = str(error).partition(":")[2].strip() or "the text"
            raise ConfigurationError(
                f"{self._variable(field_name, field)} cannot be read as JSON ({where}): {_FORMS[kind]}"
            ) from None

    def _variable(self, field_name: str, field: FieldInfo) -> str:
        variables = (variable for variable, candidate in fields_of(self.settings_cls) if candidate is field)
        return next(variables, f"{PREFIX}{field_name}".upper())


class SecretFiles(Environment):
    """The files of `secret_files` as a source of settings: each is read as the variable of its name."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self.env_vars = {name.lower(): text for name, text in secret_files().items()}


_FORMS: Final = {
    "list": 'write a list such as one,two or the JSON ["one", "two"]',
    "pairs": 'write pairs such as name=0.5,other=1 or the JSON {"name": 0.5}',
    "json": 'write a JSON object or list, such as {"name": "value"}, or use the TOML file',
}


def _kind_of(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind_of(inner[0])
    if origin in (Union, UnionType):
        kinds = {_kind_of(part) for part in inner if part is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "json"
    if origin is tuple and not _holds_tables(inner[0]):
        return "list"
    if origin is dict and not _holds_tables(inner[1]) and inner[1] is not object:
        return "pairs"
    return "json"


def _holds_tables(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
