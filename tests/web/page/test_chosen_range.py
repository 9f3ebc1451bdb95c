"""A chosen range: each number is that of the events in exactly its panes, or the page says that it is not."""

import re
from datetime import datetime, timedelta
from functools import partial
from statistics import mean
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.http_service import http_service
from tests.web.page.test_page import page
from tests.web.page.test_pipeline import SETTINGS, commit, traffic

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_schemas import MetricEvent, utc_now
from ragtide_web.page.pipeline.chosen_range import read_range
from ragtide_web.page.pipeline.screen import SegmentRow, TimeSpan

ADHERENCE = "trace.adherence"
FIVE = timedelta(minutes=5)
SEGMENTS = {"version": ("1", "2", "3"), "lang": ("de",)}
close = partial(pytest.approx, abs=1e-12)


def a_range() -> TimeSpan:
    """Return a range that begins and ends inside of panes, and holds both versions."""
    now = utc_now()
    return TimeSpan(now - timedelta(hours=3, minutes=7), now - timedelta(hours=1, minutes=3), "")


def inside(events: list[MetricEvent], span: TimeSpan) -> tuple[datetime, datetime, list[MetricEvent]]:
    """Return the start and the end of the panes of a range, and the events in them."""
    epoch = datetime.fromtimestamp(0, span.start.tzinfo)
    first = epoch + (span.start - epoch) // FIVE * FIVE
    last = epoch - (epoch - span.end) // FIVE * FIVE
    return first, last, [event for event in events if first <= event.occurred_at < last]


async def test_the_numbers_are_those_of_the_events_of_exactly_these_panes(async_redis: Any) -> None:
    span, events = a_range(), traffic(lang="de")
    await commit(async_redis, *events)
    rows = {name: [SegmentRow(f"{name}={value}", 1, {}) for value in values] for name, values in SEGMENTS.items()}
    found = await read_range(
        Deployment(async_redis, SETTINGS), "shop", span, segments=rows, columns=[ADHERENCE, "trace.context_relevance"]
    )
    first, last, held = inside(events, span)
    assert 100 < len(held) < len(events)
    (number,) = [one for key, one in found.whole.items() if key.metric == ADHERENCE]
    assert (number.point.start, number.point.end, number.point.n) == (first, last, len(held))
    assert number.point.mean == close(mean(one.scores[ADHERENCE] for one in held))
    assert found.covers == (first, last)
    assert "labeling.latency_s" in found.kept
    assert all(one.cell is None for key, one in found.whole.items() if key.metric == "labeling.latency_s")
    assert set(found.segments) == {"version"}, "the history does not keep the language"
    of = {row.value: row for row in found.segments["version"]}
    for version in ("1", "2"):
        mine = [one.scores[ADHERENCE] for one in held if one.segments["version"] == version]
        cell = of[f"version={version}"].cells[ADHERENCE]
        assert cell.n == len(mine)
        assert cell.estimate == close(mean(mine))


async def test_every_number_is_of_the_range_or_says_that_it_is_of_all_time(async_redis: Any, redis_url: str) -> None:
    span, events = a_range(), traffic(lang="de")
    await commit(async_redis, *events)
    _, _, held = inside(events, span)
    address = f"/p/shop?start={quote(span.start.isoformat())}&end={quote(span.end.isoformat())}"
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, address)
        _, whole = await page(service, "/p/shop")
        long_ago = address.replace("2026", "2025").replace("2027", "2025")
        _, empty = await page(service, long_ago)
    shown = f"{mean(one.scores[ADHERENCE] for one in held):.3f}"
    panel = text.partition('<section class="panel metric')[2].partition("</section>")[0]
    assert shown in panel
    assert f"n {len(held):,}" in panel
    assert "in the chosen range" in panel
    assert "n 300" not in panel
    assert 'data-view="' not in text, "numbers of all time would be written over those of the range"
    segments = re.findall(r"By segment (\w+)</h2><span[^>]*>([^<]*)", text)
    assert dict(segments) == {
        "version": "in the chosen range",
        "lang": "over all time: the history does not keep this segment, see history.segments",
    }
    assert "the history keeps neither quantiles" in text
    assert 'data-view="fleet"' in whole
    assert "in the chosen range" not in whole
    assert "There is no value in this range." in empty
    assert "n 300" not in empty.partition('class="side"')[0]


async def test_without_a_history_the_numbers_say_that_they_are_of_all_time(async_redis: Any, redis_url: str) -> None:
    span = a_range()
    await commit(async_redis, *traffic())
    off = SETTINGS.history.model_copy(update={"enabled": False})
    async with http_service(redis_url, history=off) as service:
        _, text = await page(
            service, f"/p/shop?start={quote(span.start.isoformat())}&end={quote(span.end.isoformat())}"
        )
    assert text.count("over all time: the history does not keep this metric") == 2
