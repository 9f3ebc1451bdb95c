"""Traces for tests: a tree of spans written as it is read, with ids and times given by the order."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtide_producers.traces.span import Span, SpanEvent

STEP_NS = 1_000_000_000
START_NS = 1_790_000_000 * STEP_NS


@dataclass
class Branch:
    """A span and the spans below it; its time goes from its first child to its last, or is one step."""

    name: str
    attributes: Mapping[str, Any]
    children: tuple["Branch", ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


def branch(name: str, attributes: Mapping[str, Any] | None = None, *children: Branch, **fields: Any) -> Branch:
    """Return a span; lists and mappings among its attributes become JSON, a tuple becomes a list."""
    return Branch(name, {key: _attribute(value) for key, value in (attributes or {}).items()}, children, fields)


def _attribute(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return json.dumps(value) if isinstance(value, dict | list) else value


def spans(root: Branch, trace: str = "a", service: str = "shop") -> list[Span]:
    """Return the spans of a trace, parents first."""
    trace_id = hashlib.sha256(trace.encode()).hexdigest()[:32]
    given = {"trace_id": trace_id, "resource": {"service.name": service}}
    return list(_spans(root, None, given, _Counters()))


class _Counters:
    def __init__(self) -> None:
        self.ids, self.clock = itertools.count(1), itertools.count()


def _spans(at: Branch, parent: str | None, given: Mapping[str, Any], counters: _Counters) -> Iterator[Span]:
    span_id = f"{next(counters.ids):016x}"
    start = START_NS + next(counters.clock) * STEP_NS
    below = [span for child in at.children for span in _spans(child, span_id, given, counters)]
    own = {
        "span_id": span_id,
        "parent_id": parent,
        "name": at.name,
        "start_ns": start,
        "end_ns": START_NS + next(counters.clock) * STEP_NS,
        "attributes": at.attributes,
    }
    yield Span(**{**given, **own, **at.fields})
    yield from below


def event(name: str, attributes: Mapping[str, Any]) -> SpanEvent:
    """Return an event of a span."""
    return SpanEvent(name, attributes)
