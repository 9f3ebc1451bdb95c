"""Explains mistakes in settings: the variable or line of the value, the name of the rule, and the remedy."""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from ragtide_schemas import METRICS
from ragtide_schemas.base import may_hold_a_secret
from ragtide_schemas.printable import printable, shortened
from ragtide_schemas.suggestions import closest

from .environment import FIXED, PREFIX
from .names import SETTINGS

MOST_SHOWN: Final = 10
"""Most mistakes that a message describes."""

_USUAL_NAMES: Final = {
    "from": "sender",
    "from_address": "sender",
    "recipient": "to",
    "recipients": "to",
    "server": "host",
    "webhook": "url",
    "webhook_url": "url",
}
"""Settings by names that people know from other programs, and that are spelled otherwise."""

_FORMS: Final = {
    "prefix": "may have letters, digits and . _ - only, at most 128 of them",
    "windows": "is no window: write 1h (tumbling) or 24h/1h (a day that moves every hour)",
    "log_level": "is none of debug, info, warning, error",
    "metric": "is no metric with its family: write one such as trace.adherence",
}
"""Remedy for a text that is not of the expected form, by setting."""

_DURATION: Final = "is no duration: write one such as 30m, 6h or 7d"


class Explainer:
    """Explains validation errors by the sources of the settings.

    Args:
        model: the settings.
        file: the TOML file.
        text: its text.
        given: the settings that were given by the caller.
        environment: variables; by default those of this process.
        inside: path of the table that was validated; empty for all settings.
    """

    def __init__(
        self,
        model: type[BaseModel],
        file: Path,
        text: str,
        *,
        given: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        inside: tuple[str, ...] = (),
    ) -> None:
        self._model = model
        self._file = file
        self._text = text
        self._given = given or {}
        self._environment = os.environ if environment is None else environment
        self._inside = inside

    def explain(self, error: ValidationError) -> str:
        """Return a validation error in one line."""
        details: list[dict[str, Any]] = [
            {**detail, "loc": (*self._inside, *detail["loc"])} for detail in error.errors(include_url=False)
        ]
        blamed = {loc[:length] for loc in (detail["loc"] for detail in details) for length in range(1, len(loc))}
        sentences: list[str] = []
        for detail in details:
            if detail["loc"] not in blamed:
                where, problem = self._where(detail["loc"]), self._problem(detail)
                sentences.append(f"{where}: {problem}" if where else problem)
        more = f"; and {len(sentences) - MOST_SHOWN} more" if len(sentences) > MOST_SHOWN else ""
        return printable("; ".join(sentences[:MOST_SHOWN]) + more)

    def _where(self, loc: Sequence[str | int]) -> str:
        if not loc or loc[0] in self._given:
            return ""
        variable = self._variable(loc)
        if variable is not None:
            source = variable
        else:
            line = line_of(self._text, loc)
            source = str(self._file) if line is None else f"{self._file}, line {line}"
        return ", ".join(part for part in (source, _rule(loc, self._content(variable))) if part)

    def _variable(self, loc: Sequence[str | int]) -> str | None:
        names = [str(part) for part in loc[:2] if isinstance(part, str)]
        given = {name.upper(): name for name in self._environment}
        for length in range(len(names), 0, -1):
            variable = f"{PREFIX}{'_'.join(names[:length])}".upper()
            if variable in given:
                return given[variable]
        return None

    def _content(self, variable: str | None) -> Any:
        try:
            if variable is None:
                return tomllib.loads(self._text)
            return {"alerts": json.loads(self._environment[variable])}
        except ValueError:
            return {}

    def _problem(self, detail: Any) -> str:
        loc, kind = detail["loc"], detail["type"]
        message = str(detail["msg"]).removeprefix("Value error, ")
        names = [str(part) for part in loc if isinstance(part, str)]
        # A rule about several settings names them itself.
        about_all = not names or (kind == "value_error" and isinstance(loc[-1], int)) or loc == ("alerts",)
        if about_all:
            return message
        name = shortened(".".join(names[1:] if names[0] == "alerts" and len(names) > 1 else names))
        if kind == "extra_forbidden" and name in FIXED:
            return f"{name} is no setting any more: it is fixed at {FIXED[name]}; remove it"
        if kind == "extra_forbidden":
            return f"{name} is no setting{self._meant(loc)}"
        if kind == "missing":
            return f"{name} is missing: add it"
        problem = self._form(detail) if kind == "string_pattern_mismatch" else message[:1].lower() + message[1:]
        if may_hold_a_secret(detail):
            return f"{name}: {problem}"
        return f"{name} {problem} (got {shortened(repr(detail['input']))})"

    def _meant(self, loc: Sequence[str | int]) -> str:
        model = _model_at(self._model, loc[:-1])
        fields = {*model.model_fields} if model is not None and loc[1:] else {*SETTINGS} if not loc[1:] else set()
        usual = _USUAL_NAMES.get(str(loc[-1]).lower())
        near = usual if usual is not None and usual in fields else closest(str(loc[-1]), fields)
        return f": did you mean {near}?" if near else ": correct its name or remove it"

    def _form(self, detail: Any) -> str:
        name = next((str(part) for part in reversed(detail["loc"]) if isinstance(part, str)), "")
        if name == "metric":
            same = [metric for metric in METRICS if metric.rpartition(".")[2] == detail["input"]]
            if same:
                return f"is no metric with its family: write {' or '.join(same)}"
        return _FORMS.get(name, _DURATION if name in ("period", "baseline_window") else "is not of the expected form")


def _rule(loc: Sequence[str | int], content: Any) -> str:
    if len(loc) < 2 or loc[0] != "alerts" or not isinstance(loc[1], int):
        return ""
    try:
        return f"rule {content['alerts'][loc[1]]['name']!r}"
    except (KeyError, IndexError, TypeError):
        return f"rule number {loc[1] + 1}"


def _model_at(model: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel] | None:
    at: type[BaseModel] | None = model
    for name in (part for part in loc if isinstance(part, str)):
        field = at.model_fields.get(name) if at is not None else None
        at = None if field is None else _model_in(field.annotation)
    return at


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _model_in(argument)) is not None), None)


_TABLE_LINE = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\"' -]{1,200}?)\s*\]")
_KEY_LINE = re.compile(r"\s*([A-Za-z0-9_.\"'-]{1,200})[ \t]{0,100}=")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    r"""Return the number, from 1, of the line of a setting, or else of its table; None if neither is found.

    Args:
        path: names and, in a list of tables, places, such as `("alerts", 0, "target")`.

    >>> line_of('[judge]\nmodel = "m"', ("judge", "model"))
    2
    """
    wanted = tuple(path)
    best: tuple[int, int] | None = None
    for number, place in _paths_by_line(text):
        length = min(len(place), len(wanted))
        if length and place[:length] == wanted[:length] and (best is None or length > best[0]):
            best = (length, number)
    return None if best is None else best[1]


def _paths_by_line(text: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    table: tuple[str | int, ...] = ()
    places: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE_LINE.match(line):
            names = _names(header[2])
            table = names
            if header[1] == "[[":
                places[header[2]] = places.get(header[2], -1) + 1
                table = (*names, places[header[2]])
            yield number, table
        elif key := _KEY_LINE.match(line):
            yield number, (*table, *_names(key[1]))


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
