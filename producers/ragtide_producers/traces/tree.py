"""The spans of a trace as a tree, whatever is missing or wrong among the ids of their parents."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ..shapes.texts import ANSWER_KEYS
from .reading import SpanReading, if_readable
from .span import Span

TRACE: Final = ""
"""Id of the node above all roots."""
SKEW_NS: Final = 20_000_000
"""Nanoseconds before the start of its parent from which the start of a span is due to a clock, and not to rounding."""


class Node:
    """A place in the tree. A node without a span stands for a parent that has not arrived, or for the whole trace."""

    __slots__ = ("children", "depth", "first", "last", "parent", "reading", "span_id")

    def __init__(self, span_id: str) -> None:
        self.span_id = span_id
        self.reading: SpanReading | None = None
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.depth = 0
        """Number of nodes above this node."""
        self.first = self.last = 0
        """Numbers of the first node and of the last below this node, in the order of a walk."""

    def upwards(self) -> Iterator[SpanReading]:
        """Yield the spans of this node and of those above it, the nearest first."""
        at: Node | None = self
        while at is not None:
            if at.reading is not None:
                yield at.reading
            at = at.parent

    def __contains__(self, other: "Node") -> bool:
        """Whether the other node is this node or below it."""
        return self.first <= other.first <= self.last


class Tree:
    """The tree of one trace.

    Spans that share a parent which is missing are siblings. Of a circle of parents, the earliest span becomes a root.
    No span starts before its parent: one that does has a clock that is behind, and its times are moved, together with
    those of the spans below it on the same clock. A model call that wrote the answer of its parent is moved to the end
    of the parent.

    Args:
        spans: spans of one trace; of spans with the same id the last counts.
        retrieval_names: names of spans and tools that are retrievals, in lower case.
    """

    def __init__(self, spans: Iterable[Span], retrieval_names: frozenset[str] = frozenset()) -> None:
        by_id = {span.span_id: span for span in spans}
        ordered = sorted(by_id.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id))
        self.root = Node(TRACE)
        self._nodes = {TRACE: self.root}
        for span in ordered:
            self._node(span.span_id).reading = SpanReading(span, retrieval_names)
        in_circles = _heads_of_circles(ordered, by_id)
        for span in ordered:
            parent_id = None if span.span_id in in_circles else span.parent_id
            self._attach(self._nodes[span.span_id], self._node(parent_id or TRACE))
        for node in list(self._nodes.values()):
            if node is not self.root and node.parent is None:
                self._attach(node, self.root)
        self.nodes = self._numbered()
        """The nodes in the order of a walk: parents first, siblings by time."""
        moved: dict[Node, int] = {}
        for node in self.nodes:
            _move(node, moved)

    def _node(self, span_id: str) -> Node:
        return self._nodes.setdefault(span_id, Node(span_id))

    def _attach(self, node: Node, parent: Node) -> None:
        node.parent = parent
        parent.children.append(node)

    def _numbered(self) -> list[Node]:
        nodes: list[Node] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            node.first = len(nodes)
            node.depth = 0 if node.parent is None else node.parent.depth + 1
            nodes.append(node)
            stack.extend(reversed(node.children))
        for node in reversed(nodes):
            node.last = max((child.last for child in node.children), default=node.first)
        return nodes


def _move(node: Node, moved: dict[Node, int]) -> None:
    """Move the times of a span so that it does not start before its parent, and remember by how much."""
    reading, above = node.reading, node.parent.reading if node.parent else None
    if reading is None or node.parent is None or above is None:
        return
    span, parent = reading.span, above.span
    by_ns = moved.get(node.parent, 0) if moved and span.resource == parent.resource else 0
    early_ns = parent.start_ns - span.start_ns - by_ns
    if early_ns > 0:
        is_last = early_ns > SKEW_NS and _wrote_answer(reading, above)
        by_ns += max(early_ns, parent.end_ns - span.end_ns - by_ns) if is_last else early_ns
    if by_ns:
        moved[node] = by_ns
        reading.span = replace(span, start_ns=span.start_ns + by_ns, end_ns=span.end_ns + by_ns)


def _wrote_answer(call: SpanReading, above: SpanReading) -> bool:
    text = if_readable(lambda: call.generated, None) if call.role == "llm" else None
    return text is not None and if_readable(lambda: above.answer(ANSWER_KEYS), None) == text


def _heads_of_circles(ordered: list[Span], by_id: dict[str, Span]) -> set[str]:
    """Return the earliest span of each circle of parents."""
    order = {span.span_id: number for number, span in enumerate(ordered)}
    done: set[str] = set()
    heads: set[str] = set()
    for span in ordered:
        path: dict[str, None] = {}
        at: str | None = span.span_id
        while at in by_id and at not in done and at not in path:
            path[at] = None
            at = by_id[at].parent_id
        if at in path:
            ids = list(path)
            heads.add(min(ids[ids.index(at) :], key=order.__getitem__))
        done.update(path)
    return heads
