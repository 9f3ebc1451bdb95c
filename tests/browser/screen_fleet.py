"""The fleet in a real browser."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Route, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.support.alerts import alert
from tests.support.conditions import until
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.support.roles import running

from ragtide_runtime.settings.model import Settings

VALUE = "[data-key='shop\\ntrace.adherence'] .value"


async def test_numbers_and_alerts_change_while_the_screen_is_open(async_redis: Any, screen: Screen) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    page = await screen.open()
    value = page.locator(".cell .value").first
    await expect(value).to_have_text("0.800")
    await page.evaluate("() => { window.sameDocument = true }")
    await owner.commit(*adherence([0.2] * 100, first=100), alerts=(alert("A-1", message="Adherence fell."),))
    await expect(value).to_have_text("0.500")
    await expect(page.locator("#alerts li")).to_have_count(1)
    await expect(page).to_have_title("1 alert · ragtide")
    await expect(page.locator("tbody .state")).to_have_text("firing")
    await owner.commit(*adherence([0.5] * 10, first=300, pipeline="bank"))
    await expect(page.locator("tbody tr")).to_have_count(2)
    assert await page.evaluate("() => window.sameDocument")


async def test_a_number_without_a_place_shows_that_the_page_is_older(async_redis: Any, screen: Screen) -> None:
    """A pipeline came after the page was rendered and before its connection, so no change of the screen is sent."""
    (owner,) = owners(async_redis, Settings())
    page, connections = screen.page, iter((True,))

    async def numbers_alone(route: Route) -> None:
        await owner.commit(*adherence([1.0, 0.6] * 50))
        if next(connections, False):
            patches = {"shop": ["poor", "100"], "shop\ntrace.adherence": ["0.8", "", 0, 0, 0, "poor"]}
            body = f"event: patch\ndata: {json.dumps(patches)}\n\n"
            await route.fulfill(content_type="text/event-stream", body=body)

    await page.route("**/live?*", numbers_alone)
    await page.goto(screen.url)
    await expect(page.locator("#fleet tbody tr")).to_have_count(1)
    await expect(page.locator(".cell .value").first).to_have_text("0.800")


async def test_it_comes_back_when_the_service_was_killed(
    async_redis: Any, screen: Screen, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    page = await screen.open()
    connection = page.locator("#connection")
    service.kill()
    await expect(connection).to_have_attribute("data-state", "lost")
    await owner.commit(*adherence([0.2] * 100, first=100))
    service.start()
    await expect(connection).to_have_attribute("data-state", "live")
    await expect(page.locator(".cell .value").first).to_have_text("0.500")
    screen.errors.clear()  # the browser writes down that the connection was refused


async def test_two_viewers_see_the_same_and_a_filter_is_ones_own(
    async_redis: Any, screen: Screen, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50), *adherence([0.5] * 50, first=100, pipeline="bank"))
    page = await screen.open()
    async with opened(browser, service.url) as other:
        filtered = await other.open()
        await filtered.get_by_placeholder("Name").fill("ban")
        await filtered.get_by_role("button", name="Filter").click()
        await expect(filtered.locator("tbody tr")).to_have_count(1)
        await owner.commit(*adherence([0.9] * 50, first=200, pipeline="bank"))
        await expect(page.locator("tr:has-text('bank') .value").first).to_have_text("0.700")
        await expect(filtered.locator("tr:has-text('bank') .value").first).to_have_text("0.700")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await filtered.get_by_label("State").select_option("firing")
        await filtered.get_by_role("button", name="Filter").click()
        await expect(filtered.get_by_text("No pipeline matches the filter.")).to_be_visible()
        await filtered.get_by_role("link", name="Show all").click()
        await expect(filtered.locator("tbody tr")).to_have_count(2)


async def test_foreign_text_is_shown_and_never_runs(async_redis: Any, screen: Screen) -> None:
    (owner,) = owners(async_redis, Settings())
    named = f"shop {SCRIPT}"
    await owner.commit(
        *adherence([0.8] * 5, pipeline=named), alerts=(alert("A-1", pipeline=named, rule=SCRIPT, message=SCRIPT),)
    )
    page = await screen.open()
    await expect(page.locator("tbody th")).to_contain_text("<script>window.hacked")
    await expect(page.locator("#alerts")).to_contain_text("onerror=")
    await owner.commit(*adherence([0.2] * 5, first=10, pipeline=named))
    await expect(page.locator(".cell .value").first).to_have_text("0.500")
    await screen.ran_no_foreign_script()


async def test_it_can_be_used_by_keyboard_and_screen_reader_and_on_a_phone(async_redis: Any, screen: Screen) -> None:
    (owner,) = owners(async_redis, Settings())
    long_name = "a-pipeline-with-a-long-name-" * 5
    await owner.commit(
        *adherence([1.0, 0.6] * 50, pipeline=long_name), alerts=(alert("A-1", pipeline=long_name, rule="floor" * 30),)
    )
    await screen.open()
    await screen.passes_axe()
    await screen.fits()
    for selector in ("a.skip", "nav a", "button[name=theme]", "input[name=q]", "tbody th a"):
        await screen.reaches_by_tab(selector)


async def test_the_theme_is_chosen_with_a_button(screen: Screen) -> None:
    page = await screen.open()
    await page.locator("button[name=theme]").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert await page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 20)"


async def test_it_is_whole_without_javascript(async_redis: Any, browser: Browser, service: PageService) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    async with opened(browser, service.url, java_script_enabled=False) as screen:
        await screen.page.goto(service.url)
        await expect(screen.page.locator(".cell .value").first).to_have_text("0.800")
        await screen.page.get_by_placeholder("Name").fill("zzz")
        await screen.page.get_by_role("button", name="Filter").click()
        await expect(screen.page.get_by_text("No pipeline matches the filter.")).to_be_visible()


async def test_times_are_in_the_time_zone_of_the_viewer(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([0.5] * 5), alerts=(alert("A-1", fired_at="2026-01-02T23:30:00Z"),))
    for zone, expected in (("Asia/Tokyo", "Jan 3, 2026, 08:30"), ("America/New_York", "Jan 2, 2026, 18:30")):
        async with opened(browser, service.url, timezone_id=zone, locale="en-US") as screen:
            page = await screen.open()
            time = page.locator("#alerts time")
            await expect(time).to_have_text(expected)
            await expect(time).to_have_attribute("title", "2026-01-02 23:30:00 UTC")


async def test_the_empty_fleet_has_commands_to_copy_and_says_which_roles_run(
    redis: Any, redis_url: str, screen: Screen, tmp_path: Path
) -> None:
    page = await screen.open()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await expect(page.locator(".first").get_by_text("No worker and no aggregator is running")).to_be_visible()
    await page.locator("[data-copy=way-otel]").click()
    copied = await page.evaluate("() => navigator.clipboard.readText()")
    assert copied.splitlines()[0] == f"export OTEL_EXPORTER_OTLP_ENDPOINT={screen.url}"
    await page.locator("[data-copy=way-http]").click()
    command = await page.evaluate("() => navigator.clipboard.readText()")
    await screen.passes_axe()
    await screen.fits()
    await screen.reaches_by_tab("[data-copy=way-http]")
    with running("up", redis_url, tmp_path / "up.log"):
        await until(lambda: b"aggregating a partition" in (tmp_path / "up.log").read_bytes())
        await page.reload()
        await expect(page.locator(".first").get_by_text("A worker and an aggregator are running")).to_be_visible()
        # The copied command works as it is, and the screen becomes the fleet.
        done = await asyncio.to_thread(subprocess.run, command, shell=True, capture_output=True, check=True)
        assert json.loads(done.stdout)["published"] == 1
        await expect(page.locator("#fleet tbody tr")).to_have_count(1)
        await expect(page.locator(".first")).to_have_count(0)
