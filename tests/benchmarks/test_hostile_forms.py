"""Work on hostile inputs grows with their length: the lines of ours that run are counted, and no time is measured."""

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from tests.support.counted_lines import lines_of

from .test_figures import program

pytestmark = pytest.mark.pure

FORMS = program("hostile_forms")
SIZE = 150
HEAVIEST = 8
"""Inputs of a reader that take the most lines: only these are doubled."""
GROWTH = 2.3
MORE = 200
"""Lines that twice an input may take beyond that growth."""
DOUBLED = 4
"""Times that an input is doubled before it is faulty: a reader may take a square of the time up to a bound."""


def grows_faster(reader: str, make: Any) -> bool:
    """Whether each time that an input is doubled takes clearly more than twice the lines."""
    counts = (lines_of(partial(FORMS.read, reader, make(SIZE * 2**number))) for number in range(DOUBLED + 1))
    return all(more > GROWTH * less + MORE for less, more in pairwise(counts))


@pytest.mark.parametrize("reader", FORMS.READERS)
def test_twice_the_input_takes_twice_the_lines(reader: str) -> None:
    makes = FORMS.inputs_of(reader)
    heaviest = sorted(makes, key=lambda name: lines_of(partial(FORMS.read, reader, makes[name](SIZE))))[-HEAVIEST:]
    assert [name for name in heaviest if grows_faster(reader, makes[name])] == []


def test_a_reader_that_takes_the_square_of_the_lines_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def square(text: str) -> int:
        places = text[::10]
        return sum(FORMS.marks.nothing(place) == place for place in places for _ in places)

    monkeypatch.setitem(FORMS.READERS, "square", square)
    assert grows_faster("square", FORMS.repeated("a"))
