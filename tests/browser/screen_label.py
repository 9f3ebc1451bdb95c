"""The annotation page in a real browser."""

import asyncio
from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.ragtide.test_annotate import kept
from tests.ragtide.test_items import keep
from tests.web.page.test_label import published

from ragtide.testing import interaction


async def test_items_are_annotated_with_keys_alone(async_redis: Any, redis_url: str, screen: Screen) -> None:
    await asyncio.to_thread(kept, redis_url, 3)
    page = await screen.open("/label")
    await expect(page.get_by_text("3 items are left for you")).to_be_visible()
    await expect(page.locator("fieldset.current")).to_have_count(1)
    await page.keyboard.press("y")
    await page.keyboard.press("n")
    await expect(page.locator("input:checked[type=radio]")).to_have_count(2)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("published as feedback")
    await expect(page.get_by_text("2 items are left for you")).to_be_visible()
    await page.keyboard.press("s")
    await expect(page.get_by_role("status")).to_contain_text("The item is skipped.")
    (found,) = await published(async_redis)
    assert found.gold_scores["trace.adherence"] == 0.0


async def test_buttons_choices_axe_and_a_phone(async_redis: Any, redis_url: str, screen: Screen) -> None:
    texts = {"question": SCRIPT, "response": f"{SCRIPT} The tower was built in 1889."}
    await asyncio.to_thread(keep, redis_url, interaction(0, **texts), interaction(1, **texts))
    page = await screen.open("/label")
    await screen.ran_no_foreign_script()
    await expect(page.locator("#question")).to_contain_text("<script>window.hacked")
    await screen.passes_axe()
    await screen.fits()
    await page.get_by_label("Context relevance 1–5").check()
    await page.get_by_role("button", name="Choose").click()
    await expect(page.get_by_text("How much of the documents is relevant to the question?")).to_be_visible()
    for group in await page.locator("#answers fieldset").all():
        await group.locator("input").first.check()
    await page.get_by_role("button", name="Save and next").click()
    await expect(page.get_by_role("status")).to_contain_text("published as feedback")
    for selector in ("#answers input[type=radio]", "button[name=skip]", "select[name=pipeline]"):
        await screen.reaches_by_tab(selector)


async def test_without_javascript_a_form_is_enough(
    async_redis: Any, redis_url: str, browser: Browser, service: PageService
) -> None:
    await asyncio.to_thread(kept, redis_url, 1)
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        page = screen.page
        await page.goto(f"{service.url}/label")
        await page.get_by_role("button", name="Skip").click()
        await expect(page.get_by_text("There is no item for you to annotate.")).to_be_visible()
    assert await published(async_redis) == []
