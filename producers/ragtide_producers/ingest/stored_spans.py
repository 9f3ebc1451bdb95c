"""The form of spans in Redis, and a stored trace with what is known of it. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from ragtide_runtime.redis.keys import TraceField

from ..traces.otlp import has_valid_ids, is_of_ragtide, is_vector, read_attributes, read_span
from ..traces.span import TAIL_SAMPLING, Span

SPAN_ID_BYTES: Final = 8
DIGEST_BYTES: Final = 8
STAMP_BYTES: Final = 6
RESOURCE: Final = b"r"
"""Beginning of the field of a resource; its digest follows."""
EMBEDDINGS_BYTES: Final = 4096
"""Only spans larger than this are searched for embeddings: smaller spans have no large ones."""
SEPARATOR: Final = b"\n"
"""Between the interactions of the outbox: JSON on one line."""


@dataclass(frozen=True, slots=True)
class TraceSpans:
    """The spans of one trace in one request, as fields and values of its hash."""

    trace_id: str
    resources: dict[bytes, bytes]
    spans: dict[bytes, bytes]


def fields_by_trace(request: ExportTraceServiceRequest) -> tuple[list[TraceSpans], int]:
    """Return the spans of a request by trace, and the number of spans whose ids are not valid.

    Embeddings are removed, because no score rests on them and they are most of the bytes. Spans of ragtide itself are
    left out: a result would come as a late span of the trace that it is about. The request is changed.
    """
    traces: dict[bytes, TraceSpans] = {}
    invalid = 0
    for of_resource in request.resource_spans:
        if not of_resource.scope_spans:
            continue
        resource = of_resource.resource.SerializeToString(deterministic=True)
        digest = blake2b(resource, digest_size=DIGEST_BYTES).digest()
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                if is_of_ragtide(of_scope.scope.name, span.name):
                    continue
                if not has_valid_ids(span):
                    invalid += 1
                    continue
                trace = traces.get(span.trace_id)
                if trace is None:
                    trace = traces[span.trace_id] = TraceSpans(span.trace_id.hex(), {}, {})
                trace.resources[RESOURCE + digest] = resource
                trace.spans[span.span_id] = digest + _serialized(span)
    return list(traces.values()), invalid


def tail_sampled_services(request: ExportTraceServiceRequest) -> set[str]:
    """Return the services whose spans a tail sampler has chosen, as far as it says so."""
    return {
        str(read_attributes(of_resource.resource.attributes).get("service.name", ""))
        for of_resource in request.resource_spans
        if any(
            pair.key.startswith(TAIL_SAMPLING)
            for of_scope in of_resource.scope_spans
            for pair in of_scope.scope.attributes
        )
    }


def _serialized(span: WireSpan) -> bytes:
    wire: bytes = span.SerializeToString()
    if len(wire) < EMBEDDINGS_BYTES:
        return wire
    pairs = enumerate(span.attributes)
    embeddings = [at for at, pair in pairs if pair.key.endswith(".vector") or is_vector(pair.value)]
    for at in reversed(embeddings):
        del span.attributes[at]
    if embeddings:
        wire = span.SerializeToString()
    return wire


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace as it was read from Redis."""

    name: str
    """Name of the trace in Redis: its id, and a digest of the allowed pipelines if a token allows only some."""
    version: int
    """Number of changes of its spans and decisions."""
    decision: int
    """Number of the last decision; 0 before the first."""
    reads: int
    """Number of times that the trace was read since reading it last ended."""
    spans: dict[bytes, bytes]
    """Values of the spans by id."""
    resources: dict[bytes, bytes]
    """Resources by digest."""
    used: frozenset[str]
    """Ids of spans that belong to decided interactions."""
    contents: frozenset[bytes]
    """Digests of the contents of decided interactions."""
    outbox: tuple[bytes, ...]
    """Decided interactions that may not be published yet."""
    pipelines: tuple[str, ...]
    """Patterns of the pipelines that the sender may write to; empty for all."""

    @classmethod
    def of(cls, name: str, reply: Mapping[bytes, bytes]) -> "StoredTrace":
        """Return the trace in the fields of its hash."""
        outbox = reply.get(_key(TraceField.OUTBOX), b"")
        patterns = reply.get(_key(TraceField.PIPELINES), b"").decode()
        used = reply.get(_key(TraceField.USED_SPANS), b"")
        return cls(
            name=name,
            version=int(reply.get(_key(TraceField.VERSION), 0)),
            decision=int(reply.get(_key(TraceField.DECISION), 0)),
            reads=int(reply.get(_key(TraceField.READS), 0)),
            spans={field: value for field, value in reply.items() if len(field) == SPAN_ID_BYTES},
            resources={
                field[1:]: value
                for field, value in reply.items()
                if len(field) == DIGEST_BYTES + 1 and field.startswith(RESOURCE)
            },
            used=frozenset(part.hex() for part in _parts(used, SPAN_ID_BYTES)),
            contents=frozenset(_parts(reply.get(_key(TraceField.CONTENTS), b""), DIGEST_BYTES)),
            outbox=tuple(outbox.split(SEPARATOR)) if outbox else (),
            pipelines=tuple(patterns.split("\n")) if patterns else (),
        )

    def read_spans(self) -> list[Span]:
        """Return the spans; a span whose value cannot be decoded raises an error of protobuf."""
        resources = {
            digest: read_attributes(Resource.FromString(value).attributes) for digest, value in self.resources.items()
        }
        after = STAMP_BYTES + DIGEST_BYTES
        return [
            read_span(WireSpan.FromString(value[after:]), resources.get(value[STAMP_BYTES:after], {}))
            for value in self.spans.values()
        ]

    def arrivals_ms(self) -> dict[str, int]:
        """Return the time at which each span arrived, in milliseconds since 1970, by the id of the span."""
        return {field.hex(): int.from_bytes(value[:STAMP_BYTES], "big") for field, value in self.spans.items()}


def _key(field: TraceField) -> bytes:
    return field.value.encode()


def _parts(joined: bytes, size: int) -> Iterator[bytes]:
    return (joined[at : at + size] for at in range(0, len(joined), size))


def joined_ids(span_ids: Iterable[str]) -> bytes:
    """Return ids of spans, 8 bytes each."""
    return b"".join(bytes.fromhex(span_id) for span_id in span_ids)
