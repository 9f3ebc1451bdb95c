"""Takes the spans of a request into Redis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtide_runtime.redis.scripts import ScriptCall, run_scripts

from ..errors import IngestFullError, TooManySpansError
from .span_store import SpanStore, StoreCounts
from .stored_spans import TraceSpans, fields_by_trace, tail_sampled_services
from .telemetry import IngestTelemetry

REQUEST_SPANS_MAX: Final = 100_000
"""Most spans of one request. An SDK sends 512, a Collector 8,192 unless told otherwise."""
CALL_SPANS_MAX: Final = 500
"""Most spans of one trace that one script stores, so that no script blocks Redis for long."""
TRIP_SPANS_MAX: Final = 1_000
"""About the most spans in one round trip."""
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
        """Store the spans of a request, and return once they are in Redis.

        Args:
            request: the request; it is changed.
            pipelines: patterns of the pipelines that the sender may write to; empty for all.

        Raises:
            TooManySpansError: the request has more spans than one request may have; nothing was stored.
            IngestFullError: there is no room; send the whole request again later.
            redis.RedisError: Redis failed; send the whole request again later.
        """
        spans = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
        if spans > REQUEST_SPANS_MAX:
            raise TooManySpansError(
                f"the request has {spans:,} spans, and at most {REQUEST_SPANS_MAX:,} are allowed: send smaller batches"
            )
        for service in tail_sampled_services(request):
            self._telemetry.tail_sampled(service)
        traces, invalid = fields_by_trace(request)
        counts = StoreCounts()
        for batch in self._batches(traces, pipelines):
            counts += await self._stored(batch)
        self._telemetry.received(counts, invalid)
        rejected = invalid + counts.rejected
        return Accepted(spans - rejected, rejected, _message(invalid, counts.rejected))

    def _batches(
        self, traces: Sequence[TraceSpans], pipelines: Sequence[str]
    ) -> Iterator[list[ScriptCall[StoreCounts | None]]]:
        """Yield the calls of each round trip. Each call has the resources, so that no span is without its resource."""
        batch: list[ScriptCall[StoreCounts | None]] = []
        spans = 0
        for trace in traces:
            pairs = iter(trace.spans.items())
            while part := list(islice(pairs, CALL_SPANS_MAX)):
                batch.append(self._store.store_call(trace.trace_id, [*trace.resources.items(), *part], pipelines))
                spans += len(part)
                if spans >= TRIP_SPANS_MAX:
                    yield batch
                    batch, spans = [], 0
        if batch:
            yield batch

    async def _stored(self, calls: Sequence[ScriptCall[StoreCounts | None]]) -> StoreCounts:
        replies = await run_scripts(self._redis, calls)
        stored = [reply for reply in replies if reply is not None]
        full = [call for call, reply in zip(calls, replies, strict=True) if reply is None]
        if full and await self._store.close_read(evict=True):
            stored += [reply for reply in await run_scripts(self._redis, full) if reply is not None]
        if len(stored) < len(calls):
            self._telemetry.full()
            raise IngestFullError("too many spans wait to be read: send the request again later", RETRY_AFTER_S)
        return sum(stored, StoreCounts())


def _message(invalid: int, beyond: int) -> str:
    parts = []
    if invalid:
        parts.append(f"{invalid:,} spans have no valid id: a trace id has 16 bytes, a span id 8, and not all are zero")
    if beyond:
        parts.append(
            f"{beyond:,} spans are beyond the limits of one trace: raise ingest.trace_spans or ingest.trace_bytes"
        )
    return "; ".join(parts)
