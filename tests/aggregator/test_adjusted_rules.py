"""Rules that hold the mix of a segment fixed: each segment value has its own normal mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each
from tests.support.event_columns import columns_of
from tests.support.metric_events import event
from tests.support.state_cuts import in_one_piece, in_pieces

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts.adjusted_baseline import AdjustedBaseline
from ragtide_aggregator.alerts.rule_state import RuleState, StoredRows
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.adjusted_drift import CommonScale
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.ranks import EarlierTable
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

METRIC = "trace.adherence"
MEANS = {"en": 0.9, "de": 0.5, "fr": 0.8}
CLUSTERS = ClusterSettings(size=4)


def rule(**fields: Any) -> AlertRule:
    return AlertRule(**{"name": "r", "kind": "drift", "metric": METRIC, "adjust": "lang", **fields})


def stretch(
    shares: dict[str, float], n: int, *, means: dict[str, float] = MEANS, seed: int = 1, first: int = 0, **changes: Any
) -> list[MetricEvent]:
    """Return yes or no scores of a mix of languages."""
    rng = np.random.default_rng(seed)
    langs = rng.choice(list(shares), n, p=list(shares.values()))
    return [
        event(first + place, {METRIC: float(rng.random() < means[lang])}, segments={"lang": str(lang)}, **changes)
        for place, lang in enumerate(langs)
    ]


def alerts_of(events: Sequence[MetricEvent], *rules: AlertRule, **options: Any) -> list[Alert]:
    state = AggregatorState(StateOptions(rules=rules, **options))
    state.apply_columns(columns_of(events))
    return list(state.take_changes().alerts)


BEFORE = {"en": 0.85, "de": 0.15}
CAMPAIGN = {"en": 0.2, "de": 0.8}
WHOLE = AlertRule(name="whole", kind="drift", metric=METRIC)
GIVEN = rule(name="given", baselines={"en": 0.9, "de": 0.5})


@pytest.mark.parametrize("clustered", [False, True])
def test_a_campaign_does_not_fire_and_a_fall_within_segments_does(clustered: bool) -> None:
    changes: dict[str, Any] = {"clusters": CLUSTERS} if clustered else {}
    # An interval over clusters is wider, and takes more values to learn.
    learned = rule(learn_n=400)
    before = stretch(BEFORE, 3000)
    campaign = [*before, *stretch(CAMPAIGN, 3000, first=3000, seed=2)]
    if clustered:
        # Sessions of one language.
        campaign = [
            one.model_copy(update={"session_id": f"{one.segments['lang']}-{place // 10}"})
            for place, one in enumerate(campaign)
        ]
    assert {one.rule for one in alerts_of(campaign, learned, GIVEN, WHOLE, **changes)} == {"whole"}
    worse = {lang: mean - 0.25 for lang, mean in MEANS.items()}
    fallen = [*campaign, *stretch(CAMPAIGN, 1000, means=worse, first=6000, seed=3)]
    found = {one.rule: one for one in alerts_of(fallen, learned, GIVEN, **changes)}
    assert set(found) == {"r", "given"}
    alert = found["given"]
    assert (alert.baseline_source, alert.direction, alert.quantity) == ("given", "fall", "mean")
    # Half of all interactions are English so far: 0.525 * 0.9 + 0.475 * 0.5.
    assert alert.baseline == pytest.approx(0.71, abs=0.02)
    # The change point is that of the most unlikely values.
    assert -0.6 < alert.observed - alert.baseline < -0.15  # type: ignore[operator]
    assert alert.observed_lower < alert.observed < alert.observed_upper  # type: ignore[operator]
    assert "The mix of lang is held fixed" in alert.message
    assert (
        f"Normal for 2 values of lang (each with its own mean) is {alert.baseline:.3f}, given by the rule"
        in alert.message
    )
    assert (alert.fired_at - fallen[6000].occurred_at).total_seconds() > 0
    assert (found["r"].normal_n or 0) > 0
    assert found["r"].baseline < found["r"].normal  # type: ignore[operator]  # the rule looks for a fall


def test_the_alert_ends_when_the_segment_values_are_normal_again() -> None:
    worse = {lang: mean - 0.4 for lang, mean in MEANS.items()}
    events = [
        *stretch(BEFORE, 500),
        *stretch(BEFORE, 100, means=worse, first=500),
        # Most are German now, so the mean of all stays low.
        *stretch(CAMPAIGN, 1500, first=600),
    ]
    fired, ended = alerts_of(events, GIVEN)
    assert (fired.status, ended.status, ended.alert_id) == ("firing", "resolved", fired.alert_id)
    assert "is back at " in ended.message
    assert ended.observed > ended.baseline - 0.02  # type: ignore[operator]


def test_the_worst_interactions_are_those_furthest_below_their_own_segment_value() -> None:
    events = [event(number, {METRIC: 0.45}, segments={"lang": "de"}) for number in range(200)]
    for number in range(100, 200, 4):
        events[number] = event(number, {METRIC: 0.2}, segments={"lang": "en"})
    (alert, *_) = alerts_of(events, rule(baselines={"en": 0.9, "de": 0.4}))
    langs = {one.interaction_id: one.segments["lang"] for one in events}
    assert {langs[name] for name in alert.worst_interaction_ids} == {"en"}


@pytest.mark.simulation
def test_the_run_length_holds_while_the_mix_moves() -> None:
    """The means are exactly at the limits, the worst case, and the share of the worse segment value swings."""
    rng, (n, runs, run_length) = np.random.default_rng(7), (1000, 300, 100.0)
    shares = 0.5 + 0.45 * np.sin(np.arange(n) / 15)[:, None]
    limits = np.where(rng.random((n, runs)) < shares, 0.5, 0.92)
    values = (rng.random((n, runs)) < limits).astype(np.float64)

    def mean_run(own: bool) -> float:
        table = DetectorTable()
        for _ in range(runs):
            table.configure(table.add_row(), limit=0.71, direction="fall", run_length=run_length)
        rows, taken, scale = np.tile(np.arange(runs), n), values.ravel(), CommonScale.of(0.5, 0.92)
        if own:
            taken = scale.values(taken, limits.ravel())
        given = np.full(n * runs, float(scale.limit)) if own else None
        alarms, _ = table.update(rows, taken, np.zeros(n * runs, dtype=np.int64), limits=given)
        firsts = np.full(runs, n)
        firsts[[alarm.row for alarm in alarms]] = [alarm.position // runs + 1 for alarm in alarms]
        return float(firsts.mean())

    # One limit at the mean of all, of the same mix on average, does not have the run length.
    assert mean_run(own=True) > 0.9 * run_length > 1.4 * mean_run(own=False)


def only(state: AggregatorState) -> AdjustedBaseline:
    (row,) = (row for row, key in enumerate(state.keys) if key.metric == METRIC and key.segment is None)
    found = state.rules_of(row)[0].baseline
    assert isinstance(found, AdjustedBaseline)
    return found


def known(events: Sequence[MetricEvent], one: AlertRule, **options: Any) -> dict[str, tuple[int, int, bool]]:
    """Return for each segment value how many values it has, from how many it learned, and whether it is known."""
    state = AggregatorState(StateOptions(rules=(one,), **options))
    state.apply_columns(columns_of(events))
    return {value: (x.n, x.learned.n, x.ends is not None) for value, x in only(state).adjusted.items()}


def test_a_new_segment_value_has_no_limit_until_it_is_learned() -> None:
    en = [event(number, {METRIC: 1.0}, segments={"lang": "en"}) for number in range(300)]
    it = [event(300 + number, {METRIC: 0.0}, segments={"lang": "it"}) for number in range(500)]
    none = [event(800 + number, {METRIC: 0.0}) for number in range(500)]
    assert alerts_of([*en, *it, *none], rule()) == []
    # Nothing can fall below 0, so a segment value of zeros has no limit, however many there are.
    assert known([*en, *it, *none], rule()) == {"en": (300, 200, True), "it": (500, 500, False)}


def test_a_later_segment_value_has_a_wider_baseline() -> None:
    """All baselines hold together with 95% confidence, whatever their number."""
    events = [
        event(number * 8 + place, {METRIC: float((number + place) % 5 > 0)}, segments={"lang": str(place)})
        for number in range(400)
        for place in range(8)
    ]
    state = AggregatorState(StateOptions(rules=(rule(learn_n=400),)))
    state.apply_columns(columns_of(events))
    widths = [
        baseline.ends[1] - baseline.ends[0] for baseline in only(state).adjusted.values() if baseline.ends is not None
    ]
    assert len(widths) == 8
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_further_segment_values_share_a_baseline() -> None:
    events = [
        event(number * 80 + place, {METRIC: 0.5}, segments={"lang": f"l{place}"})
        for number in range(2)
        for place in range(80)
    ]
    found = known(events, rule())
    assert len(found) == 64
    assert found["other"][0] == 2 * (80 - 63)


def test_a_session_of_two_segment_values_has_the_mean_of_their_limits() -> None:
    def session(number: int, german: float, english: float) -> list[MetricEvent]:
        return [
            event(4 * number + place, {METRIC: score}, session_id=f"s-{number}", segments={"lang": lang})
            for place, (lang, score) in enumerate([("de", german), ("en", english), ("de", german), ("en", english)])
        ]

    one = rule(baselines={"en": 0.9, "de": 0.5}, run_length=1000)
    normal = [event for number in range(500) for event in session(number, 0.5, 0.9)]
    assert alerts_of(normal, one, clusters=CLUSTERS) == []
    (alert,) = alerts_of(
        [event for number in range(500) for event in session(number, 0.3, 0.7)], one, clusters=CLUSTERS
    )
    assert alert.observed - alert.baseline == pytest.approx(-0.2)  # type: ignore[operator]
    # Interactions without the segment make a session incomparable.
    partly = [
        event.model_copy(update={"segments": {}}) if place % 4 == 0 else event
        for place, event in enumerate(event for number in range(500) for event in session(number, 0.0, 0.0))
    ]
    assert alerts_of(partly, one, clusters=CLUSTERS) == []


@for_each(
    "fields, words",
    [
        ({"kind": "threshold", "target": 0.5}, 'kind is threshold: use kind = "drift"'),
        ({"kind": "rmse"}, "kind is rmse"),
        ({"kind": "distribution"}, "kind is distribution"),
        ({"segment": "country"}, "segment = country and adjust = lang exclude each other: keep adjust"),
        ({"baseline": 0.8}, "baseline = 0.8 is one mean for all values of lang.*give baselines"),
        (
            {"baseline": "seasonal"},
            "baseline = seasonal and adjust exclude each other: give baselines, or leave it out",
        ),
        ({"baseline_window": "1d"}, "baseline_window = 1d and adjust exclude each other"),
        ({"adjust": None, "baselines": {"de": 0.5}}, "baselines goes with adjust: set adjust"),
        ({"baselines": {"de": 0.5, "fr": 0.01}}, "could never fire for fr: baselines.fr is 0.01"),
        ({"baselines": {}}, "baselines"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_what_to_do(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule(**fields)


def test_settings_without_segment_values_refuse_such_a_rule() -> None:
    with pytest.raises(ValueError, match="segments is false, and rule 'r' has adjust = 'lang'"):
        Settings(segments=False, alerts=(rule(),))


def test_a_changed_segment_or_baseline_begins_anew() -> None:
    key = EstimateKey("shop", None, None, METRIC, "ragbench", "local", "1")
    rules = (rule(), rule(adjust="user"), rule(baselines={"de": 0.5}), WHOLE.model_copy(update={"name": "r"}))
    assert len({RuleState(one, key, DetectorTable()).field for one in rules}) == 4


def test_damaged_bytes_are_refused() -> None:
    key = EstimateKey("shop", None, None, METRIC, "ragbench", "local", "1")
    table = DetectorTable()
    found = RuleState(rule(baselines={"de": 0.5}), key, table)
    data = found.to_bytes(0, StoredRows.of([found], table, EarlierTable()))
    found.load(data)
    assert found.to_bytes(0, StoredRows.of([found], table, EarlierTable())) == data
    with pytest.raises(ValueError, match="holds the number NaN, which is not finite"):
        found.load(data.replace(b"0.5", b"NaN"))


def test_a_baseline_holds_only_for_values_after_those_that_it_was_learned_from() -> None:
    scores = [("a", 0.95)] * 100 + [("b", 0.3)] * 100 + [("c", 0.0)] * 20 + [("c", 0.8)] * 180
    events = [event(n, {METRIC: score}, segments={"lang": lang}) for n, (lang, score) in enumerate(scores)]
    options = StateOptions(rules=(rule(learn_n=100),))
    whole = AggregatorState(options)
    whole.apply_columns(columns_of(events))
    ends = {value: baseline.ends for value, baseline in only(whole).adjusted.items()}
    assert ends["b"] is not None
    assert ends["c"] is not None
    assert ends["a"] is not None
    assert ends["b"][0] < ends["c"][0] < ends["a"][0]
    assert whole.take_changes().alerts == []
    assert in_pieces(options, events, [210, 300]) == in_one_piece(options, events)
