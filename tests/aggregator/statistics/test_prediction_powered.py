from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable

Array = np.ndarray[Any, Any]
PAIRS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.05, 1)), min_size=1, max_size=30)


def table_of(pairs: list[tuple[float, float, float]]) -> PairTable:
    table = PairTable()
    row = table.add_row()
    true, cheap, probability = (np.array(part) for part in zip(*pairs, strict=True))
    table.update(np.full(len(pairs), row), true, cheap, probability)
    return table


def moments(values: Array) -> Moments:
    table = MomentTable()
    table.update(np.full(values.size, table.add_row()), values)
    return table.read([0])


def scored(moments: Moments | None) -> Everything | None:
    return None if moments is None else Everything.scored(moments)


def read(table: PairTable, everything: Moments | None = None) -> Powered:
    return table.read(np.array([0]), scored(everything), confidence=0.95)


@given(PAIRS)
def test_without_the_cheap_scores_it_is_the_weighted_mean(pairs: list[tuple[float, float, float]]) -> None:
    true, _, probability = np.transpose(pairs)
    assert read(table_of(pairs)).estimate[0] == pytest.approx(np.average(true, weights=1 / probability))


@given(PAIRS, st.integers(0, 30))
def test_cutting_storing_and_merging_change_nothing(pairs: list[tuple[float, float, float]], cut: int) -> None:
    cut = min(cut, len(pairs))
    whole = table_of(pairs)
    stored = PairTable()
    stored.add_row()
    if cut:
        stored.load(0, table_of(pairs[:cut]).to_bytes(0))
    if cut < len(pairs):
        true, cheap, probability = (np.array(part) for part in zip(*pairs[cut:], strict=True))
        stored.update(np.zeros(len(pairs) - cut, dtype=int), true, cheap, probability)
    assert stored.to_bytes(0) == whole.to_bytes(0)
    if 0 < cut < len(pairs):
        merged = table_of(pairs[:cut])
        merged.merge(0, table_of(pairs[cut:]), 0)
        assert read(merged).estimate[0] == pytest.approx(read(whole).estimate[0])
        assert merged.n(0) == len(pairs)


def test_a_perfect_cheap_labeler_gives_the_mean_of_everything() -> None:
    rng = np.random.default_rng(1)
    everything = rng.random(5000)
    sample = everything[:200]
    table = table_of([(value, value, 0.04) for value in sample])
    found = read(table, moments(everything))
    assert found.estimate[0] == pytest.approx(everything.mean(), abs=1e-9)
    assert found.k[0] == pytest.approx(1)
    assert found.n_effective[0] == pytest.approx(5000, rel=0.1)


def test_a_worthless_cheap_labeler_changes_nothing() -> None:
    table = table_of([(value, 0.5, 0.04) for value in np.random.default_rng(2).random(200)])
    found, alone = read(table, moments(np.full(5000, 0.5))), read(table)
    assert found.estimate[0] == alone.estimate[0]
    assert found.k[0] == 0
    assert found.n_effective[0] == pytest.approx(200, rel=0.01)


def test_everything_judged_is_the_plain_mean_whatever_the_cheap_labeler_says() -> None:
    """Where the formula for a sample apart from the rest would claim more than n items' worth."""
    rng = np.random.default_rng(3)
    true, cheap = rng.random(400), rng.random(400)
    cheap = 0.7 * true + 0.3 * cheap
    table = table_of([(y, f, 1.0) for y, f in zip(true, cheap, strict=True)])
    found = read(table, moments(cheap))
    assert found.estimate[0] == pytest.approx(true.mean())
    assert found.n_effective[0] == pytest.approx(400, rel=0.01)


def test_until_there_is_enough_the_whole_range_is_possible() -> None:
    found = read(table_of([(0.5, 0.4, 0.1)] * 5))
    assert (found.lower[0], found.upper[0]) == (0.0, 1.0)
    nothing = PairTable()
    nothing.add_row()
    assert np.isnan(read(nothing).estimate[0])
    assert read(nothing, moments(np.array([0.5]))).upper[0] == 1.0


@pytest.mark.parametrize(
    ("pair", "words"), [((1.5, 0, 1), "values"), ((0, float("inf"), 1), "values"), ((0, 0, 0), "probability")]
)
def test_what_is_out_of_range_is_refused(pair: tuple[float, float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table_of([pair])


def test_bytes_of_another_version_are_refused() -> None:
    table = table_of([(0.5, 0.5, 1.0)])
    with pytest.raises(ValueError, match="version"):
        table.load(0, b"\x09" + table.to_bytes(0)[1:])


def test_rows_of_the_first_version_are_read_as_pairs_with_both_scores() -> None:
    pairs = [(0.5, 0.25, 0.5), (1.0, 0.75, 0.25), (0.0, 0.5, 1.0)]
    y, f, p = np.transpose(pairs)
    w = 1 / p
    of_w = [y, f, y * y, f * f, y * f]
    sums = [3, w.sum(), (w * w).sum(), *[(w * x).sum() for x in of_w], *[(w * w * x).sum() for x in of_w]]
    table = PairTable()
    table.add_row()
    first = b"\x01" + np.array(sums).astype("<f8").tobytes()
    assert PairTable.bytes_in(first + b"more") == len(first)
    table.load(0, first)
    assert table.to_bytes(0) == table_of(pairs).to_bytes(0)


def test_with_one_answer_for_every_item_each_part_counts_as_often_as_it_occurs() -> None:
    rng = np.random.default_rng(11)
    reference = (rng.random(600) < 0.6).astype(float)
    proxy = np.clip(reference + 0.3 * rng.standard_normal(600), 0, 1)
    reference[rng.random(600) < 0.2] = np.nan
    proxy[:240] = np.nan
    table = table_of([(y, f, 1.0) for y, f in zip(reference, proxy, strict=True)])
    known = Everything(moments(proxy[240:]), np.array([240.0]))
    found = table.read(np.array([0]), known, confidence=0.95)
    told = ~np.isnan(reference)
    assert found.estimate[0] == pytest.approx(reference[told].mean())
    assert (found.n[0], found.n_absent[0]) == (told.sum(), (~told).sum())
    assert found.coverage[0] == pytest.approx(told.mean())
    assert found.proxy_coverage[0] == pytest.approx(0.6)
    # Everything is judged, so the estimate is worth as much as its answers.
    assert found.n_effective[0] == pytest.approx(told.sum(), rel=0.03)
