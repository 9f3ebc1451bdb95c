from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.tables import sums
from ragtide_aggregator.statistics.tables.batches import grouped

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)
CUT = Fraction(1, 2**80)


def exact(values: list[float]) -> Fraction:
    """Return the sum of values, each cut at 2^-80."""
    return sum((Fraction(value) // CUT * CUT for value in values), Fraction(0))


def added(values: list[float]) -> sums.Limbs:
    state = np.zeros((3, 1), dtype=np.int64)
    batch = grouped(np.zeros(len(values), dtype=np.intp))
    sums.add(state, batch, sums.limbs(np.array(values)[batch.order]))
    return state


def as_fraction(state: sums.Limbs) -> Fraction:
    units, high, low = (int(part) for part in state[:, 0])
    return units + Fraction(high, 2**40) + Fraction(low, 2**80)


@given(VALUES)
def test_a_sum_is_exact(values: list[float]) -> None:
    state = added(values)
    assert as_fraction(state) == exact(values)
    # Rounded twice, so that it may be the neighbour of the nearest.
    assert abs(float(sums.as_floats(state)[0]) - float(exact(values))) <= 2.3e-16 * float(exact(values))


@given(VALUES, st.randoms(use_true_random=False))
def test_order_does_not_matter_to_a_sum(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert added(values).tolist() == added(shuffled).tolist()


@given(VALUES)
def test_the_sum_before_each_value_is_that_of_the_values_before(values: list[float]) -> None:
    batch = grouped(np.zeros(len(values), dtype=np.intp))
    before = sums.before(np.zeros((3, 1), dtype=np.int64), batch, sums.limbs(np.array(values)))
    np.testing.assert_allclose(before, [float(exact(values[:place])) for place in range(len(values))], rtol=3e-16)


def test_parts_carry_over() -> None:
    state = added([1 - 2**-40, 2**-40, 2**-60, 1 - 2**-53])
    assert as_fraction(state) == exact([1 - 2**-40, 2**-40, 2**-60, 1 - 2**-53])
    assert np.all(state[1:] < 2**40)
