from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ragtide import Elimination, Race
from ragtide_aggregator.statistics.comparisons.duels import FRACTIONS, Duels, least_difference
from ragtide_aggregator.statistics.comparisons.racing import RESERVE

pytestmark = pytest.mark.simulation

Array = np.ndarray[Any, Any]


def run(race: Race, scores: Array) -> list[Elimination]:
    return [one for row in scores for one in race.update(row)]


def beta(seed: int, means: Array, items: int) -> Array:
    return np.random.default_rng(seed).beta(10 * means, 10 * (1 - means), (items, means.size))


def at_the_boundary(rng: np.random.Generator, items: int, margin: float, kind: str, count: int = 2) -> Array:
    """The first is better than each other by exactly the margin, over all items."""
    if kind == "binary":
        ones = items // 2
        scores = np.zeros((items, count))
        for place in range(count):
            right = ones if place == 0 else ones - round(margin * items)
            scores[rng.permutation(items)[:right], place] = 1.0
        return scores
    scores = 0.25 + 0.5 * rng.beta(0.5, 0.5, (items, count))
    scores[:, 1:] += scores[:, 0].mean() - margin - scores[:, 1:].mean(axis=0)
    return scores


@cache
def wrongly_stopped(
    kind: str,
    missing: str = "none",
    *,
    runs: int = 300,
    confidence: float = 0.8,
    count: int = 2,
    race: type[Race] = Race,
) -> float:
    rng = np.random.default_rng(20261121)
    wrong = 0
    for _ in range(runs):
        scores = at_the_boundary(rng, 100, 0.1, kind, count)
        if missing == "moments":
            scores[30:60, 0] = np.nan
        elif missing == "own moments":
            for place in range(count):
                first = rng.integers(0, 70)
                scores[first : first + 30, place] = np.nan
        elif missing == "items":
            # Undefined on every tenth item, and the two as far apart as the margin on the others.
            gone = rng.permutation(100)[:10]
            rest = np.setdiff1d(np.arange(100), gone)
            scores[rest] = at_the_boundary(rng, 90, 0.1, kind)
            scores[gone, 1] = np.nan
        one = race(count, population=100, margin=0.1, confidence=confidence, look_every=1)
        wrong += any(out.place == 0 for out in run(one, scores))
    return wrong / runs


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("binary", 2),
        pytest.param("beta", 2, marks=pytest.mark.heavy),
        pytest.param("binary", 6, marks=pytest.mark.heavy),
    ],
)
def test_the_best_is_stopped_no_more_often_than_the_error_allows_even_at_the_margin(kind: str, count: int) -> None:
    # At the margin's edge the null is true by a hair; one race in five may go wrong, less the reserve for clones.
    assert wrongly_stopped(kind, count=count) <= 0.2


@pytest.mark.heavy
def test_the_level_is_made_use_of() -> None:
    # A test of level that never comes near it could not fail: yes-or-no scores at the edge reach a good part of it.
    assert wrongly_stopped("binary") >= 0.05


@pytest.mark.parametrize("missing", ["items", "moments"])
@pytest.mark.heavy
def test_missing_scores_do_not_raise_the_error_whatever_they_belong_to(missing: str) -> None:
    assert wrongly_stopped("binary", missing) <= 0.2


@pytest.mark.heavy
def test_outages_of_each_at_another_time_do_not_raise_the_error_either() -> None:
    assert wrongly_stopped("binary", "own moments", count=6, runs=200) <= 0.2


@pytest.mark.heavy
def test_betting_against_a_margin_that_is_left_out_would_be_found() -> None:
    class Careless(Race):
        def __init__(self, count: int, *, margin: float, **settings: Any) -> None:
            super().__init__(count, margin=margin + 0.2, **settings)

    assert wrongly_stopped("binary", race=Careless) > 0.25


def test_sixteen_configs_cost_a_quarter_and_the_best_is_kept() -> None:
    means = np.linspace(0.3, 0.7, 16)
    for seed in range(5):
        race, work = Race(16, population=400), 0
        for row in beta(seed, means, 400):
            work += sum(race.running)
            race.update(row)
        assert work < 0.25 * 16 * 400
        assert race.running[15]


def test_an_elimination_carries_its_evidence() -> None:
    scores = beta(1, np.array([0.4, 0.6]), 200)
    [out] = run(Race(2, population=200), scores)
    assert (out.place, out.by) == (0, 1)
    assert out.n == out.item
    assert out.item % 5 == 0
    assert out.alpha == pytest.approx(0.05)
    assert out.evidence >= 1 / out.alpha
    seen = scores[: out.item]
    assert out.difference.estimate == pytest.approx(seen[:, 1].mean() - seen[:, 0].mean())
    # The interval agrees with the ruling: the config cannot be better by the margin.
    assert -0.02 <= out.difference.lower < out.difference.estimate < out.difference.upper <= 1


def test_the_interval_says_the_same_as_the_bettor() -> None:
    x = beta(3, np.array([0.45, 0.55]), 300)
    difference = x[:, 1] - x[:, 0]
    duels = Duels((2,), population=300, margin=0.02)
    alpha = 0.01
    for item, row in enumerate(x[:299]):
        duels.play(item, row, np.array([True, True]))
        least = least_difference(difference[: item + 1], population=300, alpha=alpha)
        # Bisection ends within 2 ** -13 of the end.
        if duels.evidence[0, 1] >= 1 / alpha:
            assert least >= -0.02 - 2**-13
        else:
            assert least <= -0.02


def test_the_interval_of_a_difference_holds_at_every_look() -> None:
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(100):
        x = rng.integers(-1, 2, 80).astype(float)
        truth = x.mean()
        missed += any(least_difference(x[:n], population=80, alpha=0.1) > truth + 1e-9 for n in range(1, 80, 4))
    assert missed <= 15


def test_when_all_items_are_seen_the_interval_has_no_width() -> None:
    scores = beta(2, np.array([0.5, 0.51, 0.52]), 60)
    race = Race(3, population=60, margin=0.0, confidence=0.999)
    run(race, scores)
    for standing in race.standings():
        if standing.running and standing.behind is not None:
            assert standing.behind.lower == pytest.approx(standing.behind.estimate)
            assert standing.behind.upper == pytest.approx(standing.behind.estimate)


def test_one_that_was_stopped_keeps_the_interval_it_had() -> None:
    scores = beta(4, np.array([0.3, 0.7]), 100)
    race = Race(2, population=100)
    [out] = run(race, scores)
    assert race.items == 100
    behind = race.standings()[0].behind
    assert behind is not None
    assert (behind.estimate, behind.upper) == (out.difference.estimate, out.difference.upper)
    assert behind.lower == pytest.approx(out.difference.lower, abs=1e-3)
    assert behind.upper - behind.lower > 0.1
    assert race.standings()[0].n == out.n


def test_the_same_scores_decide_the_same() -> None:
    scores = beta(6, np.linspace(0.3, 0.7, 6), 200)
    first, second = Race(6, population=200), Race(6, population=200)
    assert run(first, scores) == run(second, scores)
    assert first.standings() == second.standings()


def test_the_order_of_the_configs_does_not_matter() -> None:
    scores = beta(7, np.linspace(0.3, 0.7, 6), 200)
    order = np.array([3, 1, 5, 0, 2, 4])
    plain = run(Race(6, population=200), scores)
    mixed = run(Race(6, population=200), scores[:, order])
    assert [(order[one.place], order[one.by], one.item) for one in mixed] == [
        (one.place, one.by, one.item) for one in plain
    ]


@pytest.mark.parametrize(("lowest", "highest", "sign"), [(0, 1, -1), (-5, 5, 1), (0, 100, -1)])
def test_any_range_and_direction_decide_the_same(lowest: float, highest: float, sign: int) -> None:
    scores = beta(8, np.linspace(0.3, 0.7, 5), 200)
    other = lowest + (highest - lowest) * (scores if sign > 0 else 1 - scores)
    plain = run(Race(5, population=200), scores)
    race = Race(
        5,
        population=200,
        margin=0.02 * (highest - lowest),
        value_range=(lowest, highest),
        higher_is_better=sign > 0,
    )
    found = run(race, other)
    assert [(one.place, one.by, one.item) for one in found] == [(one.place, one.by, one.item) for one in plain]
    for one, same in zip(found, plain, strict=True):
        scale = sign * (highest - lowest)
        assert one.difference.estimate == pytest.approx(scale * same.difference.estimate)
        ends = sorted([scale * same.difference.lower, scale * same.difference.upper])
        assert [one.difference.lower, one.difference.upper] == pytest.approx(ends)
    assert [standing.mean for standing in race.standings()] == pytest.approx(other_means(other, race))


def other_means(scores: Array, race: Race) -> list[float]:
    return [float(scores[: standing.n, standing.place].mean()) for standing in race.standings()]


def test_of_two_that_are_the_same_one_is_stopped_and_one_is_kept() -> None:
    race = Race(2, population=400)
    scores = np.repeat(beta(9, np.array([0.5]), 400), 2, axis=1)
    [out] = run(race, scores)
    assert race.running == (True, False)
    assert out.difference.estimate == 0


def test_without_a_margin_those_that_are_the_same_all_run_to_the_end() -> None:
    race = Race(3, population=100, margin=0.0)
    scores = np.repeat(beta(9, np.array([0.5]), 100), 3, axis=1)
    assert run(race, scores) == []


def test_somebody_always_runs_and_everybody_ruled_out_has_an_heir() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        race = Race(12, population=300, margin=0.1, confidence=0.6)
        scores = (rng.random((300, 12)) < np.linspace(0.45, 0.55, 12)) * 1.0
        out = run(race, scores)
        assert any(race.running)
        # Whoever was ruled out was ruled out by one that runs, or one that runs could have.
        ruled = race.ruled
        for one in out:
            assert any(ruled[one.place, other] for other in range(12) if race.running[other])


def test_a_chain_of_small_differences_does_not_add_up() -> None:
    # Each is 0.04 behind the one before, margin 0.05: within one margin of the best are only the first two.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = rng.normal(0, 0.02, (600, 1))
        scores = np.clip(0.7 - 0.04 * np.arange(6) + noise + rng.normal(0, 0.05, (600, 6)), 0, 1)
        race = Race(6, population=600, margin=0.05)
        run(race, scores)
        full = scores.mean(axis=0)
        assert full.max() - max(full[np.array(race.running)]) <= 0.05


def test_a_missing_score_is_not_imputed_and_not_counted() -> None:
    scores = beta(10, np.array([0.4, 0.6, 0.61]), 300)
    scores[::3, 0] = np.nan
    race = Race(3, population=300)
    out = {one.place: one for one in run(race, scores)}[0]
    both = ~np.isnan(scores[: out.item, 0])
    assert out.n == both.sum() < out.item
    seen = scores[: out.item][both]
    assert out.difference.estimate == pytest.approx((seen[:, out.by] - seen[:, 0]).mean())
    assert race.standings()[0].mean == pytest.approx(seen[:, 0].mean())


def test_one_that_never_answers_is_neither_ruled_out_nor_rules_out() -> None:
    scores = beta(11, np.array([0.3, 0.6, 0.7]), 200)
    scores[:, 2] = np.nan
    race = Race(3, population=200)
    out = run(race, scores)
    assert {one.place for one in out} == {0}
    silent = race.standings()[2]
    assert (silent.n, silent.behind, silent.running) == (0, None, True)
    assert np.isnan(silent.mean)


def test_a_missing_score_earns_a_bettor_nothing() -> None:
    duels = Duels((2,), population=20, margin=0.1)
    both = np.array([True, True])
    for item in range(10):
        duels.play(item, np.array([0.0, 1.0]), both)
    before = duels.capital.sum(-1)
    duels.play(10, np.array([np.nan, 1.0]), both)
    assert np.all(duels.capital.sum(-1) <= before)


def test_after_a_missing_score_the_less_favourable_mean_of_what_is_left_counts() -> None:
    duels = Duels((2,), population=10, margin=0.1)
    for item, scores in enumerate(([0.0, 1.0], [0.5, np.nan], [0.5, 0.5])):
        duels.play(item, np.array(scores), np.array([True, True]))
    # Ahead by 1.1 of what the null says: the missed item is one of nine that are not known, and it earns nothing.
    ahead = [2 / 0.9, 1.0, 1 / (0.9 - 1.1 / 9)]
    # Behind by 0.9: the missed item is gone, and eight have to make up for it.
    behind = [0.0, 0.9 / (0.9 + 0.9 / 9), 1 / (0.9 + 0.9 / 8)]
    for place, gains in ((0, ahead), (1, behind)):
        expected = np.prod([1 - FRACTIONS + FRACTIONS * gain for gain in gains], axis=0) / FRACTIONS.size
        assert duels.capital[place, 1 - place] == pytest.approx(expected)


def test_a_clone_is_compared_on_the_items_to_come() -> None:
    scores = beta(12, np.array([0.5, 0.5, 0.9]), 400)
    race = Race(2, population=400, margin=0.0)
    run(race, scores[:100, :2])
    assert race.add() == 2
    out = run(race, scores[100:])
    assert {one.place for one in out} == {0, 1}
    for one in out:
        assert one.by == 2
        assert one.n == one.item - 100
        assert one.difference.estimate == pytest.approx(
            (scores[100 : one.item, 2] - scores[100 : one.item, one.place]).mean()
        )


def test_clones_get_no_more_money_than_the_reserve() -> None:
    race = Race(4, population=1_000)
    for _ in range(50):
        race.add()
    duels = race.duels
    assert np.all(duels.share.sum(axis=1) <= 1 + 1e-12)
    assert duels.share[0, 1] == pytest.approx((1 - RESERVE) / 3)
    assert duels.share[0, 4] == pytest.approx(RESERVE / 2)
    assert np.all(np.diag(duels.share) == 0)


def test_who_comes_back_again_and_again_gets_no_more_money_than_the_reserve() -> None:
    race = Race(4, population=1_000)
    for other in (0, 1):
        given = race.duels.share[other].sum()
        for _ in range(50):
            race.stop(0)
            race.resume(0)
            given += race.duels.share[0].sum() if other == 0 else race.duels.share[1, 0]
        assert given <= 1


def test_money_that_moves_is_neither_made_nor_lost() -> None:
    duels = Duels((5,), population=100, margin=0.0)
    everybody = np.ones(5, dtype=np.bool_)
    scores = beta(1, np.linspace(0.3, 0.7, 5), 40)
    for item in range(40):
        duels.play(item, scores[item], everybody)
        assert duels.paid.sum(axis=1) == pytest.approx(1)
        assert np.all(duels.paid >= 0)
    # Most of what the last one has goes to its duel with the best.
    assert duels.paid[0].argmax() == 4
    assert duels.paid[0, 4] > 0.7


def test_what_a_duel_has_won_does_not_move() -> None:
    duels = Duels((3,), population=100, margin=0.0)
    everybody = np.ones(3, dtype=np.bool_)
    for item in range(30):
        duels.play(item, np.array([0.2, 0.6, 0.9]), everybody)
    won = duels.capital[0, 1].sum()
    assert won > 5
    assert duels.paid[0, 1] < 0.3


def test_who_was_stopped_by_a_person_neither_rules_out_nor_is_ruled_out() -> None:
    scores = beta(13, np.array([0.2, 0.5, 0.8]), 200)
    race = Race(3, population=200)
    race.stop(2)
    race.stop(0)
    assert run(race, scores) == []
    assert race.running == (False, True, False)
    assert race.standings()[2].n == 0


def test_a_veto_brings_one_back_and_its_duels_begin_anew() -> None:
    scores = beta(14, np.array([0.3, 0.7]), 300)
    race = Race(2, population=300)
    [first] = run(race, scores[:100])
    race.resume(0)
    assert race.running == (True, True)
    [second] = run(race, scores[100:])
    assert second.place == first.place == 0
    assert second.n == second.item - 100
    # Its bettors have less to begin with, and need more.
    assert second.n > first.n


def test_who_is_protected_is_never_ruled_out() -> None:
    scores = beta(15, np.array([0.3, 0.7, 0.5]), 300)
    race = Race(3, population=300)
    race.resume(2, protected=True)  # while it runs
    out = run(race, scores[:100])
    assert {one.place for one in out} == {0}
    race.resume(0, protected=True)
    assert run(race, scores[100:]) == []
    assert race.running == (True, True, True)


def test_a_clone_with_few_items_does_not_lead() -> None:
    race = Race(2, population=200, margin=0.0)
    run(race, np.tile([0.5, 0.6], (50, 1)) + beta(1, np.array([0.5, 0.5]), 50) * 0.1)
    race.add()
    race.update([0.5, 0.6, 1.0])
    standings = race.standings()
    assert standings[1].behind is None
    assert standings[2].behind is not None


def test_the_truly_best_may_be_best_at_every_look() -> None:
    wrong = 0
    for seed in range(40):
        scores = beta(100 + seed, np.array([0.6, 0.58, 0.5]), 120)
        best = int(np.argmax(scores.mean(axis=0)))
        race = Race(3, population=120, confidence=0.9)
        for item, row in enumerate(scores, start=1):
            race.update(row)
            if item % 20 == 0 and race.running[best] and not race.standings()[best].may_be_best:
                wrong += 1
                break
    assert wrong <= 4


def test_decisions_come_only_at_looks() -> None:
    scores = beta(16, np.linspace(0.2, 0.8, 8), 103)
    out = run(Race(8, population=103, look_every=10), scores)
    assert out
    assert all(one.item % 10 == 0 or one.item == 103 for one in out)
    assert all(a.item <= b.item for a, b in pairwise(out))


def test_a_hundred_configs_and_two_thousand_items_take_seconds() -> None:
    means = np.random.default_rng(1).uniform(0.3, 0.7, 100)
    race = Race(100, population=2_000)
    run(race, beta(17, means, 2_000))
    assert race.items == 2_000
    assert sum(race.running) < 10


def test_capital_neither_overflows_nor_turns_to_nothing() -> None:
    race = Race(2, population=3_000, margin=0.0)
    race.resume(0, protected=True)
    run(race, np.tile([0.0, 1.0], (3_000, 1)))
    assert np.isfinite(race.duels.capital).all()
    assert np.all((FRACTIONS > 0) & (FRACTIONS < 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1}, "count is 1"),
        ({"population": 0}, "population is 0"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"look_every": 0}, "look_every is 0"),
        ({"margin": -0.1}, "margin is -0.1"),
        ({"margin": 1.0}, "margin is 1.0"),
        ({"value_range": (1.0, 0.0)}, "value_range is"),
    ],
)
def test_what_cannot_be_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Race(**{"count": 2, "population": 10, **arguments})


def test_wrong_scores_are_refused_and_change_nothing() -> None:
    race = Race(2, population=1)
    with pytest.raises(ValueError, match=r"outside 0\.0 to 1\.0"):
        race.update([0.5, 1.5])
    with pytest.raises(ValueError, match="shape"):
        race.update([0.5])
    assert race.items == 0
    race.update([0.5, np.nan])
    with pytest.raises(ValueError, match="population is 1"):
        race.update([0.5, 0.5])
    with pytest.raises(ValueError, match="place is 7"):
        race.stop(7)
