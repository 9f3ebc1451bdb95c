"""Dead letters in a real browser."""

import json
from typing import Any

from playwright.async_api import expect
from tests.browser.screens import SCRIPT, Screen
from tests.web.page.test_dead_letters import GOOD, STREAMS, add, letter

from ragtide_schemas import Reason


async def test_one_and_then_all_of_a_reason_are_retried(async_redis: Any, screen: Screen) -> None:
    await add(async_redis, *(letter(n, {"pipeline": "shop", **GOOD, "interaction_id": f"i-{n}"}) for n in range(60)))
    page = await screen.open("/dead")
    await page.get_by_role("link", name="invalid").first.click()
    await page.get_by_role("link", name="older").click()
    await expect(page.locator("#letters tbody tr")).to_have_count(10)
    await page.get_by_role("link", name="newer").click()
    await expect(page.locator("#letters tbody tr")).to_have_count(50)
    await page.locator("#letters tbody a").first.click()
    await page.get_by_label("Reason").fill("the labeler is fixed")
    await page.get_by_role("button", name="Publish again").click()
    await expect(page.get_by_role("status")).to_have_text("1 published again")
    await page.get_by_role("link", name="invalid").first.click()
    await page.get_by_label("Reason").fill("all of them")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_have_text("59 published again")
    await expect(page.get_by_text("No dead letters: every entry could be used.")).to_be_visible()
    assert await async_redis.xlen(STREAMS.interactions) == 60


async def test_new_letters_come_while_a_reason_is_typed(async_redis: Any, screen: Screen) -> None:
    await add(async_redis, letter(0, {"pipeline": "shop", **GOOD}))
    page = await screen.open("/dead?reason=invalid")
    await page.get_by_label("Reason").fill("half of a sen")
    await add(async_redis, *(letter(n, {"pipeline": "shop", **GOOD}) for n in range(1, 4)))
    await expect(page.locator("#letters tbody tr")).to_have_count(4)
    await expect(page.get_by_label("Reason")).to_have_value("half of a sen")
    await page.get_by_label("Reason").press("Enter")
    # The order is about the one that the form showed.
    await expect(page.get_by_role("status")).to_have_text("1 published again")


async def test_the_export_is_a_download(async_redis: Any, screen: Screen) -> None:
    await add(async_redis, letter(0, {"pipeline": "shop"}), letter(1, b"x", Reason.NOT_JSON))
    page = await screen.open("/dead?reason=invalid")
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Export as JSON lines").click()
    download = await waiting.value
    assert download.suggested_filename == "dead-letters-invalid.jsonl"
    lines = (await download.path()).read_text().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["invalid"]


async def test_foreign_text_is_shown_and_never_runs(async_redis: Any, screen: Screen) -> None:
    named = {"pipeline": f"shop {SCRIPT}", "question": SCRIPT, SCRIPT: SCRIPT}
    (one,) = await add(async_redis, letter(0, named, detail=f"{SCRIPT} is not a field", component=SCRIPT[:100]))
    for path in ("/dead", f"/dead/0/{one}"):
        page = await screen.open(path)
        await expect(page.get_by_text("window.hacked").first).to_be_visible()
        await screen.ran_no_foreign_script()


async def test_it_can_be_used_by_keyboard_and_screen_reader_and_on_a_phone(async_redis: Any, screen: Screen) -> None:
    long = "a-pipeline-with-a-long-name-" * 5
    (one, *_) = await add(
        async_redis,
        *(letter(n, {"pipeline": long, **GOOD}, detail="documents.0.text.aaaaaaaaaa " * 20) for n in range(60)),
    )
    for path in ("/dead", "/dead?reason=invalid", f"/dead/0/{one}"):
        await screen.open(path)
        await screen.passes_axe()
        await screen.fits()
    await screen.reaches_by_tab("input[name=reason]")
    await screen.open("/dead?reason=invalid")
    for selector in ("#groups a", "a[download]", "#orders input", "#orders button", "#letters a", "a[rel=next]"):
        await screen.reaches_by_tab(selector)


async def test_keys_go_through_the_list_and_are_letters_in_a_form(async_redis: Any, screen: Screen) -> None:
    ids = await add(async_redis, *(letter(n, {"pipeline": "shop", **GOOD}) for n in range(3)))
    page = await screen.open("/dead?reason=invalid")
    for key, place in (("j", 2), ("j", 1), ("j", 0), ("j", 0), ("k", 1)):
        await page.keyboard.press(key)
        await expect(page.locator(f"#letter-0-{ids[place]}")).to_be_focused()
    await page.get_by_label("Reason").click()
    await page.keyboard.type("jk")
    await expect(page.get_by_label("Reason")).to_have_value("jk")
    await page.locator("#letters a").nth(1).focus()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{screen.url}/dead/0/{ids[1]}")
