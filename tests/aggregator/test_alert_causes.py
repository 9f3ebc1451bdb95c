"""The cause of an alert, other traffic or other answers: reported once while it fires."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.event_columns import columns_of
from tests.support.metric_events import event

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.cause_search import LOOKS, MOST_VALUES
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_schemas import MetricEvent

ADHERENCE = "trace.adherence"
RULE = AlertRule(name="floor", kind="drift", metric=ADHERENCE, baseline=0.85, run_length=1_000)
OPTIONS = StateOptions(
    rules=(RULE,), panes=Panes((window("5m"),), 1_200_000), clusters=ClusterSettings(size=4, quiet_s=30)
)


Kind = dict[str, tuple[float, float]]
"""By value of `lang` its share and its mean."""


def traffic(parts: Sequence[tuple[int, Kind]], seed: int = 2) -> list[MetricEvent]:
    """Return events in parts, each with its number of events."""
    rng = np.random.default_rng(seed)
    found: list[MetricEvent] = []
    for n, segments in parts:
        shares = np.array([share for share, _ in segments.values()])
        for lang in rng.choice(list(segments), n, p=shares / shares.sum()):
            score = float(rng.random() < segments[str(lang)][1])
            tags = {"lang": str(lang)} if lang != "none" else {}
            number = len(found)
            found.append(event(number, {ADHERENCE: score}, segments={**tags, "channel": f"c{number % 3}"}))
    return found


NORMAL = {"de": (0.15, 0.5), "en": (0.8, 0.92), "none": (0.05, 0.9)}
MORE_DE = {"de": (0.7, 0.5), "en": (0.28, 0.92), "none": (0.02, 0.9)}
WORSE = {"de": (0.15, 0.2), "en": (0.8, 0.62), "none": (0.05, 0.6)}
WORSE_DE = {"de": (0.4, 0.0), "en": (0.55, 0.92), "none": (0.05, 0.9)}
NEW = {"de": (0.1, 0.5), "en": (0.4, 0.92), "fr": (0.5, 0.3)}


def run(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> list[Alert]:
    state = AggregatorState(options)
    state.apply_columns(columns_of(events))
    return list(state.take_changes().alerts)


def explained(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> Alert:
    """Return the explained alert among those of events, of which the first fires."""
    fired, told, *_ = run(events, options)
    assert (fired.status, told.status) == ("firing", "explained")
    assert fired.cause is None
    assert fired.cause_sought
    assert not told.cause_sought
    assert fired.message != told.message
    assert told.cause is not None
    assert told.cause.text in told.message
    assert told.explained_at is not None
    assert told.explained_at > fired.fired_at
    same = {"status", "message", "cause", "cause_sought", "explained_at", "n", "diagnosis"}
    assert told.model_dump(exclude=same) == fired.model_dump(exclude=same)
    return told


def test_the_explained_alert_has_the_diagnosis_of_its_time() -> None:
    events = [
        one.model_copy(update={"scores": {**one.scores, "trace.context_relevance": 0.6}})
        for one in traffic([(1_500, NORMAL), (1_100, MORE_DE)])
    ]
    fired, told, *_ = run(events)
    assert told.status == "explained"
    assert told.diagnosis[0].startswith("The documents are relevant, and the answers go beyond them")
    assert told.diagnosis != fired.diagnosis


def test_more_of_a_language_that_scores_worse_is_told_as_mix() -> None:
    cause = explained(traffic([(1_500, NORMAL), (1_100, MORE_DE)])).cause
    assert cause is not None
    assert (cause.verdict, cause.segment) == ("mix", "lang")
    assert cause.text.startswith("mostly mix: more lang=de (1")
    assert cause.mix_upper < 0
    assert cause.mix_lower < cause.mix < cause.mix_upper
    assert cause.within_lower < 0 < cause.within_upper
    assert cause.n_since in LOOKS
    german = next(share for share in cause.shares if share.value == "lang=de")
    assert german.before_lower <= german.before <= german.before_upper < german.since_lower <= german.since
    assert f"lang=de ({100 * german.before:.0f}% to {100 * german.since:.0f}%)" in cause.text
    assert len(cause.shares) <= 3


def test_worse_answers_in_every_language_are_told_as_within_all_segments() -> None:
    told = explained(traffic([(1_500, NORMAL), (1_500, WORSE)]))
    assert told.cause is not None
    assert told.cause.verdict == "within"
    assert "within all segments" in told.message
    assert told.cause.within_upper < 0 < told.cause.mix_upper


def test_worse_answers_in_one_language_name_it() -> None:
    before = {"de": (0.4, 0.9), "en": (0.55, 0.92), "none": (0.05, 0.9)}
    cause = explained(traffic([(1_500, before), (1_100, WORSE_DE)])).cause
    assert cause is not None
    assert (cause.verdict, cause.segment, cause.spread, cause.carriers) == ("within", "lang", "few", ("lang=de",))
    assert cause.text.startswith("within lang=de (0.8")


def test_a_new_version_changes_the_system_and_not_the_traffic() -> None:
    events = [
        one.model_copy(update={"segments": {**one.segments, "version": "2" if number >= 4_000 else "1"}})
        for number, one in enumerate(traffic([(4_000, NORMAL), (4_000, WORSE)]))
    ]
    cause = explained(events).cause
    assert cause is not None
    assert (cause.verdict, cause.segment != "version") == ("within", True)


def test_a_language_that_was_not_there_before_is_mix() -> None:
    cause = explained(traffic([(1_500, NORMAL), (900, NEW)])).cause
    assert cause is not None
    assert cause.verdict == "mix"
    assert "more lang=fr (0% to " in cause.text


def test_the_stretch_before_ends_before_the_change_and_that_since_begins_at_the_alarm() -> None:
    events = traffic([(1_500, NORMAL), (1_100, MORE_DE)])
    told = explained(events)
    assert told.cause is not None
    fired = next(place for place, one in enumerate(events) if one.occurred_at == told.fired_at) + 1
    assert told.n == fired + told.cause.n_since
    # Seven panes of five minutes are kept. Those before the pane of the change count.
    assert told.began_at is not None
    began = int((told.began_at - events[0].occurred_at).total_seconds()) // 300
    assert told.cause.n_before == 300 * (began - max((fired - 1) // 300 - 6, 0))


def test_without_windows_the_stretch_before_is_everything_before_the_alarm() -> None:
    events = traffic([(1_500, NORMAL), (1_100, MORE_DE)])
    told = explained(events, StateOptions(rules=(RULE,)))
    assert told.cause is not None
    assert told.n is not None
    assert told.cause.n_before == told.n - told.cause.n_since


def test_without_segments_nothing_is_searched_for() -> None:
    events = traffic([(1_500, NORMAL), (1_100, MORE_DE)])
    plain = [one.model_copy(update={"segments": {}}) for one in events]
    (fired,) = run(plain)
    assert not fired.cause_sought
    state = AggregatorState(OPTIONS)
    state.apply_columns(columns_of(plain))
    assert not any(b'"search"' in data for data in state.take_changes().rows.values())
    assert run(events, StateOptions(rules=(RULE,), segments=False))[0].message == fired.message


@pytest.mark.parametrize("changes", [{"segment": "lang"}, {"kind": "distribution", "baseline_spread": 0.05}])
def test_a_rule_on_a_segment_or_an_alert_about_a_spread_is_not_explained(changes: dict[str, Any]) -> None:
    rule = AlertRule(**{**RULE.model_dump(), **changes})
    alerts = run(traffic([(1_500, NORMAL), (2_000, MORE_DE)]), StateOptions(rules=(rule,)))
    assert alerts
    assert {alert.status for alert in alerts} <= {"firing", "resolved"}
    assert not any(alert.cause_sought for alert in alerts)


def test_a_resolved_alert_keeps_its_cause_and_the_next_alert_is_explained_by_itself() -> None:
    better = {"de": (0.05, 0.9), "en": (0.95, 0.95)}
    alerts = run(traffic([(1_500, NORMAL), (1_100, MORE_DE), (1_200, better), (1_500, WORSE)], seed=3))
    assert [alert.status for alert in alerts] == ["firing", "explained", "resolved", "firing", "explained"]
    first, second = alerts[1].cause, alerts[4].cause
    assert alerts[2].cause == first
    assert first is not None
    assert second is not None
    assert (first.verdict, second.within_upper < 0) == ("mix", True)
    assert len({alert.alert_id for alert in alerts[:3]}) == 1
    assert alerts[3].cause is None


def test_an_alert_that_resolves_before_its_first_look_is_never_explained() -> None:
    better = {"de": (0.05, 1.0), "en": (0.95, 1.0)}
    alerts = run(traffic([(1_500, NORMAL), (60, WORSE), (2_000, better)], seed=4))
    assert [alert.status for alert in alerts] == ["firing", "resolved"]


def test_the_state_of_a_search_is_bounded_and_gone_when_it_is_over() -> None:
    rng = np.random.default_rng(5)
    events = [
        event(
            number, {ADHERENCE: float(rng.random() < (0.9 if number < 1_000 else 0.4))}, segments={"user": f"u{user}"}
        )
        for number, user in enumerate(rng.integers(0, 500, 3_000))
    ]
    state = AggregatorState(OPTIONS)
    state.apply_columns(columns_of(events[:1_100]))
    sizes = [
        len(data) for name, data in state.take_changes().rows.items() if name.startswith(CheckpointField.RULE_STATE)
    ]
    assert 2_000 < max(sizes) < 3_000 + MOST_VALUES * 80
    state.apply_columns(columns_of(events[1_100:]))
    changes = state.take_changes()
    (told,) = changes.alerts
    assert told.status == "explained"
    assert told.cause is not None
    assert told.cause.verdict == "within"
    over = [len(data) for name, data in changes.rows.items() if name.startswith(CheckpointField.RULE_STATE)]
    assert max(over) < 6_000


def test_dependent_sessions_of_one_language_make_the_intervals_wider() -> None:
    alone = traffic([(1_000, NORMAL), (900, MORE_DE)])
    # Four equal answers a session.
    events = [
        event(number, of.scores, segments=of.segments, session_id=f"s{number // 4}")
        for number, of in enumerate(one for one in alone for _ in range(4))
    ]
    rule = RULE.model_copy(update={"run_length": 1e9})
    clustered = explained(events, StateOptions(rules=(rule,), clusters=OPTIONS.clusters)).cause
    single = explained(events, StateOptions(rules=(rule,))).cause
    assert clustered is not None
    assert single is not None
    assert (clustered.verdict, single.verdict) == ("mix", "mix")
    assert clustered.n_since >= 2 * single.n_since


def test_within_one_segment_is_no_cause_while_another_may_explain_it_by_its_mix() -> None:
    # Within channels answers are worse, because more of them are German. Too few were German before to tell.
    events = traffic([(1_500, {"de": (0.01, 0.5), "en": (0.99, 0.9)}), (3_500, {"de": (0.4, 0.5), "en": (0.6, 0.9)})])
    told = explained(events).cause
    assert told is not None
    assert (told.verdict, told.n_since) == ("unresolved", LOOKS[-1])
    assert told.text == "not resolved: by channel within all segments, by lang not known"
    alone = explained(
        [one.model_copy(update={"segments": {"channel": one.segments["channel"]}}) for one in events]
    ).cause
    assert alone is not None
    assert alone.verdict == "within"
