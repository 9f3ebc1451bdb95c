"""The replay of an alert's rule: ordered on its page, done in a process of its own."""

import asyncio
import pickle
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import until
from tests.support.http_service import Service, http_service
from tests.support.worse_answers import EVENTS, RULE, worse_answers
from tests.web.page.test_alert import add, drift
from tests.web.page.test_page import TOKENS, form, orders, page

from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_offline.pages.rule_replay import replayed
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RecorderSettings
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.alert_evidence import EvidencePoint
from ragtide_web.page.alerts.screen import EvidenceChart
from ragtide_web.reading import rule_replays
from ragtide_web.reading.rule_replays import (
    ReplayIsRunningError,
    ReplayOrder,
    ReplayState,
    RuleReplay,
    RuleReplays,
)

NOW = utc_now()
ANN = {"Authorization": "Bearer ann-0123456789"}
VIEWER = {"Authorization": "Bearer viewer-0123456789"}


def fallen(**fields: Any) -> Alert:
    """Return an alert of the rule."""
    return drift(**{"rule": RULE.name, "kind": "threshold", "fired_at": NOW - timedelta(minutes=55), **fields})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("recording")
    worse_answers(folder, NOW, fallen(), fallen(alert_id="A-2", rule="other"))
    return str(folder)


def settings_for(place: str | None, **fields: Any) -> dict[str, Any]:
    return {"alert_defaults": False, "alerts": (RULE,), "recorder": RecorderSettings(url=place), **fields}


def order(place: str | None, days: int = 30, **fields: Any) -> ReplayOrder:
    since = NOW - timedelta(days=days)
    start, end = NOW - timedelta(hours=2), NOW
    return ReplayOrder(Settings(**settings_for(place, **fields)), fallen(), since, start, end, 60.0)


@pytest.fixture(scope="module")
def found(place: str) -> RuleReplay:
    """Return the replay of the rule."""
    return asyncio.run(replayed(order(place)))


@pytest.mark.simulation
def test_a_replay_tells_how_often_the_rule_fires_and_shows_its_evidence(found: RuleReplay) -> None:
    assert (found.n, found.fired, found.production) == (EVENTS, 1, 1)
    (alert,) = found.alerts
    assert NOW - timedelta(hours=1) < alert.fired_at < NOW
    reached = [
        point.at for point in found.points if point.once_in and point.run_length and point.once_in >= point.run_length
    ]
    assert reached == [alert.fired_at]
    # The rest of the time the alert fires, and there is no evidence.
    assert found.points[-1].once_in is None


@pytest.mark.simulation
async def test_with_a_budget_the_rule_fires_at_the_line_of_the_budget(place: str, found: RuleReplay) -> None:
    shared = await replayed(order(place, budget=BudgetSettings(false_alarms=0.001, period="1d")))
    lines = [max(point.run_length or 0 for point in replay.points) for replay in (found, shared)]
    assert lines[0] == 10_000 < lines[1]


@pytest.mark.simulation
async def test_a_replay_that_is_not_possible_is_one_sentence(place: str, tmp_path: Path) -> None:
    for given, sentence in (
        (order(None), "set recorder.url"),
        (order(str(tmp_path / "none")), "holds no recording"),
        (order(place, alerts=()), "no longer in the settings"),
        (replace(order(place), since=NOW + timedelta(days=9)), "no metric events of shop since"),
        (replace(order(place), alert=fallen(pipeline="bank")), "no metric events of bank since"),
    ):
        with pytest.raises(RagtideError, match=sentence):
            await replayed(given)


@pytest.mark.simulation
def test_an_order_reaches_the_child_with_secrets_and_all() -> None:
    one = order("s3://bucket/folder", redis_url="redis://:secret@localhost/0")
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert again.settings.redis_address == one.settings.redis_address


@pytest.mark.simulation
def test_the_chart_has_gaps_where_there_is_no_evidence() -> None:
    at = [NOW + timedelta(minutes=number) for number in range(5)]
    points = [EvidencePoint(at[0], 1.0, 1e4), EvidencePoint(at[1], 100.0, 1e4), EvidencePoint(at[2], None, None)]
    chart = EvidenceChart([*points, EvidencePoint(at[3], 1e-9, 1e4)], at[0], at[4])
    assert [len(stretch) for stretch in chart.stretches()] == [2, 1]
    assert chart.y(1.0) == 100
    assert chart.y(1e-9) == 100
    assert 0 < chart.y(1e4) < chart.y(100.0) < 100
    assert (chart.x(at[0]), chart.x(at[4])) == (0, 400)
    assert EvidenceChart([], at[0], at[0]).highest > 0


async def shown(service: Service, words: str, **headers: str) -> str:
    """Return the page of the alert as soon as its replay has ended; it must have these words."""

    async def has_ended() -> bool:
        # The child has a low priority: pages that are asked for without a pause would take the processor from it.
        await asyncio.sleep(0.2)
        return "The replay has been running" not in (await page(service, "/a/A-1", **headers))[1]

    await until(has_ended)
    _, text = await page(service, "/a/A-1", **headers)
    assert words in text
    return text


@pytest.mark.redis
async def test_an_operator_orders_a_replay_and_everyone_sees_its_result(
    async_redis: Any, redis_url: str, place: str
) -> None:
    await add(async_redis, fallen())
    async with http_service(redis_url, serve={"tokens": TOKENS}, **settings_for(place)) as service:
        _, text = await page(service, "/a/A-1", **VIEWER)
        assert "Replay of the rule" in text
        assert "/replay" not in text
        assert (await form(service, "/a/A-1/replay", {"last": "30d"}, **VIEWER))[0] == 403
        status, text, _ = await form(service, "/a/A-1/replay", {"last": "9y"}, **ANN)
        assert (status, "take one of 30d" in text) == (422, True)
        status, target, _ = await form(service, "/a/A-1/replay", {"last": "30d"}, **ANN)
        assert (status, target) == (303, "/a/A-1?done=The%20replay%20of%20the%20rule%20has%20begun.")
        assert "ordered by ann" in (await page(service, "/a/A-1", **VIEWER))[1]
        text = await shown(service, f"1 in the replay of {EVENTS} metric events, 1 in production", **VIEWER)
        assert "data-evidence-point" in text
        assert "10,000</td>" in text
        assert "Alerts of the replay" in text
        (written,) = await orders(async_redis)
        assert (written.user, written.action, written.details) == ("ann", "replay", {"last": "30d"})


@pytest.mark.redis
async def test_without_a_recording_or_a_rule_the_page_says_so(async_redis: Any, redis_url: str, place: str) -> None:
    await add(async_redis, fallen(), drift("B-1"))
    async with http_service(redis_url, **settings_for(None)) as service:
        assert "set recorder.url" in (await page(service, "/a/A-1"))[1]
        await form(service, "/a/A-1/replay", {"last": "1d"})
        await shown(service, "this service knows no recording")
        assert "Replay of the rule" not in (await page(service, "/a/B-1"))[1]


@pytest.mark.processes
async def test_a_replay_ends_with_its_limit_its_process_or_its_service(place: str) -> None:
    changes: list[None] = []
    replays = RuleReplays(lambda: changes.append(None), "import time; time.sleep(600)", limit_s=0.05)
    replays.begin(order(place), "ann")
    with pytest.raises(ReplayIsRunningError, match="another replay"):
        replays.begin(order(place), "bob")
    assert "took longer than 0.05 s" in (await ended(replays)).problem
    replays = RuleReplays(lambda: changes.append(None), "raise SystemExit(3)")
    replays.begin(order(place), "ann")
    assert "exit code 3" in (await ended(replays)).problem
    assert len(changes) == 4
    slow = RuleReplays(lambda: None, "import time; time.sleep(600)")
    slow.begin(order(place), "ann")
    await asyncio.sleep(0)
    await slow.aclose()
    slow.check()


async def ended(replays: RuleReplays) -> ReplayState:
    await until(lambda: has_ended(replays, "A-1"))
    state = replays.of("A-1")
    assert state is not None
    return state


@pytest.mark.simulation
async def test_only_the_newest_results_are_kept(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    replays = RuleReplays(lambda: None, LABORATORY.rule_replay)

    async def answer(_: ReplayOrder) -> str:
        return "no"

    monkeypatch.setattr(replays, "_answer", answer)
    monkeypatch.setattr(rule_replays, "KEPT", 2)
    for number in range(5):
        one = order(place)
        replays.begin(replace(one, alert=fallen(alert_id=f"A-{number}")), "ann")
        await until(partial(has_ended, replays, f"A-{number}"))
    assert replays.of("A-2") is None
    assert replays.of("A-3") is not None


def has_ended(replays: RuleReplays, alert_id: str) -> bool:
    state = replays.of(alert_id)
    return state is not None and not state.runs
