"""The form of a criterion: its fields as text, and the criterion that they make."""

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
_PARTS: Final = re.compile(r"[,\n]")


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
        values = "\n".join(f"{answer} = {value:g}" for answer, value in criterion.answers.items())
        return cls(
            name=criterion.name,
            question=criterion.question,
            scale=criterion.scale or OWN_VALUES,
            values="" if criterion.scale else values,
            needs=criterion.needs,
            direction=str(criterion.direction),
            pipelines=", ".join(criterion.pipelines),
            segments=", ".join(f"{name}={value}" for name, values in criterion.segments.items() for value in values),
            rate=f"{criterion.rate:g}",
            unit=criterion.unit,
        )

    def criterion(self, before: Criterion | None = None) -> Criterion:
        """Return the criterion that the fields make.

        Args:
            before: criterion of this name whose bands it keeps if its answers stay; None if there is none.

        Raises:
            ValueError: a field is wrong; the message is one sentence.
        """
        found: dict[str, Any] = {
            "name": self.name,
            "pipelines": _parts(self.pipelines) or ("*",),
            "segments": _segments(self.segments),
            "rate": _number(self.rate, "the share of the answers"),
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
            raise ValueError(describe(error)) from None
        return criterion

    @property
    def scales(self) -> tuple[str, ...]:
        """The choices of the scale."""
        return (*SCALES, OWN_VALUES)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part for piece in _PARTS.split(text) if (part := piece.strip()))


def _segments(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in _parts(text):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise ValueError(f"the segment {part[:60]!r} is no name and value: write one such as lang=de")
        found[name] = (*found.get(name, ()), value)
    return found


def _values(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in _parts(text):
        answer, sign, value = (piece.strip() for piece in part.rpartition("="))
        answer = answer.strip("\"'")
        if not sign or not answer:
            raise ValueError(f"the answer {part[:60]!r} has no value: write one a line, such as good = 1")
        if answer in found:
            raise ValueError(f"the answer {answer[:60]!r} comes twice: give each answer a word of its own")
        found[answer] = _number(value, f"the value of {answer[:60]!r}")
    if len(found) < 2:
        raise ValueError(f"the scale needs 2 to {ANSWERS_MAX} answers: write one a line, such as good = 1")
    return found


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what} is {text[:20]!r}: write a number such as 0.2") from None
