"""Calls the function for an experiment's own metrics, and checks its values against their declarations."""

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any

from ragtide_producers.files.items import Item
from ragtide_schemas.experiments import OwnMetric

from .answers import Answer
from .drafts import qualified
from .errors import MeasureError
from .targets import called

MeasureFunction = Callable[[Item, Answer], Any]
"""Takes an item and an answer, and returns by metric a number, None if undefined, or `{"value": number}`."""


async def measured(
    measure: MeasureFunction, metrics: tuple[OwnMetric, ...], item: Item, answer: Answer
) -> dict[str, float]:
    """Return the own metrics of an answer by qualified name, without undefined metrics.

    Raises:
        MeasureError: a value is not declared, not a number, or outside its range.
        Exception: any error of the function.
    """
    found = await called(measure, partial(measure, item, answer))
    if not isinstance(found, Mapping):
        raise MeasureError(f"measure returned {type(found).__name__}: it must return values by metric")
    known = {metric.name: metric for metric in metrics}
    scores: dict[str, float] = {}
    for given, value in found.items():
        name = qualified(str(given))
        if name not in known:
            raise MeasureError(
                f"measure returned {given!r}, which is not declared: declare it under metrics, which has "
                f"{', '.join(known) or '(none)'}"
            )
        number = value.get("value") if isinstance(value, Mapping) else value
        if number is not None:
            scores[name] = _checked(known[name], number)
    return scores


def _checked(metric: OwnMetric, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise MeasureError(f"{metric.name} is {type(value).__name__}: measure must return numbers") from None
    if not isfinite(number) or not metric.lower <= number <= metric.upper:
        raise MeasureError(
            f"{metric.name} is {number:g}, outside {metric.lower:g} to {metric.upper:g}: declare its value_range"
        )
    return number
