"""Takes the spans of a request into Redis."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtide_runtime.redis.scripts import ScriptCall, run_scripts

from ..errors import IngestFullError
from ..traces.otlp import Encoding, decode_request
from .span_store import TRACE_BYTES, TRACE_SPANS, SpanStore, StoreCounts
from .stored_spans import DIGEST_BYTES, RESOURCE, TraceSpans, fields_by_trace, tail_sampled_services
from .telemetry import IngestTelemetry

CALL_SPANS_MAX: Final = 500
"""Most spans of one trace that one script stores, so that no script blocks Redis for long."""
CALL_BYTES_MAX: Final = 1024 * 1024
"""Bytes of spans and resources after which a script stores nothing else."""
TRIP_SPANS_MAX: Final = 1_000
"""About the most spans in one round trip."""
TRIP_BYTES_MAX: Final = 4 * 1024 * 1024
"""About the most bytes in one round trip."""
RETRY_AFTER_S: Final = 5.0
"""Seconds after which a sender should try again: about the time in which traces are read."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of a request: its spans are in Redis, but for those that were rejected."""

    spans: int
    """Spans that are stored, those that were stored before included."""
    rejected: int
    """Spans that are refused for good."""
    message: str
    """The reason why spans were rejected; empty without one."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request as it will be stored. Making it takes time in proportion to the request, so a thread may do it."""

    traces: Sequence[TraceSpans]
    spans: int
    invalid: int
    """Spans without a valid id."""
    tail_sampled: Collection[str]
    """Services whose spans a tail sampler has chosen."""


def read_request(request: ExportTraceServiceRequest) -> ReadRequest:
    """Return a request as it will be stored; it is changed."""
    spans = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    services = tail_sampled_services(request)
    traces, invalid = fields_by_trace(request)
    return ReadRequest(traces, spans, invalid, services)


def read_body(parts: Iterable[bytes], encoding: Encoding) -> ReadRequest:
    """Return the request in a body as it will be stored.

    Raises:
        TooManySpansError: the body has more elements than one request may have.
        InvalidTracesError: the body is no request of traces.
    """
    return read_request(decode_request(b"".join(parts), encoding))


class TraceReceiver:
    """Stores the spans of requests. Sending a request again is safe: each span is stored once.

    Args:
        store: the spans in Redis.
        telemetry: counts spans.
    """

    def __init__(self, store: SpanStore, telemetry: IngestTelemetry | None = None) -> None:
        self._store = store
        self._redis = store.redis
        self._telemetry = telemetry or IngestTelemetry()

    async def accept(self, request: ExportTraceServiceRequest, pipelines: Sequence[str] = ()) -> Accepted:
        """Read a request and store its spans; see `read_request` and `store`."""
        return await self.store(read_request(request), pipelines)

    async def store(self, request: ReadRequest, pipelines: Sequence[str] = ()) -> Accepted:
        """Store the spans of a request, and return once they are in Redis.

        Args:
            request: the request.
            pipelines: patterns of the pipelines that the sender may write to; empty for all.

        Raises:
            IngestFullError: there is no room; send the whole request again later.
            redis.RedisError: Redis failed; send the whole request again later.
        """
        for service in request.tail_sampled:
            self._telemetry.tail_sampled(service)
        counts = StoreCounts()
        for batch in self._batches(request.traces, pipelines):
            counts += await self._store_batch(batch)
        self._telemetry.received(counts, request.invalid)
        rejected = request.invalid + counts.rejected
        return Accepted(request.spans - rejected, rejected, _rejection_message(request.invalid, counts.rejected))

    def _batches(
        self, traces: Sequence[TraceSpans], pipelines: Sequence[str]
    ) -> Iterator[list[ScriptCall[StoreCounts | None]]]:
        batch: list[ScriptCall[StoreCounts | None]] = []
        spans = size = 0
        for trace in traces:
            for part in _parts(trace):
                batch.append(self._store.store_call(trace.trace_id, part, pipelines))
                spans += len(part)
                size += sum(len(value) for _, value in part)
                if spans >= TRIP_SPANS_MAX or size >= TRIP_BYTES_MAX:
                    yield batch
                    batch, spans, size = [], 0, 0
        if batch:
            yield batch

    async def _store_batch(self, calls: Sequence[ScriptCall[StoreCounts | None]]) -> StoreCounts:
        replies = await run_scripts(self._redis, calls)
        stored = [reply for reply in replies if reply is not None]
        full = [call for call, reply in zip(calls, replies, strict=True) if reply is None]
        closed = await self._store.make_room() if full else None
        if closed:
            self._telemetry.closed(closed)
            stored += [reply for reply in await run_scripts(self._redis, full) if reply is not None]
        if len(stored) < len(calls):
            self._telemetry.full()
            raise IngestFullError("too many spans wait to be read: send the request again later", RETRY_AFTER_S)
        return sum(stored, StoreCounts())


def _parts(trace: TraceSpans) -> Iterator[list[tuple[bytes, bytes]]]:
    # The trace keeps its resources for as long as its spans, so later parts need not bring them again.
    resources = dict(trace.resources)
    part: list[tuple[bytes, bytes]] = []
    size = spans = 0
    for span_id, value in trace.spans.items():
        key = RESOURCE + value[:DIGEST_BYTES]
        resource = resources.pop(key, None)
        cost = len(value) + (0 if resource is None else len(resource))
        if part and (spans == CALL_SPANS_MAX or size + cost > CALL_BYTES_MAX):
            yield part
            part, size, spans = [], 0, 0
        if resource is not None:
            part.append((key, resource))
        part.append((span_id, value))
        size, spans = size + cost, spans + 1
    if part:
        yield part


def _rejection_message(invalid: int, beyond: int) -> str:
    parts = []
    if invalid:
        parts.append(f"{invalid:,} spans have no valid id: a trace id has 16 bytes, a span id 8, and not all are zero")
    if beyond:
        parts.append(
            f"{beyond:,} spans are beyond the limits of one trace ({TRACE_SPANS:,} spans, {TRACE_BYTES:,} bytes): "
            "begin a trace for each request"
        )
    return "; ".join(parts)
