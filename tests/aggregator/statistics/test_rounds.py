import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.rounds import rounds


@given(st.lists(st.integers(0, 6), max_size=80))
def test_every_round_holds_the_next_occurrence_of_every_row_in_order_of_position(rows: list[int]) -> None:
    found = [positions.tolist() for positions in rounds(np.array(rows, dtype=np.intp))]
    left = list(enumerate(rows))
    for positions in found:
        first = {row: position for position, row in reversed(left)}
        assert positions == sorted(first.values())
        left = [(position, row) for position, row in left if position not in positions]
    assert left == []
