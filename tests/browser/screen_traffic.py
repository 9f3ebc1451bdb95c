"""The traffic in a real browser."""

from typing import Any

from playwright.async_api import expect
from tests.browser.screens import SCRIPT, Screen
from tests.web.page.test_item import keep
from tests.web.page.test_traffic import scored

from ragtide_runtime.redis.keys import SPECIMEN_NEWEST


async def test_a_filter_and_keys_lead_to_an_answer(async_redis: Any, screen: Screen) -> None:
    await keep(async_redis, *(scored(number, number / 10) for number in range(10)), name=SPECIMEN_NEWEST)
    page = await screen.open("/t")
    await expect(page.locator("#traffic tbody tr")).to_have_count(10)
    await page.get_by_label("below").fill("0.3")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator("#traffic tbody tr")).to_have_count(3)
    for key in ("j", "j", "Enter"):
        await page.keyboard.press(key)
    await expect(page).to_have_url(f"{screen.url}/i/shop/i-1?list=newest")


async def test_axe_keyboard_phone_and_foreign_text(async_redis: Any, screen: Screen) -> None:
    long = "a-word-without-a-space-" * 20
    given = [
        scored(1, 0.1, question=SCRIPT, segments={"a": SCRIPT, "b" * 200: "c" * 200}),
        scored(2, 0.2, long[:200], question=long),
    ]
    for one in given:
        await keep(async_redis, one, name=SPECIMEN_NEWEST)
    for path in ("/t", "/t?below=0.05", "/t?pipeline=none"):
        await screen.open(path)
        await screen.ran_no_foreign_script()
        await screen.passes_axe()
        await screen.fits()
    await screen.open("/t")
    for selector in ("select[name=pipeline]", "input[name=segment]", "#traffic tbody a"):
        await screen.reaches_by_tab(selector)
