"""A change of a mean split into mix and within: sums, groups, names, and what cannot be named."""

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_aggregator.statistics.causes.explained_change import (
    RARE_VALUES,
    ExplainedChange,
    explained_change,
    explains_most,
)
from ragtide_aggregator.statistics.causes.mix_shift import DesignEffects, split_change
from ragtide_aggregator.statistics.causes.mix_verdict import mix_verdict
from ragtide_aggregator.statistics.causes.standardized import standardized_mean
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments, stretches
from ragtide_aggregator.statistics.tables.batches import Floats

NAMES = ("lang=de", "lang=en", "lang=fr")


def yes_no(n: Any, mean: Any) -> SegmentMoments:
    """Return moments of yes-or-no scores."""
    ns, means = np.asarray(n, dtype=float), np.asarray(mean, dtype=float)
    return SegmentMoments.of(ns, means, ns * means * (1 - means))


def explained(before: tuple[Any, Any], since: tuple[Any, Any], **options: Any) -> ExplainedChange:
    return explained_change(NAMES[: len(before[0])], yes_no(*before), yes_no(*since), **options)


def test_the_segment_that_explains_most_is_the_one_with_unequal_parts() -> None:
    before, since = ([600, 4400], [0.55, 0.9]), ([1240, 2760], [0.55, 0.9])
    lang = explained(before, since)
    channel = explained(([2500, 2500], [0.858, 0.858]), ([2000, 2000], [0.79, 0.79]))
    assert (lang.certain > 0.03, channel.certain) == (True, 0)
    assert explains_most({"channel": channel, "lang": lang}) == "lang"


def test_moments_are_those_of_the_items() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random((3, 40))
    found = SegmentMoments.of([40, 40, 40], scores.mean(axis=1), scores.var(axis=1) * 40)
    pooled = found.pooled(np.array([True, False, True]))
    both = scores[[0, 2]].ravel()
    assert pooled.n.tolist() == [0, 40, 0, 80]
    assert pooled.mean[3] == pytest.approx(both.mean())
    assert pooled.m2[3] == pytest.approx(both.var() * 80)
    assert found.overall == pytest.approx(scores.mean())


def test_the_intrinsic_time_is_the_mean_over_all_orders() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(12)
    orders = rng.permuted(np.tile(scores, (20_000, 1)), axis=1)
    before = np.cumsum(orders, axis=1)[:, :-1] / np.arange(1, 12)
    v = (orders[:, 0] - 0.5) ** 2 + ((orders[:, 1:] - before) ** 2).sum(axis=1)
    found = SegmentMoments.of([12, 1, 0], [scores.mean(), 0.8, 0], [scores.var() * 12, 0, 0]).v
    assert found[0] == pytest.approx(v.mean(), rel=0.01)
    assert found[1:].tolist() == pytest.approx([0.09, 0.0])


@settings(max_examples=30)
@given(
    before=st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1, width=16)), min_size=1, max_size=8),
    since=st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1, width=16)), min_size=8, max_size=8),
)
def test_mix_and_within_add_up_to_the_change_of_the_mean(before: Any, since: Any) -> None:
    one, other = (
        yes_no(*zip(*rows, strict=True)) if sum(n for n, _ in rows) else None for rows in (before, since[: len(before)])
    )
    if one is None or other is None:
        return
    parts = split_change(stretches(one, other), alpha=0.05)
    assert float(parts.mix.estimate + parts.within.estimate) == pytest.approx(float(other.overall - one.overall))
    assert float(parts.mix.estimate - parts.within.estimate) == pytest.approx(float(parts.mix_minus_within.estimate))
    found = explained_change([str(k) for k in range(one.n.size)], one, other)
    assert sum(part.mix for part in found.segments) == pytest.approx(found.mix.estimate, abs=1e-9)
    assert sum(part.within for part in found.segments) == pytest.approx(found.within.estimate, abs=1e-9)
    assert found.mix.lower - 1e-9 <= found.mix.estimate <= found.mix.upper + 1e-9


def test_the_standard_is_the_mean_of_before_and_the_share_of_now() -> None:
    parts = split_change(stretches(yes_no([500, 500], [0.9, 0.5]), yes_no([200, 800], [0.8, 0.6])), alpha=0.05)
    assert float(parts.mix.estimate) == pytest.approx(0.2 * 0.9 + 0.8 * 0.5 - 0.7)
    assert float(parts.within.estimate) == pytest.approx(0.2 * -0.1 + 0.8 * 0.1)


def test_dependence_makes_each_interval_wider_by_its_own_part() -> None:
    found = stretches(yes_no([500, 500], [0.9, 0.5]), yes_no([500, 500], [0.9, 0.5]))
    plain = split_change(found, alpha=0.05)
    scores = split_change(found, alpha=0.05, effects=DesignEffects(scores=3))
    segments = split_change(found, alpha=0.05, effects=DesignEffects(segments=3))
    assert float(scores.within.half_width) > 1.5 * float(plain.within.half_width)
    assert float(scores.mix.half_width) == pytest.approx(float(plain.mix.half_width))
    assert float(segments.within.half_width) == pytest.approx(float(plain.within.half_width))
    assert float(segments.mix.half_width) > 1.5 * float(plain.mix.half_width)
    with pytest.raises(ValueError, match="give 1 or more"):
        split_change(found, alpha=0.05, effects=DesignEffects(scores=0.5))


def test_more_of_a_weak_segment_is_mix() -> None:
    found = explained(([600, 4400], [0.55, 0.9]), ([1240, 2760], [0.55, 0.9]))
    assert (found.verdict, found.spread) == ("mix", None)
    assert in_words(found) == "mostly mix: more lang=de (12% to 31%)"
    assert found.at_shares_before.estimate == pytest.approx(found.mean[0])
    assert found.at_shares_before.lower < found.mean[0] < found.at_shares_before.upper


def test_the_same_fall_everywhere_is_within_all_segments() -> None:
    found = explained(([1500, 2000, 1500], [0.85, 0.9, 0.8]), ([1500, 2000, 1500], [0.7, 0.75, 0.65]))
    assert (found.verdict, found.spread) == ("within", "all")
    assert in_words(found) == "within all segments"


def test_a_fall_of_one_segment_names_it() -> None:
    found = explained(([1500, 2000, 1500], [0.86, 0.9, 0.8]), ([1500, 2000, 1500], [0.61, 0.9, 0.8]))
    assert (found.verdict, found.spread) == ("within", "few")
    assert [segment.name for segment in found.segments if segment.is_carrier] == ["lang=de"]
    assert found.segments[0].name == "lang=de"
    assert in_words(found) == "within lang=de (0.86 to 0.61)"


def test_a_fall_everywhere_that_is_worst_in_one_segment_says_both() -> None:
    found = explained(([3000, 4000, 3000], [0.9, 0.9, 0.9]), ([3000, 4000, 3000], [0.4, 0.75, 0.75]))
    assert in_words(found) == "within all segments, most in lang=de (0.9 to 0.4)"


def test_both_causes_are_named_with_their_sizes() -> None:
    found = explained(([600, 4400], [0.5, 0.9]), ([2000, 2000], [0.35, 0.75]))
    assert found.verdict == "both"
    assert in_words(found).startswith("both: mix -0.152, more lang=de (12% to 50%)")
    assert in_words(found).endswith("within all segments -0.150")


def test_opposite_parts_that_cancel_are_both_named() -> None:
    found = explained(([1000, 4000], [0.5, 0.9]), ([2500, 2500], [0.62, 1.0]))
    assert found.verdict == "both"
    assert abs(found.total.estimate) < 0.02
    assert found.mix.upper < 0 < found.within.lower


def test_nothing_happened_is_said_only_with_enough_items() -> None:
    few = explained(([500, 500], [0.8, 0.9]), ([100, 100], [0.8, 0.9]))
    assert few.verdict == "unresolved"
    assert in_words(few) == f"not resolved: this much data can name a change of {few.resolution:.2g} or more"
    many = explained(([50_000, 50_000], [0.8, 0.9]), ([50_000, 50_000], [0.8, 0.9]))
    assert in_words(many) == "neither: mix and change within segments are both smaller than 0.02"


def test_of_one_certain_part_beside_an_unknown_one_the_sentence_says_which() -> None:
    found = explained(([60, 1940], [0.4, 0.95]), ([150, 350], [0.25, 0.9]))
    assert found.verdict == "unresolved"
    assert in_words(found).startswith("mix -0.148, more lang=de (3% to 30%)")
    assert "not resolved: change within segments (" in in_words(found)


def test_a_segment_that_was_not_there_is_mix() -> None:
    found = explained(([0, 5000], [0, 0.9]), ([1000, 4000], [0.3, 0.9]))
    assert in_words(found) == "mostly mix: more lang=de (0% to 20%)"
    new = found.segments[0]
    assert (new.is_new, new.change, new.mean) == (True, None, (None, 0.3))


def test_a_segment_that_is_gone_is_mix() -> None:
    found = explained(([1500, 3500], [0.3, 0.9]), ([0, 3000], [0, 0.9]))
    assert in_words(found) == "mostly mix: less lang=de (30% to 0%)"


def test_values_of_which_each_is_rare_are_one_group() -> None:
    users = 1000
    before, since = yes_no(np.full(users, 4), np.full(users, 0.9)), yes_no(np.full(users, 3), np.full(users, 0.7))
    found = explained_change([f"user={k}" for k in range(users)], before, since)
    assert [segment.name for segment in found.segments] == [RARE_VALUES]
    assert found.verdict == "within"
    assert found.mix.estimate == pytest.approx(0)


def test_a_single_segment_value_has_no_mix() -> None:
    found = mix_verdict(stretches(yes_no([4000], [0.9]), yes_no([4000], [0.7])))
    assert found.verdict == "within"
    assert float(found.parts.mix.estimate) == pytest.approx(0)
    assert found.spread is not None
    assert (found.spread.spread, found.spread.resolution) == (None, np.inf)


def test_numbers_are_in_the_unit_of_the_metric() -> None:
    before, since = ([600, 4400], [0.55, 0.9]), ([1240, 2760], [0.55, 0.9])
    plain, scaled = explained(before, since), explained(before, since, value_range=(10.0, 30.0), min_effect=0.4)
    assert scaled.mean[0] == pytest.approx(10 + 20 * plain.mean[0])
    assert astuple(scaled.mix) == pytest.approx(tuple(20 * number for number in astuple(plain.mix)))
    assert scaled.resolution == pytest.approx(20 * plain.resolution)
    assert scaled.verdict == plain.verdict


@pytest.mark.parametrize(
    ("n", "mean", "m2"),
    [
        ([0, 0], [0, 0], [0, 0]),
        ([-1, 2], [0, 0], [0, 0]),
        ([1, 1], [2, 0], [0, 0]),
        ([1, 1], [0, 0], [-1, 0]),
        ([1], [0, 0], [0, 0]),
    ],
)
def test_moments_that_no_items_have_are_refused(n: Any, mean: Any, m2: Any) -> None:
    with pytest.raises(ValueError, match=r"n holds|mean holds|differ in shape"):
        SegmentMoments.of(n, mean, m2)


def test_other_segment_values_in_each_stretch_are_refused() -> None:
    with pytest.raises(ValueError, match="different segment values"):
        stretches(yes_no([5], [0.5]), yes_no([5, 5], [0.5, 0.5]))
    with pytest.raises(ValueError, match="confidence is"):
        mix_verdict(stretches(yes_no([5], [0.5]), yes_no([5], [0.5])), confidence=1.0)


def test_the_mean_at_fixed_shares_does_not_move_with_the_mix() -> None:
    shares = [0.12, 0.88]
    moved = yes_no([[600, 4400], [3000, 2000]], [[0.55, 0.9], [0.55, 0.9]])
    found = standardized_mean(moved, shares, alpha=0.05)
    assert found.estimate.tolist() == pytest.approx([0.858, 0.858])
    assert moved.overall.tolist() == pytest.approx([0.858, 0.69])
    assert np.all((found.lower < 0.858) & (found.upper > 0.858))
    # At its own shares it is about as certain as the plain mean, and less where an item must stand for more.
    assert found.standard_error[0] == pytest.approx((0.858 * 0.142 / 5000) ** 0.5, rel=0.15)


def test_a_share_without_items_leaves_its_mean_open() -> None:
    found = standardized_mean(yes_no([0, 5000], [0, 0.9]), [0.1, 0.9], alpha=0.05)
    assert float(found.covered) == pytest.approx(0.9)
    assert float(found.estimate) == pytest.approx(0.9)
    assert float(found.lower) < 0.81
    assert float(found.upper) > 0.91
    none = standardized_mean(yes_no([0, 10], [0, 0.9]), [1, 0], alpha=0.05)
    assert (np.isnan(float(none.estimate)), float(none.lower), float(none.upper)) == (True, 0.0, 1.0)


@pytest.mark.parametrize("shares", [[-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]])
def test_shares_that_are_none_are_refused(shares: Floats) -> None:
    with pytest.raises(ValueError, match="shares holds"):
        standardized_mean(yes_no([5, 5], [0.5, 0.5]), shares, alpha=0.05)
    with pytest.raises(ValueError, match="design_effect is"):
        standardized_mean(yes_no([5, 5], [0.5, 0.5]), [1, 1], alpha=0.05, design_effect=0.0)
