"""Reads settings from environment variables: lists and pairs with commas, and suggestions for unknown names."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource

from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import closest

from ..errors import ConfigurationError

PREFIX: Final = "RAGTIDE_"

OTHERS: Final = frozenset({"RAGTIDE_CONFIG"})
"""Variables with the prefix that are no settings; this variable names the file of settings."""

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
        environment: by default the environment of this process.
    """
    environment = os.environ if environment is None else environment
    known = {variable for variable, _ in fields_of(model)} | OTHERS
    # A pair of a setting may have a variable of its own, such as RAGTIDE_SPLITS_SHOP.
    pairs = [name for name, field in model.model_fields.items() if _kind_of(field.annotation) == "pairs"]
    prefixes = tuple(f"{PREFIX}{name}_".upper() for name in pairs)
    found = []
    for name, value in sorted(environment.items()):
        variable = name.upper()
        if not variable.startswith(PREFIX) or variable in known or variable.startswith(prefixes):
            continue
        if _OF_KUBERNETES.search(variable) or (variable.endswith("_PORT") and _OF_KUBERNETES_VALUE.match(value)):
            continue
        found.append(_unknown(name, sorted(variable.removeprefix(PREFIX) for variable in known)))
    return found


def _unknown(name: str, known: list[str]) -> UnknownVariable:
    wanted = re.sub("_+", "_", name.upper()).removeprefix(PREFIX)
    # A name without its table is a near miss, too: RAGTIDE_TOKENS for RAGTIDE_SERVE_TOKENS.
    without_table = (variable for variable in sorted(known, key=len) if variable.endswith(f"_{wanted}"))
    near = closest(wanted, known, likeness=0.7) or next(without_table, None)
    why = f"{printable(name)} is no setting"
    if near is None:
        return UnknownVariable(f"{why} and is ignored: unset it, or see ragtide docs settings", near=False)
    if "__" in name:
        why = f"{why}: write one underscore between table and name, as in {PREFIX}{near}"
        return UnknownVariable(why, near=True)
    return UnknownVariable(f"{why}: did you mean {PREFIX}{near}?", near=True)


class Environment(EnvSettingsSource):
    """The environment as a source of settings, in which lists and pairs may be written with commas.

    `RAGTIDE_JUDGE_FAMILIES=trace,ragchecker` is a list, `RAGTIDE_CASCADE_BELOW=trace.adherence=0.3` are pairs. JSON is
    accepted too, and is required for a value with more than texts and numbers.
    """

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
        found = (variable for variable, candidate in fields_of(self.settings_cls) if candidate is field)
        return next(found, f"{PREFIX}{field_name}".upper())


_FORMS: Final = {
    "list": 'write a list such as one,two or the JSON ["one", "two"]',
    "pairs": 'write pairs such as name=0.5,other=1 or the JSON {"name": 0.5}',
    "json": 'write a JSON object or list, such as {"name": "value"}, or use the TOML file',
}


def _kind_of(annotation: Any) -> str:
    """Return the form of a setting: `list` of texts, `pairs` of a text and a number, or `json`."""
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
