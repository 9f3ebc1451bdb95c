"""Tabs of one browser share the connection for live numbers."""

from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, Request, expect
from tests.browser.screens import opened
from tests.browser.services import PageService
from tests.support.conditions import until
from tests.support.metric_events import adherence
from tests.support.owners import owners

from ragtide_runtime.settings.model import Settings

TABS = 8
"""More than the connections that a browser makes to one service."""
VALUE = "tbody tr:has(a[href='/p/shop']) .cell .value"
HIDE = """(hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
HIDE_ON_CHANGE = f"""() => {{
    const channel = BroadcastChannel.prototype;
    const post = channel.postMessage;
    channel.postMessage = function (message) {{
        post.call(this, message);
        if (message.kind !== 'changed') return;
        channel.postMessage = post;
        queueMicrotask(() => ({HIDE})(true));
    }};
}}"""
"""The leading tab is hidden when a change has made it wait for its next fetch."""


class LiveConnections:
    """The connections for live numbers that the tabs of a context made, by the tab."""

    def __init__(self, context: BrowserContext) -> None:
        self.begun: list[Page] = []
        context.on("request", self._saw)

    def _saw(self, request: Request) -> None:
        if "/live?" in request.url:
            self.begun.append(request.frame.page)


async def opened_tabs(context: BrowserContext, url: str, count: int) -> list[Page]:
    tabs = []
    for _ in range(count):
        tab = await context.new_page()
        await tab.goto(url)
        await expect(tab.locator("#connection")).to_have_attribute("data-state", "live")
        tabs.append(tab)
    return tabs


async def test_tabs_of_one_screen_share_a_connection_and_another_takes_it_over(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    async with opened(browser, service.url) as screen:
        connections = LiveConnections(screen.page.context)
        tabs = await opened_tabs(screen.page.context, service.url, TABS)
        assert len(connections.begun) == 1
        (leader,) = connections.begun
        await owner.commit(*adherence([0.2] * 100, first=100))
        for tab in tabs:
            await expect(tab.locator(VALUE)).to_have_text("0.500")
        # A region that is fetched again comes to all tabs, too.
        await owner.commit(*adherence([0.5] * 10, first=300, pipeline="bank"))
        for tab in tabs:
            await expect(tab.locator("tbody tr")).to_have_count(2)
        assert len(connections.begun) == 1
        await leader.close()
        tabs.remove(leader)
        await owner.commit(*adherence([0.9] * 400, first=400))
        for tab in tabs:
            await expect(tab.locator(VALUE)).to_have_text("0.767")
            await expect(tab.locator("#connection")).to_have_attribute("data-state", "live")
        assert len(connections.begun) == 2
        assert connections.begun[1] in tabs


async def test_tabs_with_other_filters_have_their_own_numbers(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50), *adherence([0.5] * 50, first=100, pipeline="bank"))
    async with opened(browser, service.url) as screen:
        connections = LiveConnections(screen.page.context)
        (every,) = await opened_tabs(screen.page.context, service.url, 1)
        (bank,) = await opened_tabs(screen.page.context, f"{service.url}/?q=bank", 1)
        assert connections.begun == [every, bank]
        await owner.commit(*adherence([0.2] * 100, first=200))
        await expect(every.locator(VALUE)).to_have_text("0.500")
        await expect(bank.locator("tbody tr")).to_have_count(1)


async def test_a_browser_without_locks_has_a_connection_for_each_tab(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    async with opened(browser, service.url) as screen:
        await screen.page.context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
        connections = LiveConnections(screen.page.context)
        tabs = await opened_tabs(screen.page.context, service.url, 2)
        assert len(connections.begun) == 2
        await owner.commit(*adherence([0.2] * 100, first=100))
        for tab in tabs:
            await expect(tab.locator(VALUE)).to_have_text("0.500")


async def test_a_hidden_tab_gives_the_connection_to_another(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    async with opened(browser, service.url) as screen:
        connections = LiveConnections(screen.page.context)
        first, second = await opened_tabs(screen.page.context, service.url, 2)
        await first.evaluate(HIDE, True)
        await until(lambda: connections.begun == [first, second])  # until then the first tab may get what changes
        await owner.commit(*adherence([0.2] * 100, first=100))
        await expect(second.locator(VALUE)).to_have_text("0.500")
        await expect(first.locator(VALUE)).to_have_text("0.800")
        await first.evaluate(HIDE, False)
        await expect(first.locator(VALUE)).to_have_text("0.500")
        await owner.commit(*adherence([0.9] * 400, first=400))
        for tab in (first, second):
            await expect(tab.locator(VALUE)).to_have_text("0.767")
        assert connections.begun == [first, second], "a tab that is shown again joins"


async def test_a_hidden_tab_fetches_nothing_that_it_waited_to_fetch(
    async_redis: Any, browser: Browser, service: PageService
) -> None:
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*adherence([1.0, 0.6] * 50))
    async with opened(browser, service.url) as screen:
        context = screen.page.context
        await context.clock.install()
        (tab,) = await opened_tabs(context, service.url, 1)
        rows = tab.locator("tbody tr")
        await owner.commit(*adherence([0.5] * 10, first=300, pipeline="bank"))
        await expect(rows).to_have_count(2)
        await tab.clock.pause_at(await tab.evaluate("Date.now() + 5000"))
        await tab.clock.fast_forward(5000)  # later than any fetch that was still to come
        await owner.commit(*adherence([0.5] * 10, first=400, pipeline="desk"))
        await expect(rows).to_have_count(3)  # fetched just now: the next fetch waits
        await tab.evaluate(HIDE_ON_CHANGE)
        await owner.commit(*adherence([0.5] * 10, first=500, pipeline="mail"))
        await until(lambda: tab.evaluate("document.hidden"))
        fetched: list[str] = []
        context.on("request", lambda request: fetched.append(request.url))
        await tab.clock.fast_forward(5000)
        await tab.evaluate("fetch('/healthz')")
        assert fetched == [f"{service.url}/healthz"]
        await tab.evaluate(HIDE, False)
        await tab.clock.resume()
        await expect(rows).to_have_count(4)
