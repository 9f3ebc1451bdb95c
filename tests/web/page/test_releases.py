"""Releases on the page: the card, the marks, the list, and the mark on the fleet."""

import re
from datetime import timedelta
from html import escape, unescape
from typing import Any

from tests.support.http_service import http_service
from tests.support.releases import alerts_of, canary, release_alert
from tests.web.page.test_page import SCRIPT, page
from tests.web.page.test_pipeline import SETTINGS, commit

from ragtide_schemas import utc_now
from ragtide_schemas.alert_words import number


def card_of(text: str) -> str:
    return text.partition('id="releases"')[2].partition('<div class="columns')[0]


def numbers_of(text: str) -> list[str]:
    return re.findall(r"[-+]?\d[\d,]*\.?\d*", unescape(re.sub("<[^>]*>", " ", text)))


async def test_the_card_has_the_numbers_of_the_events(async_redis: Any, redis_url: str) -> None:
    events = canary()
    await commit(async_redis, *events, alerts=alerts_of(SETTINGS, events))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
        _, fleet = await page(service, "/")
    card = card_of(text)
    opened = next(answer.occurred_at for answer in events if answer.segments["version"] == "v2")
    since = [answer for answer in events if answer.occurred_at >= opened]
    row = card.partition('title="trace.adherence"')[2].partition("</tr>")[0]
    for version in ("v1", "v2"):
        scores = [answer.scores["trace.adherence"] for answer in since if answer.segments["version"] == version]
        shown = row.partition(f'data-label="{version}"')[2].partition("</td>")[0]
        assert number(sum(scores) / len(scores)) in shown
        assert f"n {len(scores):,}" in shown
    assert 'data-state="worse"' in row
    assert 'data-state="worse"' in fleet
    assert card.count("<polygon") == 2
    assert 'class="mark worse"' in text


async def test_the_card_has_the_numbers_of_the_verdict(async_redis: Any, redis_url: str) -> None:
    await commit(async_redis, *canary(second=0.79))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
        _, record = await service.get("/v1/verdict?pipeline=shop&from=v1&to=v2")
    shown = card_of(text)
    assert len(record["metrics"]) == 3
    for metric in record["metrics"]:
        row = shown.partition(f'title="{metric["metric"]}"')[2].partition("</tr>")[0]
        means = [metric[side][end] for side in ("before", "after") for end in ("estimate", "lower", "upper")]
        assert {number(value) for value in means} <= {*numbers_of(row)}
        for end in ("difference", "lower", "upper"):
            assert number(abs(metric[end])) in row
        assert metric["verdict"].replace("_", " ") in row
        if metric["answers_to_go"] is not None and metric["verdict"] == "undecided":
            assert f"{metric['answers_to_go']:,}" in row
    assert escape(record["sentence"]) in shown
    assert f"{record['alpha']:.0%}" in shown
    assert f"{record['n'][1]:,}" in shown


async def test_an_ended_release_has_a_card_for_a_day_and_then_a_row(async_redis: Any, redis_url: str) -> None:
    def times(ago: timedelta) -> Any:
        return [
            *canary(1000, until=utc_now() - ago),
            *canary(600, first=1000, versions=("v2", "v2"), until=utc_now() - ago + timedelta(hours=2)),
        ]

    bank = [answer.model_copy(update={"pipeline": "bank"}) for answer in times(timedelta(hours=30))]
    await commit(async_redis, *bank, *times(timedelta(hours=5)))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        _, text = await page(service, "/p/shop")
        assert "ended" in card_of(text)
        assert 'id="releases-title"' in text
        _, later = await page(service, "/p/bank")
        assert "<section" not in card_of(later)
        assert 'id="releases-title"' in later


async def test_no_name_of_a_version_takes_the_page_over(async_redis: Any, redis_url: str) -> None:
    events = canary(versions=(f"old{SCRIPT}", f"new{SCRIPT}"))
    alerts = alerts_of(SETTINGS, events)
    await commit(async_redis, *events, alerts=alerts)
    async with http_service(redis_url, history=SETTINGS.history) as service:
        for path in ("/p/shop", "/", "/a", *(f"/a/{alert.alert_id}" for alert in alerts)):
            status, text = await page(service, path)
            assert status == 200, path
            assert "&lt;script&gt;" in text, path
            assert SCRIPT not in text, path


async def test_an_alert_about_a_release_shows_its_numbers_and_nothing_that_it_has_not(
    async_redis: Any, redis_url: str
) -> None:
    opened, worse = release_alert("release.opened"), release_alert("release.worse")
    await commit(async_redis, *canary(200), alerts=(opened, worse))
    async with http_service(redis_url, history=SETTINGS.history) as service:
        for alert in (opened, worse):
            _, text = await page(service, f"/a/{alert.alert_id}")
            main = text.partition("<main")[2]
            assert "None" not in main
            assert {"0.813", "0.711", "0.804", "0.746"} <= {*numbers_of(main)}
        _, fleet = await page(service, "/")
    assert fleet.partition("Firing alerts")[2].partition("</div>")[0].count(">1<") == 1, "an open release is no problem"
