"""Experiments in a real browser: live numbers, orders by mouse and keyboard, and two viewers."""

import asyncio
from typing import Any

from playwright.async_api import Browser, Page, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.ragtide.judged_runs import Run, plan_of, write_experiment
from tests.web.page.test_experiments import STREAMS, begin, commands

from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas.experiments import Command, Config, Look, Paused

MEANS = {"a": 0.9, "b": 0.5, "c": 0.88}
COST = {"a": 0.002, "b": 0.001, "c": 0.003}


async def raced(redis_url: str, items: int = 120) -> None:
    run = Run(plan_of("may", tuple(MEANS)), MEANS, cost=COST, items=items)
    await asyncio.to_thread(write_experiment, redis_url, run)


async def order(page: Page, form: str, reason: str) -> None:
    """Fill in a form of the orders, and send it."""
    found = page.get_by_role("form", name=form)
    await found.get_by_label("Reason").fill(reason)
    await found.get_by_role("button").click()


async def test_each_button_gives_its_order(async_redis: Any, screen: Screen) -> None:
    await begin(async_redis)
    page = await screen.open("/x")
    await page.get_by_role("link", name="may").click()
    await page.get_by_role("link", name="Orders to c1 (#1)").click()
    await order(page, "Stop the config", "too dear")
    await expect(page.get_by_role("status")).to_contain_text("The order is in the log")
    await expect(page.locator("#board tr.out")).to_have_count(1)
    await expect(page.locator("#commands")).to_contain_text("too dear")

    await page.get_by_role("link", name="Orders to c1 (#1)").click()
    await order(page, "Resume the config", "it was cheap")
    await expect(page.locator("#board")).to_contain_text("protected")

    await page.get_by_role("link", name="Orders to c0 (#0)").click()
    await page.get_by_label("k", exact=True).fill("five")
    await order(page, "Add the clone", "a try")
    await expect(page.get_by_role("alert")).to_contain_text("k is not JSON")
    form = page.get_by_role("form", name="Add the clone")
    await expect(form.get_by_label("Reason")).to_have_value("a try")
    await expect(page.get_by_label("k", exact=True)).to_have_value("five")
    await page.get_by_label("k", exact=True).fill("5")
    await form.get_by_label("Name of the clone").fill("five")
    await form.get_by_label("Reason").press("Enter")
    await expect(page.locator("#board")).to_contain_text("five #3")

    await page.get_by_role("link", name="Orders to c2 (#2)").click()
    await order(page, "Delete the config", "wrong prompt")
    await expect(page.locator("#board tbody tr")).to_have_count(3)
    await page.get_by_role("link", name="Orders to c0 (#0)").click()
    await page.get_by_role("link", name="Close").click()
    await expect(page.locator("#order-panel")).to_have_count(0)
    assert [command.op for command in await commands(async_redis)] == ["stop", "resume", "clone", "delete"]
    screen.errors.clear()  # the browser writes down the status 422


async def test_of_two_viewers_one_stops_and_the_other_is_told(
    async_redis: Any, screen: Screen, browser: Browser, service: PageService
) -> None:
    await begin(async_redis)
    page = await screen.open("/x/may?config=1")
    async with opened(browser, service.url) as other:
        late = await other.open("/x/may?config=1")
        form = late.get_by_role("form", name="Stop the config")
        await form.get_by_label("Reason").fill("half of a sen")
        await order(page, "Stop the config", "first")
        # The other screen follows the log, and the half sentence stays.
        await expect(late.locator("#commands")).to_contain_text("first")
        await expect(form.get_by_label("Reason")).to_have_value("half of a sen")
        await form.get_by_role("button").click()
        await expect(late.get_by_role("alert")).to_contain_text("gave the command stop to config 'c1' after you looked")
        await expect(late.get_by_role("form", name="Resume the config")).to_be_visible()
        other.errors.clear()  # the browser writes down the status 409
    assert len(await commands(async_redis)) == 1


async def test_numbers_change_while_the_screen_is_open(async_redis: Any, screen: Screen) -> None:
    await begin(async_redis)
    page = await screen.open("/x/may")
    await page.evaluate("() => { window.sameDocument = true }")
    for entry in (Look(item=5), Paused(reason="cost 2 USD of at most 1: raise max_cost_usd to continue")):
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
    await expect(page.locator("#facts .value").first).to_have_text("5")
    await expect(page.locator("#verdict")).to_contain_text("raise max_cost_usd")
    assert await page.evaluate("() => window.sameDocument")


async def test_foreign_text_is_shown_and_never_runs(async_redis: Any, screen: Screen) -> None:
    named = Config(name=f"c {SCRIPT}", parameters={SCRIPT: SCRIPT})
    stopped = Command(op="stop", config=named.name, by=SCRIPT[:100], reason=SCRIPT)
    await begin(async_redis, stopped, Paused(reason=SCRIPT), configs=[named], target=SCRIPT, data=SCRIPT)
    for path in ("/x", "/x/may", "/x/may?config=0"):
        page = await screen.open(path)
        if path != "/x":
            await expect(page.get_by_text("window.hacked").first).to_be_visible()
        await screen.ran_no_foreign_script()


async def test_it_can_be_used_by_keyboard_and_screen_reader_and_on_a_phone(
    async_redis: Any, redis_url: str, screen: Screen
) -> None:
    await screen.open("/x")
    await screen.passes_axe()
    await raced(redis_url)
    for path in ("/x", "/x/may", "/x/may?config=1"):
        await screen.open(path)
        await screen.passes_axe()
        await screen.fits()
    for selector in (
        "#order-panel input[name=reason]",
        "#order-panel button.danger",
        "#close-orders",
        "#board a.button",
    ):
        await screen.reaches_by_tab(selector)


async def test_long_names_fit(async_redis: Any, screen: Screen) -> None:
    long = "a-config-with-a-long-name-" * 7
    configs = [Config(name=f"{long}{n}", parameters={f"parameter_{k}" * 5: long for k in range(4)}) for n in range(12)]
    await begin(async_redis, configs=configs, target=long, metric="trace.context_utilization")
    await screen.open("/x/may?config=3")
    await screen.fits()
    await screen.passes_axe()


async def test_it_is_whole_without_javascript(redis_url: str, browser: Browser, service: PageService) -> None:
    await raced(redis_url, items=60)
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        page = screen.page
        await page.goto(f"{service.url}/x/may?config=0")
        await expect(page.locator("svg.chart")).to_have_count(2)
        await order(page, "Delete the config", "a try")
        await expect(page.get_by_role("status")).to_contain_text("The order is in the log")
