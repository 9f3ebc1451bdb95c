"""Every list of the page with no entry, one, and ten thousand: bounded pages, and a sentence with the number."""

import asyncio
import re
from math import inf
from typing import Any

import pytest
from tests.ragtide.test_annotate import kept
from tests.support.http_service import http_service
from tests.support.sized import LISTS, fill
from tests.web.page.test_page import page

from ragtide_offline.pages.experiments import reading

MANY = 10_000
MANY_ASKED = 1_000
"""Items that may be annotated: the default of `specimens.count`. The queue reads all of them, because it is ordered."""
ROWS_MAX = 100
BYTES_MAX = 300_000
EMPTY = {
    "alerts": "No alert has fired.",
    "dead": "No dead letters: every entry could be used.",
    "experiments": "There are no experiments or replays yet.",
    "items": "No answer of this list is kept.",
    "label": "There is no item for you to annotate.",
}
TOTAL = {
    "alerts": ("1 alert,", "10,000 alerts, firing: 100."),
    "dead": ("1 dead letter.", "10,000 dead letters."),
    "experiments": ("1 experiment or replay.", "10,000 experiments and replays."),
    "items": ('<span class="muted">1</span>', '<span class="muted">10,000</span>'),
    "label": ("1 item is left for you", "items are left for you"),
}


def rows(text: str) -> int:
    """Return the number of rows of the last table."""
    return text.rpartition("<tbody")[2].count("<tr")


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_is_empty_or_has_one_entry(
    async_redis: Any, redis_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A list that takes long on a busy machine would be shared with the next viewer.
    monkeypatch.setattr(reading, "QUICK_S", inf)
    async with http_service(redis_url) as service:
        path = await fill(async_redis, name, 0)
        status, text = await page(service, path)
        assert status == 200
        assert EMPTY[name] in text
        assert 'class="pages"' not in text
        if name == "label":
            await asyncio.to_thread(kept, redis_url, 1)
            path = "/label"
        else:
            await fill(async_redis, name, 1)
        status, text = await page(service, path)
        assert status == 200
        assert TOTAL[name][0] in text
        assert EMPTY[name] not in text
        assert 'rel="next"' not in text


@pytest.mark.heavy
@pytest.mark.parametrize("name", LISTS)
async def test_ten_thousand_entries_are_shown_in_bounded_pages(async_redis: Any, redis_url: str, name: str) -> None:
    path = await fill(async_redis, name, MANY_ASKED if name == "label" else MANY)
    async with http_service(redis_url) as service:
        status, first = await page(service, path)
        assert status == 200
        assert TOTAL[name][1] in first
        assert rows(first) <= ROWS_MAX
        assert len(first) < BYTES_MAX
        if name == "label":  # one item at a time
            return
        found = re.search(r'rel="next" href="([^"]+)"', first)
        assert found is not None
        _, second = await page(service, found[1].replace("&amp;", "&"))
        assert 'rel="prev"' in second
        links = re.compile(r'<th scope="row"[^>]*>(?:<a[^>]*href="([^"]+)"|([^<]+))')
        mine, others = (
            set(links.findall(first.rpartition("<tbody")[2])),
            set(links.findall(second.rpartition("<tbody")[2])),
        )
        assert mine
        assert others
        assert not mine & others
        _, last = await page(service, re.sub(r"page=\d+", "page=1000", found[1].replace("&amp;", "&")))
        assert 'rel="next"' not in last
