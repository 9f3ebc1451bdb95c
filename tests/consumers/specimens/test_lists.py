"""An interaction qualifies for the sample by its id, for the worst by its scores, and beyond the lines of rules."""

import random
from typing import Any

import pytest
from tests.support.metric_events import event

from ragtide import AlertRule
from ragtide_consumers.labelers.cascade import position
from ragtide_consumers.specimens.lists import (
    BEYOND_BURST,
    BEYOND_EVERY_S,
    NEWEST_EVERY_S,
    NEWEST_PER_S,
    ListPlace,
    SpecimenLists,
    WorstLately,
)
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import JudgedScores


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lists(*rules: AlertRule, clock: Clock | None = None, **settings: Any) -> SpecimenLists:
    return SpecimenLists(
        SpecimenSettings(**{"sample": 0.0, "newest_n": 0, "worst_n": 1, **settings}), rules, clock or Clock()
    )


def names(found: list[ListPlace]) -> list[str]:
    return [place.name for place in found]


def test_the_sample_is_a_share_of_the_ids_and_the_same_in_every_worker() -> None:
    events = [event(number, {}) for number in range(5_000)]
    chosen = [one.interaction_id for one in events if lists(sample=0.1).sampled(one)]
    assert len(chosen) == pytest.approx(500, abs=5 * 21)
    assert chosen == [one.interaction_id for one in events if lists(sample=0.1).sampled(one)]
    judged = sum(position("shop", one) < 0.25 for one in chosen)
    assert judged / len(chosen) == pytest.approx(0.25, abs=0.1), "independent of the draw for a judge"


def test_the_worst_are_low_or_high_by_the_direction_of_the_metric() -> None:
    one = lists()
    scores = {"trace.adherence": 0.5, "ragchecker.hallucination": 0.5}
    first = one.places(event(0, scores))
    assert [(place.name, place.score) for place in first] == [
        ("worst:trace.adherence:test", -0.5),
        ("worst:ragchecker.hallucination:test", 0.5),
    ]
    better = {"trace.adherence": 0.6, "ragchecker.hallucination": 0.4}
    worse = {"trace.adherence": 0.4, "ragchecker.hallucination": 0.6}
    assert one.places(event(1, better)) == []
    assert len(one.places(event(2, worse))) == 2
    assert one.places(event(3, {"trace.adherence": 0.1}, pipeline="other")), "each pipeline has its own"


def test_proxy_and_judge_have_lists_of_their_own() -> None:
    judged = JudgedScores(labeler="judge", labeler_version="m", profile="ragbench", scores={"trace.adherence": 0.2})
    found = lists().places(event(0, {"trace.adherence": 0.5}, judged=judged))
    assert names(found) == ["worst:trace.adherence:test", "worst:trace.adherence:judge"]


def test_items_that_chance_drew_for_the_judge_have_a_list_and_those_chosen_for_a_low_score_have_none() -> None:
    def judged(**fields: Any) -> list[str]:
        scores = JudgedScores.model_validate(
            {"labeler": "judge", "labeler_version": "m", "profile": "ragbench", **fields}
        )
        found = names(lists(worst_n=1).places(event(0, {}, judged=scores)))
        return [name for name in found if not name.startswith("worst:")]

    best = {"trace.adherence": 1.0}
    assert judged(scores=best, uniform=True, inclusion_probability=0.05) == ["judged"]
    assert judged(scores=best, uniform=False) == []
    assert judged(scores={}, absent={"trace.adherence": "judge_unusable"}, uniform=True) == []


def test_the_best_value_of_a_metric_is_never_among_the_worst() -> None:
    assert lists().places(event(0, {"trace.adherence": 1.0, "response.empty": 0.0})) == []


def test_a_metric_without_a_direction_has_no_worst() -> None:
    assert lists().places(event(0, {"mine.length": 3.0})) == []


def test_few_ordinary_values_are_proposed_in_an_hour() -> None:
    lately, values = WorstLately(10), random.Random(0)
    assert sum(lately.proposes(values.random(), 0.0) for _ in range(100_000)) < 10 * 15


def test_equal_values_are_proposed_ten_times_a_minute_and_a_new_hour_begins_anew() -> None:
    lately = WorstLately(1)
    assert [lately.proposes(1.0, now) for now in (0, 1, 5, 6, 7)] == [True, False, False, True, False]
    assert not lately.proposes(0.0, 3_000)
    assert lately.proposes(0.0, 3_606), "an hour after the last of them"


def threshold(**changes: Any) -> AlertRule:
    fields = {"name": "low", "kind": "threshold", "metric": "trace.adherence", "target": 0.5, "min_effect": 0.1}
    return AlertRule(**{**fields, **changes})


@pytest.mark.parametrize(
    ("rule", "value", "beyond"),
    [
        (threshold(), 0.39, True),
        (threshold(), 0.41, False),
        (threshold(direction="rise"), 0.61, True),
        (threshold(pipeline="other*"), 0.1, False),
        (threshold(segment="lang"), 0.1, True),
        (threshold(segment="tier"), 0.1, False),
        (threshold(kind="drift", target=None, baseline=0.5), 0.1, True),
        (threshold(kind="drift", target=None), 0.1, False),
        (threshold(kind="drift", target=None, adjust="lang", baselines={"de": 0.5}), 0.39, True),
        (threshold(kind="drift", target=None, adjust="lang", baselines={"en": 0.5}), 0.39, False),
    ],
)
def test_an_interaction_beyond_the_line_of_a_rule_qualifies(rule: AlertRule, value: float, beyond: bool) -> None:
    found = lists(rule).places(event(0, {"trace.adherence": value}, segments={"lang": "de"}))
    assert ("beyond:low" in names(found)) is beyond


def test_a_rule_that_most_traffic_is_beyond_proposes_a_few_at_once_and_then_one_each_few_seconds() -> None:
    clock = Clock()
    one = lists(threshold(), clock=clock)
    events = [event(number, {"trace.adherence": 0.1}) for number in range(100)]
    assert sum("beyond:low" in names(one.places(each)) for each in events) == BEYOND_BURST
    clock.now = BEYOND_EVERY_S
    assert [("beyond:low" in names(one.places(each))) for each in events[:2]] == [True, False]


def test_the_newest_are_all_answers_of_little_traffic_and_of_much_traffic_one_a_second() -> None:
    clock = Clock()
    one = lists(newest_n=5, clock=clock)

    def kept(pipeline: str = "shop") -> bool:
        best = {"trace.adherence": 1.0}  # whatever the score
        return "newest" in names(one.places(event(int(clock.now * 1000), best, pipeline=pipeline)))

    assert [kept() for _ in range(7)] == [True] * 5 + [False] * 2
    assert kept("other"), "each pipeline has its own"
    for _ in range(20):
        clock.now += NEWEST_EVERY_S
        assert [kept(), kept()] == [True, False]
    clock.now += 100 * NEWEST_EVERY_S
    assert sum(kept() for _ in range(10)) == 5
    assert lists(newest_n=0).places(event(0, {"trace.adherence": 1.0})) == []


def test_the_newest_of_many_pipelines_cost_a_worker_no_more_than_a_few_a_second() -> None:
    clock = Clock()
    one = lists(newest_n=1, clock=clock)
    kept = 0
    for second in range(100):
        clock.now = float(second)
        for pipeline in range(50):
            places = one.places(event(second, {"trace.adherence": 1.0}, pipeline=f"p-{pipeline}"))
            kept += "newest" in names(places)
    assert kept <= 50 + 100 * NEWEST_PER_S
