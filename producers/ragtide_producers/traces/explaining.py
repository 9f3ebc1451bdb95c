"""The way from the spans of a trace to its interactions, span by span, with the reasons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .grouping import SpanGroup, groups_of
from .interactions import Mapped, interaction_of
from .options import MappingOptions
from .reading import SpanReading, TruncatedError
from .span import Span
from .tree import Node, Tree


@dataclass(frozen=True, slots=True)
class ExplainedSpan:
    """A span and its part in the interactions of the trace."""

    depth: int
    """Number of spans above it."""
    name: str
    span_id: str
    role: str
    """Role by the table of dialects; `missing` for a parent that is not among the spans."""
    part: str
    """Its part in an interaction, or the reason why it has none; empty for a span without a role."""


@dataclass(frozen=True, slots=True)
class ExplainedTrace:
    """A trace, span by span."""

    trace_id: str
    service: str
    spans: list[ExplainedSpan]
    interactions: list[Mapped]
    reason: str
    """Why the trace holds no interaction; empty if it holds one."""


def explain_traces(spans: Iterable[Span], options: MappingOptions) -> list[ExplainedTrace]:
    """Return an explanation of each trace, in the order of their first spans."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return [_explained(trace, options) for trace in traces.values()]


def _explained(spans: Sequence[Span], options: MappingOptions) -> ExplainedTrace:
    tree = Tree(spans, options.retrieval_names)
    groups = groups_of(tree)
    parts, outer = _parts(groups), _outer_calls(tree)
    lines = [
        ExplainedSpan(node.depth - 1, *_named(node), _part(node, parts, outer))
        for node in tree.nodes
        if node is not tree.root
    ]
    service = str(spans[0].resource.get("service.name", ""))
    mapped = [interaction_of(group, options) for group in groups]
    return ExplainedTrace(spans[0].trace_id, service, lines, mapped, "" if groups else _reason(tree))


def _named(node: Node) -> tuple[str, str, str]:
    if node.reading is None:
        return "(not among the spans)", node.span_id, "missing"
    return node.reading.span.name, node.span_id, node.reading.role


def _parts(groups: Sequence[SpanGroup]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for number, group in enumerate(groups, 1):
        parts.setdefault(group.anchor.span_id, []).append(f"interaction {number}")
        for retrieval in group.retrievals:
            parts.setdefault(retrieval.span.span_id, []).append(f"documents of interaction {number}{_count(retrieval)}")
        answers = [call for call in group.calls if _has_text(call)]
        for call in group.calls:
            part = "answer" if answers and call is answers[-1] else "step"
            parts.setdefault(call.span.span_id, []).append(f"{part} of interaction {number}")
    return parts


def _count(retrieval: SpanReading) -> str:
    try:
        found = retrieval.documents
    except TruncatedError:
        return ": truncated"
    return ": not captured" if found is None else f": {len(found)}"


def _has_text(call: SpanReading) -> bool:
    try:
        return call.generated is not None
    except TruncatedError:
        return True


def _part(node: Node, parts: dict[str, list[str]], outer: set[Node]) -> str:
    given = parts.get(node.span_id)
    reading = node.reading
    if given or reading is None:
        return ", ".join(given or [])
    if reading.role not in ("retrieval", "rerank", "llm"):
        return ""
    if reading.span.failed:
        return "unused: it failed"
    around = _around(node)
    if around is not None:
        return f"unused: inside a {around}"
    if node in outer:
        return "unused: another model call is inside it"
    return "unused: follows no retrieval" if reading.role == "llm" else "unused: no model call follows"


def _around(node: Node) -> str | None:
    """Return the role of the nearest span above that hides this span from the interactions."""
    at = node.parent
    while at is not None:
        if at.reading is not None and at.reading.role in ("retrieval", "rerank", "embedding", "guard"):
            return at.reading.role
        at = at.parent
    return None


def _outer_calls(tree: Tree) -> set[Node]:
    """Return the model calls with another model call below them."""
    last_call: Node | None = None
    outer: set[Node] = set()
    for node in reversed(tree.nodes):
        if node.reading is not None and node.reading.role == "llm":
            if last_call is not None and last_call in node:
                outer.add(node)
            last_call = node
    return outer


def _reason(tree: Tree) -> str:
    roles = [node.reading.role for node in tree.nodes if node.reading and not node.reading.span.failed]
    if "retrieval" not in roles and "rerank" not in roles:
        return (
            "no span is a retrieval that succeeded: instrument the retriever, or set the attributes ragtide.question, "
            "ragtide.documents and ragtide.response on one span"
        )
    if "llm" not in roles:
        return "no span is a model call that succeeded"
    return "no model call began after a retrieval"
