"""The numbers of a row table survive growth and bytes, merge as declared, and are checked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.tables import sums
from ragtide_aggregator.statistics.tables.row_table import ADD, LEAST, MOST, RowColumn, RowTable, add_exactly

pytestmark = pytest.mark.pure


class Sample(RowTable, version=3, what="samples", capacity=2):
    n = RowColumn(np.int64, merge=ADD, least=0)
    exact = RowColumn(np.int64, (2, 3), merge=add_exactly(1))
    first = RowColumn(np.float64, ("width",), merge=ADD, least=-np.inf, axis=0)
    low = RowColumn(np.float64, fill=np.inf, merge=LEAST)
    high = RowColumn(np.float64, fill=-np.inf, merge=MOST)
    known = RowColumn(np.bool_)
    seen = RowColumn(np.int64, stored=False)

    def __init__(self, width: int = 2) -> None:
        self.width = width
        super().__init__()

    def put(self, value: float) -> int:
        row = self.add_row()
        self.n[row], self.first[row], self.known[row], self.seen[row] = 1, value, value > 0.5, row
        self.exact[:, :, row] = sums.limbs(np.array([value, 1 - value])).T
        self.low[row] = self.high[row] = value
        return row


def numbers(table: Sample, row: int) -> list[object]:
    parts = (table.n[row], table.exact[:, :, row], table.first[row], table.low[row], table.high[row], table.known[row])
    return [part.tolist() for part in parts]


VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(VALUES)
def test_rows_survive_growth_and_bytes_one_by_one_or_together(values: list[float]) -> None:
    table, each, together = Sample(), Sample(), Sample()
    rows = np.array([table.put(value) for value in values])
    for row in rows.tolist():
        each.load(each.add_row(), table.to_bytes(row))
        together.add_row()
    assert table.bytes_of(rows) == [table.to_bytes(row) for row in rows.tolist()]
    together.load_rows(rows, b"".join(table.bytes_of(rows)))
    for row, value in enumerate(values):
        assert table.first[row].tolist() == [value, value]
        assert numbers(each, row) == numbers(together, row) == numbers(table, row)
    assert table.seen[: len(values)].tolist() == rows.tolist()
    assert not each.seen.any()


@given(VALUES)
def test_merging_takes_numbers_together_as_declared(values: list[float]) -> None:
    table, whole = Sample(), Sample()
    row = whole.add_row()
    for value in values:
        whole.merge(row, table, table.put(value))
    assert whole.n[row] == len(values)
    assert (whole.low[row], whole.high[row]) == (min(values), max(values))
    added = sum(np.moveaxis(table.exact[:, :, each], -1, 0) for each in range(len(values)))
    assert sums.as_floats(np.moveaxis(whole.exact[:, :, row], -1, 0)).tolist() == pytest.approx(
        sums.as_floats(sums.carried(np.asarray(added))).tolist(), abs=0
    )
    whole.clear(row)
    assert numbers(whole, row) == numbers(Sample(), 0)


def test_other_bytes_and_impossible_numbers_are_refused() -> None:
    table = Sample()
    row = table.put(0.25)
    data = table.to_bytes(row)
    for wrong in (b"", data[:-1], data + b"\0", b"\x09" + data[1:], Sample(3).to_bytes(Sample(3).put(0.1))):
        with pytest.raises(ValueError, match="samples"):
            table.load(row, wrong)
    with pytest.raises(ValueError, match="version"):
        table.load_rows(np.array([row]), b"\x09" + data[1:])
    for column, value in ((table.n, -1), (table.first, np.nan), (table.first, np.inf)):
        table.load(row, data)
        column[row] = value
        assert table.impossible(np.array([row])).tolist() == [True]
        with pytest.raises(ValueError, match="finite"):
            Sample().load(0, table.to_bytes(row))
    table.load(row, data)
    assert table.impossible(np.array([row])).tolist() == [False]
    assert (Sample(5).size, Sample().size) == (len(data) + 24, len(data))


def test_a_table_without_its_columns_says_so() -> None:
    with pytest.raises(AttributeError, match="__init__"):
        _ = Sample.__new__(Sample).n
