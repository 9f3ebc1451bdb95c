"""The columns of other tools with time, tokens and cost of an answer. A time without a unit is not taken."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from ragtide_schemas import AnswerUsage
from ragtide_schemas.errors import invalid
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import closest, unknown

from .places import plain_name


class _UsageColumn(NamedTuple):
    field: str
    unit: float = 1.0
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
"""A shorter time than 0 in a column of another tool is none of an answer, but one in another unit."""
_FIELDS: Final = tuple(AnswerUsage.model_fields)

COLUMNS: Final[Mapping[str, _UsageColumn]] = {
    **{field: _UsageColumn(field) for field in _FIELDS},
    **{
        f"{name}{joint}{unit}": _UsageColumn(field, factor)
        for unit, factor in _UNITS.items()
        for name, field in _TIMES.items()
        for joint in ("_", "_in_")
    },
    **dict.fromkeys(
        ("input_tokens", "attributes.llm.token_count.prompt", "cumulative_llm_token_count_prompt",
         "cumulative_token_count.prompt"), _UsageColumn("prompt_tokens")),
    **dict.fromkeys(
        ("output_tokens", "attributes.llm.token_count.completion", "cumulative_llm_token_count_completion",
         "cumulative_token_count.completion"), _UsageColumn("completion_tokens")),
    **dict.fromkeys(("total_cost_usd", "cost_in_usd"), _UsageColumn("cost_usd")),
}  # fmt: skip
"""Field and unit of each column, by its name in lower case with underscores; the surest of a field first."""
_RANKS: Final = {name: rank for rank, name in enumerate((*COLUMNS, *_TIMES))}


def usage_in(
    values: Mapping[str, Any], left_out: Counter[str] | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the numbers of the usage in columns, and the column of each.

    The first column of a field that has a number of 0 or more counts. Other values, such as lists of tokens, are none.

    Args:
        left_out: counts times that were not read, because nothing says their unit.

    Raises:
        InvalidEntryError: a number has separators, such as `1,234`, which are those of thousands or of a fraction. If
            it were left out, only the small numbers of a column would count. Or a time in the unit that another tool
            names is too short for an answer.
    """
    numbers: dict[str, float] = {}
    taken: dict[str, str] = {}
    names = {plain_name(str(column)): column for column in values}
    for name in sorted(names.keys() & _RANKS.keys(), key=_RANKS.__getitem__):
        column, field = names[name], COLUMNS[name].field if name in COLUMNS else _TIMES[name]
        if field in numbers:
            continue
        unit = COLUMNS[name].unit if name in COLUMNS else None
        number, unit = _number(column, values[column], field, unit)
        if number is None:
            continue
        if unit is not None:
            numbers[field], taken[field] = number if unit == 1 else number * unit, column
            if name != field and 0 < numbers[field] < _SHORTEST_S.get(field, 0):
                raise invalid(
                    f"{field}, from the column {column}, is {numbers[field]:.3g} seconds, which no answer takes: "
                    f"correct the unit in the column's name, or name it with --map usage.{_name_in_ms(field)}={column}",
                )
        elif left_out is not None:
            left_out[f"{column} has no unit (name it: --map usage.{_name_in_ms(field)}={column})"] += 1
    return numbers, taken


def _name_in_ms(field: str) -> str:
    return f"{field.removesuffix('_s')}_ms"


def usage_number(name: str, column: str, value: Any) -> float | None:
    """Return the number of a field of the usage in a column that the user named for it; None if it has none.

    Args:
        name: a key of `COLUMNS`, which has the unit; a field without another one has that of the column's name.
        column: where the value stands.
        value: of the column; its text may end with a unit of its own, such as `1.5 s`.

    Raises:
        InvalidEntryError: there is no such field, or the number has separators.
    """
    if name not in COLUMNS:
        raise invalid(f"usage.{name}: {unknown('number', name, _FIELDS)}")
    names = (plain_name(column), plain_name(column.rpartition(".")[2])) if name in _FIELDS else ()
    known = next((COLUMNS[own] for own in names if own in COLUMNS and COLUMNS[own].field == name), COLUMNS[name])
    number, unit = _number(column, value, known.field, known.unit)
    return None if number is None else number * (unit or 1)


def usage_of(
    given: Any, row: Mapping[str, Any], left_out: Counter[str] | None = None
) -> tuple[dict[str, Any], dict[str, str], Any]:
    """Return the usage of an answer, the columns of other numbers in it, and what of the field is none.

    Columns complete the field. APIs of models return a `usage` with further numbers, such as `total_tokens`. Such an
    object is metadata, too.

    Args:
        given: value of the field `usage`.
        row: other columns and their values.
        left_out: counts times that were not read, because nothing says their unit.

    Raises:
        InvalidEntryError: a key of the field is misspelled, or as `usage_in`.
    """
    own = given if isinstance(given, Mapping) else {}
    numbers, taken = usage_in(own)
    # The model of the field refuses what is no number in its range.
    usage = {**{field: own[field] for field in _FIELDS if field in own}, **numbers}
    others = own.keys() - set(taken.values()) - set(_FIELDS)
    for key in islice(others, KEYS_MAX):
        meant = closest(str(key), set(_FIELDS) - numbers.keys(), likeness=_TYPO)
        if meant is not None:
            raise invalid(f"usage.{key} is not a field of this schema; did you mean {meant}? Correct its name")
    stated, columns = usage_in(row, left_out)
    more = {field: number for field, number in stated.items() if usage.get(field) is None}
    return (
        {**usage, **more},
        {f"usage.{field}": columns[field] for field in more},
        given if others or given is not own else None,
    )


KEYS_MAX: Final = 500
"""Keys that are compared with those that may be meant."""
_TYPO: Final = 0.85
"""Least likeness at which an unknown key is a misspelled field: `total_tokens` is none."""


_SEPARATED: Final = re.compile(r"\s*[-+]?[0-9][0-9.,' \u00a0\u202f\u2019]*[0-9]\s*")
_WITH_UNIT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z\u00b5\u03bc]{1,12})")
_NUMBER_MAX: Final = 1e300


def _number(column: str, value: Any, field: str, unit: float | None) -> tuple[float | None, float | None]:
    if isinstance(value, str):
        match = _WITH_UNIT.fullmatch(value.strip()[:40]) if field in _SHORTEST_S else None
        own = _UNITS.get(match[2].lower()) if match else None
        value, unit = number_in(column, match[1] if match and own else value), own or unit
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _NUMBER_MAX
    return value if is_number else None, unit


def number_in(column: str, text: str) -> float | None:
    """Return the number that a text spells; None if it spells none.

    Args:
        column: where the text stands.

    Raises:
        InvalidEntryError: the number has separators, which may mean thousands or a fraction.
    """
    try:
        return float(text)
    except ValueError:
        if _SEPARATED.fullmatch(text[:100]) is None:
            return None
    raise invalid(
        f"{column} is {shortened(text)!r}, and its separators may mean thousands or a fraction: write it like 1234.5"
    )
