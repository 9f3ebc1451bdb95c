"""A real browser in front of a real service, for `make browser`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright
from tests.browser.screens import Screen, opened
from tests.browser.services import PageService
from tests.monitoring.programs import program


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Return a Chromium. A test fails where it is missing: a real browser was promised."""
    path = program("chromium", "chromium-browser", "google-chrome")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        await running.close()


@pytest.fixture
def service(redis: Any, redis_url: str, tmp_path: Path) -> Iterator[PageService]:
    """Return `ragtide serve` as a process of its own, on an empty Redis."""
    with PageService(redis_url, tmp_path) as running:
        yield running


@pytest.fixture
async def screen(browser: Browser, service: PageService) -> AsyncIterator[Screen]:
    """Return a tab of the browser. The test fails if the console of the tab got an error."""
    async with opened(browser, service.url) as found:
        yield found
