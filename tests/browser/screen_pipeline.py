"""The pipeline in a real browser."""

from datetime import timedelta
from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.support.alerts import alert
from tests.support.metric_events import event
from tests.web.page.test_alert import drift
from tests.web.page.test_pipeline import commit, runs, traffic

from ragtide_schemas import utc_now

METRIC = "trace.adherence"


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
    await expect(page.get_by_role("link", name="24h")).to_have_attribute("aria-current", "true")
    over = page.locator(".chart .u-over").first
    await expect(over).to_be_visible()
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


async def test_an_incident_of_half_a_minute_is_seen_at_once(async_redis: Any, screen: Screen) -> None:
    """600 good answers and 500 bad ones within a minute: the chart is a step, its labels differ, and it ends now."""
    now = utc_now()
    change = now - timedelta(seconds=25.3)
    times = [change - timedelta(seconds=30 - i / 20) for i in range(600)] + [
        change + timedelta(seconds=i / 20) for i in range(500)
    ]
    events = [
        event(0, {METRIC: float(i % 10 > 0) if at < change else float(i % 10 == 0)}, labeler="test").model_copy(
            update={"occurred_at": at, "labeled_at": at, "interaction_id": f"i-{i}"}
        )
        for i, at in enumerate(times)
    ]
    fires = drift(
        profile=events[0].profile, baseline=0.9, observed=0.1, observed_n=500, observed_lower=0.08,
        observed_upper=0.12, began_at=change, fired_at=change + timedelta(seconds=2), cause=None,
        worst_interaction_ids=(), diagnosis=(),
    )  # fmt: skip
    await commit(async_redis, *events, alerts=(fires,))
    await screen.page.add_init_script(
        """const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
        const chart = (context) => context.canvas.closest(".metric")?.querySelector("h2")?.id ?? "";
        window.labels = {};
        CanvasRenderingContext2D.prototype.clearRect = function (...at) {
          window.labels[chart(this)] = [];
          return clearRect.apply(this, at);
        };
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
          if (String(text).trim()) (window.labels[chart(this)] ??= []).push(String(text));
          return fillText.call(this, text, ...rest);
        };"""
    )
    for path in ("/p/shop", "/p/shop?range=1h", "/p/shop?range=7d", "/p/shop?range=60d", "/a/A-1"):
        page = await screen.open(path)
        await expect(page.locator(".chart canvas").first).to_be_visible()
        rows = [
            [float(part) for part in (await row.get_attribute("data-point") or "").split(",")]
            for row in await page.locator("tr[data-point]").all()
        ]
        at = change.timestamp()
        before, since = [row[2] for row in rows if row[1] <= at + 1e-3], [row[2] for row in rows if row[0] >= at - 1e-3]
        assert len(before) + len(since) == len(rows) >= 8, path
        assert min(before) > 0.8, path
        assert max(since) < 0.2, path
        assert float(await page.locator(".chart").first.get_attribute("data-end") or 0) <= utc_now().timestamp()
        drawn = await page.evaluate("Object.values(window.labels).filter((labels) => labels.length)")
        assert drawn
        for labels in drawn:
            assert len(labels) == len(set(labels)), (path, labels)
            assert sum(":" in label for label in labels) > 1, (path, labels)
    await page.set_viewport_size({"width": 390, "height": 844})
    for path, first, second in (("/p/shop", "#alerts", ".chart"), ("/", "#alerts", "#fleet")):
        page = await screen.open(path)
        places = [await page.locator(name).first.bounding_box() for name in (first, second)]
        assert places[0] is not None
        assert places[1] is not None
        assert places[0]["y"] < places[1]["y"], path
        await screen.passes_axe()


async def test_numbers_change_while_the_screen_is_open(async_redis: Any, screen: Screen) -> None:
    owner = await commit(async_redis, *traffic())
    page = await screen.open("/p/shop")
    value = page.locator(".metric .value").first
    before = await value.text_content()
    reading = page.locator("#chart-1 .at")
    await page.locator(".chart .u-over").first.hover(position={"x": 350, "y": 60})
    await expect(reading).to_contain_text("· n ")
    read = await reading.text_content()
    await owner.commit(*traffic(first=1000, mean=0.2))
    await expect(value).not_to_have_text(before or "")
    await expect(reading).not_to_have_text(read or "")  # the pointer rests on the new chart
    await expect(reading).to_contain_text("· n ")


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


async def test_the_tools_of_an_agent_fit_on_a_phone(async_redis: Any, screen: Screen) -> None:
    fired = alert("A-1", metric="tool.search.used", fired_at=utc_now() - timedelta(hours=1))
    await commit(async_redis, *runs({"search": 0.7, "orders": 0.2, "n" * 60: 0.5}), alerts=(fired,))
    page = await screen.open("/p/shop?range=24h")
    await expect(page.locator("#tools tr")).to_have_count(3)
    await screen.passes_axe()
    await screen.fits()
    await page.locator("#tools a").click()
    await expect(page).to_have_url(f"{screen.url}/a/A-1")
