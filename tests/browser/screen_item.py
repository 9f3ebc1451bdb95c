"""Items in a real browser."""

import re
from typing import Any

from playwright.async_api import expect
from tests.browser.screens import SCRIPT, Screen
from tests.web.page.test_item import CALLS, keep, specimen

LONG = "a-word-without-a-space-" * 40


async def test_keys_go_through_the_list(async_redis: Any, screen: Screen) -> None:
    await keep(async_redis, *(specimen(f"i-{number}") for number in range(3)))
    page = await screen.open("/t?pipeline=shop&list=worst")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    for key, place in (("", 0), ("j", 1), ("j", 2), ("k", 1)):
        if key:
            await page.keyboard.press(key)
        await expect(page).to_have_url(f"{screen.url}/i/shop/i-{place}?list=worst")
        await page.wait_for_load_state("load")  # the keys work from then on


async def test_focus_and_hover_light_the_supporting_sentences(async_redis: Any, screen: Screen) -> None:
    await keep(async_redis, specimen())
    page = await screen.open("/i/shop/i-1")
    await page.locator("#r-a").focus()
    await expect(page.locator("#d-0a.lit")).to_be_visible()
    await page.locator("#d-0b").hover()
    await expect(page.locator("#r-b.lit")).to_be_visible()
    await expect(page.locator("#d-0a.lit")).to_have_count(0)


async def test_keys_rate_an_item_and_undo(async_redis: Any, screen: Screen) -> None:
    await keep(async_redis, specimen(), specimen("i-2"))
    page = await screen.open("/i/shop/i-1?list=worst")
    for key, words in (("2", "Your opinion: 2 of 5"), ("4", "Your opinion: 4 of 5"), ("u", "Your opinion: 2 of 5")):
        await page.keyboard.press(key)
        await expect(page.get_by_text(words)).to_be_visible()
        await page.wait_for_load_state("load")
    await page.get_by_label("Reason").fill(f"3 {SCRIPT}")  # a key in a text is a letter
    await page.keyboard.press("Enter")
    await expect(page.locator(".given").get_by_text("window.hacked")).to_be_visible()
    await expect(page.get_by_text("Your opinion: 2 of 5")).to_be_visible()
    await screen.ran_no_foreign_script()
    await screen.reaches_by_tab("#opinion-form button[name=save]")
    await screen.passes_axe()
    await screen.fits()
    await page.get_by_label("5", exact=True).check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Your opinion: 5 of 5")).to_be_visible()
    await page.get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("How good is the response?")).to_be_visible()
    await expect(page).to_have_url(re.compile("list=worst"))  # the list that the item was opened from stays
    await page.keyboard.press("j")
    await expect(page).to_have_url(re.compile("/i/shop/i-2"))


async def test_foreign_text_is_shown_and_never_runs(async_redis: Any, screen: Screen) -> None:
    documents = [{"id": SCRIPT, "text": SCRIPT, "sentences": [SCRIPT], "metadata": {"title": SCRIPT}}]
    fields = {"question": SCRIPT, "response": SCRIPT, "documents": documents, "reference_answer": SCRIPT}
    kept = specimen("i-1", "shop", metadata={SCRIPT: SCRIPT}, segments={"a": SCRIPT}, **fields)
    reasons = dict.fromkeys(("trace.adherence", "sentence:a"), f"{SCRIPT}\n\u202e{'x' * 300}")
    labelings = tuple(labeling.model_copy(update={"reasons": reasons}) for labeling in kept.labelings)
    await keep(async_redis, kept.model_copy(update={"labelings": labelings}))
    for path in ("/t?pipeline=shop&list=worst", "/i/shop/i-1"):
        page = await screen.open(path)
        await expect(page.get_by_text("window.hacked").first).to_be_visible()
        await screen.ran_no_foreign_script()
        await screen.fits()
        assert "\u202e" not in await page.content()
    await expect(page.locator(".scores .note.plain").first).to_contain_text("window.hacked")


async def test_it_can_be_used_by_screen_reader_and_on_a_phone(async_redis: Any, screen: Screen) -> None:
    documents = [{"id": LONG[:200], "text": LONG, "sentences": [LONG, "b"]}, {"text": LONG, "sentences": None}]
    await keep(async_redis, specimen(), specimen("i-2", LONG[:200], question=LONG, documents=documents, response=LONG))
    for path in ("/t?pipeline=shop&list=worst", "/i/shop/i-1?list=worst", f"/i/{LONG[:200]}/i-2"):
        await screen.open(path)
        await screen.passes_axe()
        await screen.fits()


async def test_a_run_opens_call_by_call_and_fits_on_a_phone(async_redis: Any, screen: Screen) -> None:
    hostile = [
        {**CALLS[0], "query": f"{SCRIPT} {LONG}"},
        {**CALLS[1], "arguments": {LONG: SCRIPT}},
        {**CALLS[2], "error": "e" * 64, "name": "n" * 64},
        *CALLS[3:],
    ]
    await keep(async_redis, specimen(steps=hostile, steps_left_out=9))
    page = await screen.open("/i/shop/i-1")
    await expect(page.locator("#call-1 .doc li")).to_have_count(2)  # the sentences of a used call are shown at once
    await screen.fits()
    await screen.reaches_by_tab("#call-2 summary")
    await page.keyboard.press("Enter")
    await expect(page.locator("#call-2 .asked.plain")).to_be_visible()
    for call in range(3, len(hostile) + 1):
        await page.locator(f"#call-{call} summary").click()
    await screen.ran_no_foreign_script()
    await screen.passes_axe()
    await screen.fits()
    await page.locator('#call-1 a[href="#d-0a"]').click()
    await expect(page.locator("#d-0a:target")).to_be_visible()
