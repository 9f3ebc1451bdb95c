"""The form of a criterion: its fields as text, and the criterion that they make.

The text of a criterion makes the same criterion again: another value of an answer would be another version.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from pydantic import ValidationError

from ragtide_schemas.base import describe
from ragtide_schemas.criterion import ANSWERS_MAX, BUILT_IN, SCALES, Criterion, Need

NEEDS: Final[tuple[Need, ...]] = get_args(Need)
OWN_VALUES: Final = "values"
"""Choice of the scale whose answers the form has."""
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


@dataclass(frozen=True, slots=True)
class CriterionForm:
    """The fields of the form, as text."""

    name: str = ""
    question: str = ""
    scale: str = "yes_no"
    values: str = ""
    """Lines such as `good = 1.0`."""
    needs: tuple[str, ...] = ()
    direction: str = "higher"
    pipelines: str = "*"
    """Patterns, separated by commas."""
    segments: str = ""
    """Values such as `lang=de`, separated by commas."""
    rate: str = "1"
    unit: str = "answer"

    @classmethod
    def of_fields(cls, fields: Mapping[str, str]) -> "CriterionForm":
        """Return the form that a browser sent."""
        return cls(
            name=fields.get("name", ""),
            question=fields.get("question", ""),
            scale=fields.get("scale", "yes_no"),
            values=fields.get("values", ""),
            needs=tuple(need for need in NEEDS if f"need_{need}" in fields),
            direction=fields.get("direction", "higher"),
            pipelines=fields.get("pipelines", "*"),
            segments=fields.get("segments", ""),
            rate=fields.get("rate", "1"),
            unit=fields.get("unit", "answer"),
        )

    @classmethod
    def of_criterion(cls, criterion: Criterion) -> "CriterionForm":
        """Return the form that makes a criterion."""
        values = "\n".join(f"{_quoted(answer)} = {_exact(value)}" for answer, value in criterion.answers.items())
        return cls(
            name=criterion.name,
            question=criterion.question,
            scale=criterion.scale or OWN_VALUES,
            values="" if criterion.scale else values,
            needs=criterion.needs,
            direction=str(criterion.direction),
            pipelines=", ".join(_quoted(pattern) for pattern in criterion.pipelines),
            segments=", ".join(
                f"{_quoted(name)}={_quoted(value)}" for name, values in criterion.segments.items() for value in values
            ),
            rate=_exact(criterion.rate),
            unit=criterion.unit,
        )

    def criterion(self, before: Criterion | None = None) -> Criterion:
        """Return the criterion that the fields make.

        Args:
            before: criterion of this name whose bands it keeps if its answers stay; None if there is none.

        Raises:
            WrongFieldError: a field is wrong.
        """
        found: dict[str, Any] = {
            "name": self.name,
            "pipelines": tuple(_unquoted(part) for part in _parts(self.pipelines)) or ("*",),
            "segments": _segments(self.segments),
            "rate": _number(self.rate, "the share of the answers", "rate"),
        }
        if self.name not in BUILT_IN:
            found |= {"question": self.question, "needs": self.needs, "direction": self.direction}
            found["unit"] = self.unit
            found |= {"values": _values(self.values)} if self.scale == OWN_VALUES else {"scale": self.scale}
        try:
            criterion = Criterion.model_validate(found)
            if before is not None and before.bands is not None and before.answers == criterion.answers:
                criterion = Criterion.model_validate({**found, "bands": before.bands})
        except ValidationError as error:
            place = error.errors(include_url=False)[0]["loc"]
            raise WrongFieldError(describe(error), str(place[0]) if place else "") from None
        return criterion

    @property
    def scales(self) -> tuple[str, ...]:
        """The choices of the scale."""
        return (*SCALES, OWN_VALUES)


def _exact(value: float) -> str:
    """Return the shortest text of a number that is read as the same number."""
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
    return tuple(part for found in _PART.findall(text) if (part := found.strip()))


def _pair(part: str) -> tuple[str, str]:
    """Return what stands before the first equals sign outside of quotes, and behind it; empty texts without one."""
    quoted = re.match(_QUOTED, part)
    start = 0 if quoted is None else quoted.end()
    between, sign, value = part[start:].partition("=")
    return (_unquoted(part[:start] + between), value.strip()) if sign else ("", "")


def _segments(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in _parts(text):
        name, value = _pair(part)
        value = _unquoted(value)
        if not (name and value):
            raise WrongFieldError(
                f"the segment {part[:60]!r} is no name and value: write one such as lang=de", "segments"
            )
        found[name] = (*found.get(name, ()), value)
    return found


def _values(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in _parts(text):
        answer, value = _pair(part)
        if not (answer and value):
            message = f"the answer {part[:60]!r} has no value: write one a line, such as good = 1"
            raise WrongFieldError(message, "values")
        if answer in found:
            message = f"the answer {answer[:60]!r} comes twice: give each answer a word of its own"
            raise WrongFieldError(message, "values")
        found[answer] = _number(value, f"the value of {answer[:60]!r}", "values")
    if not 2 <= len(found) <= ANSWERS_MAX:
        message = (
            f"the scale has {len(found)} answers, and needs 2 to {ANSWERS_MAX}: write one a line, such as good = 1"
        )
        raise WrongFieldError(message, "values")
    return found


def _number(text: str, what: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongFieldError(f"{what} is {text[:20]!r}: write a number such as 0.2", field) from None
