"""The system in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.web.page.test_dead_letters import add, letter
from tests.web.page.test_system import STREAMS, order

from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP
from ragtide_runtime.settings.model import Settings


async def busy(redis: Any) -> None:
    """Fill a deployment."""
    (owner,) = owners(redis, Settings())
    await owner.commit(*adherence([0.5] * 5))
    for _ in range(9):
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    await redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    long = "a-worker-with-a-long-name-" * 4
    await redis.xreadgroup(LABEL_GROUP, f"{long}{SCRIPT}", {STREAMS.interactions: ">"}, count=4)
    await redis.hset(STREAMS.dropped, mapping={"interactions_cap": 3, SCRIPT: 5})
    await add(redis, *(letter(number, {"pipeline": "shop"}) for number in range(3)))
    for number in range(60):
        await order(redis, number, reason=f"reason {number} {SCRIPT}", details={"count": number})


async def test_it_changes_while_it_is_open(async_redis: Any, screen: Screen) -> None:
    page = await screen.open("/system")
    await expect(page.locator("#orders .empty")).to_be_visible()
    await order(async_redis, 1, reason="a first order")
    await expect(page.get_by_text("a first order")).to_be_visible()
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    await expect(page.locator("#facts .fact").nth(2).locator(".value")).to_have_text("1")


async def test_details_stay_open_and_orders_have_pages(async_redis: Any, screen: Screen) -> None:
    await busy(async_redis)
    page = await screen.open("/system")
    await page.locator("#passed summary").click()
    await page.locator("#defaults summary").click()
    await expect(page.get_by_text("worker_min_idle_s", exact=True)).to_be_visible()
    await order(async_redis, 99, reason="a newer order")
    await expect(page.get_by_text("a newer order")).to_be_visible()
    await expect(page.locator("#passed[open]")).to_have_count(1)
    await page.get_by_role("link", name="All entries").click()
    await expect(page.locator("tbody tr")).to_have_count(50)
    await page.get_by_role("link", name="older").click()
    await expect(page.locator("tbody tr")).to_have_count(11)
    await page.get_by_role("link", name="newest").click()
    await expect(page.get_by_text("a newer order")).to_be_visible()


async def test_foreign_text_is_shown_and_never_runs(async_redis: Any, screen: Screen) -> None:
    await busy(async_redis)
    page = await screen.open("/system")
    await expect(page.locator("#workers")).to_contain_text("window.hacked")
    await expect(page.locator("#streams")).to_contain_text("window.hacked")
    await expect(page.locator("#orders")).to_contain_text("window.hacked")
    await screen.ran_no_foreign_script()


async def test_it_can_be_used_by_keyboard_and_screen_reader_and_on_a_phone(async_redis: Any, screen: Screen) -> None:
    await screen.open("/system")
    await screen.passes_axe()
    await busy(async_redis)
    for path in ("/system", "/system/orders"):
        page = await screen.open(path)
        for summary in await page.locator("summary").all():
            await summary.click()
        await screen.passes_axe()
        await screen.fits()
    await screen.reaches_by_tab("a[rel=next]")
    await screen.open("/system")
    for selector in ("#passed summary", "#defaults summary", "a[href='/system/orders']"):
        await screen.reaches_by_tab(selector)


async def test_it_is_whole_without_javascript(async_redis: Any, browser: Browser, service: PageService) -> None:
    await busy(async_redis)
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        await screen.page.goto(f"{service.url}/system")
        await expect(screen.page.locator("#checks .findings").first).to_be_visible()
        await expect(screen.page.locator("#orders tbody tr")).to_have_count(10)
