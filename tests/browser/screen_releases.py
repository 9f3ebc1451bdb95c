"""A release in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.support.releases import alerts_of, canary
from tests.web.page.test_pipeline import SETTINGS, commit

from ragtide_schemas.alert_words import number


def mean_of(events: list[Any], version: str) -> str:
    """Return the mean adherence of a version since the release opened, as the page writes it."""
    first = next(place for place, answer in enumerate(events) if answer.segments["version"] != "v1")
    scores = [one.scores["trace.adherence"] for one in events[first:] if one.segments["version"] == version]
    return number(sum(scores) / len(scores))


async def test_the_card_has_the_numbers_of_the_events_on_a_desk_and_on_a_phone(
    async_redis: Any, screen: Screen
) -> None:
    events = canary()
    await commit(async_redis, *events, alerts=alerts_of(SETTINGS, events))
    page = await screen.open("/")
    mark = page.get_by_role("link", name="v2 beside v1")
    await expect(mark).to_be_visible()
    await screen.fits()
    await screen.passes_axe()
    await mark.click()
    for width in (1400, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        row = page.locator("#releases tr", has_text="Adherence")
        for version in ("v1", "v2"):
            await expect(row.locator(f'[data-label="{version}"]')).to_contain_text(mean_of(events, version))
        await expect(row.get_by_text("worse", exact=True)).to_be_visible()
        box = await page.locator("#releases figure svg").bounding_box()
        assert box is not None
        assert 0 < box["width"] <= width
        assert box["height"] > 50
    await screen.fits()
    await screen.passes_axe()
    await expect(page.locator("#release-rows tr")).to_have_count(1)


async def test_long_and_hostile_versions_are_text_also_without_scripts(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    events = canary(versions=("a3f9c2d81b7e4c6f9a0d" * 6, f"new{SCRIPT}"))
    alerts = alerts_of(SETTINGS, events)
    await commit(async_redis, *events, alerts=alerts)
    paths = ("/p/shop", "/", "/a", *(f"/a/{alert.alert_id}" for alert in alerts))
    async with opened(browser, service.url) as screen:
        for path in paths:
            await screen.open(path)
            await screen.fits()
            await screen.ran_no_foreign_script()
    async with opened(browser, service.url, java_script_enabled=False, viewport={"width": 390, "height": 900}) as still:
        await still.page.goto(f"{service.url}/p/shop")
        await expect(still.page.locator("#releases figure svg")).to_be_visible()
        await expect(still.page.locator("#releases")).to_contain_text("new<script>")
