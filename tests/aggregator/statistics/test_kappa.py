"""Cohen's kappa as the mean of bounded values of couples: the identity, the promise of a detector, the interval."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide_aggregator.statistics.comparisons.agreement import kappa
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.kappa import (
    Couple,
    CoupleSums,
    disagreements,
    kappa_interval,
    kappa_of,
    limit_of,
    packed,
    scaled,
    unpacked,
)
from ragtide_aggregator.statistics.intervals.running import running_interval

RUNS, RUN_LENGTH, MOST = 600, 100, 4_000

Bools = NDArray[np.bool_]


def verdicts(rng: np.random.Generator, shape: tuple[int, ...], true_kappa: float, share: float) -> tuple[Bools, Bools]:
    """Return verdicts of a judge and of people with exactly this kappa: a share is copied, the rest is by chance."""
    people, other = rng.random(shape) < share, rng.random(shape) < share
    return np.where(rng.random(shape) < true_kappa, people, other), people


def couples(judge: Bools, people: Bools) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the disagreements of couples; the last axis has the two items."""
    own = (judge != people).mean(axis=-1)
    crossed = (judge != people[..., ::-1]).mean(axis=-1)
    return own, crossed


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=9), st.floats(-1, 0.99))
def test_over_all_couples_of_items_the_mean_tells_whether_kappa_is_lower(
    items: list[tuple[bool, bool]], limit: float
) -> None:
    """The mean over all couples with an item twice is exact, so the mean over random couples is unbiased."""
    judge, people = np.array(items).T
    first, second = np.repeat(np.arange(len(items)), len(items)), np.tile(np.arange(len(items)), len(items))
    every = np.stack([first, second], axis=1).ravel()
    own, crossed = disagreements(judge[every], people[every])
    value = kappa(judge, people)
    if np.isnan(value):
        assert crossed.mean() == 0
        return
    assert kappa_of(float(own.mean()), float(crossed.mean())) == pytest.approx(max(value, -1.0))
    above = float(scaled(own, crossed, limit).mean()) - limit_of(limit)
    assert above == pytest.approx((limit - value) * crossed.mean() / (2 - limit), abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=50), st.randoms())
def test_one_number_holds_both_means_exactly(own: list[float], random: object) -> None:
    crossed = list(own)
    random.shuffle(crossed)  # type: ignore[attr-defined]
    numbers = packed(np.array(own), np.array(crossed))
    found = unpacked(float(numbers.mean()), len(own))
    assert found == Couple(sum(own) / len(own), sum(crossed) / len(own))


def mean_run_length(true_kappa: float, shares: tuple[float, ...], *, line: float = 0.6, seed: int = 0) -> float:
    """Return the mean number of items until an alarm that kappa is below a line, cut at `MOST`; shares take turns."""
    rng = np.random.default_rng(seed)
    table = DetectorTable()
    for _ in range(RUNS):
        table.configure(table.add_row(), limit=limit_of(line), direction="rise", run_length=RUN_LENGTH)
    rows, n = np.arange(RUNS), np.full(RUNS, MOST)
    for step in range(MOST // 2):
        share = shares[step // 20 % len(shares)]
        judge, people = verdicts(rng, (rows.size, 2), true_kappa, share)
        values = scaled(*couples(judge, people), line)
        sizes = np.full(rows.size, 2)
        alarms, _ = table.update(rows, values, np.zeros(rows.size, dtype=np.int64), sizes=sizes)
        n[[alarm.row for alarm in alarms]] = 2 * (step + 1)
        rows = np.setdiff1d(rows, [alarm.row for alarm in alarms])
        if not rows.size:
            break
    return float(n.mean())


@pytest.mark.simulation
@pytest.mark.parametrize("shares", [(0.5,), (0.8,), (0.95,), (0.2, 0.9), (0.97, 0.5, 0.03)], ids=str)
def test_at_the_limit_false_alarms_are_a_run_length_apart_whatever_the_shares_do(shares: tuple[float, ...]) -> None:
    """600 runs; the standard error of the mean is about 5, so a promise broken by a fifth is seen."""
    assert mean_run_length(0.6, shares) > RUN_LENGTH - 15


def test_a_lower_kappa_is_found() -> None:
    """The same simulation, so that it can fail: with a kappa below the line the promise is about nothing."""
    assert mean_run_length(0.1, (0.8,)) < RUN_LENGTH


@pytest.mark.heavy
def test_the_page_has_the_numbers_of_the_simulation() -> None:
    page = (Path(__file__).parents[3] / "docs/scores/agreement.md").read_text(encoding="utf-8")
    good_answers = ((0.5,), (0.8,), (0.95,), (0.2, 0.9), (0.97, 0.5, 0.03))
    at_limit, below = ([mean_run_length(kappa, shares) for shares in good_answers] for kappa in (0.6, 0.1))
    assert (
        f"after {min(at_limit):.0f} to {max(at_limit):.0f} gold scores while kappa was 0.6, "
        f"and after {min(below):.0f} to {max(below):.0f} once it was 0.1"
    ) in " ".join(page.split())


def test_a_share_of_differing_verdicts_would_alarm_because_of_other_traffic() -> None:
    """The reason for couples: with chance from a baseline, more balanced verdicts look like a judge who got worse."""
    rng = np.random.default_rng(1)
    normal = couples(*verdicts(rng, (20_000, 2), 0.6, 0.9))
    other = couples(*verdicts(rng, (20_000, 2), 0.6, 0.5))
    by_baseline = 1 - other[0].mean() / normal[1].mean()
    assert by_baseline < 0
    assert kappa_of(float(other[0].mean()), float(other[1].mean())) == pytest.approx(0.6, abs=0.03)


@pytest.mark.simulation
def test_the_lower_end_covers_kappa_at_every_look() -> None:
    """100 runs of 400 couples, looked at after every 50; one side of 95% is missed in 2.5% at most."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(100):
        own, crossed = couples(*verdicts(rng, (400, 2), 0.5, 0.7))
        sums = CoupleSums()
        ends = []
        for number, one in enumerate(zip(own.tolist(), crossed.tolist(), strict=True), start=1):
            sums.add(Couple(*one))
            if number % 50 == 0:
                ends.append(sums.lowest(0.95))
        missed += max(ends) > 0.5
        assert ends[-1] > -0.2
    assert missed <= 7


def test_the_lower_end_is_that_of_the_running_interval() -> None:
    rng = np.random.default_rng(4)
    own, crossed = couples(*verdicts(rng, (150, 2), 0.7, 0.6))
    sums = CoupleSums()
    for one in zip(own.tolist(), crossed.tolist(), strict=True):
        sums.add(Couple(*one))
    assert [sums.own, sums.crossed] == pytest.approx([float(own.mean()), float(crossed.mean())])

    def excluded(at: float) -> bool:
        values = scaled(own, crossed, at)
        before = np.array([0.5, *np.cumsum(values)[:-1] / np.arange(1, values.size)])
        v = float(((values - before) ** 2).sum())
        _, upper = running_interval([values.mean()], [values.size], [v], confidence=0.95)
        return bool(upper[0] < limit_of(at))

    lowest = sums.lowest(0.95)
    assert excluded(lowest - 0.01)
    assert not excluded(lowest + 0.01)


def test_without_couples_nothing_is_known() -> None:
    assert CoupleSums().lowest(0.95) == -1.0
    assert kappa_interval(0.0, 0.0, 10) == (-1.0, 1.0)
    lower, upper = kappa_interval(0.1, 0.5, 100)
    assert [lower, upper] == pytest.approx([0.8 - 1.96 * 0.03 / 0.5, 0.8 + 1.96 * 0.03 / 0.5], abs=1e-3)
