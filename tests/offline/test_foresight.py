"""What a gate says before it runs: the stated probability is the share of gates that fail, simulated."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from ragtide_aggregator.statistics.comparisons.paired import paired_difference
from ragtide_aggregator.statistics.means.stratified import stratified_difference, stratified_mean
from ragtide_offline.gates.conditions import parse_condition
from ragtide_offline.gates.foresight import (
    BASELINE,
    ONE_SIDE,
    PAIRS,
    STORED,
    WORST,
    KnownScores,
    foresee,
    known_of_items,
    paired_intervals,
)
from ragtide_offline.score.drawn import WeightedRows
from ragtide_producers.files.items import items_of
from ragtide_schemas import METRICS
from ragtide_schemas.drawn import DrawRecord

pytestmark = pytest.mark.pure

METRIC = "trace.adherence"
RUNS = 2_000
STRATA = ((900, 60, 57), (400, 80, 64), (80, 60, 24))
"""Answers, rows, and rows with a score of 1, so that the known rows are as the traffic is."""
Floats = NDArray[np.float64]


def drawn_rows() -> tuple[WeightedRows, dict[str, float], Floats]:
    """Rows of three strata, their known scores, and the share of ones in the stratum of each row."""
    rows, scores, means = {}, {}, []
    for place, (of, n, ones) in enumerate(STRATA):
        record = DrawRecord(stratum=f"s{place}", of=of, rows=n, probability=n / of)
        for number in range(n):
            name = f"{place}-{number:03d}"
            rows[name] = record, n / of
            scores[name] = float(number < ones)
    traffic = WeightedRows.of(rows)
    for name in traffic.ids:
        _, n, ones = STRATA[int(name[0])]
        means.append(ones / n)
    return traffic, scores, np.array(means)


def stated(condition: str, known: KnownScores, fall: float, **options: Any) -> float:
    foresight = foresee(
        parse_condition(condition), known, metrics=list(METRICS), strategy="normal", confidence=0.95, falls=(fall,),
        wanted=0.5, **options,
    )  # fmt: skip
    assert foresight is not None
    return foresight.found[0][1]


@for_each("fall", (0.05, 0.09, 0.12))
def test_the_stated_chance_is_the_share_of_gates_on_the_traffic_that_fail(fall: float) -> None:
    traffic, scores, means = drawn_rows()
    known = KnownScores(traffic.ids, {METRIC: scores}, {}, traffic)
    truth = float(np.average(means, weights=traffic.weights.weights))
    random = np.random.default_rng(7)
    values = (random.random((RUNS, means.size)) < means * (0.8 - fall) / truth).astype(float)
    ends = stratified_mean(values, traffic.weights, confidence=0.95)
    assert stated(f"{METRIC} < 0.8", known, fall) == pytest.approx(float(np.mean(ends.upper < 0.8)), abs=0.03)


@for_each("fall", (0.03, 0.05))
def test_the_stated_chance_of_a_difference_is_the_share_of_gates_that_fail(fall: float) -> None:
    """Both versions are known, and one in twenty rows changes from one to the other even without a fall."""
    traffic, before, _ = drawn_rows()
    churned = dict(before)
    for place, (_, _, ones) in enumerate(STRATA):
        for number in range(3):  # as many rows rise as fall
            churned[f"{place}-{number:03d}"], churned[f"{place}-{ones + number:03d}"] = 0.0, 1.0
    known = KnownScores(traffic.ids, {METRIC: churned}, {METRIC: before}, traffic)
    random = np.random.default_rng(7)
    old = np.array([before[name] for name in traffic.ids])
    new = np.array([churned[name] for name in traffic.ids])
    weights = traffic.weights.weights
    starts, sizes = traffic.weights.starts.tolist(), traffic.weights.rows.tolist()
    places = np.concatenate(
        [start + random.integers(size, size=(RUNS, size)) for start, size in zip(starts, sizes, strict=True)], axis=1
    )
    share = 1 - (np.average(old, weights=weights) - fall) / np.average(new, weights=weights)
    now = np.where(random.random(places.shape) < share, 0.0, new[places])
    ends = stratified_difference(now, old[places], traffic.weights, confidence=0.95)
    assert stated(f"{METRIC}.difference < 0", known, fall) == pytest.approx(float(np.mean(ends.upper < 0)), abs=0.03)


@for_each("n", (100, 400))
def test_the_stated_chance_of_rows_without_a_draw_is_that_of_the_gate_of_score(n: int) -> None:
    ids = [str(number) for number in range(n)]
    random = np.random.default_rng(7)
    values = random.random((RUNS, n)) < 0.7
    mean, deviation = values.mean(axis=1), values.std(axis=1, ddof=1)
    fails = np.mean(mean + 1.959964 * deviation / n**0.5 < 0.8)
    assert stated(f"{METRIC} < 0.8", KnownScores(ids, {}, {}), 0.1) == pytest.approx(float(fails), abs=0.03)


def test_the_simulated_pairs_have_the_interval_of_the_gate() -> None:
    random = np.random.default_rng(7)
    first, second = (random.random((3, 50)) for _ in range(2))
    several = paired_intervals(first, second, confidence=0.95)
    for place in range(3):
        one = paired_difference(first[place], second[place], value_range=(0, 1), confidence=0.95).difference
        assert float(several.lower[place]) == pytest.approx(one.lower, abs=1e-12)
        assert float(several.upper[place]) == pytest.approx(one.upper, abs=1e-12)


def test_a_wrong_fall_is_not_what_is_stated() -> None:
    """The comparison above can fail: half the fall has another probability."""
    traffic, scores, _ = drawn_rows()
    known = KnownScores(traffic.ids, {METRIC: scores}, {}, traffic)
    assert stated(f"{METRIC} < 0.8", known, 0.09) - stated(f"{METRIC} < 0.8", known, 0.045) > 0.2


@for_each(
    "condition, stored, before, source",
    [
        (f"{METRIC} < 0.8", True, False, STORED),
        (f"{METRIC} < 0.8", False, True, BASELINE),
        (f"{METRIC} < 0.8", False, False, WORST),
        (f"{METRIC}.difference < 0", True, True, PAIRS),
        (f"{METRIC}.difference < 0", False, True, ONE_SIDE),
        (f"{METRIC}.difference < 0", False, False, WORST),
    ],
)
def test_it_says_where_the_spread_is_known_from(condition: str, stored: bool, before: bool, source: str) -> None:
    ids = [str(number) for number in range(40)]
    scores = {METRIC: {name: float(number % 5 > 0) for number, name in enumerate(ids)}}
    known = KnownScores(ids, scores if stored else {}, scores if before else {})
    foresight = foresee(parse_condition(condition), known, metrics=list(METRICS), strategy="normal", confidence=0.95)
    assert foresight is not None
    assert foresight.known_from == source
    assert source in foresight.sentence


def test_the_rows_that_are_needed_find_the_fall() -> None:
    ids = [str(number) for number in range(60)]
    one = foresee(
        parse_condition(f"{METRIC} < 0.8"), KnownScores(ids, {}, {}), metrics=list(METRICS), strategy="normal",
        confidence=0.95,
    )  # fmt: skip
    assert one is not None
    assert one.rows_needed is not None
    enough = KnownScores([str(number) for number in range(one.rows_needed)], {}, {})
    assert stated(f"{METRIC} < 0.8", enough, 0.05) == pytest.approx(0.9, abs=0.04)
    assert one.found[0][1] < 0.4


@for_each("condition", (f"{METRIC}.n < 30", f"{METRIC}.coverage < 0.5"))
def test_a_condition_that_no_fall_decides_says_nothing(condition: str) -> None:
    known = KnownScores(["1", "2", "3"], {}, {})
    parsed = parse_condition(condition)
    assert foresee(parsed, known, metrics=list(METRICS), strategy="normal", confidence=0.95) is None


def test_the_drawn_items_of_an_experiment_are_known_with_their_stored_scores() -> None:
    drawn = {"stratum": "s", "of": 400, "rows": 40, "probability": 0.1}
    labelings = [[{"labeler": "judge", "scores": {METRIC: value}}] for value in (0.0, 1.0)]
    rows = [
        {
            "id": str(number), "question": f"What is {number}?", "sampling_probability": 0.1,
            "metadata": {"ragtide": {"drawn": drawn, "labelings": labelings[number % 2]}},
        }
        for number in range(40)
    ]  # fmt: skip
    known = known_of_items(items_of([*rows, "By hand?"]), "judge")
    assert known is not None
    assert known.traffic is not None
    assert len(known.ids) == len(known.stored[METRIC]) == 40
    assert known.traffic.weights.stands_for == pytest.approx(400)
    foresight = foresee(parse_condition(f"{METRIC} < 0.8"), known, metrics=[METRIC], strategy="normal", confidence=0.95)
    assert foresight is not None
    assert (foresight.rows, foresight.known_from) == (40, STORED)
    assert known_of_items(items_of(["Not drawn?"]), "judge") is None
