"""Dead letters on the page: groups, pages, retries in the audit stream, and texts that stay hidden."""

import json
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.http_service import Service, http_service
from tests.support.metric_events import START
from tests.web.page.test_page import BROWSER, SCRIPT, form, orders, page

from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_runtime.settings.serve import WebSettings
from ragtide_schemas import DeadLetter, Reason
from ragtide_web.guard.viewers import Viewer
from ragtide_web.page.dead_letters.screen import PAGE_LETTERS, failed_field, reason_groups
from ragtide_web.reading.dead_letters import MEANINGS, shown_detail
from ragtide_web.reading.letter_index import LetterIndex
from ragtide_web.reading.list_pages import ListPage

STREAMS = Streams("ragtide", 0)
VIEWER = Viewer("ann", is_operator=True, sees_texts=True, patterns=())
TOKENS = [
    {"name": "ann", "token": "ann-0123456789", "access": ["read", "operate"]},
    {"name": "shop", "token": "shop-0123456789", "access": ["read"], "pipelines": ["shop*"]},
]
GOOD = {"question": "Where?", "documents": ["In Rome."], "response": "Rome."}


def letter(
    number: int, payload: Mapping[str, Any] | bytes, reason: Reason = Reason.INVALID, **fields: Any
) -> DeadLetter:
    """Return a dead letter, one second after the one before."""
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    given = {"stream": STREAMS.interactions, "detail": "question is missing: add it", "component": "worker"} | fields
    return DeadLetter.of(
        content, entry_id=f"{number + 1}-1", reason=reason, failed_at=START + timedelta(seconds=number), **given
    )


async def add(redis: Any, *letters: DeadLetter) -> list[str]:
    return [(await redis.xadd(STREAMS.dead_letters, {DATA_FIELD: one.encode()})).decode() for one in letters]


def test_every_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Reason)


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("documents.0.text must not be empty (got '')", "documents.0.text"),
        ("the entry is not valid JSON: send one", None),
        ("foo is not a field of this schema: correct it (got 1)", "foo"),
    ],
)
def test_the_field_that_failed(detail: str, expected: str | None) -> None:
    assert failed_field(letter(0, b"{}", detail=detail)) == expected


def test_a_quoted_value_is_hidden_from_a_user_without_texts_and_where_redaction_works() -> None:
    detail = "response must be a string (got 'mail anna@exam...'); question is missing: add it"
    quoting = letter(0, b"{}", detail=detail)
    assert shown_detail(quoting, sees_texts=True, hides=False) == quoting.detail
    for sees_texts, hides in ((True, True), (False, True), (False, False)):
        assert shown_detail(quoting, sees_texts=sees_texts, hides=hides) == "response must be a string …"
    failed = letter(0, b"{}", Reason.LABELING_FAILED, detail="ValueError: no answer for 'my secret'")
    assert shown_detail(failed, sees_texts=False, hides=False) == ""


async def test_pages_and_groups_have_exact_counts(async_redis: Any) -> None:
    await add(async_redis, *(letter(n, {"pipeline": "shop"}) for n in range(120)), letter(200, b"x", Reason.NOT_JSON))
    indexed = await LetterIndex(async_redis, [STREAMS]).read()
    assert [(group.reason, group.count, group.retryable) for group in reason_groups(indexed.letters)] == [
        ("invalid", 120, 120),
        ("not_json", 1, 1),
    ]
    assert indexed.letters[0].letter.reason == Reason.NOT_JSON
    first = ListPage.of(indexed.letters, 1, PAGE_LETTERS)
    assert (len(first.rows), first.pages, first.total) == (PAGE_LETTERS, 3, 121)
    last = ListPage.of(indexed.letters[1:], 99, PAGE_LETTERS)
    assert (last.page, len(last.rows), last.rows[-1].letter.entry_id) == (3, 20, "1-1")
    seen = [one.letter_id for number in (1, 2, 3) for one in ListPage.of(indexed.letters, number, PAGE_LETTERS).rows]
    assert len(seen) == len(set(seen)) == 121


async def test_the_index_follows_additions_and_deletions(async_redis: Any) -> None:
    index = LetterIndex(async_redis, [STREAMS])
    assert (await index.read()).total == 0
    ids = await add(async_redis, *(letter(n, {"pipeline": "shop"}) for n in range(5)))
    assert [one.letter_id for one in (await index.read()).letters] == ids[::-1]
    ids += await add(async_redis, letter(9, b"x"))
    await async_redis.xadd(STREAMS.dead_letters, {"data": b"no dead letter"})
    found = await index.read()
    assert (len(found.letters), found.total, found.unreadable) == (6, 7, 1)
    await async_redis.xdel(STREAMS.dead_letters, *ids[:3])

    async def listed() -> list[str]:
        return [one.letter_id for one in (await index.read()).letters]

    # A reading of everything is not repeated at once, but it comes, however many are added meanwhile.
    while await listed() != ids[:2:-1]:
        pass
    ids += await add(async_redis, letter(10, b"y"))
    while await listed() != ids[:2:-1]:
        pass
    assert (await index.read()).total == 5


async def test_only_the_newest_are_remembered(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_web.reading.letter_index.LETTERS_INDEXED", 100)
    ids = await add(async_redis, *(letter(n, {"pipeline": "shop"}) for n in range(130)))
    index = LetterIndex(async_redis, [STREAMS])
    found = await index.read()
    assert ([one.letter_id for one in found.letters], found.total) == (ids[:29:-1], 130)
    ids += await add(async_redis, letter(200, b"x"))
    found = await index.read()
    assert ([one.letter_id for one in found.letters], found.total) == (ids[:30:-1], 131)


async def test_a_letter_is_shown_redacted_and_retried_with_a_reason(async_redis: Any, redis_url: str) -> None:
    payload = {"pipeline": "shop", **GOOD, "question": f"Mail anna@example.com {SCRIPT}"}
    (one,) = await add(
        async_redis, letter(0, payload, detail=f"response must be a string (got 'anna@example.com {SCRIPT}')")
    )
    async with http_service(redis_url) as service:
        for path in ("/dead", f"/dead/0/{one}"):
            status, text = await page(service, path)
            assert status == 200, text
            assert "response must be a string …" in text
            assert "anna@example.com" not in text
            assert "<script>alert" not in text
        assert '"question": "Mail [email] <script>' in unescape(text)
        status, text, _ = await form(service, f"/dead/0/{one}/retry", {})
        assert (status, "the order has no reason" in text) == (422, True)
        assert await async_redis.xlen(STREAMS.dead_letters) == 1
        status, place, _ = await form(service, f"/dead/0/{one}/retry", {"reason": "the labeler is fixed"})
        assert (status, place) == (303, "/dead?done=1+published+again")
        assert (await form(service, f"/dead/0/{one}/retry", {"reason": "again"}))[0] == 404
        _, text = await page(service, place)
        assert "1 published again" in text
        assert "No dead letters" in text
    assert await async_redis.xlen(STREAMS.interactions) == 1
    assert [(order.user, order.action, order.subject, order.reason) for order in await orders(async_redis)] == [
        ("local user", "retry", f"dead letter {one}", "the labeler is fixed")
    ]


async def test_only_an_order_says_what_it_did(async_redis: Any, redis_url: str) -> None:
    """A link cannot: neither with the sentence in its address, nor with a login or a form that leads there."""
    (one,) = await add(async_redis, letter(0, {"pipeline": "shop", **GOOD}))
    said = "1+published+again"
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        there = f"/dead?done={said}"
        status, _, _ = await form(service, "/login", {"token": "ann-0123456789", "next": f"/dead?%64one={said}"})
        assert status == 303
        for leads in (there, f"/login?next={quote(there)}"):
            status, text = await page(service, leads)
            assert status in (200, 303), leads
            assert "1 published again" not in text, leads
        await form(service, "/look", {"theme": "dark", "next": there})
        assert "1 published again" not in (await page(service, there))[1]
        _, place, _ = await form(service, f"/dead/0/{one}/retry", {"reason": "mended"})
        assert place == there
        assert "1 published again" in (await page(service, there))[1]
        assert "2 published again" not in (await page(service, "/dead?done=2+published+again"))[1]


async def test_a_long_detail_is_redacted_before_it_is_cut(async_redis: Any, redis_url: str) -> None:
    for start in range(590, 601):
        detail = f"{'x ' * 300}"[:start] + " anna.schmidt@example.com could not be read"
        await add(async_redis, letter(start, {"pipeline": "shop"}, Reason.LABELING_FAILED, detail=detail))
    async with http_service(redis_url) as service:
        _, text = await page(service, "/dead")
        assert "anna" not in text
        for entry_id, _ in await async_redis.xrange(STREAMS.dead_letters):
            assert "anna" not in (await page(service, f"/dead/0/{entry_id.decode()}"))[1]


async def test_a_group_is_retried_up_to_the_newest_that_was_shown(async_redis: Any, redis_url: str) -> None:
    ids = await add(
        async_redis, *(letter(n, {"pipeline": "shop", **GOOD, "interaction_id": f"i-{n}"}) for n in range(40))
    )
    await add(async_redis, letter(50, b"x", Reason.NOT_JSON))
    (later,) = await add(async_redis, letter(60, {"pipeline": "shop", **GOOD, "interaction_id": "later"}))
    async with http_service(redis_url) as service:
        fields = {"of": "invalid", "upto": ids[-1]}
        status, text, _ = await form(service, "/dead/retry", fields)
        assert (status, "the order has no reason" in text) == (422, True)
        assert (await form(service, "/dead/retry", {**fields, "upto": "x", "reason": "y"}))[0] == 422
        assert (await form(service, "/dead/retry", {"of": "nonsense", "upto": "1-1", "reason": "y"}))[0] == 422
        status, place, _ = await form(service, "/dead/retry", {**fields, "reason": "fixed"})
        assert (status, place) == (303, "/dead?done=40+published+again")
        _, text = await page(service, "/dead?reason=invalid")
    assert f"/dead/0/{later}" in text
    assert f"/dead/0/{ids[0]}" not in text
    assert await async_redis.xlen(STREAMS.interactions) == 40
    assert [order.details for order in await orders(async_redis)] == [{"count": 40, "upto": ids[-1]}]


async def export(service: Service, path: str = "/dead/export", **headers: str) -> list[dict[str, Any]]:
    async with service.session.get(service.url + path, headers=headers) as reply:
        assert reply.status == 200
        assert reply.headers["content-disposition"].startswith("attachment")
        return [json.loads(line) for line in (await reply.read()).splitlines()]


async def test_the_export_has_all_letters_and_no_text_that_redaction_hides(async_redis: Any, redis_url: str) -> None:
    await add(
        async_redis,
        letter(0, {"pipeline": "shop", "question": "anna@example.com"}),
        letter(1, b"anna@example.com", Reason.NOT_JSON),
    )
    async with http_service(redis_url) as service:
        found = await export(service)
        assert [one["entry_id"] for one in found] == ["1-1", "2-1"]
        assert json.loads(found[0]["payload"])["pipeline"] == "shop"
        assert found[1]["payload_hidden"] == "it cannot be redacted"
        assert "anna@example.com" not in str(found)
        assert [one["reason"] for one in await export(service, "/dead/export?reason=not_json")] == ["not_json"]
    async with http_service(redis_url, specimens=SpecimenSettings(redact=())) as service:
        assert [one["payload"] for one in await export(service, "/dead/export?reason=not_json")] == ["anna@example.com"]
    async with http_service(
        redis_url, web=WebSettings(texts="nobody"), specimens=SpecimenSettings(redact=())
    ) as service:
        assert "anna@example.com" not in str(await export(service))


async def test_a_token_sees_its_pipelines_and_gives_no_orders(async_redis: Any, redis_url: str) -> None:
    shop, bank, none = await add(
        async_redis, letter(0, {"pipeline": "shop"}), letter(1, {"pipeline": "bank"}), letter(2, b"x", Reason.NOT_JSON)
    )
    auth = {"Authorization": "Bearer shop-0123456789"}
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        _, text = await page(service, "/dead", **auth)
        assert f"/dead/0/{shop}" in text
        assert bank not in text
        assert none not in text
        assert "3 entries" not in text
        assert "Orders need operate" in (await page(service, f"/dead/0/{shop}", **auth))[1]
        assert "texts are hidden" in (await page(service, f"/dead/0/{shop}", **auth))[1]
        assert (await page(service, f"/dead/0/{bank}", **auth))[0] == 404
        assert [one["id"] for one in await export(service, **auth)] == [shop]
        assert (await form(service, f"/dead/0/{shop}/retry", {"reason": "x"}, **auth))[0] == 403
        assert (await form(service, "/dead/retry", {"of": "invalid", "upto": shop, "reason": "x"}, **auth))[0] == 403
        for path in ("/dead/0/1-1", "/dead/7/1-1", "/dead/0/x", "/dead/0/99999999999999999999-1"):
            assert (await page(service, path, Authorization="Bearer ann-0123456789"))[0] == 404
        assert (await page(service, "/dead?reason=nonsense", Authorization="Bearer ann-0123456789"))[0] == 422
    assert await orders(async_redis) == []


async def test_a_letter_that_cannot_be_published_again_says_so(async_redis: Any, redis_url: str) -> None:
    (one,) = await add(async_redis, letter(0, b"{}", Reason.UNDELIVERABLE, stream=STREAMS.alerts))
    async with http_service(redis_url) as service:
        _, text = await page(service, f"/dead/0/{one}")
        assert "Only interactions and feedback" in text
        assert (await form(service, f"/dead/0/{one}/retry", {"reason": "x"}, **BROWSER))[0] == 409
    assert await async_redis.xlen(STREAMS.dead_letters) == 1
