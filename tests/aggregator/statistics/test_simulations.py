"""The simulations of `make simulations`, short: their claims must hold here too."""

import importlib.util
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ragtide import Race

pytestmark = pytest.mark.simulation

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


annotation, coverage, covariates, delays, discovery, live_discovery, powered, racing, seasons = (
    module(name)
    for name in (
        "annotation",
        "coverage",
        "covariates",
        "drift_delays",
        "false_discovery",
        "live_false_discovery",
        "prediction_powered",
        "racing",
        "seasons",
    )
)
# A benchmark of its own imports it as a neighbour.
sys.modules["seasons"] = seasons
seasonal_rules = module("seasonal_rules")
sys.modules["seasonal_rules"] = seasonal_rules
distribution_rules = module("distribution_rules")
RUNS, LENGTH, ALPHA = 300, 1000, 0.2
# Twice the standard error of a rate of alpha: betting comes close to it.
MOST = ALPHA + 2 * sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize("number", range(len(coverage.CASES)), ids=[case.name for case in coverage.CASES])
def test_what_may_be_looked_at_after_every_item_misses_in_at_most_alpha_of_the_runs(number: int) -> None:
    case = coverage.CASES[number]
    values = case.draw(np.random.default_rng((1, number)), RUNS, LENGTH)
    found = coverage.ever_missed(values, case.means(LENGTH), 1 - ALPHA)
    claims = coverage.ANYTIME if case is not coverage.MOVING else ("running",)
    assert {name: rate for name, rate in found.items() if name in claims and rate > MOST} == {}
    assert found["normal"] > 2 * ALPHA


def test_the_same_holds_for_every_order_of_a_finite_population() -> None:
    case = coverage.CASES[3]
    rng = np.random.default_rng(2)
    population = case.draw(rng, 1, LENGTH)[0]
    values = rng.permuted(np.tile(population, (RUNS, 1)), axis=1)
    found = coverage.ever_missed(values, case.means(LENGTH), 1 - ALPHA, replaced=False)
    assert all(found[name] <= MOST for name in coverage.ANYTIME)
    assert found["normal"] > 2 * ALPHA


def test_anytime_intervals_are_about_as_wide_as_measured() -> None:
    case = coverage.CASES[5]
    values = case.draw(np.random.default_rng(3), 10, 1000)
    found = coverage.widths(values, case.variance, 0.95)
    (betting_50, betting_400, _), (running_400, normal_400) = (
        found["betting"],
        (found["running"][1], found["normal"][1]),
    )
    assert betting_50 < 2.2
    assert betting_400 < 1.9
    assert betting_400 < running_400 < 2.4
    assert normal_400 == pytest.approx(1, abs=0.1)


def test_the_run_length_without_a_change_is_at_least_the_stated_one_and_the_delay_about_as_measured() -> None:
    asked = 500.0
    length, error = delays.run_length_of(delays.e_detector(asked), 3, 200, asked)
    assert length - 2 * error >= asked
    later: dict[float, Any] = {after: delays.delay(delays.e_detector(asked), after, 100)[0] for after in (0.65, 0.5)}
    assert later[0.65] < delays.lorden(0.65, asked) + 5
    assert later[0.5] < delays.lorden(0.5, asked) + 5


@pytest.mark.parametrize("by_score", [False, True])
def test_prediction_powered_estimates_cover_and_gain_the_more_the_better_the_cheap_labeler(by_score: bool) -> None:
    found = [
        powered.simulate(correlation, 300, 4000, by_score=by_score, seed=number)
        for number, correlation in enumerate((0.3, 0.6, 0.9))
    ]
    for one in found:
        assert 0.91 <= one["coverage"] <= 0.985
        assert one["missed"] <= 0.05
        assert one["spread"] == pytest.approx(1, abs=0.12)
    assert 1 > found[0]["width"] > found[1]["width"] > found[2]["width"]
    assert found[2]["width"] < 0.6
    assert found[2]["gain"] > 4


@pytest.mark.heavy
def test_an_annotated_sample_covers_the_truth_in_95_percent_of_1000_runs_and_is_narrower_than_people_alone() -> None:
    found = annotation.simulate(annotation.CASES[1], 1000, 3000, seed=1)
    assert found["covers"] >= 0.95
    assert 0.93 <= found["standard"] <= 0.97
    assert found["narrower"] >= 0.99
    assert found["width"] < 0.8 * found["width_alone"]


def test_disputed_items_would_ruin_the_estimate_if_they_counted_as_a_sample() -> None:
    found = annotation.simulate(annotation.CASES[-1], 50, 2000, seed=2)
    assert (found["standard"] < 0.5, found["off"] < -0.02) == (True, True)


@pytest.mark.parametrize("kind", racing.KINDS)
def test_simulated_races_are_those_of_the_package(kind: str) -> None:
    scores = racing.draw(np.random.default_rng(1), np.linspace(0.4, 0.6, 8), kind, 6, 0.5)
    found = racing.race(scores)
    for run, score in enumerate(scores):
        race, executed = Race(8, population=racing.ITEMS), 0
        for row in score:
            executed += sum(race.running)
            race.update(row)
        full = score.mean(axis=0)
        assert executed == round(found.work[run] * score.size)
        assert (not race.running[int(full.argmax())]) == found.lost[run]
        assert full.max() - max(full[list(race.running)]) == pytest.approx(found.regret[run])


# At most this share of the work, and in how many of 60 races the best may be stopped for one within the margin.
RACES = [
    ("even spread, 0.30 to 0.70", "Beta", 0.21, 3),
    ("even spread, 0.30 to 0.70", "yes or no", 0.38, 6),
    ("clear winner, 0.70, others 0.50", "Beta", 0.18, 0),
    ("all within 0.02", "Beta", 0.56, 60),
]


@pytest.mark.parametrize(("scenario", "kind", "most", "stopped"), RACES)
def test_racing_saves_what_is_stated_and_keeps_one_within_the_margin(
    scenario: str, kind: str, most: float, stopped: int
) -> None:
    scores = racing.draw(np.random.default_rng(2), racing.SCENARIOS[scenario], kind, 60, 0.0)
    found = racing.race(scores)
    assert found.work.mean() < most
    assert found.lost.sum() <= stopped
    assert np.mean(found.regret > racing.MARGIN) <= 0.05


def test_a_race_of_items_from_documents_holds_because_the_order_is_drawn_at_random() -> None:
    rng = np.random.default_rng(5)
    scores = racing.draw_documents(rng, racing.SCENARIOS["clear winner, 0.70, others 0.50"], "yes or no", 60)
    assert np.mean(racing.race(racing.in_random_order(rng, scores)).regret > racing.MARGIN) <= 0.05
    assert np.mean(racing.race(scores).regret > racing.MARGIN) > 0.1


def test_keeping_the_best_of_the_first_shard_is_as_cheap_and_loses_the_best_often() -> None:
    scores = racing.draw(np.random.default_rng(3), racing.SCENARIOS["even spread, 0.30 to 0.70"], "yes or no", 200, 0.0)
    found = racing.by_hand(scores, (4, 2, 1))
    assert 1 / found.work.mean() == pytest.approx(4.74, abs=0.01)
    assert found.lost.mean() > 0.2
    assert np.mean(found.regret > racing.MARGIN) > 0.1


def test_few_alarms_of_dependent_watches_are_false_and_more_changes_are_found_than_by_a_budget() -> None:
    rate = "false discovery rate"
    found = {name: discovery.simulate(name, 200, runs=6, steps=1000) for name in (rate, f"budget {discovery.RATE:g}")}
    assert found[rate].worst_share.mean() <= discovery.RATE
    power = {name: float(np.isfinite(outcome.delays).mean()) for name, outcome in found.items()}
    assert power[rate] > power[f"budget {discovery.RATE:g}"] + 0.1


def test_alert_rules_with_a_rate_find_more_of_many_changes_than_with_a_budget_and_few_alarms_are_false() -> None:
    drawn = live_discovery.traffic(16, 0, items=800, pipelines=4)
    found = {
        name: live_discovery.judged(live_discovery.alerts_of(drawn.events, options), drawn.changed)
        for name, options in live_discovery.OPTIONS.items()
    }
    power = {name: float(np.isfinite(outcome.delays).mean()) for name, outcome in found.items()}
    assert found["false discovery rate"].worst_share <= discovery.RATE
    assert power["false discovery rate"] > power["budget 0.1"] + 0.1


def test_covariates_of_ragbench_narrow_a_difference_and_never_widen_a_mean_by_much() -> None:
    rows = Path(__file__).parents[2] / "data" / "ragbench" / "ragbench_sample.jsonl"
    known, scores = covariates.read(rows)
    assert known["text"].shape == (80, 4)
    x = np.tile(scores["utilization"], 10)
    features = np.tile(known["text"], (10, 1))
    explained, ratio, _, _ = covariates.adjusted(features, x, 5)
    assert explained > 0.1
    assert ratio < 1
    two, joint, one, more = covariates.compared(features, x, 0.5, 5)
    assert more < one < joint < 0.9 * two


def test_day_and_night_do_not_page_with_a_seasonal_baseline_or_the_suggested_min_effect() -> None:
    traffic, runs = seasons.SeasonalTraffic(0.05), 12
    rules = seasons.rules(np.random.default_rng(4), traffic, runs)
    lengths = {name: seasons.run_length(limits, traffic, runs)[0] for name, (limits, _) in rules.items()}
    assert lengths.pop("given") < 4_000
    assert all(length >= 10_000 for length in lengths.values())
    assert seasons.delay(rules["seasonal, 28 days"][0], traffic, 0.2, runs) < 150


def test_the_alert_rules_keep_their_run_length_over_day_and_night_with_a_seasonal_baseline() -> None:
    traffic, runs = seasons.SeasonalTraffic(0.05), 4
    seasonal = seasonal_rules.learned(seasonal_rules.fall_rule(baseline="seasonal"), traffic, runs)
    given = seasonal_rules.Evaluated.of(seasonal_rules.fall_rule(baseline=0.85), runs)
    assert seasonal_rules.run_length(seasonal, traffic)[0] >= 10_000
    assert seasonal_rules.run_length(given, traffic)[0] < 4_000
    assert seasonal_rules.delay(seasonal, traffic, 0.2) < 200


def test_rules_on_covariates_keep_their_run_length_and_find_changes() -> None:
    for name in ("question length, log-normal", "documents: 3 or 5", "Pareto 0.9, no mean", "6 topics"):
        length, _, _ = distribution_rules.run_length(distribution_rules.UNCHANGED[name], 300, 6)
        assert length >= distribution_rules.RUN_LENGTH, name
    for name in ("question length: twice as long", "6 topics: 10% go to a new one"):
        median, share = distribution_rules.delay(distribution_rules.CHANGES[name], 300, 6)
        assert share == 1, name
        assert median < 500, name
