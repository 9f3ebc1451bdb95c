"""Alerts in a real browser."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from tests.browser.screens import SCRIPT, Screen, opened
from tests.browser.services import PageService
from tests.ragtide.test_one_alert_everywhere import of_kind
from tests.support.worse_answers import EVENTS, RULE, worse_answers
from tests.web.page.test_alert import add, drift
from tests.web.page.test_pipeline import commit, traffic

from ragtide_consumers.notify.silences import read_acknowledged, read_silences
from ragtide_schemas import utc_now


async def test_an_alert_is_acknowledged_and_silenced_with_buttons(
    async_redis: Any, screen: Screen, browser: Browser, service: PageService
) -> None:
    await commit(async_redis, *traffic(), alerts=(drift(),))
    page = await screen.open("/a")
    await page.get_by_role("link", name="trace.adherence of shop").click()
    await expect(page.locator(".chart canvas")).to_have_count(1)
    async with opened(browser, service.url) as other:
        seen = await other.open("/a/A-1")
        await page.get_by_label("Reason", exact=True).fill("I look at it")
        await page.get_by_role("button", name="Acknowledge").click()
        await expect(page.get_by_role("status").first).to_contain_text("The alert is acknowledged.")
        # The second viewer sees the order without a reload.
        await expect(seen.locator("#timeline")).to_contain_text("acknowledged by")
        await page.get_by_label("Reason", exact=True).fill("deploy")
        await page.get_by_label("Silence for").select_option("4h")
        await page.get_by_role("button", name="Silence").click()
        await expect(page.locator("#timeline")).to_contain_text("silenced by")
        await expect(seen.locator("#timeline")).to_contain_text("deploy")
    assert (await read_acknowledged(async_redis, "ragtide"))["A-1"].by == "local user"
    assert len(await read_silences(async_redis, "ragtide")) == 1


async def test_new_alerts_join_the_list(async_redis: Any, screen: Screen) -> None:
    page = await screen.open("/a")
    await expect(page.get_by_text("No alert has fired.")).to_be_visible()
    await add(async_redis, drift())
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name="resolved").click()
    await expect(page.get_by_text("No alert is in this state.")).to_be_visible()


async def test_axe_keyboard_phone_and_foreign_text(async_redis: Any, screen: Screen) -> None:
    found = drift(message=SCRIPT, rule="rule-" * 30, worst_interaction_ids=(SCRIPT, "i-" * 90), diagnosis=(SCRIPT,))
    await commit(async_redis, *traffic(), alerts=(found,))
    await screen.open("/a")
    await screen.passes_axe()
    await screen.fits()
    await screen.open("/a/A-1")
    await screen.ran_no_foreign_script()
    await screen.passes_axe()
    await screen.fits()
    for selector in ("input[name=reason]", "select[name=for]", "#table-change summary", ".path a"):
        await screen.reaches_by_tab(selector)


async def test_a_rule_is_replayed_with_a_button_and_its_evidence_is_drawn(
    async_redis: Any, redis_url: str, browser: Browser, tmp_path: Path
) -> None:
    now = utc_now()
    found = drift(rule=RULE.name, kind="threshold", fired_at=now - timedelta(minutes=55))
    worse_answers(tmp_path / "recording", now, found)
    await commit(async_redis, *traffic(), alerts=(found,))
    rules = json.dumps([RULE.model_dump(mode="json", exclude_none=True)])
    with PageService(
        redis_url, tmp_path, RAGTIDE_ALERTS=rules, RAGTIDE_RECORDER_URL=str(tmp_path / "recording")
    ) as service:
        async with opened(browser, service.url) as screen, opened(browser, service.url) as other:
            seen = await other.open("/a/A-1")
            page = await screen.open("/a/A-1")
            await page.locator("#statistics > summary").click()
            await page.get_by_label("Replay the last").select_option("7d")
            await page.get_by_role("button", name="Replay this rule").click()
            await seen.locator("#statistics > summary").click()
            for one in (page, seen):
                # The second viewer sees the result without a reload.
                await expect(one.locator("#replay")).to_contain_text(f"1 in the replay of {EVENTS} metric events")
                await expect(one.locator("#replay .chart canvas")).to_have_count(1)
            await screen.passes_axe()
            await screen.fits()
            await screen.reaches_by_tab("form.replay select")
            # The numbers of the chart are there for those who do not see it.
            await page.locator("#table-evidence summary").click()
            await expect(page.locator("#table-evidence tbody tr").first).to_be_visible()


GAPS = """() => {
  const panels = [...document.querySelectorAll(".alert-page > .panel")].map((panel) => panel.getBoundingClientRect());
  const above = (box) => panels.map((other) => other.bottom).filter((bottom) => bottom <= box.top);
  return panels.map((box) => box.top - Math.max(...above(box))).filter(Number.isFinite);
}"""
"""Pixels between each panel of an alert and the lowest one above it."""


@pytest.mark.parametrize("kind", ["step", "step unresolved", "distribution", "sentinel", "sentinel resolved"])
async def test_every_kind_of_alert_fits(kind: str, async_redis: Any, browser: Browser, service: PageService) -> None:
    await commit(async_redis, *traffic(), alerts=(of_kind(kind),))
    async with opened(browser, service.url) as screen:
        page = await screen.open(f"/a/{of_kind(kind).alert_id}")
        await page.locator("#statistics > summary").click()
        await screen.passes_axe()
        await screen.fits()
        for width in (1400, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            assert max(await page.evaluate(GAPS)) < 20, "a panel that is not there leaves no space"
