"""Metrics that an experiment measures itself."""

from typing import Any

import pytest
from tests.offline.experiments.items import ITEM

from ragtide_offline.experiments import Answer
from ragtide_offline.experiments.errors import MeasureError
from ragtide_offline.experiments.targets import measure_answer
from ragtide_producers.files.items import Item
from ragtide_schemas.experiments import OwnMetric

F1 = OwnMetric(name="own.f1")


@pytest.mark.parametrize("value", [0.5, {"value": 0.5}, {"value": 0.5, "is_algebraic": True}])
async def test_a_measured_value_may_be_given_as_rapidfire_does(value: object) -> None:
    assert await measure_answer(lambda item, answer: {"F1": value}, (F1,), ITEM, Answer([], "")) == {"own.f1": 0.5}


async def test_an_undefined_value_is_left_out_and_measure_may_be_async() -> None:
    async def measure(item: Item, answer: Answer) -> dict[str, Any]:
        return {"f1": None}

    assert await measure_answer(measure, (F1,), ITEM, Answer([], "")) == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"f2": 1}, "'f2', which is not declared"),
        ({"f1": 1.5}, "outside 0 to 1: declare its value_range"),
        ({"f1": float("nan")}, "own.f1 is nan"),
        ({"f1": "much"}, "must return numbers"),
        (0.5, "must return values by metric"),
    ],
)
async def test_a_value_that_was_not_declared_so_is_refused(value: Any, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        await measure_answer(lambda item, answer: value, (F1,), ITEM, Answer([], ""))
