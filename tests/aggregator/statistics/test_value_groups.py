"""Bins of covariates, their groups, and the upper ends of normal shares."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from ragtide_aggregator.statistics.drift.value_groups import (
    MOST_BINS,
    MOST_GROUPS,
    OTHERS,
    NameBins,
    NumberBins,
    bins_read,
    total_variation,
    upper_shares,
)

NUMBERS = st.floats(-1e12, 1e12)
NAMES = st.sampled_from([f"topic {number}" for number in range(14)])


@given(first=st.lists(NUMBERS, min_size=1, max_size=60), later=st.lists(NUMBERS, max_size=30))
def test_each_number_is_in_one_bin_and_names_say_which(first: list[float], later: list[float]) -> None:
    bins = NumberBins.learned(first)
    edges = [-np.inf, bins.least, *bins.cuts, np.inf]
    assert len(bins.names) == len(bins.cuts) + 2 <= MOST_BINS
    for value, place in zip([*first, *later], bins.of([*first, *later]).tolist(), strict=True):
        lowest, highest = edges[place], edges[place + 1]
        assert (lowest <= value <= highest) if place == 1 else (value < highest if not place else lowest < value)
        assert place == 1 or value <= highest
    assert set(bins.of(first).tolist()) <= set(range(1, len(bins.cuts) + 1))
    assert bins_read(bins.dump()) == bins


@given(
    first=st.lists(st.integers(-200, 200), min_size=1, max_size=60), later=st.lists(st.integers(-200, 200), max_size=30)
)
def test_a_growing_transform_changes_no_bin(first: list[int], later: list[int]) -> None:
    def turned(value: int) -> float:
        return float(value) ** 3 - 5.0

    plain, other = NumberBins.learned([*map(float, first)]), NumberBins.learned([*map(turned, first)])
    assert plain.of(later).tolist() == other.of([*map(turned, later)]).tolist()
    assert np.array_equal(plain.members, other.members)


@given(first=st.lists(NAMES, min_size=1, max_size=60), later=st.lists(NAMES, max_size=30))
def test_the_most_frequent_names_have_bins_and_others_share_one(first: list[str], later: list[str]) -> None:
    bins = NameBins.learned(first)
    counts = [first.count(name) for name in bins.named]
    assert counts == sorted(counts, reverse=True)
    assert len(bins.named) == min(len(set(first)), MOST_BINS - 1)
    assert all(first.count(name) <= counts[-1] for name in set(first) - set(bins.named))
    for name, place in zip(later, bins.of(later).tolist(), strict=True):
        assert bins.names[place] == (name if name in bins.named else OTHERS)
    assert bins_read(bins.dump()) == bins


@given(first=st.lists(NUMBERS, min_size=1, max_size=60) | st.lists(NAMES, min_size=1, max_size=60))
def test_every_group_is_a_part_of_the_bins_and_single_bins_are_among_them(first: list[Any]) -> None:
    bins = NameBins.learned(first) if isinstance(first[0], str) else NumberBins.learned(first)
    members, used = bins.members, len(bins.groups)
    assert members.shape == (MOST_GROUPS, MOST_BINS)
    assert members[:used].any(axis=1).all()
    assert not members[used:].any()
    assert not members[:, len(bins.names) :].any()
    assert not members[:used, : len(bins.names)].all(axis=1).any()
    single = {tuple(row) for row in members[:used].tolist() if sum(row) == 1}
    assert len(single) == len(bins.names)


@pytest.mark.parametrize("shares", [[0.7, 0.2, 0.1], [0.02, 0.98, 0.0], [1 / 3, 1 / 3, 1 / 3]])
def test_the_ends_of_all_shares_hold_together(shares: list[float]) -> None:
    rng = np.random.default_rng(3)
    members = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=bool)
    truth = members @ np.array(shares)
    missed = 0
    for counts in rng.multinomial(80, shares, size=2_000):
        missed += bool(np.any(truth > upper_shares(counts.astype(float), members, 0.95) + 1e-12))
    assert missed / 2_000 <= 0.05


def test_the_end_of_one_share_is_exact() -> None:
    members = np.array([[1, 0]], dtype=bool)
    (end,) = upper_shares(np.array([7.0, 33.0]), members, 0.95)
    assert binom.cdf(7, 40, end) == pytest.approx(0.05)
    assert upper_shares(np.array([40.0, 0.0]), members, 0.95).tolist() == [1.0]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=50), st.lists(st.integers(0, 9), min_size=1, max_size=50))
def test_total_variation_is_the_largest_change_of_any_set(first: list[int], second: list[int]) -> None:
    before, since = (np.bincount(values, minlength=10) / len(values) for values in (first, second))
    assert total_variation(before, since) == pytest.approx((since - before)[since > before].sum(), abs=1e-12)
