"""Traces over HTTP become interactions; answers are those of the OTLP."""

import gzip
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tests.support.conditions import until
from tests.support.http_service import http_service
from tests.support.ingest import NAMES, expected_of, requests_of
from tests.support.wire_spans import rag, request, span

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import RagInteraction

STREAMS = Streams("ragtide", 0)
INGEST = {"settle_s": 0.3, "quiet_s": 0.6, "default_pipeline": "helpdesk"}
PROTOBUF = "application/x-protobuf"


async def contents(redis: Any) -> list[tuple[str, str, str]]:
    found = [
        RagInteraction.from_entry(entry.decode(), fields[b"data"])
        for entry, fields in await redis.xrange(STREAMS.interactions)
    ]
    return sorted((one.interaction_id.split("-")[1], one.question, one.response) for one in found)


async def published(redis: Any, number: int) -> list[tuple[str, str, str]]:
    async def are_there() -> bool:
        return await redis.xlen(STREAMS.interactions) >= number and not await redis.zcard(STREAMS.open_traces)

    await until(are_there)
    return await contents(redis)


@pytest.mark.parametrize("name", NAMES)
async def test_a_captured_exporter_is_pointed_at_ragtide(name: str, async_redis: Any, redis_url: str) -> None:
    path = "/api/public/otel/v1/traces" if name == "langfuse_sdk" else "/v1/traces"
    async with http_service(redis_url, ingest=INGEST) as service:
        for number, one in enumerate(requests_of(name)):
            body, encoding = one.SerializeToString(), {}
            if number % 2:
                body, encoding = gzip.compress(body), {"content_encoding": "gzip"}
            status, answer = await service.post(path, data=body, content_type=PROTOBUF, **encoding)
            assert (status, answer) == (200, b"")
        assert await published(async_redis, len(expected_of(name))) == expected_of(name)


async def test_the_json_of_a_javascript_sdk(async_redis: Any, redis_url: str) -> None:
    """Ids are hexadecimal, 64-bit integers are texts or numbers, unknown fields are ignored."""
    fields = MessageToDict(request(*rag()))
    for one in fields["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        one["traceId"] = f"{1:032x}"
        one["spanId"] = {"span 1": f"{1:016x}", "span 2": f"{2:016x}", "span 3": f"{3:016x}"}[one["name"]]
        if "parentSpanId" in one:
            one["parentSpanId"] = f"{1:016x}"
        one["startTimeUnixNano"] = int(one["startTimeUnixNano"])
        one["surprise"] = {"deep": [1]}
    async with http_service(redis_url, ingest=INGEST) as service:
        status, answer = await service.post("/v1/traces", fields)
        assert (status, answer) == (200, {})
        assert len(await published(async_redis, 1)) == 1


async def test_rejected_spans_are_a_partial_success(async_redis: Any, redis_url: str) -> None:
    bad = span(5)
    bad.span_id = b"123"
    async with http_service(redis_url, ingest=INGEST) as service:
        status, answer = await service.post(
            "/v1/traces", data=request(*rag(), bad).SerializeToString(), content_type=PROTOBUF
        )
        found = ExportTraceServiceResponse.FromString(answer)
        assert (status, found.partial_success.rejected_spans) == (200, 1)
        assert "no valid id" in found.partial_success.error_message
        assert len(await published(async_redis, 1)) == 1


async def test_without_room_the_exporter_is_told_to_wait(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, ingest={"settle_s": 60, "traces_cap": 1}) as service:
        for trace, expected in ((1, 200), (2, 429)):
            body = request(*rag(trace=trace)).SerializeToString()
            async with service.session.post(
                f"{service.url}/v1/traces", data=body, headers={"content-type": PROTOBUF}
            ) as reply:
                assert reply.status == expected
                answer = await reply.read()
        assert int(reply.headers["Retry-After"]) > 0
        assert answer[:1] == b"\x12"  # google.rpc.Status.message
        assert b"send the request again later" in answer


async def test_a_token_for_some_pipelines_sends_traces_of_these(async_redis: Any, redis_url: str) -> None:
    tokens = [{"name": "shop", "token": "shop-0123456789", "pipelines": ["shop"]}]
    async with http_service(redis_url, ingest=INGEST, serve={"tokens": tokens}) as service:
        for trace, name in ((1, "shop"), (2, "bank")):
            body = request(*rag(trace=trace), service=name).SerializeToString()
            status, _ = await service.post("/v1/traces", token="shop-0123456789", data=body, content_type=PROTOBUF)
            assert status == 200
        assert len(await published(async_redis, 1)) == 1
        await until(lambda: _has_letter(async_redis))
    ((_, letter),) = await async_redis.xrange(STREAMS.dead_letters)
    assert b"may not write to the pipeline 'bank'" in letter[b"data"]


async def _has_letter(redis: Any) -> bool:
    return bool(await redis.xlen(STREAMS.dead_letters))
