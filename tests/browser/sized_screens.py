"""Pictures of the lists of the page with no entry, one, and ten thousand, to look at; none is committed."""

import tempfile
from pathlib import Path

from playwright.async_api import Browser, async_playwright
from tests.browser.screens import opened
from tests.monitoring.programs import program
from tests.support.sized import LISTS, fill

from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_web.server import page_beside

SIZES = (0, 1, 10_000)
MOST = {"label": 1_000}
"""Entries of lists that are full with fewer."""
WIDTHS = (1400, 390)


async def pictures(browser: Browser, address: str, path: str, begin: Path) -> None:
    """Write the pictures of a screen, and check that nothing of it is cut off."""
    async with opened(browser, address, color_scheme="light", locale="en-US", timezone_id="UTC") as screen:
        page = await screen.open(path)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            await page.screenshot(path=begin.with_name(f"{begin.name}-{width}.png"), full_page=True)
        await screen.fits()
        await screen.passes_axe()


async def sized_pictures(folder: Path, only: str) -> None:
    """Fill a deployment with each list in turn, and write the pictures."""
    executable = program("chromium", "chromium-browser", "google-chrome")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in (one for one in LISTS if only in one):
            for size in SIZES:
                with tempfile.TemporaryDirectory() as data, EmbeddedRedis.open(Path(data)) as server:
                    settings = Settings(redis_url=server.url, data_dir=Path(data))
                    async with connect_async(server.url) as redis:
                        path = await fill(redis, name, min(size, MOST.get(name, size)))
                    async with page_beside(settings, server.url, LABORATORY) as address:
                        await pictures(browser, address.rstrip("/"), path, folder / f"{name}-{size}")
        await browser.close()
