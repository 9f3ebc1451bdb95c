"""The columns of other tools with time, tokens and cost of an answer. A time without a unit is not taken."""

import re
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from ragtide_schemas import AnswerUsage, InvalidEntryError, Reason
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import closest, unknown


class _UsageColumn(NamedTuple):
    field: str
    per_unit: float = 1.0
    """Factor from the column's unit to that of the field."""


_UNITS: Final[Mapping[str, float]] = {
    unit: factor
    for factor, units in (
        (1.0, "s sec secs second seconds"),
        (1e-3, "ms msec msecs milli millis millisecond milliseconds"),
        (1e-6, "us µs μs usec micro micros microsecond microseconds"),
        (1e-9, "ns nsec nano nanos nanosecond nanoseconds"),
        (60.0, "minute minutes"),
    )
    for unit in units.split()
}
_TIMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("latency", "duration", "response_time", "total_latency", "total_duration", "elapsed", "elapsed_time",
         "execution_time", "execution_duration"), "latency_s"),
    **dict.fromkeys(("retrieval_latency", "retrieval_time", "retrieval_duration", "retrieval"), "retrieval_latency_s"),
}  # fmt: skip
"""Field of each name of a time, to which a column's name adds the unit."""
_SHORTEST_S: Final = {"latency_s": 1e-4, "retrieval_latency_s": 1e-6}
"""A shorter time than 0 is none of an answer, but one in another unit."""

COLUMNS: Final[Mapping[str, _UsageColumn]] = {
    **{field: _UsageColumn(field) for field in AnswerUsage.model_fields},
    **{
        f"{name}{joint}{unit}": _UsageColumn(field, factor)
        for unit, factor in _UNITS.items()
        for name, field in _TIMES.items()
        for joint in ("_", "_in_")
    },
    "input_tokens": _UsageColumn("prompt_tokens"),
    "attributes.llm.token_count.prompt": _UsageColumn("prompt_tokens"),
    "cumulative_llm_token_count_prompt": _UsageColumn("prompt_tokens"),
    "cumulative_token_count.prompt": _UsageColumn("prompt_tokens"),
    "output_tokens": _UsageColumn("completion_tokens"),
    "attributes.llm.token_count.completion": _UsageColumn("completion_tokens"),
    "cumulative_llm_token_count_completion": _UsageColumn("completion_tokens"),
    "cumulative_token_count.completion": _UsageColumn("completion_tokens"),
    "total_cost_usd": _UsageColumn("cost_usd"),
    "cost_in_usd": _UsageColumn("cost_usd"),
}
"""Field and unit of each column, by its name in lower case with underscores; the surest of a field first."""
_RANKS: Final = {name: rank for rank, name in enumerate(COLUMNS)}


def usage_in(
    values: Mapping[str, Any], names: Mapping[str, str], left_out: Counter[str] | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the numbers of the usage in columns, and the column of each.

    The first column of a field that has a number of 0 or more counts. Other values, such as lists of tokens, are none.

    Args:
        values: of the columns.
        names: column by name in lower case with underscores.
        left_out: counts times that were not read, because nothing says their unit.

    Raises:
        InvalidEntryError: a number has separators, such as `1,234`, which are those of thousands or of a fraction. If
            it were left out, only the small numbers of a column would count. Or a time is too short for an answer.
    """
    numbers: dict[str, float] = {}
    taken: dict[str, str] = {}
    for name in sorted(names.keys() & _RANKS.keys(), key=_RANKS.__getitem__):
        column, field = names[name], COLUMNS[name].field
        number = usage_number(name, column, values[column]) if field not in numbers else None
        if number is not None:
            numbers[field], taken[field] = number, column
    for name in names.keys() & _TIMES.keys():
        column, field = names[name], _TIMES[name]
        if field not in numbers and (found := _number(column, values[column])) is not None:
            if found.unit is not None:
                numbers[field], taken[field] = _time(field, column, found.value * found.unit), column
            elif left_out is not None:
                left_out[f"{column} has no unit (name it: --map usage.{field.removesuffix('_s')}_ms={column})"] += 1
    return numbers, taken


def usage_number(name: str, column: str, value: Any) -> float | None:
    """Return the number of a field of the usage in a value; None if it has no number of 0 or more.

    Args:
        name: a key of `COLUMNS`, which has the unit.
        column: where the value stands.
        value: of the column; its text may end with a unit of its own, such as `1.5 s`.

    Raises:
        InvalidEntryError: the number has separators, or the time is too short for an answer.
    """
    if name not in COLUMNS:
        raise InvalidEntryError(
            Reason.INVALID, f"usage.{name}: {unknown('number', name, list(AnswerUsage.model_fields))}"
        )
    (field, per_unit), number = COLUMNS[name], _number(column, value)
    if number is None or (number.unit is not None and field not in _SHORTEST_S):
        return None
    factor = per_unit if number.unit is None else number.unit
    return _time(field, column, number.value * factor if factor != 1 else number.value)


def read_usage(given: Any, names: Mapping[str, str]) -> tuple[dict[str, Any] | None, Any]:
    """Return the usage in a value of the field, and what of it is not usage and belongs to the metadata.

    APIs of models return a `usage` with further numbers, such as `total_tokens`. Such an object is metadata, too.

    Args:
        given: value of the field `usage`.
        names: its keys by name in lower case with underscores; empty if it is no object.

    Raises:
        InvalidEntryError: a key is a misspelled field, a number has separators, or a time is too short for an answer.
    """
    if not isinstance(given, Mapping):
        return None, given
    numbers, taken = usage_in(given, names)
    if given.keys() <= AnswerUsage.model_fields.keys():
        return {**given, **numbers}, None
    # The model of the field refuses what is no number in its range.
    numbers |= {field: given[field] for field in AnswerUsage.model_fields.keys() & given.keys() - numbers.keys()}
    for key in given.keys() - set(taken.values()) - AnswerUsage.model_fields.keys():
        meant = closest(str(key), AnswerUsage.model_fields.keys() - numbers.keys(), likeness=_TYPO)
        if meant is not None:
            raise InvalidEntryError(
                Reason.INVALID, f"usage.{key} is not a field of this schema; did you mean {meant}? Correct its name"
            )
    return dict(numbers) or None, None if set(taken.values()) == given.keys() else given


_TYPO: Final = 0.85
"""Least likeness at which an unknown key is a misspelled field: `total_tokens` is none."""


_SEPARATED: Final = re.compile(r"\s*[-+]?[0-9][0-9.,' \u00a0\u202f\u2019]*[0-9]\s*")
_WITH_UNIT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-zµμ]{1,12})")


class _Number(NamedTuple):
    value: float
    unit: float | None = None
    """Seconds of one, if the text names a unit of time."""


def _number(column: str, value: Any) -> _Number | None:
    unit = None
    if isinstance(value, str):
        found = _WITH_UNIT.fullmatch(value.strip()[:40])
        if found is not None and (unit := _UNITS.get(found[2].lower())) is not None:
            value = found[1]
        value = number_in(column, value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value >= 0 and isfinite(value)):
        return None
    return _Number(value, unit)


def number_in(column: str, text: str) -> float | None:
    """Return the number that a text spells; None if it spells none.

    Args:
        column: where the text stands.
        text: of a cell.

    Raises:
        InvalidEntryError: the number has separators, which may mean thousands or a fraction.
    """
    try:
        return float(text)
    except ValueError:
        if _SEPARATED.fullmatch(text[:100]) is None:
            return None
    raise InvalidEntryError(
        Reason.INVALID,
        f"{column} is {shortened(text)!r}, and its separators may mean thousands or a fraction: write it like 1234.5",
    )


def _time(field: str, column: str, number: float) -> float:
    if 0 < number < _SHORTEST_S.get(field, 0):
        raise InvalidEntryError(
            Reason.INVALID,
            f"{field}, from the column {column}, is {number:.3g} seconds, which no answer takes: correct the unit in "
            f"the column's name, or name it with --map usage.{field.removesuffix('_s')}_ms={column}",
        )
    return number
