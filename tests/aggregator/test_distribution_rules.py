"""Rules on covariates through the state: numbers known before the answer, and the values of a segment."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.cases import for_each
from tests.support.metric_events import START, event

from ragtide import Alert, AlertRule, MetricEvent
from ragtide_aggregator.state.state import AggregatorState, Changes, StateOptions
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas.alert_text import alert_text

SCORES = {"trace.adherence": 0.5}


def rule(**fields: Any) -> AlertRule:
    known = {
        "name": "inputs", "kind": "distribution", "covariate": "question_length", "learn_n": 500, "run_length": 1000,
    }  # fmt: skip
    return AlertRule(**{**known, **fields})


def of_lengths(lengths: Any, *, first: int = 0, **changes: Any) -> list[MetricEvent]:
    return [
        event(first + place, SCORES, covariates={"question_length": float(length)}, **changes)
        for place, length in enumerate(lengths)
    ]


def of_topics(topics: Any, *, first: int = 0) -> list[MetricEvent]:
    return [event(first + place, SCORES, segments={"topic": str(topic)}) for place, topic in enumerate(topics)]


def applied(events: list[MetricEvent], *rules: AlertRule, **options: Any) -> Changes:
    state = AggregatorState(StateOptions(rules=rules, **options))
    for metric_event in events:
        state.apply(metric_event)
    return state.take_changes()


def alerts_of(events: list[MetricEvent], *rules: AlertRule, **options: Any) -> list[Alert]:
    return list(applied(events, *rules, **options).alerts)


def lengths(n: int, scale: float = 1.0, seed: int = 0) -> Any:
    return np.floor(np.random.default_rng(seed).lognormal(4.5, 0.8, n) * scale)


def test_longer_questions_fire_once_and_resolve_when_they_are_as_before() -> None:
    longer = of_lengths(lengths(200, 3.0, seed=1), first=800)
    events = [*of_lengths(lengths(800)), *longer, *of_lengths(lengths(800, seed=2), first=1000)]
    fired, resolved = alerts_of(events, rule())
    assert (fired.status, resolved.status, fired.alert_id) == ("firing", "resolved", resolved.alert_id)
    assert (fired.kind, fired.quantity, fired.covariate, fired.direction) == (
        "distribution", "share", "question_length", "rise",
    )  # fmt: skip
    assert fired.metric == "covariate.question_length"
    assert fired.run_length == resolved.run_length == 1000
    assert fired.normal_n == 400  # the first fifth of learn_n decides where lengths are cut
    assert fired.began_at is not None
    assert abs((fired.began_at - longer[0].occurred_at).total_seconds()) < 30
    assert fired.observed is not None
    assert fired.normal is not None
    assert fired.baseline is not None
    assert fired.normal < fired.baseline < fired.observed
    assert fired.limit == pytest.approx(fired.baseline + 0.02)
    assert sum(share.before for share in fired.shares) == pytest.approx(1)
    assert sum(share.since for share in fired.shares) == pytest.approx(1)
    assert fired.distance is not None
    assert fired.distance >= fired.observed - fired.normal - 1e-9
    assert resolved.values == fired.values
    assert resolved.fired_observed == fired.observed
    place = int((fired.fired_at - START).total_seconds())
    assert fired.worst_interaction_ids[0] in {f"i-{number}" for number in range(place - 5, place + 1)}
    assert len(fired.worst_interaction_ids) == 5


def test_an_alert_says_which_values_grew_and_fell() -> None:
    (fired,) = alerts_of([*of_lengths(lengths(800)), *of_lengths(lengths(200, 3.0, seed=1), first=800)], rule())
    text = alert_text(fired)
    assert fired.values is not None
    assert f"question_length of shop: the share of {fired.values} characters rose from" in text.title
    moved = max(fired.shares, key=lambda share: abs(share.since - share.before))
    assert f"{moved.values} characters {100 * moved.before:.3g}% -> {100 * moved.since:.3g}%" in fired.message
    assert "At most one false alarm in 1,000 interactions" in fired.message
    assert "Example" in dict(text.rows)


def test_a_new_topic_and_a_missing_topic_fire() -> None:
    rng = np.random.default_rng(0)
    before = of_topics(rng.choice(["login", "refund", "other"], 800, p=[0.5, 0.3, 0.2]))
    new = of_topics(np.where(rng.random(400) < 0.3, "outage", "login"), first=800)
    (fired,) = alerts_of([*before, *new], rule(covariate="segment:topic"))
    assert fired.metric == "segment.topic"
    assert {share.values for share in fired.shares} == {"login", "refund", "other", "other values"}
    assert "topic of shop" in fired.message
    gone = of_topics(rng.choice(["login", "other"], 400), first=800)
    (fired,) = alerts_of([*before, *gone], rule(covariate="segment:topic", min_effect=0.0))
    assert {share.values: share.since for share in fired.shares}["refund"] < 0.05


def test_a_segment_without_a_covariate_is_the_covariate() -> None:
    found = AlertRule(name="topics", kind="distribution", segment="topic", run_length=1000)
    assert found == AlertRule(name="topics", kind="distribution", covariate="segment:topic", run_length=1000)
    assert (found.covariate, found.segment, found.learn_n) == ("segment:topic", None, 1000)
    assert AlertRule.model_validate_json(found.model_dump_json()) == found


def test_a_change_below_min_effect_does_not_fire() -> None:
    rng = np.random.default_rng(1)
    events = of_topics([*rng.choice(["a", "b"], 3_000, p=[0.5, 0.5]), *rng.choice(["a", "b"], 4_000, p=[0.58, 0.42])])
    topics = rule(covariate="segment:topic", learn_n=2_000)
    assert alerts_of(events, topics.model_copy(update={"min_effect": 0.1})) == []
    assert [alert.status for alert in alerts_of(events, topics.model_copy(update={"min_effect": 0.0}))] == ["firing"]


def test_pipelines_and_segments_are_by_themselves() -> None:
    events = []
    for number in range(1_500):
        lang, pipeline = ("de", "shop") if number % 3 else ("en", "help")
        length = 10.0 * (number % 7) + (500.0 if number >= 1_200 and lang == "de" else 0.0)
        events.append(
            event(number, SCORES, pipeline=pipeline, segments={"lang": lang}, covariates={"question_length": length})
        )
    by_lang, shop = rule(name="lang", segment="lang"), rule(name="shop", pipeline="help")
    assert [(alert.rule, alert.segment) for alert in alerts_of(events, by_lang, shop)] == [("lang", "lang=de")]


def test_interactions_without_the_covariate_do_not_count() -> None:
    events = of_lengths(lengths(800))
    without = [event(10_000 + number, SCORES, covariates={"other": 1.0}) for number in range(3_000)]
    changed = of_lengths(lengths(200, 3.0, seed=1), first=20_000)
    (fired,) = alerts_of([*events, *without, *changed], rule())
    assert fired.n is not None
    assert 800 < fired.n <= 1_000
    state = AggregatorState(StateOptions(rules=(rule(), rule(name="none", covariate="nothing"))))
    for metric_event in events:
        state.apply(metric_event)
    assert {key.metric for key in state.covariate_keys} == {"covariate.question_length"}


def test_of_a_session_the_first_interaction_counts_alone() -> None:
    """Only later questions of the sessions change."""
    rng = np.random.default_rng(2)
    events = []
    for session in range(1_200):
        length = float(rng.integers(1, 200))
        events += [
            event(
                3 * session + turn, SCORES, session_id=f"s-{session}",
                covariates={"question_length": length if not turn else 1_000.0 * (1 + session // 600)},
            )
            for turn in range(3)
        ]  # fmt: skip
    sessions = ClusterSettings()
    assert alerts_of(events, rule(), clusters=sessions) == []
    state = AggregatorState(StateOptions(rules=(rule(),), clusters=sessions))
    for metric_event in events:
        state.apply(metric_event)
    (data,) = [data for field, data in state.take_changes().rows.items() if field.startswith("rule")]
    assert b'"n":1200,' in data
    assert alerts_of(events, rule())


def test_a_judges_scores_of_the_same_interaction_count_once() -> None:
    judged = {"labeler": "judge", "labeler_version": "1", "profile": "p", "scores": SCORES, "uniform": True}
    plain, twice = of_lengths(lengths(900)), of_lengths(lengths(900), judged=judged, gold_scores=SCORES)
    found = [
        {field: data for field, data in applied(events, rule()).rows.items() if field.startswith("rule")}
        for events in (plain, twice)
    ]
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_a_constant_covariate_fires_when_it_is_another_constant() -> None:
    (fired,) = alerts_of(of_lengths([5.0] * 600 + [3.0] * 40), rule())
    assert fired.values == "below 5"
    assert (fired.normal, fired.observed) == (0.0, 1.0)


@settings(max_examples=6, deadline=None)
@given(power=st.sampled_from([1.0, 2.0, 0.5]), scale=st.floats(0.01, 100), seed=st.integers(0, 5))
def test_a_growing_transform_of_the_covariate_changes_no_alarm(power: float, scale: float, seed: int) -> None:
    values = np.concatenate([lengths(700, seed=seed), lengths(200, 2.5, seed=seed + 10)])
    plain, turned = (alerts_of(of_lengths(found), rule()) for found in (values, scale * values**power))
    facts = [
        [(a.status, a.fired_at, a.began_at, a.observed, a.limit, a.distance, a.worst_interaction_ids) for a in found]
        for found in (plain, turned)
    ]
    assert facts[0] == facts[1]
    assert plain


def test_a_changed_rule_learns_again_and_ends_its_alert() -> None:
    changes = applied([*of_lengths(lengths(800)), *of_lengths(lengths(200, 3.0, seed=1), first=800)], rule())
    again = AggregatorState.from_fields(StateOptions(rules=(rule(min_effect=0.05),)), changes.rows)
    assert again.firing() == []
    assert [alert.status for alert in again.take_changes().alerts] == ["resolved"]
    same = AggregatorState.from_fields(StateOptions(rules=(rule(severity="page"),)), changes.rows)
    assert [alert.alert_id for alert in same.firing()] == [alert.alert_id for alert in changes.alerts]


def test_an_alert_with_a_long_name_from_outside_stays_bounded() -> None:
    names = ["v" * 190 + str(number) for number in range(9)]
    before = of_topics([names[number % 9] for number in range(600)])
    (fired,) = alerts_of([*before, *of_topics(["w" * 200] * 60, first=600)], rule(covariate="segment:topic"))
    assert len(alert_text(fired).title) <= 150
    assert len(fired.message) < 3_000


@for_each(
    "fields, words",
    [
        ({"run_length": None}, "needs run_length"),
        ({"kind": "drift", "metric": "trace.adherence"}, 'set kind = "distribution"'),
        ({"metric": "trace.adherence"}, "exclude each other"),
        ({"covariate": "segment:"}, "has no name"),
        ({"covariate": "segment:lang", "segment": "lang"}, "leave segment out"),
        ({"baseline": 0.5, "baseline_window": "1d"}, "leave baseline and baseline_window out"),
        ({"direction": "rise"}, "leave direction out"),
        ({"min_effect": 1.0}, "could never fire"),
        ({"adjust": "lang"}, 'use kind = "drift"'),
        ({"covariate": None, "metric": None}, "metric is missing"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_a_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(**fields)
    assert words in str(refused.value)


def test_late_sessions_do_not_count_twice() -> None:
    """A session that goes on after it was closed does not begin again."""
    sessions = ClusterSettings(size=2)
    events = [
        event(
            number, SCORES, session_id=f"s-{number // 6}", covariates={"question_length": float(number % 6)},
            occurred_at=START + timedelta(seconds=number),
        )
        for number in range(6 * 700)
    ]  # fmt: skip
    assert alerts_of(events, rule(), clusters=sessions) == []
