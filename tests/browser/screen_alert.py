"""Alerts in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.web.page.test_alert import add, drift
from tests.web.page.test_pipeline import commit, traffic

from ragtide_consumers.notify.silences import read_acknowledged, read_silences


async def test_an_alert_is_acknowledged_and_silenced_with_buttons(
    async_redis: Any, screen: Screen, browser: Browser, service: PageService
) -> None:
    await commit(async_redis, *traffic(), alerts=(drift(),))
    page = await screen.open("/a")
    await page.get_by_role("link", name="shop · Adherence").click()
    await expect(page.locator(".chart canvas")).to_have_count(1)
    async with opened(browser, service.url) as other:
        seen = await other.open("/a/A-1")
        await page.get_by_label("Reason", exact=True).fill("I look at it")
        await page.get_by_role("button", name="Acknowledge").click()
        await expect(page.get_by_role("status").first).to_contain_text("The alert is acknowledged.")
        # The second viewer sees the order without a reload.
        await expect(seen.locator("#timeline")).to_contain_text("acknowledged by")
        await page.get_by_label("Reason of the silence").fill("deploy")
        await page.get_by_label("Silence for").select_option("4h")
        await page.get_by_role("button", name="Silence").click()
        await expect(page.locator("#timeline")).to_contain_text("silenced by")
        await expect(seen.locator("#timeline")).to_contain_text("deploy")
    assert (await read_acknowledged(async_redis, "ragtide"))["A-1"].by == "local user"
    assert len(await read_silences(async_redis, "ragtide")) == 1


async def test_new_alerts_join_the_list(async_redis: Any, screen: Screen) -> None:
    page = await screen.open("/a")
    await expect(page.get_by_text("No alert has fired.")).to_be_visible()
    await add(async_redis, drift())
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name="resolved").click()
    await expect(page.get_by_text("No alert is in this state.")).to_be_visible()


async def test_axe_keyboard_phone_and_foreign_text(async_redis: Any, screen: Screen) -> None:
    found = drift(message=SCRIPT, rule="rule-" * 30, worst_interaction_ids=(SCRIPT, "i-" * 90), diagnosis=(SCRIPT,))
    await commit(async_redis, *traffic(), alerts=(found,))
    await screen.open("/a")
    await screen.passes_axe()
    await screen.fits()
    await screen.open("/a/A-1")
    await screen.ran_no_foreign_script()
    await screen.passes_axe()
    await screen.fits()
    for selector in ("input[name=reason]", "select[name=for]", "#table-change summary", "h1 a"):
        await screen.reaches_by_tab(selector)
