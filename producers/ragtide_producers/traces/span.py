"""A span of a trace, as every dialect sends it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
    parent_is_remote: bool = False
    """Whether the span above this span is in another process, so that this process sends nothing above it."""
