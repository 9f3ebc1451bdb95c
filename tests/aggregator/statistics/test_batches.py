import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.tables.batches import grouped

ROWS = st.lists(st.integers(0, 6), min_size=1, max_size=60).map(lambda rows: np.array(rows, dtype=np.intp))


@given(ROWS)
def test_values_of_a_row_stand_together_in_the_order_in_which_they_came(rows: np.ndarray) -> None:
    batch = grouped(rows)
    for row, start, count in zip(batch.rows, batch.starts, batch.counts, strict=True):
        assert batch.order[start : start + count].tolist() == np.flatnonzero(rows == row).tolist()
    assert sorted(batch.counts.tolist(), reverse=True) == batch.counts.tolist()


@given(ROWS)
def test_a_round_has_every_row_once_and_the_rows_of_the_next_come_first(rows: np.ndarray) -> None:
    batch = grouped(rows)
    seen = 0
    for number, here in enumerate(batch.rounds.slices()):
        assert batch.rounds.ranks[here].tolist() == list(range(here.stop - here.start))
        places = batch.rounds.order[here]
        assert np.all(batch.occurrence[places] == number)
        seen += places.size
    assert seen == rows.size
    widths = [width for start, end, width in batch.rounds.stretches() for _ in range(start, end, width)]
    assert widths == [here.stop - here.start for here in batch.rounds.slices()]


@given(ROWS)
def test_sums_before_and_of_whole_rows_are_those_of_a_loop(rows: np.ndarray) -> None:
    values = np.arange(1, rows.size + 1, dtype=np.int64) ** 2
    batch = grouped(rows)
    state = 10 * batch.rows
    before, sums = batch.before(values[batch.order], state), batch.sums(values[batch.order])
    running: dict[int, int] = {}
    expected = []
    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        expected.append(running.get(row, 0))
        running[row] = running.get(row, 0) + value
    assert before.tolist() == [10 * rows[position] + expected[position] for position in batch.order]
    assert dict(zip(batch.rows.tolist(), sums.tolist(), strict=True)) == running


def test_more_rows_than_sixteen_bits_are_sorted_too() -> None:
    rows = np.arange(70_000)[::-1].copy()
    assert grouped(rows).rows.tolist() == list(range(70_000))
