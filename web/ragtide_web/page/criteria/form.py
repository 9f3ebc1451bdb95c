"""The form of a criterion: its fields as text, and the criterion that they make.

The text of a criterion makes the same criterion again: another value of an answer would be another version.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from pydantic import ValidationError

from ragtide_schemas.base import describe
from ragtide_schemas.criterion import ANSWERS_MAX, BUILT_IN, SCALES, Criterion, Need

NEEDS: Final[tuple[Need, ...]] = get_args(Need)
OWN_VALUES: Final = "values"
"""Choice of the scale whose answers the form has."""
CHOICES: Final = (*SCALES, OWN_VALUES)
"""Choices of the scale."""
_QUOTED: Final = r'"(?:[^"\\\n]|\\.)*"'
_PART: Final = re.compile(rf"(?:{_QUOTED}|[^,\n])+")
"""A part of a list; a quoted text may have commas."""


class WrongFieldError(ValueError):
    """A field of the form is wrong.

    Args:
        message: field, value and remedy, in one sentence.
        field: name of the field; empty for a rule about several.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


EMPTY: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("name", "question", "values", "segments"), ""),
        "scale": "yes_no",
        "direction": "higher",
        "pipelines": "*",
        "rate": "1",
        "unit": "answer",
    }
)
"""Fields of the form before anything is written."""


def criterion_fields(criterion: Criterion) -> Mapping[str, str]:
    """Return the fields of the form that make a criterion, as a browser sends them."""
    values = "\n".join(f"{_quoted(answer)} = {_exact(value)}" for answer, value in criterion.answers.items())
    segments = (f"{_quoted(name)}={_quoted(value)}" for name, values in criterion.segments.items() for value in values)
    return {
        "name": criterion.name,
        "question": criterion.question,
        "scale": criterion.scale or OWN_VALUES,
        "values": "" if criterion.scale else values,
        **{f"need_{need}": "1" for need in criterion.needs},
        "direction": str(criterion.direction),
        "pipelines": ", ".join(map(_quoted, criterion.pipelines)),
        "segments": ", ".join(segments),
        "rate": _exact(criterion.rate),
        "unit": criterion.unit,
    }


def make_criterion(fields: Mapping[str, str], before: Criterion | None = None) -> Criterion:
    """Return the criterion that the fields of the form make.

    Args:
        fields: as a browser sent them.
        before: criterion of this name whose bands it keeps if its answers stay; None if there is none.

    Raises:
        WrongFieldError: a field is wrong.
    """
    form = {**EMPTY, **fields}
    stated: dict[str, Any] = {
        "name": form["name"],
        "pipelines": tuple(_unquoted(part) for part in _parts(form["pipelines"])) or ("*",),
        "segments": _segments(form["segments"]),
        "rate": _number(form["rate"], "the share of the answers", "rate"),
    }
    if form["name"] not in BUILT_IN:
        stated |= {name: form[name] for name in ("question", "direction", "unit")}
        stated["needs"] = tuple(need for need in NEEDS if f"need_{need}" in form)
        stated |= {"values": _values(form["values"])} if form["scale"] == OWN_VALUES else {"scale": form["scale"]}
    try:
        criterion = Criterion.model_validate(stated)
        if before is not None and before.bands is not None and before.answers == criterion.answers:
            criterion = Criterion.model_validate({**stated, "bands": before.bands})
    except ValidationError as error:
        place = error.errors(include_url=False)[0]["loc"]
        raise WrongFieldError(describe(error), str(place[0]) if place else "") from None
    return criterion


def _exact(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _quoted(text: str) -> str:
    """Return a text as a part of a list, in quotes if it would otherwise be read in another way."""
    return json.dumps(text, ensure_ascii=False) if re.search(r"""[,="'\\]""", text) or text != text.strip() else text


def _unquoted(text: str) -> str:
    text = text.strip()
    if re.fullmatch(_QUOTED, text):
        try:
            return str(json.loads(text))
        except ValueError:  # an escape that JSON does not know stays as it is
            pass
    return text.strip("\"'")


def _parts(text: str) -> tuple[str, ...]:
    return tuple(stripped for part in _PART.findall(text) if (stripped := part.strip()))


def _pair(part: str) -> tuple[str, str]:
    quoted = re.match(_QUOTED, part)
    start = 0 if quoted is None else quoted.end()
    between, sign, value = part[start:].partition("=")
    return (_unquoted(part[:start] + between), value.strip()) if sign else ("", "")


def _segments(text: str) -> dict[str, tuple[str, ...]]:
    segments: dict[str, tuple[str, ...]] = {}
    for part in _parts(text):
        name, value = _pair(part)
        value = _unquoted(value)
        if not (name and value):
            raise WrongFieldError(
                f"the segment {part[:60]!r} is no name and value: write one such as lang=de", "segments"
            )
        segments[name] = (*segments.get(name, ()), value)
    return segments


def _values(text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in _parts(text):
        answer, value = _pair(part)
        if not (answer and value):
            message = f"the answer {part[:60]!r} has no value: write one a line, such as good = 1"
            raise WrongFieldError(message, "values")
        if answer in values:
            message = f"the answer {answer[:60]!r} comes twice: give each answer a word of its own"
            raise WrongFieldError(message, "values")
        values[answer] = _number(value, f"the value of {answer[:60]!r}", "values")
    if not 2 <= len(values) <= ANSWERS_MAX:
        message = (
            f"the scale has {len(values)} answers, and needs 2 to {ANSWERS_MAX}: write one a line, such as good = 1"
        )
        raise WrongFieldError(message, "values")
    return values


def _number(text: str, what: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongFieldError(f"{what} is {text[:20]!r}: write a number such as 0.2", field) from None
