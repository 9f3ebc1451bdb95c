"""Interactions and feedback over HTTP: each item is answered, and a retry is safe."""

import codecs
import gzip
import json
from typing import Any

import pytest
from tests.support.conditions import until
from tests.support.http_service import http_service

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import Feedback, RagInteraction

STREAMS = Streams("ragtide", 0)
ITEM = {"pipeline": "shop", "question": "Which tea?", "documents": ["Green tea."], "response": "Green."}
LINES = "application/x-ndjson"


async def stored(redis: Any) -> list[RagInteraction]:
    return [
        RagInteraction.from_entry(entry.decode(), fields[b"data"])
        for entry, fields in await redis.xrange(STREAMS.interactions)
    ]


async def test_one_a_list_and_lines_are_published_once(async_redis: Any, redis_url: str) -> None:
    items = [{**ITEM, "interaction_id": f"i-{number}"} for number in range(3)]
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/interactions", items[0])
        assert (status, answer["published"], answer["items"]) == (
            200,
            1,
            [{"index": 0, "status": "published", "interaction_id": "i-0"}],
        )
        status, answer = await service.post("/v1/interactions", items)
        assert (status, answer["published"], answer["duplicates"]) == (200, 2, 1)
        lines = "\n\n".join(json.dumps(item) for item in items).encode()
        status, answer = await service.post("/v1/interactions", data=lines, content_type=LINES)
        assert (status, answer["duplicates"]) == (200, 3)
        squeezed = gzip.compress(json.dumps({**ITEM, "interaction_id": "z"}).encode())
        status, answer = await service.post(
            "/v1/interactions", data=squeezed, content_type="application/json", content_encoding="gzip"
        )
        assert (status, answer["published"]) == (200, 1)
    found = await stored(async_redis)
    assert [one.interaction_id for one in found] == ["i-0", "i-1", "i-2", "z"]
    assert {one.source for one in found} == {"http"}


async def test_a_mark_before_the_body_changes_nothing(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for kind in ("application/json", "application/x-ndjson"):
            body = codecs.BOM_UTF8 + json.dumps(ITEM | {"interaction_id": kind}).encode()
            status, answer = await service.post("/v1/interactions", data=body, content_type=kind)
            assert (status, answer["published"]) == (200, 1), kind


async def test_each_bad_item_is_told_and_the_others_are_published(async_redis: Any, redis_url: str) -> None:
    items = [ITEM, {**ITEM, "question": " "}, "text", {**ITEM, "colour": "red", "interaction_id": "c"}, ITEM]
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/interactions", items)
        assert (status, answer["published"], answer["invalid"]) == (200, 2, 3)
        told = {item["index"]: item.get("detail") for item in answer["items"]}
        assert told[0] is None
        assert "question must not be empty" in told[1]
        assert "is a JSON string" in told[2]
        assert "colour is not a field" in told[3]
        lines = b'{"pipeline": \n' + json.dumps(ITEM).encode() + b"\nnull"
        status, answer = await service.post("/v1/interactions", data=lines, content_type=LINES)
        assert (status, answer["published"], answer["invalid"]) == (200, 1, 2)
        status, answer = await service.post("/v1/interactions", [{}])
        assert (status, answer["invalid"]) == (422, 1)


async def test_what_is_wrong_with_one_item_is_its_own_matter(async_redis: Any, redis_url: str) -> None:
    good = json.dumps(ITEM).encode()
    wrong = [
        b'{"pipeline": "shop", "question": NaN, "documents": [], "response": "r"}',
        b'{"pipeline": "shop", "question": }',
        b'{"pipeline": "\xff"}',
        b"[" * 300 + b"]" * 300,
        b"nul",
    ]
    cut = json.dumps({**ITEM, "response": "Green \ud83d", "metadata": {"a": float("nan"), "b": 1}}).encode()
    items = [good, *wrong, cut]
    async with http_service(redis_url) as service:
        for body, kind in ((b"[" + b", ".join(items) + b"]", "application/json"), (b"\n".join(items), LINES)):
            status, answer = await service.post("/v1/interactions/", data=body, content_type=kind)
            assert (status, answer["published"], answer["invalid"]) == (200, 2, len(wrong)), kind
            assert [item["status"] for item in answer["items"]] == ["published", *["invalid"] * len(wrong), "published"]
            assert "question is no finite number" in answer["items"][1]["detail"]
            assert answer["items"][-1]["left_out"] == {"metadata.a": 1}
    assert [one.response for one in await stored(async_redis)] == ["Green.", "Green �"] * 2


@pytest.mark.parametrize(
    ("body", "published", "place"),
    [
        (b'[%s, %s, {"pipeline": "sh', 2, "after item 1: it ends before its end"),
        (b'[%s, %s] {"pipeline": "shop"}', 2, "after item 1: there is more after its end"),
        (b"[%s, %s}", 1, "after item 0"),
    ],
)
async def test_a_body_that_breaks_off_has_the_items_before_it(
    body: bytes, published: int, place: str, async_redis: Any, redis_url: str
) -> None:
    async with http_service(redis_url) as service:
        one = json.dumps(ITEM).encode()
        status, answer = await service.post("/v1/interactions", data=body % (one, one), content_type="application/json")
        assert (status, answer["published"]) == (400, published)
        assert place in answer["detail"]


async def test_with_an_idempotency_key_items_without_ids_are_published_once(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for expected in (2, 0):
            status, answer = await service.post("/v1/interactions", [ITEM, ITEM], idempotency_key="batch 7")
            assert (status, answer["published"]) == (200, expected)
        _, other = await service.post("/v1/interactions", [ITEM], idempotency_key="batch 8")
        assert other["published"] == 1
        _, without = await service.post("/v1/interactions", [ITEM])
        assert without["published"] == 1
    assert len(await stored(async_redis)) == 4


async def test_null_and_blank_optional_fields_over_http_are_left_out(async_redis: Any, redis_url: str) -> None:
    left_out = dict.fromkeys((*RagInteraction.model_fields.keys() - ITEM.keys(), "source"))
    items = [{**ITEM, **left_out}, {**ITEM, **dict.fromkeys(left_out, "")}]
    async with http_service(redis_url) as service:
        for expected in (2, 0):  # a blank id is no id, so the key still makes one that a retry has, too
            _, answer = await service.post("/v1/interactions", items, idempotency_key="batch 7")
            assert (answer["published"], answer["invalid"]) == (expected, 0)
        wanted = {"pipeline": "shop", "interaction_id": "i-1", "gold_scores": {"trace.adherence": 1}}
        given = {**wanted, **dict.fromkeys(Feedback.model_fields.keys() - wanted.keys())}
        _, answer = await service.post("/v1/feedback", given)
        assert answer["published"] == 1
    assert [one.source for one in await stored(async_redis)] == ["http", "http"]


async def test_a_full_stream_is_429_and_sending_all_again_is_safe(async_redis: Any, redis_url: str) -> None:
    items = [{**ITEM, "interaction_id": f"i-{number}"} for number in range(5)]
    async with http_service(redis_url, interactions_cap=3) as service:
        async with service.session.post(f"{service.url}/v1/interactions", json=items) as reply:
            answer = await reply.json()
            assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert (answer["published"], answer["full"]) == (3, 2)
        await async_redis.xtrim(STREAMS.interactions, maxlen=0)
        status, answer = await service.post("/v1/interactions", items)
        assert (status, answer["published"], answer["duplicates"]) == (200, 2, 3)


async def test_a_policy_that_drops_is_told(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, interactions_cap=1, producer={"policy": "drop_new"}) as service:
        status, answer = await service.post("/v1/interactions", [ITEM, ITEM])
        assert (status, answer["published"], answer["dropped"]) == (200, 1, 1)


async def test_a_million_lines_need_no_more_memory_than_a_few(async_redis: Any, redis_url: str) -> None:
    """Of many items only those with a problem are told."""
    line = json.dumps({**ITEM, "interaction_id": "same"}).encode() + b"\n"

    async def body() -> Any:
        for _ in range(60):
            yield line * 200
        yield b"oops\n"

    async with http_service(redis_url, serve={"body_bytes": 10_000}) as service:
        status, answer = await service.post("/v1/interactions", data=body(), content_type=LINES)
        assert (status, answer["published"], answer["duplicates"], answer["invalid"]) == (200, 1, 11_999, 1)
        assert [item["index"] for item in answer["items"]] == [12_000]


async def test_feedback_is_published_once(async_redis: Any, redis_url: str) -> None:
    given = {
        "pipeline": "shop",
        "interaction_id": "i-1",
        "gold_scores": {"trace.adherence": 1},
        "given_at": "2026-11-01T00:00:00Z",
    }
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/feedback", [given, {**given, "gold_scores": {}}])
        assert (status, answer["published"], answer["invalid"]) == (200, 1, 1)
        status, answer = await service.post("/v1/feedback", given)
        assert (status, answer["duplicates"]) == (200, 1)
    ((_, fields),) = await async_redis.xrange(STREAMS.feedback)
    assert Feedback.decode(fields[b"data"]).gold_scores == {"trace.adherence": 1}


async def test_users_are_hashed(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        await service.post("/v1/interactions", {**ITEM, "user_id": "ann@example.org"})
    assert b"ann@example.org" not in (await async_redis.xrange(STREAMS.interactions))[0][1][b"data"]


async def test_an_outage_of_redis_is_503_and_the_service_goes_on(
    async_redis: Any, redis_url: str, tmp_path: Any
) -> None:
    async with http_service(f"unix://{tmp_path}/nothing.sock", wait_ready=False) as service:
        async with service.session.post(f"{service.url}/v1/interactions", json=ITEM) as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (503, "5")
            assert "send the whole request again later" in (await reply.json())["detail"]
        for path in ("/v1/estimates", "/v1/alerts", "/v1/runs", "/v1/dead-letters"):
            assert (await service.get(path))[0] == 503
        assert (await service.get("/readyz"))[0] == 503
        assert (await service.get("/healthz"))[0] == 200


async def test_a_request_in_flight_is_answered_when_the_role_ends(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:

        async def body() -> Any:
            yield json.dumps(ITEM).encode() + b"\n"
            service.stop.set()
            yield json.dumps(ITEM).encode() + b"\n"

        status, answer = await service.post("/v1/interactions", data=body(), content_type=LINES)
        assert (status, answer["published"]) == (200, 2)
        await until(service.task.done)


@pytest.mark.parametrize("path", ["/v1/interactions", "/v1/feedback", "/v1/traces", "/api/public/otel/v1/traces"])
async def test_every_path_is_described(path: str, redis_url: str, async_redis: Any) -> None:
    async with http_service(redis_url) as service:
        status, described = await service.get("/openapi.json")
        operation = described["paths"][path]["post"]
        assert status == 200
        assert operation["description"]
        assert operation["requestBody"]["content"]
        assert "question" in described["components"]["schemas"]["RagInteraction"]["properties"]
        assert described["components"]["schemas"]["AgentRun"]["required"] == ["pipeline", "messages"]
        text = json.dumps(described)
        for reference in {part.partition('"')[0] for part in text.split('"$ref": "#/components/schemas/')[1:]}:
            assert reference in described["components"]["schemas"]


async def test_session_and_history_are_published(async_redis: Any, redis_url: str) -> None:
    turn = {"question": "Which drinks?", "response": "Tea and coffee."}
    item = {**ITEM, "session_id": "s", "turn": 1, "user_id": "u", "history": [turn]}
    async with http_service(redis_url) as service:
        status, answer = await service.post("/v1/interactions", [item, {**item, "history": [5]}])
        assert (status, answer["published"], answer["invalid"]) == (200, 1, 1)
        assert "history" in answer["items"][1]["detail"]
    [found] = await stored(async_redis)
    assert (found.session_id, found.turn) == ("s", 1)
    assert found.user_id not in (None, "u")
    assert [one.model_dump() for one in found.history or ()] == [turn]
