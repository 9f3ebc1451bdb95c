"""Rules on agreement through the state: kappa of verdicts falls, or the error rises; live."""

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide import Alert, AlertRule, MetricEvent
from ragtide_aggregator.alerts.kappa_baseline import line_of
from ragtide_aggregator.maintenance.repartitioned_fields import pipeline_of, repartitioned
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import Direction, MetricDeclaration

METRIC = "trace.adherence"


def rule(**fields: Any) -> AlertRule:
    known = {"name": "people", "kind": "agreement", "statistic": "kappa", "metric": METRIC, "run_length": 1000}
    return AlertRule(**{**known, **fields})


def graded(
    n: int, kappa: float, *, first: int = 0, share: float = 0.8, seed: int = 0, **changes: Any
) -> list[MetricEvent]:
    """Return events of a judge that agrees with people with a kappa."""
    rng = np.random.default_rng(seed)
    gold, other = rng.random(n) < share, rng.random(n) < share
    judge = np.where(rng.random(n) < kappa, gold, other)
    return [
        event(first + number, {METRIC: float(judge[number])}, gold_scores={METRIC: float(gold[number])}, **changes)
        for number in range(n)
    ]


GOOD = graded(600, 0.85, seed=1)
BAD = graded(300, 0.2, first=600, seed=2)
BACK = graded(600, 0.95, first=900, seed=3)


def run(events: list[MetricEvent], *rules: AlertRule, **more: Any) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=rules, **more))
    for metric_event in events:
        state.apply(metric_event)
    return list(state.take_changes().alerts)


@pytest.mark.parametrize(
    ("fields", "source", "baseline"),
    [
        ({"target": 0.7}, "target", 0.7),
        ({"baseline": 0.8, "min_effect": 0.1}, "given", 0.8),
        ({"learn_n": 400}, "learned", None),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else None,
)
def test_it_fires_once_when_the_judge_leaves_people_and_resolves_when_it_is_back(
    fields: dict[str, Any], source: str, baseline: float | None
) -> None:
    fired, resolved = run([*GOOD, *BAD, *BACK], rule(**fields))
    assert (fired.status, resolved.status) == ("firing", "resolved")
    assert fired.alert_id == resolved.alert_id
    assert (fired.kind, fired.quantity, fired.direction) == ("agreement", "kappa", "fall")
    assert fired.baseline_source == source
    assert fired.baseline is not None
    assert baseline is None or fired.baseline == baseline
    assert fired.observed is not None
    assert fired.observed_lower is not None
    assert fired.observed_upper is not None
    assert fired.observed_lower < fired.observed < min(fired.observed_upper, 0.5)
    assert fired.began_at is not None
    assert abs((fired.began_at - BAD[0].occurred_at).total_seconds()) < 60
    assert fired.fired_at > BAD[0].occurred_at
    assert fired.run_length == 1000
    assert "Cohen's kappa" in fired.message
    assert "false alarm in 1,000 gold scores" in fired.message
    differing = {one.interaction_id for one in BAD if one.scores[METRIC] != one.gold_scores[METRIC]}
    assert fired.worst_interaction_ids
    assert len(set(fired.worst_interaction_ids) & differing) >= 3
    assert "is back" in resolved.message


def test_a_judge_that_agrees_as_before_fires_nothing_although_the_traffic_turns() -> None:
    other = graded(600, 0.85, first=600, share=0.5, seed=5)
    assert run([*GOOD, *other], rule(target=0.7)) == []


def test_each_segment_value_is_by_itself() -> None:
    by_lang = [
        *(one.model_copy(update={"segments": {"lang": "en"}}) for one in GOOD),
        *(one.model_copy(update={"segments": {"lang": "de"}}) for one in BAD),
    ]
    alerts = run(by_lang, rule(target=0.6, segment="lang"), rule(name="other", target=0.6, pipeline="desk"))
    assert [(alert.rule, alert.segment) for alert in alerts] == [("people", "lang=de")]


def test_a_removed_rule_withdraws_its_alert_and_its_state_moves_with_its_pipeline() -> None:
    options = StateOptions(rules=(rule(target=0.7),))
    state = AggregatorState(options)
    for one in [*GOOD[:100], *BAD]:
        state.apply(one)
    fields = dict(state.take_changes().rows)
    (name,) = [name for name in fields if name.startswith("rule:") or "people" in name]
    assert pipeline_of(name, fields[name]) == "shop"
    changed = AggregatorState.from_fields(StateOptions(), fields).take_changes()
    assert [alert.status for alert in changed.alerts] == ["resolved"]
    assert name in changed.gone


def test_another_number_of_partitions_changes_no_alert() -> None:
    """The state moves in the middle of a couple, and goes on where it was."""
    options = StateOptions(rules=(rule(target=0.7),))
    before, after = Layout("ragtide", 1), Layout("ragtide", 3)
    events = [*GOOD[:100], *BAD]
    state = AggregatorState(options)
    for one in events[:109]:
        state.apply(one)
    moved = repartitioned(before, after, {0: dict(state.take_changes().rows)})
    (fields,) = [fields for fields in moved.values() if any("people" in name for name in fields)]
    state = AggregatorState.from_fields(options, fields)
    for one in events[109:]:
        state.apply(one)
    expected = run(events, rule(target=0.7))
    assert len(expected) == 1
    assert state.take_changes().alerts == expected


def test_of_one_session_in_a_row_the_first_gold_score_counts() -> None:
    """The two of a couple must be independent: 20 grades of one conversation are not 20 grades."""
    clusters = ClusterSettings(by="session_id")
    long = [one.model_copy(update={"session_id": "one"}) for one in BAD]
    short = [one.model_copy(update={"session_id": one.interaction_id}) for one in BAD]
    assert run([*GOOD, *long], rule(target=0.7), clusters=clusters) == []
    (alert,) = run([*GOOD, *short], rule(target=0.7), clusters=clusters)
    assert alert.status == "firing"


def test_the_error_by_the_name_of_agreement_is_that_of_the_kind_rmse() -> None:
    fields: dict[str, Any] = {"target": 0.3, "run_length": None, "hysteresis": 0.02}
    (error,) = run([*GOOD, *BAD], rule(statistic="rmse", **fields))
    (old,) = run([*GOOD, *BAD], rule(statistic=None, kind="rmse", **fields))
    assert error.model_dump(exclude={"kind", "alert_id"}) == old.model_dump(exclude={"kind", "alert_id"})
    assert (error.kind, error.quantity) == ("agreement", "rmse")


@pytest.mark.pure
@for_each(
    "fields, words",
    [
        ({"statistic": None}, 'set statistic = "rmse" or "kappa"'),
        ({"kind": "drift"}, 'set kind = "agreement"'),
        ({"run_length": None}, "needs run_length"),
        ({"direction": "rise"}, "leave direction out"),
        ({"statistic": "rmse", "direction": "fall"}, "leave direction out"),
        ({"baseline": "seasonal"}, "give it as a number"),
        ({"baseline_window": "1d"}, "give it as a number"),
        ({"target": 0.5, "baseline": 0.5}, "exclude each other"),
        ({"target": 1.5}, "kappa's range -1 to 1"),
        ({"baseline": -0.99}, "kappa's range -1 to 1"),
        ({"metric": "mine.words", "target": 1.0, "min_effect": 0.0}, "kappa's range -1 to 1"),
        ({"threshold": 1.5}, "all scores of trace.adherence are on one side"),
        ({"statistic": "rmse", "threshold": 0.5}, 'set statistic = "kappa"'),
        ({"metric": "rmse.trace.adherence"}, "is an estimate"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_the_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(**fields)
    assert words in str(refused.value)


@pytest.mark.pure
def test_the_line_between_good_and_bad_is_the_rules_or_the_band_or_the_middle() -> None:
    assert line_of(rule(threshold=0.5), (0.0, 1.0)) == 0.5
    assert line_of(rule(), (0.0, 1.0)) == 0.8
    assert line_of(rule(metric="trace.average"), (0.0, 1.0)) == 0.5
    assert line_of(rule(metric="mine.words"), (0.0, 50.0)) == 25.0


def test_a_score_at_the_line_is_good_in_either_direction() -> None:
    """Where lower is better, the line itself is good too: all verdicts agree, so nothing fires."""
    for metric, at, beyond in (("trace.supported_fraction", 0.9, 0.8), ("ragchecker.hallucination", 0.1, 0.2)):
        agreeing = [
            event(
                number,
                {metric: at if number % 3 else beyond},
                gold_scores={metric: (at + 1e-9 * (beyond < at)) if number % 3 else beyond},
            )
            for number in range(400)
        ]
        assert run(agreeing, rule(metric=metric, target=0.9, min_effect=0.0)) == []
        opposed = [
            event(number, {metric: at if number % 3 else beyond}, gold_scores={metric: beyond if number % 3 else at})
            for number in range(100)
        ]
        assert len(run(opposed, rule(metric=metric, target=0.9, min_effect=0.0))) == 1


def test_a_metric_of_ones_own_has_its_middle_as_the_line() -> None:
    declared = {"mine.words": MetricDeclaration(lower=0, upper=50, direction=Direction.LOWER)}
    events = [
        event(number, {"mine.words": 50 * one.scores[METRIC]}, declared=declared, gold_scores={"mine.words": 50 * gold})
        for number, one in enumerate([*GOOD, *BAD])
        for gold in one.gold_scores.values()
    ]
    (alert,) = run(events, rule(metric="mine.words", target=0.7))
    assert (alert.metric, alert.metric_version, alert.quantity) == ("mine.words", "1", "kappa")
    assert "A score of 25 or better is good" in alert.message


@pytest.mark.parametrize("at_once", [1, 2, 333])
def test_an_alert_knows_nothing_of_gold_scores_after_it(at_once: int) -> None:
    events = [*GOOD[:99], *BAD]
    state = AggregatorState(StateOptions(rules=(rule(target=0.7),)))
    for number, one in enumerate(events):
        bare = one.model_copy(update={"gold_scores": {}})
        state.apply(bare)
        state.apply_gold(bare, one.gold_scores, 0.5 if number > 250 else 1.0)
        if number % at_once == 0:
            state.firing()
    (alert,) = state.take_changes().alerts
    assert alert.n is not None
    assert alert.n < 250
    assert "different probabilities" not in alert.message
    assert alert == run(events, rule(target=0.7))[0]


@pytest.mark.parametrize(("probability", "told"), [(1.0, False), (0.1, True)])
def test_an_alert_tells_that_gold_scores_were_drawn_with_different_probabilities(
    probability: float, told: bool
) -> None:
    """It tells so after a restart, too: the first gold score alone has another probability."""
    options = StateOptions(rules=(rule(target=0.7),))
    state = AggregatorState(options)
    first, *rest = [*GOOD[:50], *BAD]
    for one in [first, *rest]:
        bare = one.model_copy(update={"gold_scores": {}})
        state.apply(bare)
        state.apply_gold(bare, one.gold_scores, probability if one is first else 1.0)
        if one is rest[0]:
            state = AggregatorState.from_fields(options, dict(state.take_changes().rows))
    (alert,) = state.take_changes().alerts
    assert ("different probabilities" in alert.message) is told


def test_the_state_is_small() -> None:
    state = AggregatorState(StateOptions(rules=(rule(target=0.7),)))
    for one in [*GOOD, *BAD]:
        state.apply(one)
    (data,) = [data for name, data in state.take_changes().rows.items() if "people" in name]
    assert json.loads(data)["n"] == 900
    assert len(data) < 10_000
