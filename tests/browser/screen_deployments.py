"""Other deployments in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, opened
from tests.support.http_service import http_service
from tests.web.test_federation import EU, US, deployments


async def test_axe_phone_and_foreign_text(async_redis: Any, redis_url: str, browser: Browser) -> None:
    async with deployments(async_redis, redis_url) as others:
        federate = [
            {"name": "Europe", "url": others["eu"].url, "token": EU},
            {"name": "a-word-without-a-space-" * 8, "url": others["us"].url, "token": US},
            {"name": SCRIPT, "url": "http://127.0.0.1:9"},
        ]
        for language in ("en", "ru"):
            async with (
                http_service(redis_url, serve={"federate": federate}) as service,
                opened(browser, service.url, locale=language) as screen,
            ):
                page = await screen.open("/deployments")
                await expect(page.locator("#deployments section")).to_have_count(3)
                await expect(page.locator("#deployments .notice.bad")).to_have_count(1)
                await screen.ran_no_foreign_script()
                await screen.passes_axe()
                await screen.fits()
                await screen.reaches_by_tab("#deployments tbody a")
