"""What a screen calls "since the change" or "now" holds only answers since the change, whatever shows it."""

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.http_service import http_service
from tests.support.metric_events import event
from tests.support.owners import owners
from tests.web.page.test_alert import drift
from tests.web.page.test_page import page
from typer.testing import CliRunner

from ragtide import Deployment, MetricEvent
from ragtide.cli.app import cli
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.ranges import HeadlineRange
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Headline, from_milliseconds, to_milliseconds, utc_now
from ragtide_schemas.alert_text import CurrentLevel, alert_text

METRIC = "trace.adherence"
PANE = timedelta(minutes=5)


def pane_start(time: datetime, length: timedelta = PANE) -> datetime:
    """Return the start of the pane that holds a time."""
    length_ms = length // timedelta(milliseconds=1)
    return from_milliseconds(to_milliseconds(time) // length_ms * length_ms)


def answers(n: int, mean: float, start: datetime, length: timedelta, **changes: Any) -> list[MetricEvent]:
    """Return answers spread over a time."""
    values = np.random.default_rng(n).beta(20 * mean, 20 * (1 - mean), n)
    return [
        event(
            0,
            {METRIC: float(value)},
            interaction_id=f"{start.timestamp()}-{number}",
            occurred_at=start + number / n * length,
            labeled_at=start + number / n * length,
            **changes,
        )
        for number, value in enumerate(values)
    ]


def mean_since(events: Sequence[MetricEvent], start: datetime) -> tuple[int, float]:
    """Return number and mean of the answers from a time on, from the raw events."""
    values = [each.scores[METRIC] for each in events if each.occurred_at >= start]
    return len(values), float(np.mean(values)) if values else float("nan")


def fired(change: datetime, seen: Sequence[MetricEvent], **fields: Any) -> Alert:
    """Return the alert of a rule that saw the first answers since a change."""
    value = float(np.mean([each.scores[METRIC] for each in seen]))
    given = {
        "began_at": change, "fired_at": seen[-1].occurred_at, "normal": 0.46, "baseline": 0.46, "observed": value,
        "observed_n": len(seen), "observed_lower": value - 0.02, "observed_upper": value + 0.02, "cause": None,
    }  # fmt: skip
    return drift(**{**given, **fields})


async def stored(redis: Any, events: Sequence[MetricEvent], alert: Alert, settings: Settings) -> None:
    (owner,) = owners(redis, settings)
    owner.state = AggregatorState(state_options(settings))
    for start in range(0, len(events), 200):
        await owner.commit(*events[start : start + 200], alerts=(alert,) if start + 200 >= len(events) else ())


def stated(told: dict[str, Any]) -> tuple[datetime, int]:
    """Return start and number of the answers that the words about now state."""
    words = " ".join(fact["text"] for fact in told["facts"])
    found = re.search(r"Now it is [^;]*?, since (\S+ \S+) UTC, ([\d,]+) answers", words)
    assert found is not None, words
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC), int(found[2].replace(",", ""))


async def by_surface(redis: Any, redis_url: str, change: datetime) -> dict[str, Headline]:
    """Return the number since a moment, of each surface that has one."""
    deployment = Deployment(redis, Settings())
    (own,) = await deployment.headlines(HeadlineRange("since", change))
    moment = f"{change:%Y-%m-%dT%H:%M:%S}Z"
    async with http_service(redis_url) as service:
        reply = await service.session.get(f"{service.url}/v1/headlines", params={"since": moment})
        (api,) = await reply.json()
    found = await asyncio.to_thread(
        CliRunner().invoke, cli, ["--redis-url", redis_url, "estimates", "--since", moment, "--json"]
    )
    (terminal,) = json.loads(found.output)
    for name in ("window", "strategy", "run"):
        del terminal[name]
    return {"python": own, "api": Headline.model_validate(api), "terminal": Headline.model_validate(terminal)}


async def test_a_fall_inside_a_pane_is_no_recovery(async_redis: Any, redis_url: str) -> None:
    """600 good and 500 bad answers in five minutes: no number since the change has one of the good ones."""
    pane = pane_start(utc_now()) - PANE
    change = pane + timedelta(minutes=3, seconds=2)
    good = answers(600, 0.456, pane, timedelta(minutes=3, seconds=2))
    bad = answers(500, 0.04, change, timedelta(seconds=100))
    alert = fired(change, bad[:40])
    await stored(async_redis, [*good, *bad], alert, Settings())
    # The five seconds that hold the change have answers from before it.
    start = change + timedelta(seconds=3)
    n, mean = mean_since([*good, *bad], start)
    for surface, found in (await by_surface(async_redis, redis_url, change)).items():
        assert (found.start, found.n) == (start, n), surface
        assert found.estimate == pytest.approx(mean), surface
    (shown,) = await Deployment(async_redis, Settings()).headlines()
    assert shown.start is not None
    assert start <= shown.start <= start + timedelta(seconds=30)
    assert (shown.state, shown.range, shown.n) == ("firing", "since change", mean_since(bad, shown.start)[0])
    async with http_service(redis_url) as service:
        _, text = await page(service, "/a/A-1")
        async with service.session.get(f"{service.url}/v1/alert?alert_id=A-1") as reply:
            told = await reply.json()
    assert told["now_value"] == pytest.approx(mean)
    assert "1,100 answers" not in text


async def test_without_recent_panes_the_number_is_what_the_rule_saw(async_redis: Any) -> None:
    """Values may be so late that there are none: five minutes that hold the change count nowhere."""
    settings = Settings(lateness_s=6 * 3_600)
    pane = pane_start(utc_now()) - PANE
    change = pane + timedelta(minutes=3)
    good = answers(600, 0.456, pane, timedelta(minutes=3))
    bad = answers(500, 0.04, change, timedelta(seconds=100))
    await stored(async_redis, [*good, *bad], fired(change, bad[:40]), settings)
    deployment = Deployment(async_redis, settings)
    (found,) = await deployment.headlines(HeadlineRange("since", change))
    assert (found.n, found.estimate) == (0, None)
    (shown,) = await deployment.headlines()
    assert (shown.state, shown.range, shown.start, shown.n) == ("firing", "since change", change, 40)
    assert shown.estimate == pytest.approx(np.mean([each.scores[METRIC] for each in bad[:40]]))


@pytest.mark.parametrize("sessions", [False, True])
async def test_further_panes_count_and_their_start_is_stated(async_redis: Any, redis_url: str, sessions: bool) -> None:
    # Less than 15 minutes ago: the number of now is the one since the change.
    first = pane_start(utc_now()) - 2 * PANE
    change = first + timedelta(minutes=3)
    good = answers(600, 0.456, first - PANE, timedelta(minutes=8))
    bad = answers(700, 0.04, change, timedelta(minutes=7))
    if sessions:
        # Sessions of seven answers in a row: one of them has answers from before the change and since.
        events = [
            each.model_copy(update={"session_id": f"s-{number // 7}"}) for number, each in enumerate([*good, *bad])
        ]
        good, bad = events[:600], events[600:]
    await stored(async_redis, [*good, *bad], fired(change, bad[:40]), Settings(clusters={"quiet_s": 20}))
    start = change
    n, mean = mean_since([*good, *bad], start)
    for surface, found in (await by_surface(async_redis, redis_url, change)).items():
        assert (found.range, found.start, found.n) == ("since", start, n), surface
        assert found.estimate == pytest.approx(mean), surface
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= mean <= found.upper, surface
    (shown,) = await Deployment(async_redis, Settings()).headlines()
    # The quiet detector may date the change a few answers later.
    assert shown.start is not None
    assert start <= shown.start <= start + timedelta(minutes=1)
    assert (shown.state, shown.range, shown.n) == ("firing", "since change", mean_since(bad, shown.start)[0])
    async with http_service(redis_url) as service, service.session.get(f"{service.url}/v1/alert?alert_id=A-1") as reply:
        told = await reply.json()
    assert told["now_value"] == pytest.approx(mean)
    assert stated(told) == (start, n)


async def test_now_is_of_now_after_a_recovery_that_no_rule_has_found_yet(async_redis: Any, redis_url: str) -> None:
    end = pane_start(utc_now())
    change = end - timedelta(minutes=173)
    bad = answers(900, 0.04, change, timedelta(minutes=150))
    well = answers(400, 0.45, end - timedelta(minutes=22), timedelta(minutes=21))
    await stored(async_redis, [*bad, *well], fired(change, bad[:40]), Settings())
    async with http_service(redis_url) as service, service.session.get(f"{service.url}/v1/alert?alert_id=A-1") as reply:
        told = await reply.json()
    assert told["now_value"] > 0.4, "the last minutes, and not the whole time since the change"
    start, n = stated(told)
    counted, mean = mean_since([*bad, *well], start)
    assert n == counted
    assert told["now_value"] == pytest.approx(mean)


@pytest.mark.parametrize("minutes", [16.3, 40])
async def test_the_last_minutes_of_a_longer_change_hold_the_answers_since_their_stated_start(
    async_redis: Any, redis_url: str, minutes: float
) -> None:
    now = utc_now()
    change = now - timedelta(minutes=minutes)
    good = answers(600, 0.456, change - timedelta(minutes=20), timedelta(minutes=20))
    bad = answers(700, 0.04, change, timedelta(minutes=minutes - 0.2))
    await stored(async_redis, [*good, *bad], fired(change, bad[:40]), Settings())
    async with http_service(redis_url) as service, service.session.get(f"{service.url}/v1/alert?alert_id=A-1") as reply:
        told = await reply.json()
    start, n = stated(told)
    assert change < now - timedelta(minutes=15) <= start < utc_now() - timedelta(minutes=14)
    counted, mean = mean_since([*good, *bad], start)
    assert n == counted
    assert told["now_value"] == pytest.approx(mean)


async def test_a_resolved_alert_has_no_answer_from_before_its_end(async_redis: Any, redis_url: str) -> None:
    first = pane_start(utc_now()) - 2 * PANE
    resolved = first + timedelta(minutes=2)
    bad = answers(600, 0.04, first - timedelta(minutes=20), timedelta(minutes=22))
    well = answers(500, 0.45, resolved, timedelta(minutes=7))
    alert = fired(bad[0].occurred_at, bad[:40], status="resolved", resolved_at=resolved, fired_observed=0.04)
    await stored(async_redis, [*bad, *well], alert, Settings())
    async with http_service(redis_url) as service, service.session.get(f"{service.url}/v1/alert?alert_id=A-1") as reply:
        told = await reply.json()
    assert told["now_value"] == pytest.approx(mean_since([*bad, *well], resolved)[1])


async def test_a_change_of_days_ago_begins_with_a_whole_coarse_pane(async_redis: Any) -> None:
    """Fine panes are kept for two days: before that the hour that holds the change counts nowhere."""
    hour = pane_start(utc_now(), timedelta(hours=1)) - timedelta(hours=70)
    change = hour + timedelta(minutes=37)
    # So little traffic would fit into the recent panes.
    settings = Settings(lateness_s=6 * 3_600, history={"fine_for": "1h", "coarse": "1h"})
    good = answers(300, 0.9, hour - timedelta(hours=1), timedelta(minutes=97))
    bad = answers(300, 0.2, change, timedelta(hours=60))
    await stored(async_redis, [*good, *bad], fired(change, bad[:40]), settings)
    (found,) = await Deployment(async_redis, settings).headlines(HeadlineRange("since", change))
    n, mean = mean_since([*good, *bad], hour + timedelta(hours=1))
    assert (found.start, found.n) == (hour + timedelta(hours=1), n)
    assert found.estimate == pytest.approx(mean)


@pytest.mark.parametrize(
    ("minutes", "n", "said"), [(3, 0, "too early to say"), (-3, 0, "there is no answer"), (-3, 4, "4 answers since")]
)
def test_without_a_number_the_words_say_why(minutes: int, n: int, said: str) -> None:
    now = utc_now()
    found = alert_text(drift(), now=now, current=CurrentLevel(now + timedelta(minutes=minutes), n))
    assert found.now is not None
    assert said in found.now
    assert found.now_value is None
