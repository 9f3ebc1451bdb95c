"""The way from the spans of a trace to its interactions, span by span, with the reasons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_schemas.printable import printable

from ..shapes.literals import BrokenTextError, UnreadableError
from .conventions import GENAI
from .grouping import HIDING, SpanGroup, calls_of, groups_of, nearest_of, retrievals_of
from .interactions import Mapped, interaction_of
from .options import MappingOptions
from .reading import SpanReading, if_readable
from .span import Span
from .tree import Node, Tree

NO_RETRIEVAL: Final = (
    "instrument the retriever, or set the attributes ragtide.question, ragtide.documents and ragtide.response on one "
    "span"
)


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
    parts = _parts(groups)
    calls = {node for node in tree.nodes if node.reading is not None and node.reading.role == "llm"}
    around = nearest_of(tree, calls)
    outer = {around[node.parent] for node in calls if node.parent is not None}
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
    except BrokenTextError:
        return ": truncated"
    except UnreadableError:
        return ": not readable"
    return ": not captured" if found is None else f": {len(found)}"


def _has_text(call: SpanReading) -> bool:
    return if_readable(lambda: call.generated is not None, True)


def _part(node: Node, parts: dict[str, list[str]], outer: set[Node | None]) -> str:
    given = parts.get(node.span_id)
    reading = node.reading
    if given or reading is None or reading.role not in ("retrieval", "rerank", "llm"):
        return ", ".join(given or [])
    return f"unused: {_why_unused(node, reading, parts, outer)}"


def _why_unused(node: Node, reading: SpanReading, parts: dict[str, list[str]], outer: set[Node | None]) -> str:
    above = [] if node.parent is None else list(node.parent.upwards())
    hiding = next((around.role for around in above if around.role in HIDING), None)
    call = next((around for around in above if around.role == "llm"), None)
    if reading.span.failed:
        return "it failed"
    if hiding is not None:
        return f"inside a {hiding}"
    if node in outer:
        return "another model call is inside it"
    if reading.role != "llm":
        return "no model call follows"
    in_used = reading.is_blank and call is not None and call.span.span_id in parts
    return "the call around it has the texts" if in_used else "follows no retrieval"


def _reason(tree: Tree) -> str:
    if not retrievals_of(tree):
        return f"no span is a retrieval that succeeded: {_no_retrieval(tree)}"
    if not calls_of(tree):
        failed = _first_name(node for node in tree.nodes if _is_failed(node, ("llm",)))
        return f"no span is a model call that succeeded{f': {failed} failed' if failed else ''}"
    return "no model call began after a retrieval"


def _no_retrieval(tree: Tree) -> str:
    """Return the nearest cause: a failed search, one without result, an error, no documents, or no search at all."""
    failed = _first_name(node for node in tree.nodes if _is_failed(node, ("retrieval", "rerank", "tool")))
    if failed:
        return f"{failed} failed"
    tools = [node.reading for node in tree.nodes if node.reading and node.reading.role == "tool"]
    searches = [reading for reading in tools if reading.searches]
    if not searches:
        names = ", ".join(dict.fromkeys(_short_name(reading.tool_name) for reading in tools))
        hint = f"no name of its tools indicates a search ({names[:200]}): if one is, name it in ingest.retrieval_names"
        return hint if names else NO_RETRIEVAL
    name = _short_name(searches[0].tool_name)
    if not searches[0].has_output:
        switch = searches[0].switch or GENAI.switch
        return f"{name} has no result on its span: let the instrumentation capture content ({switch})"
    if searches[0].is_error:
        return f"the reply of {name} is an error"
    return f"the reply of {name} has no documents: give it a list of texts, or of objects with a text"


def _is_failed(node: Node, roles: Sequence[str]) -> bool:
    reading = node.reading
    is_search = reading is not None and (reading.role != "tool" or reading.searches)
    return reading is not None and is_search and reading.span.failed and reading.role in roles


def _first_name(nodes: Iterable[Node]) -> str | None:
    return next((_short_name(node.reading.span.name) for node in nodes if node.reading), None)


def _short_name(name: str) -> str:
    return printable(name[:60])
