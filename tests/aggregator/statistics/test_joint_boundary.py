"""The error of a difference of two means: both sums of deviations together, at every look at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.intervals.joint_boundary import Deviations, joint_half_width
from ragtide_aggregator.statistics.intervals.running import boundary
from ragtide_aggregator.statistics.tables.batches import Floats

NOTHING = Deviations(np.array(0.0), np.array(0.0))
TIMES = st.floats(0, 1e6)
SCALES = st.floats(0.001, 2)


def deviations(scale: float, v: float) -> Deviations:
    """Return deviations with an intrinsic time in units of the squared scale."""
    return Deviations(np.array(scale), np.array(v * scale**2))


@pytest.mark.parametrize("v", [0.0, 1.0, 25.0, 2550.0, 1e6, 1e9])
def test_with_one_stream_it_is_the_boundary_of_the_running_interval(v: float) -> None:
    found = float(joint_half_width(deviations(1, v), NOTHING, alpha=0.05))
    alone = float(boundary(v, alpha_side=0.025))
    # A quarter of the weight is on no bet, which costs log(4/3) of the evidence.
    assert 0.998 * alone < found <= 1.08 * alone


@given(one=st.tuples(SCALES, TIMES), other=st.tuples(SCALES, TIMES))
def test_it_is_at_least_the_larger_boundary_and_little_more_than_both_at_worst(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    both = float(joint_half_width(deviations(*one), deviations(*other), alpha=0.05))
    alone = [scale * float(boundary(v, alpha_side=0.025)) for scale, v in (one, other)]
    halved = [scale * float(boundary(v, alpha_side=0.0125)) for scale, v in (one, other)]
    assert max(alone) * 0.99 <= both
    assert both <= 1.2 * sum(halved)
    turned = float(joint_half_width(deviations(*other), deviations(*one), alpha=0.05))
    assert turned == pytest.approx(both, rel=1e-3)


@given(scale=SCALES, v=TIMES, unit=st.floats(0.01, 100))
def test_it_has_the_unit_of_the_estimate(scale: float, v: float, unit: float) -> None:
    one, other = deviations(scale, v), deviations(scale / 2, v / 3)
    changed = [Deviations(unit * each.scale, unit**2 * each.v) for each in (one, other)]
    found = float(joint_half_width(one, other, alpha=0.1))
    assert float(joint_half_width(changed[0], changed[1], alpha=0.1)) == pytest.approx(unit * found, rel=1e-5)


def test_two_equal_streams_cost_a_fifth_less_than_two_boundaries() -> None:
    v = np.array([5.0, 25.0, 255.0])
    one = Deviations(np.ones(3), v)
    # The more items, the more of the price is for being tuned to V = 25.
    ratio = joint_half_width(one, one, alpha=0.05) / (2 * boundary(v, alpha_side=0.0125))
    assert np.all((ratio > 0.65) & (ratio < 0.82))


@pytest.mark.simulation
def test_of_two_streams_looked_at_in_any_order_few_differences_ever_leave_it() -> None:
    """Seeded: 400 pairs of yes-or-no streams that grow at rates of their own; 5% and two standard errors of it."""
    rng = np.random.default_rng(11)
    runs, length, p = 400, 1_000, 0.85
    looks = np.arange(29, length, 10)
    found = []
    for rate in (1, 3):
        x = (rng.random((runs, length * rate)) < p) - p
        s, v = x.cumsum(axis=1), (x**2).cumsum(axis=1)
        places = (looks + 1) * rate - 1
        n = places + 1.0
        found.append((s[:, places] / n, Deviations(p / n + 0 * s[:, places], v[:, places] / n**2)))
    (first, one), (second, other) = found
    wrong: Floats = np.abs(first - second) > joint_half_width(one, other, alpha=0.05)
    assert wrong.any(axis=1).mean() <= 0.05 + 2 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.parametrize(
    ("alpha", "v_opt", "v"), [(0.0, 25.0, 1.0), (1.0, 25.0, 1.0), (0.1, 0.0, 1.0), (0.1, 25.0, -1.0)]
)
def test_arguments_out_of_range_are_refused(alpha: float, v_opt: float, v: float) -> None:
    with pytest.raises(ValueError, match=r"alpha is|v_opt is|negative"):
        joint_half_width(deviations(1, v), NOTHING, alpha=alpha, v_opt=v_opt)
