import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_aggregator.statistics.means import recent
from ragtide_aggregator.statistics.means.recent import RECENT_N, weighted
from ragtide_aggregator.statistics.tables.batches import grouped


def loop(values: list[float]) -> float:
    """Return the recent mean by its formula."""
    mean = 0.0
    for number, value in enumerate(values, 1):
        share = max(1 / number, 2 / RECENT_N)
        mean = (1 - share) * mean + share * value
    return mean


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.lists(st.sampled_from([1, 2, 31, 32, 33, 100, 300]), min_size=1, max_size=6),
    scale=st.sampled_from([1e-300, 1.0, 1e6]),
    long=st.sampled_from([RECENT_N // 2 + 1, recent.LONG, 10**9]),
    cut=st.floats(0, 1),
)
def test_rounds_and_one_value_after_the_other_are_the_formula_to_the_bit(
    seed: int, sizes: list[int], scale: float, long: int, cut: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = scale * rng.random(rows.size)
    found, counts = np.zeros(len(sizes)), np.zeros(len(sizes), dtype=np.intp)
    middle = int(cut * rows.size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "LONG", long)
        for part in (slice(0, middle), slice(middle, None)):
            batch = grouped(rows[part])
            n = batch.spread(counts[batch.rows]) + batch.occurrence
            found[batch.rows] = weighted(batch, values[part][batch.order], n, found[batch.rows])
            counts[batch.rows] += batch.counts
    assert found.tolist() == [loop(values[rows == row].tolist()) for row in range(len(sizes))]


def test_it_begins_as_the_plain_mean_and_forgets_later() -> None:
    values = np.arange(32) / 32
    batch = grouped(np.zeros(32, dtype=np.intp))
    assert weighted(batch, values, batch.occurrence, np.zeros(1))[0] == pytest.approx(np.mean(values))
    assert weighted(batch, np.ones(32), batch.occurrence + 1000, np.zeros(1))[0] == pytest.approx(1 - (31 / 32) ** 32)
