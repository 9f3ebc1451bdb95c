"""`POST /v1/traces`: OTLP over HTTP, in protobuf and JSON."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ragtide_producers.errors import IngestFullError, InvalidTracesError, TooManySpansError
from ragtide_producers.ingest.receiver import ReadRequest, read_body
from ragtide_producers.traces.otlp import Encoding
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.printable import printable

from ..guard.access import Client
from ..guard.admission import Writer
from ..guard.problems import REDIS_ERRORS, HttpProblem, drain, redis_is_away
from ..reading.context import Context, Shared
from .bodies import body_of

REQUESTS_MAX: Final = 1000
"""Most requests that one process writes, so that a forgotten option does not fill a disk."""
SUFFIXES: Final[dict[Encoding, str]] = {"protobuf": ".pb", "json": ".json"}

log = structlog.get_logger("ragtide.web")

router = APIRouter(tags=["writing"])

ENCODINGS: Final[dict[str, Encoding]] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}

BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "ExportTraceServiceRequest, also with Content-Encoding: gzip",
        "content": {
            "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The spans are stored; `partialSuccess` has those that were rejected for good."},
    400: {"description": "The body cannot be decoded."},
    401: {"description": "The token is not known."},
    413: {"description": "The body is too large, or has too many resources, spans, attributes or other elements."},
    415: {"description": "The content type or encoding is unknown."},
    429: {"description": "Too many spans wait: send the request again after `Retry-After` seconds."},
    503: {"description": "Redis does not answer: send the request again after `Retry-After` seconds."},
    504: {"description": "The answer took too long, although Redis answers."},
}


@router.post("/v1/traces", responses=RESPONSES, openapi_extra=BODY, response_class=Response)
@router.post("/api/public/otel/v1/traces", responses=RESPONSES, openapi_extra=BODY, response_class=Response)
async def post_traces(request: Request, shared: Shared, client: Writer) -> Response:
    """Store the spans of a request. Once their interactions are complete, they are published.

    The answer comes when the spans are in Redis. It is safe to send a request again. The second path is that of
    Langfuse's SDK.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = ENCODINGS.get(kind)
    try:
        return await _answered(request, shared, client, encoding, kind)
    except HttpProblem as problem:
        if encoding != "protobuf":
            raise
        if problem.close:
            await drain(request)
        return Response(_encode_status(problem.detail), problem.status, problem.headers(), media_type=kind)


async def _answered(
    request: Request, shared: Context, client: Client, encoding: Encoding | None, kind: str
) -> Response:
    if encoding is None:
        wanted = "send application/x-protobuf or application/json"
        raise HttpProblem(415, f"the content type {printable(kind[:60])!r} is unknown: {wanted}", close=True)
    try:
        async with body_of(request, shared, client, _read(shared, encoding)) as read_request:
            return await _stored(shared, client, read_request, encoding, kind)
    except TooManySpansError as error:
        raise HttpProblem(413, str(error)) from None
    except InvalidTracesError as error:
        raise HttpProblem(400, str(error)) from None


def _read(shared: Context, encoding: Encoding) -> Callable[[Iterable[bytes]], ReadRequest]:
    def read(parts: Iterable[bytes]) -> ReadRequest:
        if shared.capture is None:
            return read_body(parts, encoding)
        body = b"".join(parts)
        shared.capture(body, encoding)
        return read_body((body,), encoding)

    return read


async def _stored(shared: Context, client: Client, request: ReadRequest, encoding: Encoding, kind: str) -> Response:
    try:
        stored = await shared.receiver.store(request, client.patterns)
    except IngestFullError as error:
        raise HttpProblem(429, str(error), retry_after_s=error.retry_after_s) from None
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    answer = ExportTraceServiceResponse()
    if stored.rejected:
        answer.partial_success.rejected_spans = stored.rejected
        answer.partial_success.error_message = stored.message
    content: str | bytes = MessageToJson(answer, indent=None) if encoding == "json" else answer.SerializeToString()
    return Response(content, media_type=kind)


def _encode_status(message: str) -> bytes:
    text = message.encode()
    size = len(text)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return b"\x12" + length + text


class Capture:
    """Writes the first requests to a folder, each to a file of its own. The files hold texts of users.

    Args:
        folder: made if it is missing.

    Raises:
        ConfigurationError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"--capture {folder} cannot be a folder: {error.strerror or error}") from None
        self._folder = folder
        self._written = 0
        self._lock = Lock()

    def write(self, body: bytes, encoding: Encoding) -> None:
        """Write a decompressed body; a disk that fails is logged and harms no request."""
        with self._lock:  # small bodies are read by several threads
            if self._written == REQUESTS_MAX:
                return
            self._written += 1
            path = self._folder / f"{self._written:06}{SUFFIXES[encoding]}"
        try:
            path.write_bytes(body)
        except OSError as error:
            log.warning("a request cannot be captured", file=str(path), error=error.strerror or str(error))
