"""The way from the spans of a trace to its interactions, span by span, with the reasons."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragtide_schemas.printable import printable

from ..shapes.literals import BrokenTextError, UnreadableError
from .grouping import HIDING, SpanGroup, calls_of, groups_of, retrievals_of
from .interactions import Mapped, capture_advice, interaction_of
from .options import MappingOptions
from .reading import SEEN_CHARS, SpanReading, if_readable
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
    unused = _unused(tree, parts)
    lines = [
        ExplainedSpan(
            node.depth - 1,
            "(not among the spans)" if node.is_missing else node.span.name,
            node.span.span_id,
            "missing" if node.is_missing else node.role,
            ", ".join(parts.get(node.span.span_id) or unused.get(node) or ()),
        )
        for node in tree.nodes[1:]
    ]
    service = str(spans[0].resource.get("service.name", ""))
    mapped = [interaction_of(group, options) for group in groups]
    return ExplainedTrace(spans[0].trace_id, service, lines, mapped, "" if groups else _reason(tree))


def _parts(groups: Sequence[SpanGroup]) -> dict[str, list[str]]:
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for number, group in enumerate(groups, 1):
        parts[group.anchor.span.span_id].append(f"interaction {number}")
        for retrieval in group.retrievals:
            parts[retrieval.span.span_id].append(f"documents of interaction {number}: {_count(retrieval)}")
        answer = next((call for call in reversed(group.calls) if _has_text(call)), None)
        for call in group.calls:
            part = "answer" if call is answer else "step"
            parts[call.span.span_id].append(f"{part} of interaction {number}")
    return parts


def _count(retrieval: SpanReading) -> str:
    try:
        found = retrieval.documents
    except BrokenTextError:
        return "truncated"
    except UnreadableError:
        return "not readable"
    return "not captured" if found is None else str(len(found))


def _has_text(call: SpanReading) -> bool:
    return if_readable(lambda: call.generated is not None, True)


def _unused(tree: Tree, parts: Mapping[str, list[str]]) -> dict[Node, list[str]]:
    """Return why each retrieval and model call has no part, if it has none."""
    hiding = tree.nearest({node for node in tree.nodes if node.role in HIDING})
    calls = tree.nearest({node for node in tree.nodes if node.role == "llm"})
    outer = {calls[node.parent] for node in tree.nodes if node.role == "llm"}
    found: dict[Node, list[str]] = {}
    for node in tree.nodes:
        if node.role not in ("retrieval", "rerank", "llm"):
            continue
        around, call = hiding[node.parent], calls[node.parent]
        if node.span.failed:
            why = "it failed"
        elif around is not None:
            why = f"inside a {around.role}"
        elif node in outer:
            why = "another model call is inside it"
        elif node.role != "llm":
            why = "no model call follows"
        else:
            in_used = node.is_blank and call is not None and call.span.span_id in parts
            why = "the call around it has the texts" if in_used else "follows no retrieval"
        found[node] = [f"unused: {why}"]
    return found


def _reason(tree: Tree) -> str:
    if not retrievals_of(tree):
        return f"no span is a retrieval that succeeded: {_no_retrieval(tree)}"
    if not calls_of(tree):
        failed = _failed(tree, "llm")
        return f"no span is a model call that succeeded{f': {failed}' if failed else ''}"
    return "no model call began after a retrieval"


def _no_retrieval(tree: Tree) -> str:
    """Return the nearest cause: a failed search, one without result, an error, no documents, or no search at all."""
    failed = _failed(tree, "retrieval", "rerank", "tool")
    if failed:
        return failed
    tools = [node for node in tree.nodes if node.role == "tool"]
    search = next((tool for tool in tools if tool.searches), None)
    if search is None:
        names = ", ".join(dict.fromkeys(printable(tool.tool_name[:SEEN_CHARS]) for tool in tools))
        hint = f"no name of its tools indicates a search ({names[:200]}): if one is, name it in ingest.retrieval_names"
        return hint if names else NO_RETRIEVAL
    name = printable(search.tool_name[:SEEN_CHARS])
    if not search.has_output:
        return f"{name} has no result on its span: {capture_advice('documents', [search], tree.nodes)}"
    if search.is_error:
        return f"the reply of {name} is an error"
    why = {"truncated": "is cut", "not readable": "cannot be read"}.get(_count(search), "has no documents")
    return f"the reply of {name} {why} ({search.seen('outputs')}): give it a list of texts, or of objects with a text"


def _failed(tree: Tree, *roles: str) -> str | None:
    """Return that a span with one of the roles failed; of tools only those count that search."""
    failed = (node for node in tree.nodes if node.span.failed and node.role in roles)
    found = next((node for node in failed if node.role != "tool" or node.searches), None)
    return None if found is None else f"{found.short_name} failed"
