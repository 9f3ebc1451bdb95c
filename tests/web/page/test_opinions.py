"""Opinions on the page of an item: stored, shown, undone, forgotten, and without any effect on numbers."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.ragtide.test_annotate import kept
from tests.support.http_service import Service, http_service
from tests.support.in_process import run_command
from tests.web.page.test_item import keep, specimen
from tests.web.page.test_page import HOSTILE, SCRIPT, TOKENS, form, orders, page

from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_runtime.redis.keys import Streams

STREAMS = Streams("ragtide", 0)
BOB = {"name": "bob", "token": "bob-0123456789", "access": ["read", "operate"]}
ANN_KEY, BOB_KEY = ({"Authorization": f"Bearer {name}-0123456789"} for name in ("ann", "bob"))
ITEM = "/i/shop/i-1"


async def stored(redis: Any) -> list[tuple[str, int, str]]:
    found = await StoredAnnotations(redis, "ragtide").of("shop", "i-1", saw_scores=True)
    return [(str(opinion.annotator), opinion.rating or 0, opinion.reason) for opinion in found]


async def give(service: Service, fields: dict[str, str], path: str = ITEM, **headers: str) -> tuple[int, str]:
    status, place, _ = await form(service, path, fields, **headers)
    return status, place


async def test_an_opinion_is_shown_replaced_and_undone(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, specimen())
    async with http_service(redis_url) as service:
        status, place = await give(service, {"rating": "2", "reason": f"wrong price {HOSTILE}"}, f"{ITEM}?list=worst")
        assert (status, place.startswith(f"{ITEM}?list=worst&done=")) == (303, True)
        assert place.endswith("#opinion")
        await give(service, {"rating": "4", "reason": "right"})
        await give(service, {"rating": "4", "reason": "right"})  # the key was pressed twice
        assert await stored(async_redis) == [("local user", 4, "right")]
    async with http_service(redis_url) as service:  # the service has been restarted
        _, text = await page(service, ITEM)
        assert "Your opinion: 4 of 5" in text
        assert "count in no estimate" in text
        assert "Undo, back to 2" in text
        await give(service, {"undo": "1"})
        ((_, rating, reason),) = await stored(async_redis)
        assert (rating, reason.startswith("wrong price")) == (2, True)
        _, text = await page(service, ITEM)
        assert SCRIPT not in text
        await give(service, {"undo": "1"})
        assert await stored(async_redis) == []
        assert "no+opinion" in (await give(service, {"remove": "1"}))[1]
    found = await orders(async_redis)
    assert [(one.action, one.details["rating"]) for one in found] == [
        ("opinion", 2),
        ("opinion", 4),
        ("opinion", 2),
        ("opinion", None),
    ]
    assert not [one for one in found if "price" in one.model_dump_json()], "reasons are only where they are forgotten"


async def test_two_people_have_opinions_and_each_changes_the_own(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, specimen())
    async with http_service(redis_url, serve={"tokens": [*TOKENS, BOB]}) as service:
        await give(service, {"rating": "1"}, **ANN_KEY)
        await give(service, {"rating": "5", "reason": "fine"}, **BOB_KEY)
        await give(service, {"remove": "1"}, **ANN_KEY)
        assert await stored(async_redis) == [("bob", 5, "fine")]
        _, text = await page(service, ITEM, **ANN_KEY)
        assert ("5 of 5" in text, "fine" in text, "How good is the response?" in text) == (True, True, True)
        viewer = {"Authorization": "Bearer viewer-0123456789"}
        _, text = await page(service, ITEM, **viewer)
        assert ("5 of 5" in text, "fine" in text, 'name="rating"' in text) == (True, False, False)
        assert (await give(service, {"rating": "1"}, **viewer))[0] == 403
        assert (await give(service, {"rating": "1"}, **ANN_KEY, Sec_Fetch_Site="cross-site"))[0] == 403


async def test_what_cannot_be_an_opinion_is_refused(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, specimen(), specimen("..", "shop"))
    async with http_service(redis_url) as service:
        for fields in ({"rating": "6"}, {"rating": "0"}, {"reason": "x"}, {"rating": "2", "reason": "x" * 301}):
            assert (await give(service, fields))[0] == 422
        assert (await give(service, {"rating": "2"}, "/i/shop/none"))[0] == 404
        status, place = await give(service, {"rating": "2"}, "/i?pipeline=shop&id=..")
        assert (status, place.startswith("/i?pipeline=shop&id=..&done=")) == (303, True)
        assert await stored(async_redis) == []


async def test_an_opinion_changes_no_queue_no_agreement_and_no_feedback(async_redis: Any, redis_url: str) -> None:
    await asyncio.to_thread(kept, redis_url, 2)
    async with http_service(redis_url) as service:
        before = {key: await async_redis.dump(key) for key in await async_redis.keys("*")}
        _, queue = await page(service, "/label")
        for item in ("i-0", "i-1"):
            assert (await give(service, {"rating": "1"}, f"/i/shop/{item}"))[0] == 303
        assert (await page(service, "/label"))[1] == queue
        after = {key: await async_redis.dump(key) for key in await async_redis.keys("*")}
    changed = {key.decode() for key in after if after[key] != before.get(key)}
    own = {STREAMS.annotations, STREAMS.orders}
    assert {key for key in changed if not key.endswith(":saw_scores")} == own
    assert before.keys() <= after.keys()
    assert not await async_redis.exists(STREAMS.feedback)
    assert await StoredAnnotations(async_redis, "ragtide").read() == []


async def test_opinions_live_as_long_as_their_item_and_are_forgotten_with_it(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await asyncio.to_thread(kept, redis_url, 2)
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    key = STREAMS.specimen("*")
    for specimen_key in [one async for one in async_redis.scan_iter(key)]:
        await async_redis.expire(specimen_key, 100)
    async with http_service(redis_url) as service:
        for item, rating in (("i-0", "1"), ("i-1", "4")):
            await give(service, {"rating": rating, "reason": "why"}, f"/i/shop/{item}")
        _, rows = await page(service, "/i/shop/i-1?download=1")
        chosen = json.loads(rows)["metadata"]["ragtide"]["chosen"]
        assert [(one["rating"], one["saw_scores"], one["reason"]) for one in chosen[1:]] == [(4, True, "why")]
    assert {await async_redis.ttl(one) <= 100 async for one in async_redis.scan_iter(STREAMS.annotation("*"))} == {True}
    done = await asyncio.to_thread(run_command, capsys, "dataset", "from-annotations", "--saw-scores", "--highest", "2")
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (row["interaction_id"], row["gold_scores"]) == ("i-0", {})
    assert row["metadata"]["ragtide"]["chosen"][0]["annotator"] == "local user"
    assert (await asyncio.to_thread(run_command, capsys, "items", "--forget", "i-0")).code == 0
    assert [one.interaction_id for one in await StoredAnnotations(async_redis, "ragtide").read(saw_scores=True)] == [
        "i-1"
    ]
    assert len(await async_redis.zrange(STREAMS.annotations, 0, -1)) == 1


def test_an_undone_opinion_is_the_one_before() -> None:
    one = Annotation(
        pipeline="p", interaction_id="i", annotator="ann", given_at=datetime.now(UTC), saw_scores=True, rating=3,
        rating_before=1, reason="new", reason_before="old",
    )  # fmt: skip
    before = one.undone()
    assert before is not None
    assert (before.rating, before.reason, before.undone()) == (1, "old", None)
