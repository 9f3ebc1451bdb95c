"""The judge in a real browser."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from tests.browser.screens import Screen, opened
from tests.browser.services import PageService
from tests.web.page.test_judge import STREAMS, fill

from ragtide_runtime.calls.call_counts import CallCounts
from ragtide_runtime.calls.endpoint_states import count_calls
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import utc_now


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_JUDGE_MODEL", "gpt-5-mini")


async def spend(redis: Any) -> None:
    """Count a call of five dollars."""
    one = CallCounts()
    one.answered(0.2)
    one.spent(5.0, 800, 90, model="another-model", purpose="live")
    await run_script(redis, count_calls(STREAMS, "judge", one, at=utc_now(), process="b", batch=1))


async def test_dollars_change_while_it_is_open(async_redis: Any, screen: Screen) -> None:
    await fill(async_redis)
    page = await screen.open("/judge")
    await expect(page.get_by_text("answered 240, timeout 24")).to_be_visible()
    await page.locator("#hours-judge summary").click()
    await expect(page.locator("#hours-judge tbody tr")).to_have_count(48)
    await spend(async_redis)
    await expect(page.get_by_text("another-model $5.00")).to_be_visible()
    await expect(page.locator("#hours-judge[open]")).to_have_count(1)
    await screen.ran_no_foreign_script()


async def test_a_bar_tells_its_hour_in_the_time_zone_of_the_viewer(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    await fill(async_redis)
    async with opened(browser, service.url, timezone_id="Asia/Kolkata") as screen:  # half an hour off UTC
        page = await screen.open("/judge")
        chart = page.locator("figure.spend svg").first
        await chart.scroll_into_view_if_needed()
        box = await chart.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
        output = page.locator("figure.spend output").first
        await expect(output).to_have_text(re.compile(r":30.*: \$0\.11"))
        first = page.locator("#hours-judge tbody th").first
        assert ":30" in (await first.text_content() or "")
        await spend(async_redis)
        await expect(output).to_have_text(re.compile(r":30.*: \$5\.11"))  # the pointer rests on the new chart
        await page.mouse.move(0, 0)
        await expect(output).to_have_text("")


async def test_it_can_be_used_by_keyboard_and_screen_reader_and_on_a_phone(async_redis: Any, screen: Screen) -> None:
    await screen.open("/judge")
    await screen.passes_axe()
    await screen.fits()
    await fill(async_redis)
    page = await screen.open("/judge")
    for summary in await page.locator("summary").all():
        await summary.click()
    await screen.passes_axe()
    await screen.fits()
    for selector in ("#hours-judge summary", "#days-judge summary"):
        await screen.reaches_by_tab(selector)


async def test_it_is_whole_without_javascript(async_redis: Any, browser: Browser, service: PageService) -> None:
    await fill(async_redis)
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        await screen.page.goto(f"{service.url}/judge")
        await expect(screen.page.locator("figure.spend rect")).to_have_count(78)
        await expect(screen.page.get_by_text("1.93×")).to_be_visible()
