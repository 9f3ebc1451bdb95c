"""Every panel of every screen, filled: none shows an object of the program in place of words."""

import re
from html import unescape
from importlib.resources import files
from typing import Any

from tests.support.full_deployment import OPTIONS, SCREENS, fill_everything
from tests.support.http_service import http_service
from tests.web.page.test_page import TOKENS, page

from ragtide_web.page.screen_files import FOLDERS

TAG = re.compile(r"<(script|style|pre|code)\b.*?</\1>|<[^>]*>", re.DOTALL)
OBJECTS = re.compile(
    r"\b[A-Z]\w+\([\w']+[=,)]|\bobject at 0x|\bdatetime\.|\bNone\b|\b(?:True|False)\b|\[\]|\{\}|[\[({]'|\b(?:nan|inf)\b"
)
"""Forms of Python's objects in a text."""
HEADING = re.compile(r'<h[12] id="([a-z][a-z-]*)"')
ALONE = {"login.html"}


async def test_every_panel_is_shown_and_none_shows_an_object(async_redis: Any, redis_url: str) -> None:
    await fill_everything(async_redis, redis_url)
    shown: set[str] = set()
    async with http_service(redis_url, **OPTIONS) as service:
        _, letters = await page(service, "/dead")
        found = re.search(r'href="(/dead/\d[^"]*)"', letters)
        assert found is not None
        for path in (*SCREENS, found[1]):
            status, text = await page(service, path)
            assert status == 200, path
            shown |= set(HEADING.findall(text))
            words = " ".join(unescape(TAG.sub(" ", text)).split())
            wrong = OBJECTS.search(words)
            assert wrong is None, (path, words[max(0, wrong.start() - 80) : wrong.end() + 80])
            assert "&amp;lt;" not in text, path
            assert "&amp;amp;" not in text, path
    templates = [file for folder in FOLDERS for file in files("ragtide_web.page").joinpath(folder).iterdir()]
    stated = {
        name
        for template in templates
        if template.name.endswith(".html") and template.name not in ALONE
        for name in HEADING.findall(template.read_text(encoding="utf-8"))
    }
    assert sorted(stated - shown) == []


async def test_the_diagnosis_of_a_pipeline_is_that_of_its_alert(async_redis: Any, redis_url: str) -> None:
    """Means over all time, of a time before the alert or by another labeler, give no advice beside it."""
    await fill_everything(async_redis, redis_url)
    async with http_service(redis_url, serve={"tokens": TOKENS}, **OPTIONS) as service:
        _, text = await page(service, "/p/shop", Authorization="Bearer ann-0123456789")
    panel = text.partition('id="diagnosis"')[2].partition("</section>")[0]
    assert panel.count("<p") == 1
    assert "The retriever finds less." in panel
