"""The last day of each pipeline: read once a minute at most, for the shown labeler, with its traffic."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.http_service import http_service
from tests.web.page.test_page import page
from tests.web.page.test_pipeline import SETTINGS, commit, traffic

from ragtide import Deployment
from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_web.page.rendering import environment, seconds_long
from ragtide_web.page.screen_files import own_folders
from ragtide_web.reading.sparklines import KEPT_S, Sparklines, sparkline


async def test_a_drawing_is_used_again_for_a_minute(async_redis: Any) -> None:
    owner = await commit(async_redis, *traffic())
    now = [0.0]
    sparklines = Sparklines(Deployment(async_redis, SETTINGS), clock=lambda: now[0])
    wanted = [("shop", "trace.adherence", "test"), ("none", "trace.adherence", "test")]
    first = await sparklines.read(wanted)
    assert list(first) == ["shop"]
    assert 4 < len(first["shop"].chart.points) <= 48
    late = [one for one in traffic() if one.occurred_at > first["shop"].chart.end - timedelta(hours=1)]
    assert len(late) <= first["shop"].recent_n <= 2 * len(late)
    assert 3_600 <= first["shop"].recent_s < 7_200
    assert first["shop"].chart.limits[0] < 0.8 < first["shop"].chart.limits[1]
    await owner.commit(*traffic(first=1000, mean=0.2))
    now[0] = KEPT_S / 2
    assert (await sparklines.read(wanted))["shop"] is first["shop"]
    now[0] = KEPT_S + 1
    assert (await sparklines.read(wanted))["shop"] is not first["shop"]


async def test_the_fleet_shows_the_last_day(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *traffic())
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service)
    assert 'class="spark"' in text
    assert re.search(r"[1-9]\d* in the last \d+ (min|h)<", text)


@pytest.mark.pure
def test_a_count_names_its_time() -> None:
    """480 answers within 30 seconds, when they come, minutes later, and hours later."""
    key = EstimateKey("shop", None, None, "trace.adherence", "default", "local", "1")
    start = datetime(2026, 11, 23, tzinfo=UTC)
    points = tuple(
        HistoryPoint(
            0.9, 0.8, 1.0, start + timedelta(seconds=5 * i), start + timedelta(seconds=5 * i + 5), 80, open=True
        )
        for i in range(6)
    )
    young = [History(key, timedelta(seconds=5), points, young=True)]
    counts = {}
    for seconds in (30, 600, 7_200):
        found = sparkline("trace.adherence", young, start + timedelta(seconds=seconds))
        assert found is not None
        counts[seconds] = found.recent_n, seconds_long(found.recent_s)
    assert counts == {30: (480, "30 s"), 600: (480, "10 min"), 7_200: (0, "60 min")}


@pytest.mark.pure
def test_a_single_point_is_drawn_as_a_mark() -> None:
    start = datetime(2026, 11, 23, tzinfo=UTC)
    key = EstimateKey("shop", None, None, "trace.adherence", "default", "local", "1")
    only = HistoryPoint(0.9, 0.8, 1.0, start, start + timedelta(seconds=5), 80, open=True)
    young = [History(key, timedelta(seconds=5), (only,), young=True)]
    drawing = sparkline("trace.adherence", young, start + timedelta(seconds=30))
    assert drawing is not None
    templates = environment(own_folders(LABORATORY))
    parts: Any = templates.get_template("parts.html").make_module({"root": "", "version": ""})
    charts: Any = templates.get_template("charts.html").make_module({"root": "", "version": ""})
    for text in (parts.sparkline(drawing), charts.band_chart("trace.adherence", drawing.chart)):
        assert f'y1="{drawing.chart.y(0.9)}"' in text
