"""The traffic: the newest scored answers, filtered, and only for those who may see them."""

import re
from html import unescape
from typing import Any

import pytest
from tests.support.http_service import http_service
from tests.web.page.test_item import METRIC, keep, specimen
from tests.web.page.test_page import HOSTILE, TOKENS, page

from ragtide_runtime.redis.keys import SPECIMEN_NEWEST
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import METRICS, Specimen
from ragtide_web.page.traffic.screen import SHOWN, TrafficChoice, traffic


def scored(number: int, score: float, pipeline: str = "shop", **fields: Any) -> Specimen:
    """Return an answer whose judge gave a score; the local labeler gave 0.5."""
    one = specimen(f"i-{number}", pipeline, **{"question": f"Question {number}?", **fields})
    judge = one.labelings[1].model_copy(update={"scores": {METRIC: score}})
    return one.model_copy(update={"labelings": (one.labelings[0], judge)})


@pytest.mark.pure
def test_answers_are_chosen_by_score_segment_and_labeler() -> None:
    given = [scored(number, number / 10, segments={"lang": "de" if number % 2 else "en"}) for number in range(10)]

    def ids(**chosen: Any) -> list[str]:
        return [answer.interaction.interaction_id for answer in traffic(given, TrafficChoice(**chosen)).answers.rows]

    assert ids() == [f"i-{number}" for number in range(10)]
    assert ids(metric=METRIC, below=0.3) == ["i-0", "i-1", "i-2"]
    assert ids(above=0.2, below=0.45) == ["i-3", "i-4"]
    assert ids(segment="lang=de", below=0.4) == ["i-1", "i-3"]
    assert ids(labeler="local", below=0.4) == [], "its scores are 0.5"
    assert ids(labeler="other") == []
    assert ids(metric="trace.none", below=0.1) == ["i-0"], "an unknown metric is the first one"


@pytest.mark.pure
def test_the_screen_is_bounded_and_says_how_many_match() -> None:
    found = traffic([scored(number, 0.1) for number in range(SHOWN + 50)], TrafficChoice(below=0.2))
    assert (len(found.answers.rows), found.answers.total, found.read) == (SHOWN, SHOWN + 50, SHOWN + 50)
    assert found.answers.rows[0].scores[METRIC] == 0.1
    assert found.answers.pages == 3
    last = traffic([scored(number, 0.1) for number in range(SHOWN + 5)], TrafficChoice(below=0.2), page=2)
    assert [answer.interaction.interaction_id for answer in last.answers.rows] == [f"i-{SHOWN + n}" for n in range(5)]
    assert last.answers.pages == 2
    empty = traffic([], TrafficChoice(below=0.2))
    assert (empty.answers.rows, empty.metric) == ([], "")


@pytest.mark.pure
def test_scores_that_are_not_acceptable_are_low() -> None:
    edge = METRICS["trace.adherence"].bands
    assert edge is not None
    low, fine = traffic([scored(1, edge.minimum - 0.01), scored(2, edge.minimum)], TrafficChoice()).answers.rows
    assert (METRIC in low.low, METRIC in fine.low) == (True, False)


async def test_pages_of_the_list_and_their_filter(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, *(scored(number, number / 100) for number in range(40)), name=SPECIMEN_NEWEST)
    async with http_service(redis_url) as service:
        shown = set[str]()
        for address in ("/t?below=0.35", "/t?below=0.35&page=2"):
            _, text = await page(service, address)
            found = set(re.findall(r">Question (\d+)\?</a>", text))
            assert not shown & found
            shown |= found
        assert shown == {str(number) for number in range(35)}
        assert 'id="newer" rel="prev" href="/t?below=0.35&amp;page=1"' in text
        assert (await page(service, "/t"))[1].count('id="older"') == 1
        assert (await page(service, "/t?page=2"))[1].count("?list=newest") == 15


async def test_the_newest_of_all_pipelines_and_of_one(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        assert "No answer of the last 7 d is kept." in (await page(service, "/t"))[1]
        await keep(async_redis, scored(1, 0.9), scored(2, 0.1, segments={"lang": "de"}), name=SPECIMEN_NEWEST)
        await keep(async_redis, scored(3, 0.4, "b/nk"), name=SPECIMEN_NEWEST)
        status, text = await page(service, "/t")
        assert status == 200
        assert 'href="/i/shop/i-1?list=newest" title="i-1">Question 1?</a>' in text
        assert "Question 3?" in text
        assert "local, judge" in text
        _, one = await page(service, "/t?pipeline=b%2Fnk")
        assert "Question 3?" in one
        assert "Question 1?" not in one
        _, low = await page(service, f"/t?metric={METRIC}&below=0.2&above=&segment=lang%3Dde")
        assert "Question 2?" in low
        assert "Question 1?" not in low
        _, none = await page(service, "/t?below=0.05")
        assert "No answer among the newest 3 kept ones matches the filter." in none
        status, wrong = await page(service, "/t?below=low")
        assert (status, "below is 'low', which is no number" in unescape(wrong)) == (422, True)


async def test_without_the_list_the_screen_says_which_setting_keeps_it(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, specimens=SpecimenSettings(newest_n=0)) as service:
        assert "specimens.newest_n" in (await page(service, "/t"))[1]


async def test_a_viewer_sees_its_pipelines_only_and_no_text(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, scored(1, 0.9, question=HOSTILE), name=SPECIMEN_NEWEST)
    await keep(async_redis, scored(2, 0.9, "bank"), name=SPECIMEN_NEWEST)
    token = {"Authorization": "Bearer viewer-0123456789"}
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        _, text = await page(service, "/t", **token)
        assert ">i-1</a>" in text
        assert "texts are hidden" in text
        assert "bank" not in text
        assert "script&gt;" not in text
        _, other = await page(service, "/t?pipeline=bank", **token)
        assert "i-2" not in other
        _, whole = await page(service, "/t", Authorization="Bearer ann-0123456789")
        assert "&lt;script&gt;" in whole
        assert "<script>alert" not in whole


async def test_where_the_newest_are_not_kept_a_pipeline_shows_the_worst(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, scored(1, 0.9))
    await keep(async_redis, scored(2, 0.9, "bank"), name=SPECIMEN_NEWEST)
    async with http_service(redis_url) as service:
        _, worst = await page(service, "/t?pipeline=shop")
        assert "Question 1?" in worst
        assert "Worst by adherence (local)" in worst
