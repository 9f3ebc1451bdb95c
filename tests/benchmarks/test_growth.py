"""The page of a growing partition: a row for each number of keys, a column for each look."""

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def growth() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("growth")


def size_of(growth: Any, keys: int) -> Any:
    looks = {name: growth.Look("200", keys / 1000, keys / 4000, keys / 4000, 1) for name in growth.NAMES}
    return growth.Size(keys, looks, 140.0, 4.5, 1.2, 133.0, 4.4)


def test_each_axis_has_a_value_for_each_column_and_a_row_for_each_size(growth: Any) -> None:
    sizes = [size_of(growth, keys) for keys in (996, 9996)]
    for axis in growth.axes(sizes):
        assert [row[0] for row in axis.rows] == [996, 9996]
        assert all(len(row) == len(axis.columns) > axis.drawn for row in axis.rows)


def test_the_page_says_how_much_each_cost_grew(growth: Any) -> None:
    lines = "\n".join(growth.page([size_of(growth, 1000), size_of(growth, 50_000)], "0.1"))
    assert "| **last / first** | 50 | 50 | 50 | 50 | 50 | 1 |" in lines
    assert "| **last / first** | 1 | 1 | 1 |" in lines
    assert "| 50,000 | 50 | 50 |" in lines
