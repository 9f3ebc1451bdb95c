"""Every screen with every panel filled, in a real browser: nothing is wider than the window."""

from typing import Any

from playwright.async_api import Browser
from tests.browser.screens import opened
from tests.support.full_deployment import OPTIONS, SCREENS, fill_everything
from tests.support.http_service import http_service


async def test_no_screen_is_wider_than_its_window(async_redis: Any, redis_url: str, browser: Browser) -> None:
    await fill_everything(async_redis, redis_url)
    async with http_service(redis_url, **OPTIONS) as service, opened(browser, service.url) as screen:
        for path in (*SCREENS, "/asyncapi"):
            page = await screen.open(path)
            await page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            await screen.fits()
            if path in ("/p/shop", "/a/A-1", "/asyncapi"):
                await screen.passes_axe()
