"""Tabs of a browser, and the checks that every screen must pass."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

WIDTHS = (1400, 390, 360)
"""Widths at which nothing of a screen may be cut off."""
SCRIPT = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
"""A text that takes the page over where it is not escaped."""

expect.set_options(timeout=60_000)  # the tests assume no speed


@dataclass
class Screen:
    """A tab."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)
    """Errors of the console, such as a script that the policy refused."""

    async def open(self, path: str = "/") -> Page:
        """Open a screen, and wait until it is live."""
        await self.page.goto(self.url + path)
        if await self.page.locator("main[data-follow]").count():
            await expect(self.page.locator("#connection")).to_have_attribute("data-state", "live")
        return self.page

    async def passes_axe(self) -> None:
        """Check the screen with axe, dark and light."""
        for scheme in ("dark", "light"):
            await self.page.emulate_media(color_scheme=scheme)
            found = await Axe().run(self.page, options={"resultTypes": ["violations"]})
            assert found.violations_count == 0, found.generate_report()
        await self.page.emulate_media(color_scheme=None)

    async def fits(self) -> None:
        """Check that nothing is wider than the window, on a desk and on phones."""
        before = self.page.viewport_size
        for width in WIDTHS:
            await self.page.set_viewport_size({"width": width, "height": 900})
            wide: int = await self.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"{self.page.url} is {wide} pixels wide in a window of {width}"
        if before is not None:
            await self.page.set_viewport_size(before)

    async def ran_no_foreign_script(self) -> None:
        """Check that no script of a text has run."""
        assert not await self.page.evaluate("() => window.hacked === true")

    async def reaches_by_tab(self, selector: str, most: int = 200) -> None:
        """Check that the keyboard reaches an element, and that its focus can be seen."""
        await self.page.evaluate("() => document.activeElement?.blur()")
        for _ in range(most):
            await self.page.keyboard.press("Tab")
            if await self.page.evaluate("(selector) => document.activeElement?.matches(selector)", selector):
                seen = "() => getComputedStyle(document.activeElement).outlineStyle"
                assert await self.page.evaluate(seen) != "none", f"the focus of {selector} cannot be seen"
                return
        raise AssertionError(f"Tab never reaches {selector}")


@asynccontextmanager
async def opened(browser: Browser, url: str, **context: Any) -> AsyncIterator[Screen]:
    """Open a tab with storage of its own for the body of a `with`; options are those of Playwright's context."""
    kept = await browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **context})
    found = Screen(await kept.new_page(), url)
    found.page.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    yield found
    assert found.errors == []
    await kept.close()
