"""A span of a trace, as every dialect sends it, and the probability with which its sender kept the trace."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TAIL_SAMPLING: Final = "tailsampling."
"""Beginning of the attributes that the tail sampler of the OpenTelemetry Collector writes on the scope of spans that it
keeps, if it records its policies."""

_THRESHOLD: Final = re.compile(r"(?:^|[,;\s])ot=(?:[^,]{0,200};)?th:([0-9a-f]{1,14})(?:[;,\s]|$)")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event of a span: older instrumentations put messages and found documents there."""

    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """One unit of work of a trace.

    Attribute values are texts, numbers, booleans, lists and mappings of these.
    """

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str | None
    """Id of the span that this work is a part of; None for the root of the trace."""
    name: str
    start_ns: int
    """Nanoseconds since 1970."""
    end_ns: int
    """Nanoseconds since 1970."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the process that sent the span, such as `service.name`."""
    failed: bool = False
    """Whether the status of the span is an error."""
    dropped_attributes: int = 0
    """Number of attributes that the sender left out."""
    trace_state: str = ""
    """W3C tracestate."""
    events: tuple[SpanEvent, ...] = ()
    time_unit: str = "nanoseconds"
    """Unit in which the sender counted the times."""
    parent_is_remote: bool = False
    """Whether the span above this span is in another process, so that this process sends nothing above it."""


def sampling_probability(trace_state: str) -> float | None:
    """Return the probability in `ot=th:...` of a tracestate; None if it is not stated.

    The threshold is 56 bits in hexadecimal without the zeros at its end. A trace is kept if its random number is not
    below the threshold.

    Source: OpenTelemetry specification, "TraceState: Probability Sampling", rejection threshold.
    """
    match = _THRESHOLD.search(trace_state[:1024])
    if match is None:
        return None
    return 1.0 - int(match[1].ljust(14, "0"), 16) / (1 << 56)
