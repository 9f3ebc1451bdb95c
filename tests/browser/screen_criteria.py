"""The screen of the criteria in a real browser."""

from typing import Any

from playwright.async_api import expect
from tests.browser.screens import Screen
from tests.web.page.test_criteria import ASKS_BACK, answers
from tests.web.page.test_pipeline import commit

from ragtide_runtime.stored_criteria import StoredCriterion, read_stored_criteria, store_criterion
from ragtide_schemas import utc_now


async def test_a_criterion_is_checked_while_it_is_typed_and_stored(async_redis: Any, screen: Screen) -> None:
    page = await screen.open("/criteria")
    await page.get_by_label("Name").fill("polite")
    await page.get_by_role("textbox", name="Question").fill("Is the response polite and correct?")
    await expect(page.locator("#check")).to_contain_text("may ask two questions, joined by 'and'")
    await page.get_by_role("textbox", name="Question").fill("How polite is the response?")
    await expect(page.locator("textarea[name=values]")).to_be_hidden()
    await page.get_by_label("Possible answers").select_option("values")
    await page.locator("textarea[name=values]").fill("polite = 1\nneutral = 0.5\nrude = 0")
    await expect(page.locator("#check")).to_contain_text("Nothing to object")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("Workers ask it within seconds")
    await expect(page.locator("#criteria")).to_contain_text("criteria.polite")
    (stored,) = (await read_stored_criteria(async_redis, "ragtide")).criteria
    assert stored.criterion.values == {"polite": 1.0, "neutral": 0.5, "rude": 0.0}

    await page.get_by_text("Change, pause or remove").click()
    await page.get_by_role("link", name="Change").click()
    await expect(page.get_by_label("Name")).to_have_value("polite")
    await page.get_by_role("textbox", name="Question").fill("How kind is the response?")
    await expect(page.locator("#check")).to_contain_text("its numbers begin anew")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("numbers of its own")


async def test_numbers_axe_and_a_phone(async_redis: Any, screen: Screen) -> None:
    await commit(async_redis, *answers(ASKS_BACK, *[1.0, 0.0] * 150, None), *answers(ASKS_BACK, 0.0, pipeline="docs"))
    await store_criterion(async_redis, "ragtide", StoredCriterion(criterion=ASKS_BACK, by="ann", at=utc_now()))
    page = await screen.open("/criteria")
    await expect(page.locator("#criteria tbody tr")).to_have_count(2)
    await page.get_by_text("Watch it with a rule").click()
    await expect(page.locator("#criteria pre")).to_contain_text('metric = "criteria.asks_back"')
    await screen.passes_axe()
    await screen.fits()
