"""The spans of a trace as a tree, whatever is missing or wrong among the ids of their parents."""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from ..shapes.texts import ANSWER_KEYS
from .reading import SpanReading, if_readable
from .span import Span

TRACE: Final = ""
"""Id of the node above all roots."""
ABOVE_MAX: Final = 100
"""Most spans above a node that say something about it, beside the highest: else a deep chain would take a square of
its length."""
TOOLS_MAX: Final = 64
"""Most tools that began before a span without a parent, and may have called it."""
PARTS_MAX: Final = 32
"""Most spans below the call of a tool that are looked at for what its own span lacks."""
SKEW_NS: Final = 20_000_000
"""Nanoseconds before the start of its parent from which the start of a span is due to a clock, and not to rounding."""


class Node(SpanReading):
    """A span in its place in the tree, or one that is missing: a parent that has not arrived, or the whole trace."""

    def __init__(self, span: Span, *names: frozenset[str], is_missing: bool = False) -> None:
        super().__init__(span, *names)
        self.is_missing = is_missing
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.parts: list[Node] = []
        """Retrievals and rerankings right inside this retrieval."""
        self.depth = 0
        """Number of nodes above this node."""
        self.first = self.last = 0
        """Numbers of the first node and of the last below this node, in the order of a walk."""
        self.latest_ns = 0
        """The last end of this span and of those below it."""
        self.top = self
        """The highest span above this node."""

    def upwards(self) -> Iterator["Node"]:
        """Yield this span and those above it, the nearest first: at most `ABOVE_MAX`, then the highest."""
        at: Node | None = self
        for _ in range(ABOVE_MAX):
            if at is None:
                return
            if not at.is_missing:
                yield at
            at = at.parent
        if at is not None and at.depth >= self.top.depth:
            yield self.top

    @cached_property
    def tool_parts(self) -> list["Node"]:
        """This tool and the tools right inside it, such as that of a server: among the first spans below it."""
        nodes, waiting = list[Node](), [self]
        while waiting and len(nodes) < PARTS_MAX:
            nodes.append(node := waiting.pop())
            waiting.extend(reversed(node.children[:PARTS_MAX]))
        return [node for node in nodes if node.is_tool]

    @cached_property
    def call_errors(self) -> list[Any]:
        """What says how the call of this tool failed; the spans inside it only if its own has no result."""
        parts = [self] if self.error_sources or self.result is not None else self.tool_parts
        return next(filter(None, (part.error_sources for part in parts)), [])

    @property
    def is_failed_search(self) -> bool:
        """Whether the span is a search by a tool that failed, or whose reply is an error."""
        if not self.is_tool or self.is_action or not self.call_errors:
            return False
        return self.role == "retrieval" or (self.searches and not self.writes)

    def __contains__(self, other: "Node") -> bool:
        """Whether the other node is this node or below it."""
        return self.first <= other.first <= self.last


class Tree:
    """The tree of one trace.

    Spans that share a parent which is missing are siblings. If they began while a tool of their process was open, below
    which there is nothing, they are those of an agent that the tool called, and that never ended; else they are of the
    one root of their process with a question and an answer in whose time they were. Of a circle of parents, the
    earliest span becomes a root. No span starts before its parent: one that does has a clock that is behind, and its
    times are moved, together with those of the spans below it on the same clock. A model call that wrote the answer of
    its parent is moved to the end of the parent.

    Args:
        spans: spans of one trace; of spans with the same id the last counts.
        retrieval_names: names of spans and tools that are retrievals.
        action_names: names of tools whose results are no evidence.
    """

    def __init__(
        self, spans: Iterable[Span], retrieval_names: Iterable[str] = (), action_names: Iterable[str] = ()
    ) -> None:
        by_id = {span.span_id: span for span in spans}
        ordered = sorted(by_id.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id))
        names = [frozenset(map(str.lower, given)) for given in (retrieval_names, action_names)]
        nodes = {span.span_id: Node(span, *names) for span in ordered}
        self.root = Node(Span("", TRACE, None, "", 0, 0), is_missing=True)
        above = {**nodes, TRACE: self.root}
        in_circles = _heads_of_circles(ordered, by_id)
        for node in nodes.values():
            parent_id = TRACE if node.span.span_id in in_circles else node.span.parent_id or TRACE
            if parent_id not in above:
                above[parent_id] = Node(replace(self.root.span, span_id=parent_id), is_missing=True)
            node.parent = above[parent_id]
        for node in _leaked(list(nodes.values())):
            node.parent, node.span = self.root, replace(node.span, parent_id=None)
        for node in nodes.values():
            if node.parent is not None:
                node.parent.children.append(node)
        missing = [node for node in above.values() if node.is_missing and node is not self.root]
        if missing:
            _adopt([node for node in nodes.values() if node.parent is self.root], missing)
        for node in above.values():
            if node is not self.root and node.parent is None:
                node.parent = self.root
                self.root.children.append(node)
        self.nodes = self._numbered()
        """The nodes in the order of a walk: parents first, siblings by time."""
        moved: dict[Node, int] = {}
        for node in self.nodes:
            _move(node, moved)
        for node in reversed(self.nodes):
            node.latest_ns = max((node.span.end_ns, *(child.latest_ns for child in node.children)))

    def nearest(self, chosen: Container[Node]) -> dict[Node | None, Node | None]:
        """Return for each node the lowest of the chosen nodes that is this node or above it; for None, None."""
        nearest: dict[Node | None, Node | None] = {None: None}
        for node in self.nodes:
            nearest[node] = node if node in chosen else nearest[node.parent]
        return nearest

    @cached_property
    def lost(self) -> frozenset[Node]:
        """The nodes that failed, and those below an attempt that failed and was caught: nothing of it was shown."""
        lost: set[Node] = set()
        caught: dict[Node | None, bool] = {None: False}
        for node in self.nodes:
            above = node.parent
            has_succeeded = above is not None and not above.is_missing and not above.span.failed
            caught[node] = caught[above] or (node.failed and has_succeeded)
            if caught[node] or node.failed:
                lost.add(node)
        return frozenset(lost)

    def _numbered(self) -> list[Node]:
        nodes: list[Node] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            node.first = len(nodes)
            if node.parent is not None:
                node.depth = node.parent.depth + 1
                node.top = node if node.parent.top.is_missing else node.parent.top
            nodes.append(node)
            stack.extend(reversed(node.children))
        for node in reversed(nodes):
            node.last = max((child.last for child in node.children), default=node.first)
        return nodes


def _adopt(tops: Sequence[Node], missing: Sequence[Node]) -> None:
    """Put missing parents below the tools that called them, else below the one request in whose time they were."""
    waiting, tools = list(tops), list[Node]()
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        if not node.children and node.is_tool:
            tools.append(node)
    tools.sort(key=lambda tool: tool.span.start_ns)
    for node in missing:
        first = min((child.span for child in node.children), key=lambda span: span.start_ns)
        end_ns = max(child.span.end_ns for child in node.children)
        last = bisect_right(tools, first.start_ns, key=lambda tool: tool.span.start_ns)
        around = [tool for tool in tools[max(0, last - TOOLS_MAX) : last] if first.start_ns <= tool.span.end_ns]
        around = [tool for tool in around if tool.span.resource == first.resource]
        if not around and len(tops) <= TOOLS_MAX:
            held = [top for top in tops if top.span.start_ns <= first.start_ns and end_ns <= top.span.end_ns]
            around = [top for top in held if top.span.resource == first.resource and top.has_question_and_answer]
        if len(around) == 1 and not first.parent_is_remote:
            node.parent = around[0]
            around[0].children.append(node)


def _leaked(nodes: list[Node]) -> list[Node]:
    late: list[tuple[Node, int]] = []
    for node in nodes:
        above = node.parent
        if above is None or above.is_missing or node.span.resource != above.span.resource or node.span.parent_is_remote:
            continue
        if node.span.start_ns > above.span.end_ns + SKEW_NS and node.is_of_application and node.has_question:
            late.append((node, above.span.end_ns))
    if not late:
        return []
    first_ns = min((node.span.start_ns for node in nodes if node.role in ("llm", "retrieval")), default=0)
    return [node for node, end_ns in late if first_ns <= end_ns]


def _move(node: Node, moved: dict[Node, int]) -> None:
    """Move the times of a span so that it does not start before its parent, and remember by how much."""
    above = node.parent
    if node.is_missing or above is None or above.is_missing:
        return
    span, parent = node.span, above.span
    by_ns = moved.get(above, 0) if moved and span.resource == parent.resource else 0
    early_ns = parent.start_ns - span.start_ns - by_ns
    if early_ns > 0:
        text = None
        if early_ns > SKEW_NS and node.role == "llm":
            text = if_readable(lambda: node.generated, None)
        is_last = text is not None and if_readable(lambda: above.answer(ANSWER_KEYS), None) == text
        by_ns += max(early_ns, parent.end_ns - span.end_ns - by_ns) if is_last else early_ns
    if by_ns:
        moved[node] = by_ns
        node.span = replace(span, start_ns=span.start_ns + by_ns, end_ns=span.end_ns + by_ns)


def _heads_of_circles(ordered: list[Span], by_id: dict[str, Span]) -> set[str]:
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
