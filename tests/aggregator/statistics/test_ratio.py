"""The ratio of two means: its interval holds whenever those of both means do, and the coverage is as stated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.intervals.intervals import Interval, ratio
from ragtide_aggregator.statistics.intervals.running import FIRST_GUESS, running_interval

pytestmark = pytest.mark.pure

MEAN = st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted)


@given(MEAN, MEAN, st.floats(0, 1), st.floats(0, 1))
def test_the_interval_holds_for_every_pair_of_means_in_their_intervals(
    above: list[float], below: list[float], a: float, b: float
) -> None:
    found = ratio(*(Interval(ends[1], ends[0], ends[2]) for ends in (above, below)))
    top, bottom = (ends[0] + at * (ends[2] - ends[0]) for ends, at in ((above, a), (below, b)))
    assert found.lower is not None
    if bottom > 0:
        assert found.lower <= top / bottom * (1 + 1e-9)
        assert found.upper is None or top / bottom <= found.upper * (1 + 1e-9)
    if found.estimate is not None:
        assert found.lower <= found.estimate * (1 + 1e-9)


def test_without_a_least_use_there_is_no_upper_end_and_without_use_no_ratio() -> None:
    assert ratio(Interval(0.8, 0.7, 0.9), Interval(0.1, 0.0, 0.2)).upper is None
    assert ratio(Interval(0.8, 0.7, 0.9), Interval(0.0, 0.0, 0.0)) == Interval(None, 0.0, None)
    with pytest.raises(ValueError, match="0 or more"):
        ratio(Interval(0.8, -0.1, 0.9), Interval(0.1, 0.05, 0.2))


def test_the_ratio_of_dependent_means_is_covered_at_every_look_as_stated() -> None:
    # Expensive answers are better here, so that quality and cost depend on each other.
    rng, runs, looks = np.random.default_rng(42), 200, np.array([50, 200, 1000, 3000])
    wrong = 0
    for _ in range(runs):
        good = rng.random(looks[-1]) < 0.7
        cost = np.where(good, 0.4, 0.2) * rng.random(looks[-1])
        truth = 0.7 / (0.5 * (0.7 * 0.4 + 0.3 * 0.2))
        ends = [_running(values, looks) for values in (good.astype(float), cost)]
        ratios = [ratio(Interval(*a), Interval(*b)) for a, b in zip(*ends, strict=True)]
        wrong += any(
            truth < (found.lower or 0.0) or (found.upper is not None and truth > found.upper) for found in ratios
        )
    assert wrong <= 0.1 * runs  # 1 - (2 * 0.95 - 1)


def _running(values: np.ndarray, looks: np.ndarray) -> list[tuple[float, float, float]]:
    means = np.cumsum(values) / np.arange(1, values.size + 1)
    before = np.concatenate([[FIRST_GUESS], means[:-1]])
    v = np.cumsum((values - before) ** 2)
    lower, upper = running_interval(means[looks - 1], looks, v[looks - 1], confidence=0.95)
    return list(zip(means[looks - 1].tolist(), lower.tolist(), upper.tolist(), strict=True))
