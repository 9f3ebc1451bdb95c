from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragtide import confidence_sequence
from ragtide_aggregator.statistics.comparisons.comparing import PairedComparison, difference
from ragtide_aggregator.statistics.comparisons.two_streams import stream_difference
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import Moments, MomentTable

Array = np.ndarray[Any, Any]


def moments(values: Array) -> Moments:
    table = MomentTable()
    table.update(np.full(values.size, table.add_row()), values)
    return table.read([0])


def test_the_difference_of_two_streams_holds_both_intervals_at_once() -> None:
    rng = np.random.default_rng(1)
    a, b = moments(rng.beta(8, 2, 800)), moments(rng.beta(5, 5, 600))
    found = difference(a, b, confidence=0.95, width=2.0)
    assert found.estimate == pytest.approx(2 * (a.mean[0] - b.mean[0]))
    assert found.lower < 2 * 0.3 < found.upper
    assert found.verdict == "higher"
    mirrored = difference(b, a, confidence=0.95, width=2.0)
    assert (mirrored.lower, mirrored.upper) == pytest.approx((-found.upper, -found.lower))
    assert mirrored.verdict == "lower"
    assert difference(a, a, confidence=0.95).verdict == "undecided"


def test_streams_without_a_common_item_have_one_joint_interval() -> None:
    rng = np.random.default_rng(5)
    a, b = (moments((rng.random(1000) < mean).astype(float)) for mean in (0.85, 0.8))
    two, joint = (difference(a, b, confidence=0.95, width=2.0, separate=separate) for separate in (False, True))
    assert joint.estimate == two.estimate
    assert joint.upper - joint.lower < 0.75 * (two.upper - two.lower)
    assert joint.lower < 2 * 0.05 < joint.upper
    ends = stream_difference(a, b, confidence=0.95)
    assert (joint.lower, joint.upper) == tuple(2.0 * end[0] for end in ends)


def test_clusters_and_counts_keep_the_difference_of_two_intervals() -> None:
    a, b = moments(np.array([0.0, 1.0] * 100)), moments(np.array([0.0, 1.0, 1.0] * 80))
    table = ClusterTable()
    table.update(np.full(100, table.add_row()), np.ones(100, dtype=np.int64) * 2, np.ones(100))
    clustered = replace(a, clusters=table.read(np.array([0])))
    for one, counts in ((clustered, False), (a, True)):
        found = difference(one, b, confidence=0.95, counts=counts, separate=True)
        assert found == difference(one, b, confidence=0.95, counts=counts)


def test_a_difference_needs_values_of_both() -> None:
    with pytest.raises(ValueError, match="no values yet"):
        difference(moments(np.array([])), moments(np.array([0.5])), confidence=0.95)


def test_paired_scores_decide_sooner_than_two_streams() -> None:
    rng = np.random.default_rng(2)
    hard = rng.random(150)
    a, b = np.clip(0.9 * hard + 0.1, 0, 1), np.clip(0.9 * hard, 0, 1)
    race = PairedComparison(2)
    race.update(np.stack([a, b], axis=1))
    assert race.differences()[0, 1, 0] > 0
    assert difference(moments(a), moments(b), confidence=0.95).verdict == "undecided"


def test_the_best_is_not_ruled_out_and_the_worst_is() -> None:
    rng = np.random.default_rng(3)
    means = np.array([0.3, 0.5, 0.7, 0.705])
    for strategy in ("betting", "empirical_bernstein", "running"):
        race = PairedComparison(4, population=3000, strategy=strategy)
        scores = (rng.random((600, 1)) < means).astype(float)
        race.update(scores)
        standings = race.standings()
        assert standings[0].may_be_best is False
        assert standings[2].may_be_best
        assert standings[3].may_be_best
        assert race.n == 600
        best = next(standing for standing in standings if standing.behind is None)
        assert best.mean == max(standing.mean for standing in standings)


def test_lower_may_be_better_and_a_margin_forgives() -> None:
    scores = np.tile([[0.2, 0.3]], (300, 1))
    race = PairedComparison(2, higher_is_better=False)
    race.update(scores)
    assert [standing.may_be_best for standing in race.standings()] == [True, False]
    forgiving = PairedComparison(2, higher_is_better=False, margin=0.2)
    forgiving.update(scores)
    assert [standing.may_be_best for standing in forgiving.standings()] == [True, True]


def test_all_pairs_hold_at_once() -> None:
    scores = np.random.default_rng(6).random((50, 3))
    race = PairedComparison(3, confidence=0.9)
    race.update(scores)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        shifted = (scores[:, i] - scores[:, j] + 1) / 2
        alone = confidence_sequence("betting", shifted, confidence=1 - 0.1 / 3)[-1]
        np.testing.assert_allclose(race.differences()[i, j], 2 * alone - 1, atol=1e-12)


def test_when_all_items_are_seen_the_difference_is_known() -> None:
    rng = np.random.default_rng(4)
    scores = rng.random((80, 3)) * 10
    race = PairedComparison(3, population=80, value_range=(0, 10))
    race.update(scores)
    means = scores.mean(axis=0)
    for i in range(3):
        for j in range(3):
            np.testing.assert_allclose(race.differences()[i, j], means[i] - means[j], atol=1e-9)


@pytest.mark.parametrize("strategy", ["betting", "empirical_bernstein", "running"])
def test_a_comparison_goes_on_from_its_bytes_to_the_bit(strategy: str) -> None:
    scores = np.random.default_rng(5).random((60, 3))
    whole, first, second = (PairedComparison(3, population=80, strategy=strategy) for _ in range(3))
    whole.update(scores)
    first.update(scores[:25])
    second.load(first.to_bytes())
    second.update(scores[25:])
    assert second.to_bytes() == whole.to_bytes()
    np.testing.assert_array_equal(second.differences(), whole.differences())
    with pytest.raises(ValueError, match="cannot read"):
        PairedComparison(2, strategy=strategy).load(whole.to_bytes())


@pytest.mark.simulation
def test_no_difference_is_seldom_taken_for_one() -> None:
    """At 80%, looked at after every item: of 100 races of three equals at most 20 may be decided."""
    rng = np.random.default_rng(20261121)
    wrong = 0
    for _ in range(100):
        race = PairedComparison(3, confidence=0.8, strategy="empirical_bernstein")
        scores = (rng.random((200, 3)) < 0.7).astype(float)
        for item in range(0, 200, 4):
            race.update(scores[item : item + 4])
            if not all(standing.may_be_best for standing in race.standings()):
                wrong += 1
                break
    assert wrong <= 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"count": 1}, "count is 1"),
        ({"strategy": "normal"}, "does not apply"),
        ({"margin": -1}, "margin is -1"),
        ({"value_range": (1, 0)}, "value_range"),
        ({"confidence": 0}, "confidence is 0"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"count": 2, **arguments}
    with pytest.raises(ValueError, match=words):
        PairedComparison(given.pop("count"), **given)


@pytest.mark.parametrize(("scores", "words"), [([[0.5]], "shape"), ([[0.5, 1.5]], "outside"), ([0.5, 0.5], "shape")])
def test_wrong_scores_are_refused_and_nothing_is_added(scores: Any, words: str) -> None:
    race = PairedComparison(2)
    with pytest.raises(ValueError, match=words):
        race.update(scores)
    assert race.n == 0
