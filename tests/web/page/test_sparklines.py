"""The last day of each pipeline: read once a minute, for the shown labeler, with its traffic."""

from typing import Any

from tests.support.http_service import http_service
from tests.web.page.test_page import page
from tests.web.page.test_pipeline import SETTINGS, commit, traffic

from ragtide import Deployment
from ragtide_web.page.fleet.history import KEPT_S, Sparklines


async def test_a_drawing_is_used_again_for_a_minute(async_redis: Any) -> None:
    owner = await commit(async_redis, *traffic())
    now = [0.0]
    sparklines = Sparklines(Deployment(async_redis, SETTINGS), clock=lambda: now[0])
    wanted = [("shop", "trace.adherence", "test"), ("none", "trace.adherence", "test")]
    first = await sparklines.read(wanted)
    assert list(first) == ["shop"]
    assert 4 < len(first["shop"].chart.points) <= 48
    assert 0.5 < first["shop"].per_minute < 1.5
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
    assert "/min" in text
