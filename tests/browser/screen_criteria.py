"""The screen of the criteria in a real browser."""

from typing import Any

from playwright.async_api import Browser, expect
from tests.browser.screens import Screen, opened
from tests.browser.services import PageService
from tests.web.page.test_criteria import ASKS_BACK, answers
from tests.web.page.test_pipeline import commit

from ragtide_runtime.stored_criteria import StoredCriterion, read_stored_criteria, store_criterion
from ragtide_schemas import utc_now
from ragtide_schemas.criterion import Criterion


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


ARABIC = "\u0647\u0644 \u0627\u0644\u0625\u062c\u0627\u0628\u0629? "
"""A question that is read from the right to the left."""


async def test_long_and_foreign_texts_errors_and_keys(async_redis: Any, browser: Browser, service: PageService) -> None:
    long = Criterion.model_validate(
        {
            "name": "n" * 60,
            "question": ARABIC * 50,
            "values": {f"{place} {'answer' * 6}"[:40]: place / 3 for place in range(10)},
            "pipelines": ["shop-" * 30, *(f"p{place}" for place in range(30))],
        }
    )
    await store_criterion(async_redis, "ragtide", StoredCriterion(criterion=long, by="ann", at=utc_now()))
    async with opened(browser, service.url) as screen:
        page = await screen.open("/criteria")
        await expect(page.locator("#criteria")).to_contain_text(long.metric)
        await page.locator(f"#orders-{long.name} summary").click()
        await screen.passes_axe()
        await screen.fits()
        await page.goto(f"{service.url}/criteria?change={long.name}")
        await page.locator("[name=rate]").fill("2")
        await expect(page.locator("#problem-rate")).to_contain_text("rate")
        await expect(page.locator("[name=rate]")).to_have_attribute("aria-invalid", "true")
        await screen.passes_axe()
        await screen.fits()
        for name in ("question", "scale", "rate", "need_question", "segments"):
            await screen.reaches_by_tab(f"#criterion-form [name={name}]")
        # A text that is too long is refused, and not cut.
        await page.locator("[name=rate]").fill("0.5")
        await page.locator("[name=question]").fill("x" * 2_000)
        await page.locator("[name=question]").press("Tab")
        await expect(page.locator("#problem-question")).to_contain_text("1000")
        await expect(page.locator("[name=question]")).to_have_value("x" * 2_000)
        await expect(page.locator("#problem-rate")).to_be_hidden()
        await page.locator("[name=question]").fill(long.question)
        await expect(page.locator("#problem-question")).to_be_hidden()
        await page.locator("[name=rate]").press("Enter")
        await expect(page.get_by_role("status")).to_be_visible()
        (stored,) = (await read_stored_criteria(async_redis, "ragtide")).criteria
        assert (stored.criterion.version, stored.criterion.rate) == (long.version, 0.5)
