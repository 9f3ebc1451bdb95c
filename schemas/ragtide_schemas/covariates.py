"""Covariates of an interaction: numbers that are known before its answer, such as the length of the question."""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from .base import Name, Value
from .limits import COVARIATES_MAX, VALUE_MAX


def usable(value: object) -> bool:
    """Return whether a value is a number that a covariate may have."""
    # A whole number may be too large for a float, so the bound comes first.
    return isinstance(value, (int, float)) and abs(value) <= VALUE_MAX and isfinite(value)


def _without_unusable(value: Any) -> Any:
    """Leave out values that are no numbers in bounds: an interaction without a covariate still counts."""
    if not isinstance(value, Mapping):
        return value
    return {name: number for name, number in value.items() if usable(number)} or None


Covariates = Annotated[
    Annotated[dict[Name, Value], Field(max_length=COVARIATES_MAX)] | None, BeforeValidator(_without_unusable)
]
"""Number by name; a value that is no finite number counts as not given."""
