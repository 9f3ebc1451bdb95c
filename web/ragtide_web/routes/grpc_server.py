"""OTLP over gRPC: the service `TraceService` of the Collector, beside the HTTP server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragtide_producers.errors import IngestFullError, InvalidTracesError, TooManySpansError
from ragtide_producers.ingest.receiver import read_body
from ragtide_runtime.errors import ConfigurationError

from ..guard import connections
from ..guard.access import TooManyGuessesProblem
from ..guard.problems import REDIS_ERRORS, HttpProblem
from ..reading.context import Context
from .bodies import SentBody, worked_on

try:
    import grpc
except ModuleNotFoundError:
    raise ConfigurationError("serve.grpc_port needs grpcio: pip install 'ragtide[service,grpc]'") from None

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
ROUTE: Final = "gRPC TraceService/Export"
STOP_S: Final = 10.0
"""Seconds in which running calls are answered when the role ends."""
IDLE_MS: Final = 300_000
"""Milliseconds for which a connection without a call stays open. Exporters connect again by themselves."""
CODES: Final = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    # Exporters send again after UNAVAILABLE, and after RESOURCE_EXHAUSTED only with further details.
    408: grpc.StatusCode.UNAVAILABLE,
    429: grpc.StatusCode.UNAVAILABLE,
}

log = structlog.get_logger("ragtide.web")


@asynccontextmanager
async def grpc_service(context: Context) -> AsyncIterator[int]:
    """Answer calls for the body of an `async with`, and yield the port.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    settings = context.settings.serve
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", settings.body_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.max_metadata_size", 65_536),
            ("grpc.server_handshake_timeout_ms", int(connections.HEADER_S * 1000)),
            ("grpc.max_connection_idle_ms", IDLE_MS),
        ),
        maximum_concurrent_rpcs=settings.connections,
    )
    # A handler of a stream is called before the body comes, so the token is asked for first.
    export = grpc.stream_unary_rpc_method_handler(_TraceService(context).answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.grpc_port}"
    try:
        port: int = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise ConfigurationError(
            f"cannot serve gRPC on {address}: set RAGTIDE_SERVE_GRPC_PORT to a free port, or to 0 for any"
        )
    await server.start()
    log.info("serving gRPC", address=settings.host, grpc_port=port)
    try:
        yield port
    finally:
        await server.stop(STOP_S)


class _TraceService:
    """The method `Export`: it takes a request as bytes, so that an undecodable one gets a clear answer."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, bodies: AsyncIterator[bytes], call: Any) -> bytes:
        """Store the spans of a request; the answer comes when they are in Redis."""
        began = asyncio.get_running_loop().time()
        status = 200
        try:
            return await self._stored(bodies, call)
        except TooManyGuessesProblem as problem:
            status = problem.status
            await call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, problem.detail)  # sending again is of no use
        except HttpProblem as problem:
            status = problem.status
            await call.abort(CODES.get(status, grpc.StatusCode.INVALID_ARGUMENT), problem.detail)
        except InvalidTracesError as error:
            status = 413 if isinstance(error, TooManySpansError) else 400
            await call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except IngestFullError as error:
            status = 429
            await call.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except REDIS_ERRORS:
            status = 503
            await call.abort(grpc.StatusCode.UNAVAILABLE, "Redis does not answer: send the request again later")
        finally:
            self._context.telemetry.answered(ROUTE, status, asyncio.get_running_loop().time() - began)
        raise AssertionError("abort raises")

    async def _stored(self, bodies: AsyncIterator[bytes], call: Any) -> bytes:
        shared, state = self._context, dict[str, Any]()
        metadata = call.invocation_metadata() or ()
        headers = {str(name): value for name, value in metadata if isinstance(value, str)}
        clients = shared.clients
        client = clients.admitted(headers, "write", clients.addresses(_peer(call.peer()), headers))
        clients.hold(state, client.key)
        received = 0
        try:
            body = await self._received(bodies)
            shared.memory.receive(len(body))
            received = len(body)
            client.bytes.take(len(body))
            sent = SentBody(body, "", client, shared.settings.serve)
            async with worked_on(shared, sent, partial(read_body, encoding="protobuf")) as request:
                stored = await shared.receiver.store(request, client.patterns)
        finally:
            shared.memory.release(received)
            clients.release(state)
        answer = ExportTraceServiceResponse()
        if stored.rejected:
            answer.partial_success.rejected_spans = stored.rejected
            answer.partial_success.error_message = stored.message
        wire: bytes = answer.SerializeToString()
        return wire

    async def _received(self, bodies: AsyncIterator[bytes]) -> bytes:
        try:
            async with asyncio.timeout(connections.BODY_S):
                body = await anext(bodies, None)
        except TimeoutError:
            limit_s = connections.BODY_S
            raise HttpProblem(408, f"the body did not come within {limit_s:g} s: send it faster") from None
        if body is None:
            raise HttpProblem(400, "the call has no request: send one ExportTraceServiceRequest")
        return body


def _peer(text: str) -> str:
    """Return the address in the name that gRPC has for a client.

    >>> _peer("ipv4:127.0.0.1:53412"), _peer("ipv6:%5B::1%5D:53412"), _peer("unix:")
    ('127.0.0.1', '::1', '')
    """
    kind, _, rest = unquote(text).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""
