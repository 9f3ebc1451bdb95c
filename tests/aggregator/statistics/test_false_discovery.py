from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide_aggregator.statistics.drift.evidence import BETS, LARGEST_BET, SMALLEST_BET
from ragtide_aggregator.statistics.drift.false_discovery import (
    RESERVE,
    AlarmLevel,
    rejected,
)

EVIDENCE = st.lists(st.floats(0, 3) | st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0, float("inf")]), max_size=12)


@given(EVIDENCE, st.integers(0, 5))
def test_the_largest_number_alarms_whose_evidence_all_reaches_the_level_of_that_number(
    evidence: list[float], raised: int
) -> None:
    enough = [k for k in range(1, len(evidence) + 1) if sum(m * (raised + k) >= 1 for m in evidence) >= k]
    level = 1 / (raised + max(enough)) if enough else np.inf
    found = rejected(evidence, raised)
    assert int(found.sum()) == max(enough, default=0)
    assert found.tolist() == [bool(enough) and m >= level * (1 - 1e-12) for m in evidence]


@given(EVIDENCE, st.integers(0, 5), st.data())
def test_more_evidence_or_more_alarms_before_never_raise_fewer(
    evidence: list[float], raised: int, data: st.DataObject
) -> None:
    more = [m + data.draw(st.floats(0, 1)) for m in evidence]
    assert np.all(rejected(more, raised) >= rejected(evidence, raised))
    assert np.all(rejected(evidence, raised + 1) >= rejected(evidence, raised))


def e_benjamini_hochberg(e_values: list[float], rate: float, weights: list[float] | None = None) -> NDArray[np.bool_]:
    """Return which hypotheses e-BH rejects (Wang, Ramdas (2022), sections 4 and 5); weights add up to at most 1."""
    e = np.asarray(e_values)
    share = np.full(e.shape, 1 / e.size) if weights is None else np.asarray(weights)
    # No weight times an infinite e-value is no evidence.
    return rejected(np.multiply(rate * share, e, where=share > 0, out=np.zeros(e.shape)))


def test_without_alarms_before_it_is_e_bh() -> None:
    """Five e-values at 0.1: the levels are 50, 25, 16.7, 12.5 and 10; the third largest reaches its level."""
    assert e_benjamini_hochberg([17.0, 9.0, 1.0, 30.0, 20.0], rate=0.1).tolist() == [True, False, False, True, True]
    assert not e_benjamini_hochberg([49.0, 0.0, 0.0, 0.0, 0.0], rate=0.1).any()
    assert e_benjamini_hochberg([49.0, 0.0], rate=0.1, weights=[1.0, 0.0]).tolist() == [True, False]
    assert not e_benjamini_hochberg([np.inf, 1.0], rate=0.1, weights=[0.0, 1.0]).any()


@given(st.floats(0.01, 0.9), st.lists(st.floats(0, 50), min_size=1, max_size=6), st.integers(0, 30_000))
def test_costs_and_evidence_handed_on_never_exceed_the_rate(rate: float, held: list[float], count: int) -> None:
    level = AlarmLevel(rate, 1000)
    for period, evidence in enumerate(held):
        assert level.begins(1000 * period)
        handed_on = evidence * level.begin(1000 * period, evidence)
        assert handed_on == pytest.approx(min(evidence, RESERVE * rate))
        assert handed_on + float(level.spend(count).sum()) <= rate * (1 + 1e-9)


def test_each_alarm_lowers_the_level_until_the_next_period() -> None:
    level = AlarmLevel(0.1, 1000)
    level.begin(0, 0.0)
    assert (level.raised, level.level) == (0, 1.0)
    level.count(1)
    assert (level.raised, level.level) == (1, 0.5)
    level.count(0)
    level.count(2)
    assert (level.raised, level.level) == (3, 0.25)
    assert not level.begins(999)
    assert level.next_ms == 1000
    level.begin(1000, 0.2)
    assert (level.raised, level.level) == (0, 1.0)


@given(st.lists(st.lists(st.floats(0, 1), max_size=5), max_size=5))
def test_storing_in_between_changes_nothing(looks: list[list[float]]) -> None:
    whole, cut = AlarmLevel(0.1, 1000), AlarmLevel(0.1, 1000)
    for number, evidence in enumerate(looks):
        stored = AlarmLevel(0.1, 1000)
        stored.load(cut.to_bytes())
        cut = stored
        if whole.begins(400 * number):
            assert cut.begins(400 * number)
            assert whole.begin(400 * number, sum(evidence)) == cut.begin(400 * number, sum(evidence))
        assert whole.spend(7_000).tolist() == cut.spend(7_000).tolist()
        for one in (whole, cut):
            one.count(int(rejected(evidence, one.raised).sum()))
    assert whole.to_bytes() == cut.to_bytes()
    assert len(whole.to_bytes()) == 34


@pytest.mark.parametrize("data", [b"", b"\x09" * 34, AlarmLevel(0.1, 1).to_bytes()[:-1]])
def test_bytes_of_another_version_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="version"):
        AlarmLevel(0.1, 1).load(data)


@pytest.mark.parametrize("rate", [0.0, 1.0, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(ValueError, match="rate is"):
        AlarmLevel(rate, 1000)


def test_evidence_that_is_none_is_refused() -> None:
    for wrong in ([float("nan")], [-0.1], [[0.5]]):
        with pytest.raises(ValueError, match="evidence"):
            rejected(wrong)
    with pytest.raises(ValueError, match="held"):
        AlarmLevel(0.1, 1000).begin(0, float("nan"))
    with pytest.raises(ValueError, match="raised"):
        rejected([0.5], -1)


@cache
def least(watches: int, raised: int) -> float:
    """Return the smallest evidence with which so many watches alarm together."""
    low, high = 0.0, 2.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if rejected([middle] * watches, raised).all() else (middle, high)
    return high


@pytest.mark.simulation
@pytest.mark.parametrize("together", [False, True], ids=["independent", "one luck for all"])
@pytest.mark.parametrize("changed", [0, 4, 40])
def test_false_alarms_that_aim_at_the_level_make_up_no_more_than_the_rate(changed: int, together: bool) -> None:
    """The worst watches there can be: each puts all of its evidence on reaching just the level of the moment.

    Their M is a martingale plus its costs, and an alarm wastes nothing, so the bound is close: a procedure whose level
    falls any faster exceeds it.
    """
    rng = np.random.default_rng((changed, together))
    runs, looks, watches, rate = 4000, 40, 10, 0.2
    worst = np.zeros(runs)
    when = rng.integers(looks, size=(runs, changed))
    cost = rate / (looks * watches)
    raised, false = np.zeros(runs), np.zeros(runs)
    for look in range(looks):
        raised += np.count_nonzero(when == look, axis=1)
        for _ in range(1 if together else watches):
            together_now = watches if together else 1
            # All of a look's watches win or lose together, or each by itself.
            held = cost * together_now
            level = np.array([least(together_now, int(number)) for number in raised])
            wins = rng.random(runs) < held / (together_now * level)
            for run in np.flatnonzero(wins).tolist():
                found = int(np.count_nonzero(rejected(np.full(together_now, level[run]), int(raised[run]))))
                raised[run] += found
                false[run] += found
            worst = np.maximum(worst, false / np.maximum(raised, 1))
    error = worst.std() / np.sqrt(runs)
    assert worst.mean() <= rate + 3 * error
    assert worst.mean() >= 0.6 * rate


@pytest.mark.simulation
def test_few_quiet_periods_have_any_false_alarm_also_with_evidence_from_the_period_before() -> None:
    """20 watches at their limit that see the same items, over four periods of 300 items."""
    rng = np.random.default_rng(20261122)
    runs, watches, periods, items, rate, mean = 80, 20, 4, 300, 0.3, 0.8
    bets = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)
    levels = [AlarmLevel(rate, 1000) for _ in range(runs)]
    m = np.zeros((runs, watches, BETS))
    with_alarm = np.zeros((periods, runs))
    handed_on = 0.0
    for period in range(periods):
        held = m.mean(axis=2).sum(axis=1)
        m *= np.array([level.begin(1000 * period, float(sum_)) for level, sum_ in zip(levels, held, strict=True)])[
            :, None, None
        ]
        handed_on = max(handed_on, float(m.mean(axis=2).sum(axis=1).max()))
        costs = np.array([level.spend(items * watches) for level in levels]).reshape(runs, items, watches, 1)
        for item in range(items):
            # Half of the watches see the item, each with the same luck.
            x = np.broadcast_to(rng.random((runs, 1)) < mean, (runs, watches))
            pays = 1 + ((mean - x) / (1 - mean))[..., None] * bets
            sees = (rng.random((runs, watches)) < 0.5)[..., None]
            m = np.where(sees, (m + costs[:, item]) * pays, m)
            for run in np.flatnonzero(m.mean(axis=2).sum(axis=1) >= 1 / (watches + 1)).tolist():
                found = rejected(m[run].mean(axis=1), levels[run].raised)
                levels[run].count(int(found.sum()))
                m[run][found] = 0
                with_alarm[period, run] = max(with_alarm[period, run], found.any())
    assert handed_on == pytest.approx(RESERVE * rate)
    assert 0 < with_alarm.mean() <= rate
