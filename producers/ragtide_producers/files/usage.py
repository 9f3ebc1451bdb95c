"""The columns of other tools with time, tokens and cost of an answer. A name without a unit is not taken."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from ragtide_schemas import AnswerUsage, InvalidEntryError, Reason
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import closest


class _UsageColumn(NamedTuple):
    field: str
    per_unit: float = 1.0
    """Factor from the column's unit to that of the field."""


_MILLI: Final = 1e-3

COLUMNS: Final[Mapping[str, _UsageColumn]] = {
    **{field: _UsageColumn(field) for field in AnswerUsage.model_fields},
    "latency_seconds": _UsageColumn("latency_s"),
    "duration_s": _UsageColumn("latency_s"),
    "duration_seconds": _UsageColumn("latency_s"),
    "response_time_s": _UsageColumn("latency_s"),
    "latency_ms": _UsageColumn("latency_s", _MILLI),
    "duration_ms": _UsageColumn("latency_s", _MILLI),
    "response_time_ms": _UsageColumn("latency_s", _MILLI),
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
    "retrieval_seconds": _UsageColumn("retrieval_latency_s"),
    "retrieval_time_s": _UsageColumn("retrieval_latency_s"),
    "retrieval_s": _UsageColumn("retrieval_latency_s"),
    "retrieval_latency_ms": _UsageColumn("retrieval_latency_s", _MILLI),
    "retrieval_time_ms": _UsageColumn("retrieval_latency_s", _MILLI),
}
"""Field and unit of each column, by its name in lower case with underscores; the surest of a field first."""


def usage_in(values: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, float], dict[str, str]]:
    """Return the numbers of the usage in columns, and the column of each.

    The first column of a field that has a number of 0 or more counts. Other values, such as lists of tokens, are none.

    Args:
        values: of the columns.
        names: column by name in lower case with underscores.

    Raises:
        InvalidEntryError: a number has separators, such as `1,234`, which are those of thousands or of a fraction. If
            it were left out, only the small numbers of a column would count.
    """
    numbers: dict[str, float] = {}
    taken: dict[str, str] = {}
    for name, (field, per_unit) in COLUMNS.items():
        column = names.get(name)
        number = None if column is None or field in numbers else _number(column, values[column])
        if column is not None and number is not None:
            numbers[field], taken[field] = number * per_unit if per_unit != 1 else number, column
    return numbers, taken


def read_usage(given: Any, names: Mapping[str, str]) -> tuple[dict[str, Any] | None, Any]:
    """Return the usage in a value of the field, and what of it is not usage and belongs to the metadata.

    APIs of models return a `usage` with further numbers, such as `total_tokens`. Such an object is metadata, too.

    Args:
        given: value of the field `usage`.
        names: its keys by name in lower case with underscores; empty if it is no object.

    Raises:
        InvalidEntryError: a key is a misspelled field, or a number has separators.
    """
    if not isinstance(given, Mapping):
        return None, given
    if given.keys() <= AnswerUsage.model_fields.keys():
        return dict(given), None
    numbers, taken = usage_in(given, names)
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


def _number(column: str, value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            if _SEPARATED.fullmatch(value[:100]) is None:
                return None
            raise InvalidEntryError(
                Reason.INVALID,
                f"{column} is {shortened(value)!r}, and its separators may mean thousands or a fraction: write it like "
                "1234.5",
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if value >= 0 and isfinite(value) else None
