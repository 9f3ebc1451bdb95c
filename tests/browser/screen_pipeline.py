"""The pipeline in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.web.page.test_pipeline import commit, traffic


async def test_bands_are_drawn_and_a_drag_chooses_a_range(async_redis: Any, screen: Screen) -> None:
    await commit(async_redis, *traffic(), *traffic("bank", 1000, 0.4))
    page = await screen.open("/")
    await page.get_by_role("link", name="shop").click()
    canvas = page.locator(".chart canvas")
    await expect(canvas).to_have_count(2)
    await expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    await page.locator(".chart .u-over").first.hover(position={"x": 350, "y": 60})
    await expect(page.locator("#chart-1 .at")).to_contain_text("· n ")
    await page.get_by_role("link", name="7d").click()
    await expect(page.get_by_role("link", name="7d")).to_have_attribute("aria-current", "true")
    await page.get_by_role("link", name="24h").click()
    over = page.locator(".chart .u-over").first
    box = await over.bounding_box()
    assert box is not None
    before = await page.locator("#chart-1 tr[data-point]").count()
    await page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + 50)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 50, steps=4)
    await page.mouse.up()
    await page.wait_for_url("**start=*")
    await expect(page.locator(".chart canvas")).to_have_count(2)
    assert await page.locator("#chart-1 tr[data-point]").count() > 0
    await expect(page.locator(".ranges [aria-current]").first).to_contain_text("–")
    await expect(page.locator("#chart-1 .under").nth(1)).to_contain_text("–")
    await screen.passes_axe()
    assert before > 0
    await page.get_by_text("Numbers of the chart").first.click()
    await expect(page.locator("#table-1 table")).to_be_visible()


async def test_numbers_change_while_the_screen_is_open(async_redis: Any, screen: Screen) -> None:
    owner = await commit(async_redis, *traffic())
    page = await screen.open("/p/shop")
    value = page.locator(".metric .value").first
    before = await value.text_content()
    await owner.commit(*traffic(first=1000, mean=0.2))
    await expect(value).not_to_have_text(before or "")


async def test_pipelines_are_compared_with_a_form(async_redis: Any, screen: Screen) -> None:
    await commit(async_redis, *traffic(), *traffic("bank", 1000, 0.4))
    page = await screen.open("/p/shop")
    await page.get_by_label("Other pipeline").select_option("bank")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("#compared")).to_contain_text("higher")


async def test_axe_keyboard_phone_and_foreign_text(async_redis: Any, screen: Screen) -> None:
    name = f"shop {SCRIPT}" + "long-name-" * 9
    await commit(async_redis, *traffic(name, lang=SCRIPT))
    page = await screen.open("/")
    await page.locator("tbody th a").click()
    await expect(page.locator(".chart canvas")).to_have_count(2)
    await screen.ran_no_foreign_script()
    await screen.passes_axe()
    await screen.fits()
    for selector in (".ranges a", "#table-1 summary", "#about-1 summary"):
        await screen.reaches_by_tab(selector)


async def test_without_javascript_the_server_draws(async_redis: Any, browser: Browser, service: PageService) -> None:
    await commit(async_redis, *traffic())
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        await screen.page.goto(f"{service.url}/p/shop")
        await expect(screen.page.locator(".chart svg .band").first).to_be_attached()
        await expect(screen.page.locator(".chart canvas")).to_have_count(0)
