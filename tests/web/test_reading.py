"""Alerts, runs and dead letters over HTTP, for the pipelines of the token only."""

import json
import re
from typing import Any

from tests.support.alerts import alert
from tests.support.http_service import http_service

from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import DeadLetter, Reason

STREAMS = Streams("ragtide", 0)
TOKENS = [{"name": "shop", "token": "shop-0123456789", "pipelines": ["shop*"]}, "all-0123456789"]
ALL = "all-0123456789"


async def add_letters(redis: Any) -> None:
    for number, pipeline in enumerate(["shop", "bank", "shop", None]):
        payload = b"not json" if pipeline is None else json.dumps({"pipeline": pipeline, "question": "secret"}).encode()
        letter = DeadLetter.of(
            payload,
            stream=STREAMS.interactions,
            entry_id=f"{number}-1",
            reason=Reason.NOT_JSON if pipeline is None else Reason.INVALID,
            detail="mend it",
            component="worker",
        )
        await redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter.encode()})


async def test_dead_letters_are_filtered_and_show_texts_only_when_asked(async_redis: Any, redis_url: str) -> None:
    await add_letters(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:

        async def entries(path: str, token: str = ALL) -> list[str]:
            status, found = await service.get(path, token)
            assert status == 200, found
            return [one["letter"]["entry_id"] for one in found]

        assert await entries("/v1/dead-letters") == ["0-1", "1-1", "2-1", "3-1"]
        assert await entries("/v1/dead-letters?limit=2") == ["2-1", "3-1"]
        assert await entries("/v1/dead-letters?reason=not_json") == ["3-1"]
        assert await entries("/v1/dead-letters?pipeline=bank") == ["1-1"]
        assert await entries("/v1/dead-letters", "shop-0123456789") == ["0-1", "2-1"]
        assert await entries("/v1/dead-letters?pipeline=bank", "shop-0123456789") == []
        _, found = await service.get("/v1/dead-letters", ALL)
        assert "secret" not in str(found)
        assert (await service.get("/v1/dead-letters?limit=0", ALL))[0] == 422
        status, answer = await service.get("/v1/dead-letters?limit=many", ALL)
        assert (status, list(answer)) == (422, ["detail"])


async def test_texts_of_dead_letters_follow_the_rule_of_the_page(async_redis: Any, redis_url: str) -> None:
    """`web.texts`, the access `operate`, the pipelines of the token, and redaction."""
    question = "secret of john@example.com"
    letter = DeadLetter.of(
        json.dumps({"pipeline": "shop", "question": question}).encode(),
        stream=STREAMS.interactions,
        entry_id="1-1",
        reason=Reason.INVALID,
        detail="documents.0 is not a text (got 'VALUE'): mend it",
        component="worker",
    )
    await async_redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter.encode()})
    tokens = [
        {"name": "reader", "token": "reader-0123456789", "access": ["read"]},
        {"name": "writer", "token": "writer-0123456789", "access": ["read", "write"]},
        {"name": "operator", "token": "operator-0123456789", "access": ["read", "operate"]},
        {"name": "bank", "token": "bank-0123456789ab", "access": ["read", "operate"], "pipelines": ["bank"]},
    ]
    for texts, seers in (("nobody", ()), ("operator", ("operator",)), ("viewer", ("reader", "writer", "operator"))):
        async with http_service(redis_url, serve={"tokens": tokens}, web={"texts": texts}) as service:
            for token in tokens:
                name, key = token["name"], str(token["token"])
                answers = [
                    str((await service.get(path, key))[1])
                    for path in ("/v1/dead-letters?payload=true", "/v1/dead-letters", "/dead/export")
                ]
                sees = name in seers
                assert ["secret" in found for found in answers] == [sees, False, sees], (texts, name)
                assert not any("john@example.com" in found for found in answers), (texts, name)
                # Redaction is on, so no value is quoted: it may be cut within a part that no pattern finds.
                assert not any("VALUE" in found for found in answers), (texts, name)
                assert ("texts are hidden" in answers[0]) == (not sees and name != "bank"), (texts, name)
    async with http_service(redis_url, web={"texts": "nobody"}) as service:
        assert "secret" not in str((await service.get("/v1/dead-letters?payload=true"))[1])


async def test_metrics_of_a_token_for_some_pipelines_have_no_numbers_of_the_deployment(
    async_redis: Any, redis_url: str
) -> None:
    await add_letters(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        whole, some = [(await service.get("/metrics", token))[1].decode() for token in (ALL, "shop-0123456789")]
    for name in ("\nragtide_stream_entries{", "\nragtide_interactions_waiting{", "\nragtide_ingest_open_traces "):
        assert (name in whole, name in some) == (True, False), name
    assert "ragtide_redis_up 1.0" in some


async def test_the_fleet_shows_a_token_for_some_pipelines_nothing_of_the_deployment(
    async_redis: Any, redis_url: str
) -> None:
    await add_letters(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for token, facts in (
            (ALL, ["Firing alerts", "Pipelines", "Waiting for a worker", "Judge today", "Dead letters"]),
            ("shop-0123456789", ["Firing alerts", "Pipelines", "Dead letters"]),
        ):
            _, text = await service.get("/", token)
            shown = re.search(r'id="facts".*?</section>', text.decode(), re.DOTALL)
            assert shown is not None
            assert re.findall(r'class="label"[^>]*>([^<]+)<', shown[0]) == facts
            assert re.findall(r'class="value">([^<]+)<', shown[0])[-1] == ("4" if token == ALL else "2")


async def test_alerts_of_the_tokens_pipelines(async_redis: Any, redis_url: str) -> None:
    for pipeline in ("shop", "bank"):
        found = alert(pipeline=pipeline, alert_id=f"of-{pipeline}")
        await async_redis.xadd(STREAMS.alerts, {DATA_FIELD: found.encode()})
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert [one["pipeline"] for one in (await service.get("/v1/alerts", ALL))[1]] == ["shop", "bank"]
        assert [one["pipeline"] for one in (await service.get("/v1/alerts", "shop-0123456789"))[1]] == ["shop"]
        assert [one["pipeline"] for one in (await service.get("/v1/alerts?pipeline=bank&firing=true", ALL))[1]] == [
            "bank"
        ]
        assert (await service.get("/v1/runs", ALL)) == (200, [])


async def test_an_unknown_value_of_a_parameter_is_named(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        for query in ("window=2h", "strategy=magic", "estimator=meen", "confidence=2"):
            status, answer = await service.get(f"/v1/estimates?{query}")
            assert status == 422, query
            assert answer["detail"]
        status, answer = await service.get("/v1/estimates?strategy=betting")
        assert status == 422
        assert answer["detail"].startswith("strategy 'betting' is for offline evals")
        assert answer["detail"].endswith("so use auto, running or asymptotic")
        assert (await service.get("/v1/estimates"))[1] == []
        status, answer = await service.get("/v1/estimate")
        assert (status, answer["detail"]) == (404, "there is no /v1/estimate: GET /openapi.json lists every path")
        assert (await service.get("/v1/interactions"))[0] == 405
        status, answer = await service.post("/v1/metrics", data=b"", content_type="application/x-protobuf")
        assert (status, "OTEL_METRICS_EXPORTER=none" in answer["detail"]) == (404, True)


async def test_metrics_count_requests_and_outcomes(async_redis: Any, redis_url: str) -> None:
    item = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
    async with http_service(redis_url) as service:
        await service.post("/v1/interactions", [item, {}])
        await service.get("/nowhere")
        _, text = await service.get("/metrics")
        lines = text.decode().splitlines()
    assert 'ragtide_http_requests_total{route="/v1/interactions",status="200"} 1.0' in lines
    assert 'ragtide_http_requests_total{route="unknown",status="404"} 1.0' in lines
    assert 'ragtide_http_items_total{kind="interaction",outcome="published"} 1.0' in lines
    assert 'ragtide_http_items_total{kind="interaction",outcome="invalid"} 1.0' in lines
    assert "ragtide_redis_up 1.0" in lines


async def test_the_schema_describes_every_parameter(redis_url: str) -> None:
    async with http_service(redis_url) as service:
        status, schema = await service.get("/openapi.json")
    assert status == 200
    parameters = [
        parameter
        for methods in schema["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
    ]
    assert len(parameters) > 10
    assert [parameter["name"] for parameter in parameters if not parameter.get("description")] == []
