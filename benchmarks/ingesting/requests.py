"""Bodies of trace requests: the captures of `tests/data/otlp`, sent again and again with new trace ids."""

import gzip
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

CAPTURES = Path(__file__).parents[2] / "tests" / "data" / "otlp"
BATCH_SPANS = 512
"""Spans of a request: the most that an SDK sends at once unless told otherwise."""


@dataclass(frozen=True)
class WireTrace:
    """The spans of one captured trace, in the order in which they came."""

    resource: Any
    """The process that sent the first span."""
    spans: list[tuple[Any, Any]]
    """The scope of each span, and the span."""


def captured_applications() -> list[list[WireTrace]]:
    """Return the traces of each captured application."""
    return [_traces(folder) for folder in sorted(CAPTURES.iterdir()) if folder.is_dir()]


def _traces(folder: Path) -> list[WireTrace]:
    found: dict[bytes, WireTrace] = {}
    for file in sorted(folder.glob("*.pb*")):
        body = file.read_bytes()
        request = ExportTraceServiceRequest.FromString(gzip.decompress(body) if file.suffix == ".gz" else body)
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    trace = found.setdefault(span.trace_id, WireTrace(of_resource.resource, []))
                    trace.spans.append((of_scope.scope, span))
    return list(found.values())


def trace_requests(spans: int, seed: int) -> list[bytes]:
    """Return bodies with about so many spans, of all applications in turn; an application's traces are cut anywhere.

    Args:
        spans: about the number of spans of all bodies.
        seed: of the trace ids; another seed gives other traces.
    """
    random_ids = random.Random(seed)
    applications = captured_applications()
    each = spans // len(applications)
    bodies = [list(_bodies(traces, each, random_ids)) for traces in applications]
    return [body for turn in itertools.zip_longest(*bodies) for body in turn if body is not None]


def _bodies(traces: list[WireTrace], spans: int, random_ids: random.Random) -> Iterator[bytes]:
    """Yield the requests of one application: whole traces, cut after each `BATCH_SPANS` spans."""
    request, size, sent = ExportTraceServiceRequest(), 0, 0
    for trace in itertools.cycle(traces):
        if sent >= spans:
            break
        trace_id = random_ids.randbytes(16)
        sent += len(trace.spans)
        for scope, span in trace.spans:
            if size == BATCH_SPANS:
                yield request.SerializeToString()
                request, size = ExportTraceServiceRequest(), 0
            _add(request, trace.resource, scope, span, trace_id)
            size += 1
    yield request.SerializeToString()


def _add(request: Any, resource: Any, scope: Any, span: Any, trace_id: bytes) -> None:
    """Add a span to a request, below the resource of the request and the scope of this name."""
    of_resource = request.resource_spans[0] if request.resource_spans else request.resource_spans.add(resource=resource)
    of_scope = next(
        (scope_spans for scope_spans in of_resource.scope_spans if scope_spans.scope.name == scope.name), None
    )
    if of_scope is None:
        of_scope = of_resource.scope_spans.add(scope=scope)
    added = of_scope.spans.add()
    added.CopyFrom(span)
    added.trace_id = trace_id


def one_span_traces(traces: int, seed: int) -> Iterator[bytes]:
    """Yield requests whose spans are the first of as many traces: a retrieval whose root does not come.

    Args:
        traces: number of traces, and of spans.
        seed: of the trace ids.
    """
    random_ids = random.Random(seed)
    trace = captured_applications()[0][0]
    scope, span = trace.spans[0]
    for start in range(0, traces, BATCH_SPANS):
        request = ExportTraceServiceRequest()
        for _ in range(min(BATCH_SPANS, traces - start)):
            _add(request, trace.resource, scope, span, random_ids.randbytes(16))
        yield request.SerializeToString()
