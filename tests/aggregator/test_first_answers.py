"""The first answers of sessions in alert rules: they count at once, and the run length of the rule holds."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_runtime.settings.alerting import BLOCKS, ClusterSettings
from ragtide_schemas import MetricEvent

ADHERENCE = "trace.adherence"
HALF_AN_HOUR = ClusterSettings(quiet_s=1800)
GIVEN = AlertRule(name="given", kind="drift", metric=ADHERENCE, baseline=0.85, learn_n=50, min_effect=0.0)


def sessions(values: Sequence[float], size: int, *, at_once: int = 1, start: int = 0) -> list[MetricEvent]:
    """Return an answer a second, in sessions of one size, so many at once."""
    return [
        event(start + n, {ADHERENCE: value}, session_id=f"s-{(start + n) // (size * at_once)}-{n % at_once}")
        for n, value in enumerate(values)
    ]


def applied(events: Iterable[MetricEvent], *rules: AlertRule, **options: Any) -> AggregatorState:
    state = AggregatorState(StateOptions(**{"rules": rules, "clusters": HALF_AN_HOUR, **options}))
    assert state.apply_columns(columns_of(list(events))) == []
    return state


def drawn(mean: float, n: int, seed: int = 1) -> list[float]:
    return [float(score) for score in np.random.default_rng(seed).random(n) < mean]


def alerts_of(*args: Any, **options: Any) -> list[Alert]:
    return list(applied(*args, **options).take_changes().alerts)


def test_an_alert_comes_before_any_session_is_closed() -> None:
    values = [*drawn(0.85, 1_500), *[0.0] * 90]
    (alert,) = alerts_of(sessions(values, 3), GIVEN)
    # No session is closed by half an hour within 1,590 seconds, and none by its size.
    assert (alert.status, alert.observed_of) == ("firing", "first_answers")
    assert alert.n is not None
    assert 1_500 < alert.n < 1_590
    assert alert.observed_n is not None
    # Of each session of three the first one or two answers.
    assert alert.observed_n <= 2 * (alert.n - 1_500) / 3 + 4
    assert {int(name.removeprefix("i-")) % 3 for name in alert.worst_interaction_ids} <= {0, 1}
    assert alert.run_length == 10_000


def test_it_is_resolved_by_first_answers_that_are_normal_again() -> None:
    values = [*drawn(0.85, 1_500), *[0.0] * 90, *[1.0] * 300]
    fired, resolved = alerts_of(sessions(values, 3), GIVEN)
    assert (fired.status, resolved.status) == ("firing", "resolved")
    assert resolved.observed_of == "first_answers"
    assert (resolved.n or 0) > (fired.n or 0)


def test_first_answers_that_are_always_worse_than_the_others_raise_no_alert() -> None:
    # Of three answers the first has a mean of 0.65 and the others of 0.95: 0.85 in all.
    rng = np.random.default_rng(2)
    values = [float(rng.random() < (0.95 if number % 3 else 0.65)) for number in range(4_500)]
    given = GIVEN.model_copy(update={"min_effect": 0.02})
    for rule in (given, AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.85, learn_n=50)):
        assert alerts_of(sessions(values, 3), rule) == []
        # A fall of the first answers below their own level raises one.
        (alert,) = alerts_of(sessions([*values, *[0.0] * 150], 3), rule)
        assert (alert.observed_of, alert.baseline_source) == ("first_answers", "learned")
        assert alert.baseline is not None
        # The lenient end of 0.65 for the first answers alone, or of 0.8 for the first two of three.
        assert 0.5 < alert.baseline < 0.8


def test_without_sessions_nothing_is_shared() -> None:
    values = [*drawn(0.85, 800), *[0.0] * 60]
    alone = [event(number, {ADHERENCE: value}) for number, value in enumerate(values)]
    with_clusters, without = alerts_of(alone, GIVEN), alerts_of(alone, GIVEN, clusters=None)
    # Their dependence is measured only where clusters are looked for.
    (same,) = [alert.model_copy(update={"design_effect": None}) for alert in with_clusters]
    assert [same.encode()] == [alert.encode() for alert in without]


def test_the_first_session_shares_the_run_length_and_keeps_the_evidence() -> None:
    values = [*drawn(0.85, 200), 0.0, 0.0, 0.0]
    alone = [event(number, {ADHERENCE: value}) for number, value in enumerate(values)]
    state = applied(alone, GIVEN)
    (before,) = [rule.evidence() for rule in state._alerts.rules.of(_row(state))]
    state.apply(event(203, {ADHERENCE: 1.0}, session_id="s"))
    (after,) = [rule.evidence() for rule in state._alerts.rules.of(_row(state))]
    assert before is not None
    assert after is not None
    assert [before.run_length, after.run_length] == pytest.approx([10_000, 10_000])
    # A quarter of the mean of all is that of the closed clusters; the open session adds nothing yet.
    assert after.once_in == pytest.approx(before.once_in / 4)


def _row(state: AggregatorState) -> int:
    (row,) = [row for row, key in enumerate(state.keys) if key.metric == ADHERENCE and key.segment is None]
    return row


@pytest.mark.parametrize(
    ("rule", "clusters"),
    [
        (GIVEN, ClusterSettings(by=BLOCKS, block=64)),
        (GIVEN, ClusterSettings(by="segment:channel", quiet_s=1800)),
        (GIVEN.model_copy(update={"adjust": "lang", "baseline": None}), HALF_AN_HOUR),
    ],
)
def test_rules_for_which_first_answers_say_nothing_do_not_share(rule: AlertRule, clusters: ClusterSettings) -> None:
    events = [
        one.model_copy(update={"segments": {"channel": f"c{number % 2}", "lang": "en"}})
        for number, one in enumerate(sessions(drawn(0.85, 100), 3))
    ]
    state = applied(events, rule, clusters=clusters)
    assert [found.share for found in state._alerts.rules.of(_row(state))] == [1]


def test_a_session_that_goes_on_after_it_was_closed_has_no_other_first_answer() -> None:
    # Sessions of 30 answers are three clusters of 10, of which the first begins the session.
    state = applied(sessions(drawn(0.85, 600), 30), GIVEN)
    (rule,) = state._alerts.rules.of(_row(state))
    assert [first.counts.n for first in rule.beginnings] == [20, 20, 20]


def test_the_first_two_and_four_answers_count_together_when_the_last_of_them_comes() -> None:
    learning = GIVEN.model_copy(update={"baseline": None, "learn_n": 10_000})
    values = [float(value) for value in np.random.default_rng(3).random(330).round(3)]
    events = sessions(values, 5, at_once=3)
    # An answer without this score is no answer of its session for the rule.
    events[7] = events[7].model_copy(update={"scores": {}, "absent": {ADHERENCE: "not_labeled"}})
    for split in (0, 100, 101, 111, 200):
        first = applied(events[:split], learning)
        fields = dict(first.take_changes().rows)
        state = AggregatorState.from_fields(StateOptions(rules=(learning,), clusters=HALF_AN_HOUR), fields)
        for scored in events[split:]:
            state.apply(scored)
        (rule,) = state._alerts.rules.of(_row(state))
        by_session: dict[str, list[float]] = {}
        for scored in events:
            by_session.setdefault(str(scored.session_id), []).extend(scored.scores.values())
        for beginning in rule.beginnings:
            whole = [mine[: beginning.length] for mine in by_session.values() if len(mine) >= beginning.length]
            learned = beginning.baseline.dump()["learner"]["mean"]
            assert beginning.counts.n == len(whole)
            assert learned["n"] == beginning.length * len(whole)
            assert learned["mean"] == pytest.approx(np.mean(whole))


def test_whole_clusters_find_the_end_if_other_settings_have_no_first_answers() -> None:
    options = StateOptions(rules=(GIVEN,), clusters=HALF_AN_HOUR)
    state = applied(sessions([*drawn(0.85, 1_500), *[0.0] * 90], 3), GIVEN)
    changes = state.take_changes()
    assert [alert.observed_of for alert in changes.alerts] == ["first_answers"]
    for clusters in (None, ClusterSettings(by=BLOCKS, block=10)):
        other = StateOptions(rules=options.rules, clusters=clusters)
        after = AggregatorState.from_fields(other, dict(changes.rows))
        for number in range(1_000):
            after.apply(event(2_000 + number, {ADHERENCE: 1.0}))
        (resolved,) = after.take_changes().alerts
        assert (resolved.status, resolved.observed_of) == ("resolved", "answers")


def test_a_checkpoint_of_an_older_release_begins_first_answers() -> None:
    state = applied(sessions(drawn(0.85, 600), 3), GIVEN, clusters=ClusterSettings(by="segment:none", quiet_s=1800))
    fields = dict(state.take_changes().rows)
    after = AggregatorState.from_fields(StateOptions(rules=(GIVEN,), clusters=HALF_AN_HOUR), fields)
    for one in sessions([*drawn(0.85, 1_500), *[0.0] * 90], 3, start=600):
        after.apply(one)
    assert [alert.observed_of for alert in after.take_changes().alerts] == ["first_answers"]


def test_a_first_answer_costs_as_much_as_the_answers_since_the_one_before() -> None:
    table = DetectorTable()
    for _ in range(2):
        table.configure(table.add_row(), limit=0.8, direction="fall", run_length=1_000)
    values = np.array([0.2, 0.9, 0.1, 0.0])
    rows, tags = np.zeros(4, dtype=np.intp), np.arange(4)
    table.update(rows, values, tags, costs=np.full(4, 3 / 1_000), answers=np.full(4, 3))
    table.update(rows + 1, values, tags)
    # M is linear in the costs.
    assert np.exp(table.log_evidence(0)) == pytest.approx(3 * np.exp(table.log_evidence(1)))
    (alarm,), _ = table.update(rows[:1].repeat(60), np.zeros(60), np.arange(60), costs=np.full(60, 3 / 1_000),
                               answers=np.full(60, 3))  # fmt: skip
    assert alarm.run_length == pytest.approx(1_000)


def test_a_rule_that_learns_finds_a_fall_within_about_as_many_answers_as_without_sessions() -> None:
    # Sixty answers a second, as in a load test: no session of three is closed within its ten minutes of quiet.
    rule = AlertRule(name="drift", kind="drift", metric=ADHERENCE)
    values = [*np.clip(np.random.default_rng(5).normal(0.9, 0.05, 2_400), 0, 1).tolist(), *[0.2] * 300]

    def answers_to_the_alarm(**session: str) -> int:
        events = [
            event(number // 60, {ADHERENCE: value}).model_copy(
                update={"interaction_id": f"i-{number}"}
                | ({"session_id": f"s-{number // 60}-{number % 20}"} if session else {})
            )
            for number, value in enumerate(values)
        ]
        (alert,) = alerts_of(events, rule, clusters=ClusterSettings())
        assert alert.observed_of == ("first_answers" if session else "answers")
        return (alert.n or 0) - 2_400

    assert 0 < answers_to_the_alarm() < 20
    assert 0 < answers_to_the_alarm(session_id="") < 100


def test_whole_clusters_are_compared_when_enough_is_known_of_them_too() -> None:
    rule = AlertRule(name="drift", kind="drift", metric=ADHERENCE, learn_n=600)
    # Sessions of ten are closed by their size; first answers stay normal in the end.
    values = drawn(0.85, 1_500)
    values += [float(number % 10 == 0) for number in range(400)]
    state = applied(sessions(values, 10), rule)
    (found,) = state._alerts.rules.of(_row(state))
    assert found.baseline.is_known
    (alert,) = state.take_changes().alerts
    assert alert.observed_of == "answers"


def in_sessions_with_luck(rng: np.random.Generator, n: int, size: int, mean: float, icc: float) -> np.ndarray[Any, Any]:
    weight = (1 - icc) / icc
    luck = rng.beta(mean * weight, (1 - mean) * weight, n // size + 1)
    return (rng.random(n) < np.repeat(luck, size)[:n]).astype(float)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [3, 5])
def test_run_lengths_are_as_stated_and_a_fall_of_whole_sessions_is_found_at_once(size: int) -> None:
    rule = GIVEN.model_copy(update={"run_length": 500.0, "learn_n": 20})
    rng = np.random.default_rng(size)
    clusters = ClusterSettings()
    lengths, delays = [], []
    for _ in range(60):
        draw = partial(in_sessions_with_luck, rng, size=size, icc=0.2)
        found = alerts_of(sessions(draw(1_500, mean=0.85).tolist(), size), rule, clusters=clusters)
        lengths.append((found[0].n or 0) if found else 1_500)
        values = [*draw(900, mean=0.85), *draw(600, mean=0.3)]
        fired = [alert for alert in alerts_of(sessions(values, size), rule, clusters=clusters)
                 if alert.status == "firing" and (alert.fired_at.timestamp() - _START) >= 900]  # fmt: skip
        if fired:
            delays.append(fired[0].fired_at.timestamp() - _START - 900)
    assert np.mean(lengths) > 500
    assert len(delays) > 30
    # Whole sessions alone would count from 600 seconds on.
    assert np.mean(delays) < 150


_START = event(0, {ADHERENCE: 1.0}).occurred_at.timestamp()
