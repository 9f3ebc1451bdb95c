"""The site in a real browser: ten pages without violations of axe, and none wider than a phone."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.async_api import Browser, expect
from tests.browser.screens import opened

ROOT = Path(__file__).parents[2]
PAGES = (
    "index",
    "start/concepts",
    "start/app",
    "connect/langchain",
    "scores/metrics",
    "live/alerts",
    "offline/gates",
    "operate/scale",
    "help/troubleshooting",
    "reference/settings",
)


class _Quiet(SimpleHTTPRequestHandler):
    """Files over HTTP, without a log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    """Return the address of the built site."""
    subprocess.run([sys.executable, "-m", "tools.site"], cwd=ROOT, check=True, timeout=300)
    handler = partial(_Quiet, directory=str(ROOT / "build" / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_ten_pages_pass_axe_and_fit_a_phone(browser: Browser, site: str) -> None:
    async with opened(browser, site) as screen:
        for name in PAGES:
            await screen.open(f"/{name}.html")
            await screen.passes_axe()
            await screen.fits()


async def test_the_search_finds_a_page(browser: Browser, site: str) -> None:
    async with opened(browser, site) as screen:
        page = await screen.open("/index.html")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("false alarms", delay=20)
        await expect(page.locator("a:has-text('False alarms')").last).to_be_visible()
