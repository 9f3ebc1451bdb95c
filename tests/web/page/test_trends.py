"""Trends and deploy marks of the fleet, and its numbers of one segment value."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.http_service import http_service
from tests.support.metric_events import beta, event
from tests.web.page.test_page import page
from tests.web.page.test_pipeline import SETTINGS, commit

from ragtide import Deployment
from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.versions import last_deploy
from ragtide_schemas import MetricEvent, utc_now
from ragtide_web.page.fleet.history import DAY, TREND_KEPT_S, Days, Trends, trend_of

NOW = datetime(2026, 11, 23, 10, 20, tzinfo=UTC)
ADHERENCE = "trace.adherence"


def history(mean: float, half: float, *, version: str = "1", n: int = 100) -> History:
    point = HistoryPoint(NOW, NOW + DAY, n, mean, max(mean - half, 0.0), min(mean + half, 1.0), open=False)
    return History(EstimateKey("shop", None, None, ADHERENCE, "ragbench", "test", version), DAY, (point,))


@pytest.mark.parametrize(
    ("before", "last", "word"),
    [
        ((0.8, 0.02), (0.7, 0.02), "falling"),
        ((0.7, 0.02), (0.8, 0.02), "rising"),
        ((0.8, 0.02), (0.78, 0.02), "no clear change"),
        ((0.8, 0.001), (0.79, 0.001), "no clear change"),
        ((0.9, 0.15), (0.4, 0.2), "falling"),
        ((0.8, 0.2), (0.7, 0.02), None),
        ((0.8, 0.02), (0.7, 0.2), None),
    ],
)
def test_an_arrow_needs_two_intervals_apart_and_a_change_that_matters(
    before: tuple[float, float], last: tuple[float, float], word: str | None
) -> None:
    found = trend_of([history(*before)], [history(*last)])
    assert (None if found is None else found.word) == word


def test_versions_of_a_labeler_are_never_compared_and_silence_has_no_trend() -> None:
    assert trend_of([history(0.8, 0.01)], [history(0.2, 0.01, version="2")]) is None
    assert trend_of([], [history(0.2, 0.01)]) is None
    assert trend_of([history(0.8, 0.01)], []) is None
    both = [history(0.2, 0.01, version="2", n=9), history(0.8, 0.01)]
    found = trend_of([history(0.8, 0.01), history(0.5, 0.01, version="2")], both)
    assert found is not None
    assert found.last.n == 100


@given(minutes=st.integers(0, 10**7), coarse=st.sampled_from([60, 90, 7 * 60, 24 * 60]))
def test_no_pane_is_in_both_days(minutes: int, coarse: int) -> None:
    now, length = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes), timedelta(minutes=coarse)
    days = Days.before(now, length)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert all((one - epoch) % length == timedelta() for one in (days.first, days.middle, days.last))
    assert days.middle - days.first == days.last - days.middle
    assert DAY <= days.last - days.middle < DAY + length
    assert now <= days.last < now + length


def test_the_last_deploy_needs_a_version_before_it() -> None:
    assert last_deploy({}) is None
    assert last_deploy({"1": NOW}) is None
    assert last_deploy({"1": NOW, "2": NOW}) is None
    assert last_deploy({"10": NOW, "9": NOW + DAY, "8": NOW - DAY}) == ("9", NOW + DAY)


def days(
    mean_before: float, mean_last: float, pipeline: str, first: int, *, every: int = 20, **segments: str
) -> list[MetricEvent]:
    """Return a value every few minutes of the last 46 hours; the version changes ten hours ago."""
    began = utc_now() - timedelta(hours=46)
    values = [*beta(mean_before, 22 * 60 // every, first), *beta(mean_last, 24 * 60 // every, first + 1)]
    found = []
    for number, value in enumerate(values):
        at = began + timedelta(minutes=every * number)
        version = "2" if utc_now() - at < timedelta(hours=10) else "1"
        found.append(
            event(
                first + number,
                {ADHERENCE: float(value)},
                interaction_id=f"{pipeline}-{first + number}",
                pipeline=pipeline,
                occurred_at=at,
                labeled_at=at,
                segments={"version": version, **segments},
            )
        )
    return found


@pytest.mark.heavy
async def test_the_fleet_shows_trends_deploys_and_one_segment(async_redis: Any, redis_url: str) -> None:
    await commit(
        async_redis,
        *days(0.9, 0.4, "falls", 0, lang="de"),
        *days(0.7, 0.7, "stays", 10_000, every=6, version="7"),
        *days(0.4, 0.9, "rises", 20_000, lang="ru"),
    )
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service)
        for _ in range(100):
            if text.count("data-trend=") == 3:
                break
            _, text = await page(service)  # trends come with a later update
        rows = {name: text.partition(f"/p/{name}")[2].partition("</tr>")[0] for name in ("falls", "stays", "rises")}
        assert 'data-trend="falling"' in rows["falls"]
        assert 'data-trend="no clear change"' in rows["stays"]
        assert 'data-trend="rising"' in rows["rises"]
        assert "version 2 since" in rows["falls"]
        assert "version" not in rows["stays"].partition("data-kind")[0]
        _, german = await page(service, "/?segment=lang%3Dde&q=a")
        assert german.count('href="/p/') == 1
        assert "of the interactions with lang=de" in german
        assert 'href="/?q=a&amp;state="' in german
        assert "data-trend" not in german, "the history does not keep the language"
        _, old = await page(service, "/?segment=version%3D7")
        assert old.count('href="/p/') == 1
        _, none = await page(service, "/?segment=nonsense")
        assert "No pipeline matches the filter." in none
        _, foreign = await page(service, "/?segment=%3Cscript%3Ealert(1)%3C/script%3E")
        assert "<script>alert" not in foreign


async def test_trends_are_used_again_for_minutes(async_redis: Any) -> None:
    await commit(async_redis, *days(0.9, 0.4, "falls", 0))
    now = [0.0]
    deployment = Deployment(async_redis, SETTINGS)
    trends = Trends(deployment, SETTINGS, clock=lambda: now[0])
    wanted = [("falls", ADHERENCE, "test", None), ("none", ADHERENCE, "test", None)]
    while not (first := await trends.read(wanted)):
        pass
    assert set(first) == {("falls", ADHERENCE)}
    before, last = first["falls", ADHERENCE].before, first["falls", ADHERENCE].last
    assert before.end == last.start
    now[0] = TREND_KEPT_S / 2
    assert (await trends.read(wanted))["falls", ADHERENCE] is first["falls", ADHERENCE]
    assert trends._task is None
    now[0] = TREND_KEPT_S
    await trends.read(wanted)
    assert trends._task is not None, "an old trend is shown until the new one is there"
    await trends.aclose()
