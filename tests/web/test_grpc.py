"""Traces over gRPC: the same spans, tokens and answers as over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from tests.support.conditions import until
from tests.support.http_service import http_service
from tests.support.ingest import expected_of, requests_of
from tests.support.wire_spans import rag, request, span

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import Streams
from ragtide_web.guard import connections
from ragtide_web.routes import grpc_server

STREAMS = Streams("ragtide", 0)
TOKEN = "token-0123456789"
METHOD = f"/{grpc_server.SERVICE}/Export"
INGEST = {"settle_s": 0.2, "quiet_s": 3600}


class Stub(TraceServiceStub):
    """The stub that exporters use, and its place."""

    def __init__(self, channel: Any, port: int) -> None:
        super().__init__(channel)  # type: ignore[no-untyped-call]  # generated
        self.channel = channel
        self.port = port


@asynccontextmanager
async def calling(monkeypatch: pytest.MonkeyPatch, url: str, **settings: Any) -> AsyncIterator[Stub]:
    """Run the service with gRPC on a free port, and yield a stub."""
    ports: list[int] = []
    monkeypatch.setattr(grpc_server.log, "info", lambda _, **fields: ports.append(fields["grpc_port"]))
    serve = {"grpc_port": 0, **settings.pop("serve", {})}
    async with (
        http_service(url, serve=serve, **settings),
        grpc.aio.insecure_channel(f"127.0.0.1:{ports[0]}") as channel,
    ):
        yield Stub(channel, ports[0])


async def test_a_captured_exporter(monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str) -> None:
    name = "langchain_openinference"
    async with calling(monkeypatch, redis_url, ingest=INGEST) as stub:
        for one in requests_of(name):
            answer = await stub.Export(one, compression=grpc.Compression.Gzip)
            assert answer == ExportTraceServiceResponse()
        bad = span(5)
        bad.span_id = b"1"
        answer = await stub.Export(request(bad))
        assert answer.partial_success.rejected_spans == 1

        async def are_there() -> bool:
            return bool(await async_redis.xlen(STREAMS.interactions) == len(expected_of(name)))

        await until(are_there)


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ((("authorization", f"Bearer {TOKEN}"),), None),
        ((("authorization", "Bearer wrong"),), grpc.StatusCode.UNAUTHENTICATED),
        ((), grpc.StatusCode.UNAUTHENTICATED),
        ((("x-api-key", "reader-0123456789"),), grpc.StatusCode.PERMISSION_DENIED),
    ],
)
async def test_tokens(
    metadata: Any, code: Any, monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    tokens = [TOKEN, {"name": "reader", "token": "reader-0123456789", "access": ["read"]}]
    async with calling(monkeypatch, redis_url, serve={"tokens": tokens}) as stub:
        assert await _code(stub, request(*rag()), metadata) == code
    assert bool(await async_redis.exists(STREAMS.open_traces)) == (code is None)


async def test_a_call_without_its_body_is_limited_by_token_and_time(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    """The token is asked for before the body, so a stranger holds nothing; a client holds as much as its token may."""
    monkeypatch.setattr(connections, "BODY_S", 2.0)
    serve = {"tokens": [TOKEN, "other-0123456789"], "connections": 4}
    right, other = (("authorization", f"Bearer {TOKEN}"),), (("x-api-key", "other-0123456789"),)
    async with calling(monkeypatch, redis_url, serve=serve) as stub:

        def begun(metadata: Any) -> Any:
            call = stub.channel.stream_unary(METHOD)(metadata=metadata)
            return asyncio.create_task(_code_of(call))

        assert await begun((("authorization", "Bearer wrong"),)) == grpc.StatusCode.UNAUTHENTICATED
        held = [begun(right) for _ in range(3)]
        done, waiting = await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
        assert {one.result() for one in done} == {grpc.StatusCode.UNAVAILABLE}
        assert len(waiting) == 2
        assert await _code(stub, request(*rag()), other) is None
        assert {await one for one in waiting} == {grpc.StatusCode.UNAVAILABLE}
        assert await _code(stub, request(*rag()), right) is None


async def test_a_connection_that_says_nothing_is_ended(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.5)
    async with calling(monkeypatch, redis_url) as stub:
        for said in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", stub.port)
            writer.write(said)
            async with asyncio.timeout(20):
                while await reader.read(1_000):
                    pass
            writer.close()


async def test_calls_share_the_memory_of_bodies(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    """The memory of a call is free again when it is answered, also when it is refused."""
    async with calling(monkeypatch, redis_url, serve={"bodies_bytes": 4_000, "body_bytes": 4_000}) as stub:
        for _ in range(5):
            assert await _code(stub, request(*rag(answer="word " * 250))) is None
            broken = stub.channel.stream_unary(METHOD)(iter([b"\xff" * 3_900]))
            assert await _code_of(broken) == grpc.StatusCode.INVALID_ARGUMENT
    async with calling(monkeypatch, redis_url, serve={"bodies_bytes": 1_100, "body_bytes": 5_000}) as stub:
        assert await _code(stub, request(*rag(answer="word " * 250))) == grpc.StatusCode.UNAVAILABLE
        assert await _code(stub, request(*rag())) is None


async def test_without_room_exporters_send_again(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    async with calling(monkeypatch, redis_url, ingest={"traces_cap": 1, "settle_s": 60}) as stub:
        assert await _code(stub, request(*rag(trace=1))) is None
        assert await _code(stub, request(*rag(trace=2))) == grpc.StatusCode.UNAVAILABLE


async def test_a_message_that_is_too_large_or_no_request(
    monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str
) -> None:
    async with calling(monkeypatch, redis_url, serve={"body_bytes": 10_000}) as stub:
        huge = request(*rag(answer="word " * 10_000))
        assert await _code(stub, huge) == grpc.StatusCode.RESOURCE_EXHAUSTED
        broken = ExportTraceServiceRequest.FromString(b"")
        broken.resource_spans.add().schema_url = "x"
        assert await _code(stub, broken) is None
    assert not await async_redis.exists(STREAMS.open_traces)


async def test_a_port_in_use_is_one_sentence(monkeypatch: pytest.MonkeyPatch, async_redis: Any, redis_url: str) -> None:
    other = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    port = other.add_insecure_port("127.0.0.1:0")
    await other.start()
    try:
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}: set RAGTIDE_SERVE_GRPC_PORT"):
            async with http_service(redis_url, serve={"grpc_port": port}):
                pass
    finally:
        await other.stop(None)


async def _code(stub: TraceServiceStub, one: ExportTraceServiceRequest, metadata: Any = ()) -> Any:
    return await _code_of(stub.Export(one, metadata=metadata))


async def _code_of(call: Any) -> Any:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None
