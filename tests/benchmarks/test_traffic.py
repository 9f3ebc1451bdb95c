"""The simulated traffic has the parameters that it states."""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from traffic.habits import Habits, habitual
from traffic.luck import beta_luck, design_effect, intraclass_correlation, moved
from traffic.scenarios import CAMPAIGN, SCENARIOS, named
from traffic.schedules import DAY_S, PER_DAY
from traffic.scores import MEAN, SEGMENT, Change
from traffic.stream import Traffic, joined

pytestmark = pytest.mark.simulation

EVERY = pytest.mark.parametrize("scenario", [*SCENARIOS, CAMPAIGN], ids=lambda one: one.name)
RUNS, N = 60, 4_000


def drawn(name: str, change: Change | None = None, seed: int = 1) -> Traffic:
    return named(name).draw(np.random.default_rng(seed), RUNS, N, change)


def off(values: Any, means: Any) -> float:
    """Return how many standard errors, over runs, values are off their means."""
    rest = np.mean(values - means, axis=1)
    return float(abs(rest.mean()) / (rest.std(ddof=1) / sqrt(rest.size)))


@EVERY
def test_scores_have_the_mean_that_the_traffic_states(scenario: Any) -> None:
    traffic = scenario.draw(np.random.default_rng(2), RUNS, N)
    assert off(traffic.value, traffic.mean) < 4
    assert np.mean(traffic.mean) == pytest.approx(scenario.quality.baseline, abs=0.002)
    assert traffic.value.min() >= 0
    assert traffic.value.max() <= 1


@EVERY
def test_a_seed_gives_the_same_traffic_again(scenario: Any) -> None:
    first, again, other = (scenario.draw(np.random.default_rng(seed), 3, 500) for seed in (7, 7, 8))
    for name in ("time_s", "labeled_s", "value", "truth", "mean", "session", "turn", "user", "batch"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.value, other.value)


@pytest.mark.parametrize(
    ("name", "icc", "size"),
    [
        ("sessions of 3, icc 0.1", 0.1, 3),
        ("sessions of 5, icc 0.2", 0.2, 5),
        ("sessions of 5, icc 0.2, 20 at once", 0.2, 5),
        ("sessions of 5, icc 0.5, 20 at once", 0.5, 5),
        ("batches of 50, icc 0.1", 0.1, 50),
    ],
)
def test_clusters_have_the_size_and_the_correlation_of_the_issue(name: str, icc: float, size: int) -> None:
    traffic, cluster = drawn(name), named(name).cluster
    codes = traffic.clusters(cluster)
    assert intraclass_correlation(traffic.value, traffic.mean, codes) == pytest.approx(icc, abs=0.02)
    assert design_effect(traffic.value, traffic.mean, codes) == pytest.approx(1 + (size - 1) * icc, rel=0.06)
    # The first are in their middle when a run begins, and the last when it ends.
    assert set(np.bincount(codes[0])[codes[0, 1_000:2_000]]) == {size}
    if cluster == "session":
        assert set(np.unique(traffic.turn)) == set(range(size))


def test_what_is_said_to_be_independent_is() -> None:
    traffic = drawn("independent")
    rest = traffic.value - traffic.mean
    lagged = np.mean(rest[:, 1:] * rest[:, :-1]) / np.mean(rest**2)
    assert abs(lagged) < 4 / sqrt(rest.size)


def test_as_many_sessions_are_open_as_stated() -> None:
    session = drawn("sessions of 5, icc 0.2, 20 at once").session
    begun = [np.intersect1d(run[:2_000], run[2_000:]).size for run in session]
    assert max(begun) <= 20
    # Of an open session five turns are equally near, and before the first it has not begun.
    assert np.mean(begun) == pytest.approx(20 * 4 / 5, abs=1)


@pytest.mark.parametrize("swing", [0.02, 0.05])
def test_day_and_night_swing_as_stated(swing: float) -> None:
    traffic = drawn(f"day and night, 0.85 +- {swing:g}")
    assert traffic.mean.max() == pytest.approx(MEAN + swing, abs=1e-6)
    assert traffic.mean.min() == pytest.approx(MEAN - swing, abs=1e-6)
    by_day = np.arange(N) % PER_DAY < PER_DAY / 2
    difference = np.mean(traffic.value[:, by_day]) - np.mean(traffic.value[:, ~by_day])
    assert difference == pytest.approx(4 / np.pi * swing, abs=4 * sqrt(MEAN * (1 - MEAN) * 4 / (RUNS * N)))


def test_sessions_users_and_days_of_a_chat_are_as_their_sources_say() -> None:
    habits = Habits()
    schedule = habitual(np.random.default_rng(3), 40, 10_000, habits=habits)
    turns = np.concatenate([np.bincount(run)[:-200] for run in schedule.session])
    turns = turns[turns > 0]
    assert np.mean(turns) == pytest.approx(habits.turns, rel=0.03)
    assert np.mean(turns == 1) == pytest.approx(1 / habits.turns, abs=0.02)
    sessions = [np.unique(run).size for run in schedule.session]
    users = [np.unique(run).size for run in schedule.user]
    # Some of the users ask nothing in a run that is cut.
    assert np.sum(sessions) / np.sum(users) == pytest.approx(habits.sessions_per_user, rel=0.35)
    assert np.all(np.diff(schedule.time_s, axis=1) >= 0)
    assert np.mean(schedule.time_s[:, -1]) == pytest.approx(10_000 / PER_DAY * DAY_S, rel=0.05)
    hours = np.bincount((schedule.time_s.ravel() % DAY_S / 3_600).astype(int), minlength=24) / schedule.time_s.size * 24
    assert hours[6] == pytest.approx(1 + habits.day_swing, abs=0.15)
    assert hours[18] == pytest.approx(1 - habits.day_swing, abs=0.15)


def test_an_outage_is_silence_and_then_a_burst() -> None:
    plain = habitual(np.random.default_rng(4), 10, 5_000, habits=Habits(day_swing=0.0))
    silent = habitual(np.random.default_rng(4), 10, 5_000, habits=Habits(day_swing=0.0, outage_every_s=2 * DAY_S))
    assert np.diff(silent.time_s).max() > 2 * np.diff(plain.time_s).max()
    per_retry = [np.bincount((run / 300).astype(int)).max() for run in silent.time_s]
    assert np.mean(per_retry) > 2 * np.mean([np.bincount((run / 300).astype(int)).max() for run in plain.time_s])


def test_late_scores_come_in_the_order_of_scoring() -> None:
    traffic = drawn("chat with loops, swing and late scores")
    assert np.all(np.diff(traffic.labeled_s, axis=1) >= 0)
    assert np.any(np.diff(traffic.time_s, axis=1) < 0)
    assert np.all(traffic.labeled_s >= traffic.time_s)


def test_a_judge_with_mistakes_disagrees_as_often_as_stated() -> None:
    traffic = drawn("chat, a judge with 15% mistakes")
    assert np.mean(traffic.value != traffic.truth) == pytest.approx(0.15, abs=0.005)
    assert np.mean(traffic.mean) == pytest.approx(0.85 * 0.85 + 0.15 * 0.15)


@pytest.mark.parametrize("name", ["sessions of 5, icc 0.2, 20 at once", "chat"])
def test_a_fall_moves_the_mean_from_its_beginning_on(name: str) -> None:
    traffic = drawn(name, Change(2_000, system=0.65))
    assert np.all(traffic.mean[:, :2_000] == pytest.approx(0.85))
    assert np.all(traffic.mean[:, 2_000:] == pytest.approx(0.65))
    assert off(traffic.value[:, 2_000:], traffic.mean[:, 2_000:]) < 4


def test_a_campaign_changes_the_mix_and_nothing_within_segments() -> None:
    shares = (0.4, 0.29, 0.31)
    traffic = drawn(CAMPAIGN.name, Change(2_000, shares=shares))
    old, new = traffic.columns(slice(0, 2_000)), traffic.columns(slice(2_200, None))
    for code, (before, after) in enumerate(zip(CAMPAIGN.quality.shares, shares, strict=True)):
        assert np.mean(old.segments[SEGMENT] == code) == pytest.approx(before, abs=0.01)
        assert np.mean(new.segments[SEGMENT] == code) == pytest.approx(after, abs=0.01)
        within = [np.mean(part.value[part.segments[SEGMENT] == code]) for part in (old, new)]
        assert within[0] == pytest.approx(within[1], abs=0.02)
    assert np.mean(new.mean) == pytest.approx(0.85 + 0.4 * 0.04 - 0.31 / 6, abs=0.001)
    assert off(new.value, new.mean) < 4


def test_luck_has_its_mean_and_variance_and_stays_in_range_when_it_moves() -> None:
    luck = beta_luck(np.random.default_rng(5), np.full(200_000, 0.85), 0.2)
    assert luck.mean() == pytest.approx(0.85, abs=0.004)
    assert luck.var() == pytest.approx(0.2 * 0.85 * 0.15, rel=0.02)
    for after in (0.0, 0.5, 0.95, 1.0):
        other = moved(luck, 0.85, after)
        assert other.mean() == pytest.approx(after, abs=0.004)
        assert other.min() >= 0
        assert other.max() <= 1
    assert np.array_equal(beta_luck(np.random.default_rng(5), np.full(3, 0.4), 0.0), np.full(3, 0.4))


def test_columns_and_parts_are_cut_and_joined_together() -> None:
    traffic = drawn(CAMPAIGN.name)
    again = joined([traffic.columns(slice(0, 10)), traffic.columns(slice(0, 10))])
    assert (again.runs, again.n) == (2 * RUNS, 10)
    assert np.array_equal(again.segments[SEGMENT][RUNS:], traffic.segments[SEGMENT][:, :10])


def test_a_correlation_needs_clusters_of_two() -> None:
    with pytest.raises(ValueError, match="no cluster has two values"):
        intraclass_correlation(np.ones((1, 3)), np.zeros((1, 3)), np.arange(3)[None])
