"""The language of conditions: `METRIC[.FIELD] OPERATOR NUMBER`, such as `trace.adherence < 0.8`. No I/O."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from operator import ge, gt, le, lt
from typing import Final

from ragtide_schemas.suggestions import closest, unknown

OPERATORS: Final[dict[str, tuple[Callable[[float, float], bool], str, str]]] = {
    "<": (lt, "below", "at least"),
    "<=": (le, "at most", "above"),
    ">": (gt, "above", "at most"),
    ">=": (ge, "at least", "below"),
}
"""For each operator its function, its words, and the words of its opposite."""

ESTIMATE: Final = "estimate"
DIFFERENCE: Final = "difference"

WITH_INTERVAL: Final = {ESTIMATE: ESTIMATE, DIFFERENCE: DIFFERENCE, f"{DIFFERENCE}.{ESTIMATE}": DIFFERENCE}
"""Fields that their interval decides, and the quantity of each."""

ENDS: Final = ("mean", "lower", "upper")
"""Fields of a quantity that are one number."""

COUNTS: Final = ("n", "n_absent", "coverage")

FIELDS: Final = (*WITH_INTERVAL, *ENDS, *(f"{DIFFERENCE}.{end}" for end in ENDS), *COUNTS)

MOST_CHARS: Final = 300
"""Most characters of a condition."""


class UndecidedPolicy(StrEnum):
    """How a gate counts a condition that the data do not decide."""

    KEEP = "undecided"
    PASSED = "pass"
    FAILED = "fail"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that fails a gate when it holds."""

    text: str
    """The condition as it was written, with single spaces."""
    name: str
    """Metric, and perhaps a field."""
    operator: str
    threshold: float

    def holds(self, value: float) -> bool:
        """Return whether the condition holds for a number."""
        return OPERATORS[self.operator][0](value, self.threshold)

    def surely(self, lower: float, upper: float) -> bool | None:
        """Return whether the condition holds for every number of an interval (True), or for none; None otherwise."""
        answers = {self.holds(lower), self.holds(upper)}
        return answers.pop() if len(answers) == 1 else None


def parse_condition(text: str) -> Condition:
    """Return the condition in a text, in linear time.

    >>> parse_condition("trace.adherence.lower<0.8")
    Condition(text='trace.adherence.lower < 0.8', name='trace.adherence.lower', operator='<', threshold=0.8)

    Raises:
        ValueError: the text is no condition; the message names the part and the remedy.
    """
    if len(text) > MOST_CHARS:
        raise ValueError(f"the condition has {len(text):,} characters: give at most {MOST_CHARS}")
    start = next((place for place, character in enumerate(text) if character in "<>=!"), None)
    if start is None:
        raise ValueError(f"{text!r} has no operator: write METRIC < NUMBER, with one of {', '.join(OPERATORS)}")
    end = start
    while end < len(text) and text[end] in "<>=!":
        end += 1
    name, operator, number = text[:start].strip(), text[start:end], text[end:].strip()
    if operator not in OPERATORS:
        raise ValueError(f"{text!r} has the operator {operator!r}: use one of {', '.join(OPERATORS)}")
    if not name or not all(part.isascii() and part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{text!r} has {name!r} before {operator}: give a metric such as trace.adherence")
    return Condition(f"{name} {operator} {number}", name, operator, _threshold(text, number))


def _threshold(text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or "_" in number or not number.isascii():
        raise ValueError(f"{text!r} ends with {number!r}: give a number such as 0.8 (80% is 0.8)")
    return value


def split_name(name: str, known: Collection[str], *, certain: bool = True) -> tuple[str, str]:
    """Return metric and field of a name; without a field the field is `estimate`.

    Args:
        name: metric, and perhaps a field.
        known: names of the metrics.
        certain: whether `known` holds all metrics; otherwise a name that resembles none of them passes.

    Raises:
        ValueError: the metric or the field is unknown; the message names a known one that is close.
    """
    if _is_known(name, known):
        return name, ESTIMATE
    parts = name.split(".")
    for length in range(len(parts) - 1, 1, -1):
        metric, field = ".".join(parts[:length]), ".".join(parts[length:])
        if _is_known(metric, known):
            if field in FIELDS:
                return metric, field
            raise ValueError(unknown(f"field of {metric}", field, FIELDS))
    metric, field = _guess(parts)
    if certain or closest(metric, known) is not None:
        raise ValueError(unknown("metric", metric, known))
    return metric, field


def asks_for_difference(name: str, known: Collection[str]) -> bool:
    """Return whether the field of a name is about the difference from a baseline."""
    _, field = split_name(name, known, certain=False)
    return field.partition(".")[0] == DIFFERENCE


def _is_known(metric: str, known: Collection[str]) -> bool:
    return metric in known or metric.removeprefix("rmse.") in known


def _guess(parts: list[str]) -> tuple[str, str]:
    for length in (2, 1):
        field = ".".join(parts[-length:])
        if len(parts) > length and field in FIELDS:
            return ".".join(parts[:-length]), field
    return ".".join(parts), ESTIMATE
