"""The way from the spans of a trace to its interactions, span by span, with the reasons."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .grouping import HIDING, SpanGroup, groups_of
from .interactions import Mapped, interaction_of
from .nothing import number_of, why_nothing
from .options import MappingOptions
from .reading import SpanReading, if_readable
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
    return ExplainedTrace(spans[0].trace_id, service, lines, mapped, "" if groups else why_nothing(tree).sentence)


def _parts(groups: Sequence[SpanGroup]) -> dict[str, list[str]]:
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for number, group in enumerate(groups, 1):
        parts[group.anchor.span.span_id].append(f"interaction {number}")
        for retrieval in group.retrievals:
            parts[retrieval.span.span_id].append(f"documents of interaction {number}: {number_of(retrieval)}")
        answer = next((call for call in reversed(group.calls) if _has_text(call)), None)
        for call in group.calls:
            part = "answer" if call is answer else "step"
            parts[call.span.span_id].append(f"{part} of interaction {number}")
    return parts


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
