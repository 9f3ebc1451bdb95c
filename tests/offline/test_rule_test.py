"""A test of rules in memory raises the alerts of a replay through Redis, and follows the evidence of one rule."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.aggregator.test_replay import ADHERENCE, RULES, entries, unseen
from tests.aggregator.test_replay_not_aggregatable import BAD_EVENTS, fails, is_bad
from tests.support.metric_events import event
from tests.support.recorded import record

from ragtide_offline.replay import evidence_curve
from ragtide_offline.replay.evidence_curve import FollowedRule
from ragtide_offline.replay.plan import ReplayPlan
from ragtide_offline.replay.replay import RecordingReplay
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import Selection
from ragtide_offline.replay.speed import speed
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule

SETTINGS = Settings(
    partitions=3,
    splits={"big": 2},
    segments=True,
    lease_s=60,
    feedback_window_s=3600,
)
MOST = 120
"""Points of a curve here."""
BUDGETED = SETTINGS.model_copy(update={"budget": BudgetSettings(false_alarms=3, period="1h")})


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(entries(), tmp_path_factory.mktemp("recording"), partitions=3)


async def result_of(
    recording: Recording,
    *,
    followed: FollowedRule | None = None,
    in_tables: bool = True,
    settings: Settings = SETTINGS,
) -> ReplayResult:
    testing = RuleTest(settings, recording, Selection(), RULES, followed=followed)
    testing._source.in_tables = in_tables  # as without pyarrow
    return await testing.run(asyncio.Event(), unseen)


@pytest.fixture(scope="module")
def plain(recording: Recording) -> ReplayResult:
    return asyncio.run(result_of(recording))


@pytest.mark.redis
@pytest.mark.parametrize(("settings", "in_tables"), [(SETTINGS, False), (BUDGETED, True)], ids=["each", "budget"])
async def test_the_alerts_are_those_of_a_replay(
    async_redis: Any, redis_url: str, recording: Recording, settings: Settings, in_tables: bool
) -> None:
    plan = ReplayPlan("again", recording, Selection(), rules=RULES)
    replaying = RecordingReplay(settings, plan, speed("max"))
    expected = await replaying.run(async_redis, redis_url, asyncio.Event(), lambda _: None)
    found = await result_of(recording, in_tables=in_tables, settings=settings)
    assert {alert.alert_id: alert for alert in found.alerts} == {alert.alert_id: alert for alert in expected.alerts}
    assert {alert.kind for alert in found.alerts} >= {"threshold", "agreement"}
    assert found.counts == expected.counts
    assert {name: (rule.production, len(rule.replay)) for name, rule in found.rules.items()} == {
        name: (rule.production, len(rule.replay)) for name, rule in expected.rules.items()
    }
    assert list(found.unfired) == list(expected.unfired)


@pytest.mark.redis
async def test_the_cause_of_an_alert_is_that_of_a_replay(async_redis: Any, redis_url: str, tmp_path: Path) -> None:
    # The alarm comes 16 interactions after the change: they are no part of the stretch before it.
    begin = datetime(2026, 11, 20, tzinfo=UTC)
    events = [
        event(
            number,
            {ADHERENCE: 0.9 if number < 900 else 0.3},
            segments={"lang": "de" if number % 3 else "en"},
            occurred_at=begin + timedelta(seconds=20 * number),
        )
        for number in range(1_440)
    ]
    listed = [
        (EntryKind.METRICS, RecordedEntry(0, f"{1_795_240_000_000 + place}-0", one)) for place, one in enumerate(events)
    ]
    recorded = record(listed, tmp_path)
    settings = Settings(segments=True, lease_s=60, windows=("1h", "2h/1h"), clusters={"by": "none"})
    rules = (AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7),)
    plan = ReplayPlan("again", recorded, Selection(), rules=rules)
    expected = await RecordingReplay(settings, plan, speed("max")).run(
        async_redis, redis_url, asyncio.Event(), lambda _: None
    )
    found = await RuleTest(settings, recorded, Selection(), rules).run(asyncio.Event(), unseen)
    (alert,) = found.alerts
    assert alert.cause is not None
    assert alert.cause.n_before == 900
    assert found.alerts == expected.alerts


@pytest.mark.simulation
async def test_an_entry_that_cannot_be_counted_changes_no_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording
) -> None:
    good = [(kind, entry) for kind, entry in entries() if not is_bad(kind, entry)]
    expected = await result_of(record(good, tmp_path, partitions=3))
    fails(monkeypatch)
    found = await result_of(recording)
    assert found.alerts == expected.alerts
    assert found.counts["complete"]
    assert found.counts["n"] == expected.counts["n"] + len(BAD_EVENTS)
    assert found.counts["feedback_refused"]["not_aggregatable"] == 1


@pytest.mark.simulation
async def test_a_test_that_is_stopped_says_so(recording: Recording) -> None:
    stop = asyncio.Event()
    stop.set()
    found = await RuleTest(SETTINGS, recording, Selection(), RULES).run(stop, unseen)
    assert not found.counts["complete"]
    assert found.counts["n"] < found.counts["population_size"]


def first(found: ReplayResult, rule: str) -> Alert:
    return next(alert for alert in found.alerts if alert.rule == rule)


def follow(alert: Alert, before: timedelta, after: timedelta) -> FollowedRule:
    return FollowedRule(alert, alert.fired_at - before, alert.fired_at + after)


@pytest.mark.simulation
@pytest.mark.parametrize(("rule", "in_tables"), [("floor", True), ("drift", False), ("error", True)])
async def test_the_evidence_reaches_its_line_where_the_alert_fires_and_nowhere_else(
    recording: Recording, plain: ReplayResult, monkeypatch: pytest.MonkeyPatch, rule: str, in_tables: bool
) -> None:
    monkeypatch.setattr(evidence_curve, "POINTS", MOST)
    alert = first(plain, rule)
    followed = follow(alert, timedelta(hours=1), timedelta(hours=9))
    found = await result_of(recording, followed=followed, in_tables=in_tables)
    assert found.alerts == plain.alerts
    points = found.evidence
    (alarm,) = [
        point
        for point in points
        if point.once_in and point.run_length and point.once_in >= point.run_length * (1 - 1e-9)
    ]
    # The curve is in the order of the stream: the value that decided may be of a late interaction, or a gold score.
    assert alarm.at >= alert.fired_at
    assert alarm.at == alert.fired_at or rule in ("floor", "error")
    times = [point.at for point in points]
    assert times == sorted(times)
    assert followed.start <= times[0] <= times[-1] < followed.end
    assert 20 < len(points) <= MOST + 3
    before = [point.once_in for point in points if point.once_in is not None and point.at < alarm.at]
    assert before
    # The evidence gathers: near the alarm it is stronger than it was at most times before.
    assert max(before[-5:]) > sorted(before)[len(before) // 2]


@pytest.mark.simulation
async def test_a_rule_on_kappa_has_no_curve(recording: Recording, plain: ReplayResult) -> None:
    followed = follow(first(plain, "people"), timedelta(hours=1), timedelta(hours=1))
    assert not (await result_of(recording, followed=followed)).evidence


@pytest.mark.simulation
async def test_a_range_without_events_has_no_curve(recording: Recording, plain: ReplayResult) -> None:
    followed = follow(first(plain, "floor"), timedelta(days=9), timedelta(days=-8))
    found = await result_of(recording, followed=followed)
    assert not found.evidence
    assert found.alerts


async def test_rules_on_covariates_take_recorded_ones_in_tables_and_without(tmp_path: Path) -> None:
    rules = tuple(
        AlertRule(name=name, kind="distribution", covariate=name, run_length=1000, learn_n=300)
        for name in ("question_length", "segment:topic", "nothing")
    )
    events = [
        event(
            number,
            {ADHERENCE: 0.5},
            covariates={"question_length": float(number % 50 + (400 if number > 500 else 0))},
            segments={"topic": "new" if number > 550 else f"t{number % 3}"},
        )
        for number in range(600)
    ]
    listed = [
        (EntryKind.METRICS, RecordedEntry(0, f"{1_795_240_000_000 + place}-0", one)) for place, one in enumerate(events)
    ]
    recorded = record(listed, tmp_path)
    found = []
    for in_tables in (True, False):
        testing = RuleTest(SETTINGS, recorded, Selection(), rules)
        testing._source.in_tables = in_tables
        found.append(await testing.run(asyncio.Event(), unseen))
    assert found[0].alerts == found[1].alerts
    assert {alert.rule for alert in found[0].alerts} == {"question_length", "segment:topic"}
    assert list(found[0].unfired) == ["Rule nothing could not fire: no interaction has the covariate nothing."]
