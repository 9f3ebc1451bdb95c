"""The way from the spans of a trace to its interactions, span by span, with the reasons."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ragtide_runtime.settings.ingest import IngestSettings

from ..shapes.calls import ToolCall
from .calls_and_retrievals import HIDING
from .explained_content import ExplainedContent, explained_content
from .grouping import SpanGroup, groups_of
from .interactions import Mapped, interaction_of
from .nothing import number_of, why_nothing
from .reading import if_readable
from .span import Span
from .tool_calls import tool_calls_of
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
    contents: list[ExplainedContent]
    """Where the texts of each interaction are from."""
    reason: str
    """Why the trace holds no interaction; empty if it holds one."""


def explain_traces(spans: Iterable[Span], settings: IngestSettings) -> list[ExplainedTrace]:
    """Return an explanation of each trace, in the order of their first spans."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return [_explained(trace, settings) for trace in traces.values()]


def _explained(spans: Sequence[Span], settings: IngestSettings) -> ExplainedTrace:
    tree = Tree(spans, settings.retrieval_names, settings.action_names)
    groups = groups_of(tree)
    contents = [explained_content(group, settings) for group in groups]
    parts = _parts(groups, contents)
    unused = _unused(tree, parts, {tool for group in groups for tool in group.tools})
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
    mapped = [interaction_of(group, settings) for group in groups]
    reason = "" if groups else why_nothing(tree).sentence
    return ExplainedTrace(spans[0].trace_id, service, lines, mapped, contents, reason)


def _parts(groups: Sequence[SpanGroup], contents: Sequence[ExplainedContent]) -> dict[str, list[str]]:
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for number, (group, content) in enumerate(zip(groups, contents, strict=True), 1):
        parts[group.anchor.span.span_id].append(f"interaction {number}")
        left = {document.text for document in content.not_given}
        for retrieval in group.retrievals:
            part = f"documents of interaction {number}: {number_of(retrieval)}"
            own = if_readable(partial(getattr, retrieval, "documents"), None) or ()
            if gone := sum(document.text in left for document in own):
                part += f", not given {gone}"
            if retrieval.is_run:
                part += f", calls in its messages: {len(retrieval.given_calls)}"
            parts[retrieval.span.span_id].append(part)
        for place, (tool, call) in enumerate(zip(group.tools, tool_calls_of(group, content.question), strict=False), 1):
            part = f"call {place} of interaction {number} (round {call.round})"
            parts[tool.span.span_id].append(f"{part}{_outcome(tool, call)}")
        if group.asked_by is not None:
            parts[group.asked_by.span.span_id].append(f"question of interaction {number}")
        led = set(content.calls)
        for generation in group.calls:
            part = "step"
            if if_readable(partial(getattr, generation, "generated"), None) == content.response is not None:
                part = "answer"
            elif led:
                part = "led to the answer" if generation.span.span_id in led else "no part of the answer"
            parts[generation.span.span_id].append(f"{part} of interaction {number}")
    return parts


def _outcome(tool: Node, call: ToolCall) -> str:
    """Return why a call has no documents; an empty text if it has some."""
    if call.error is not None:
        return f", failed: {call.error}"
    if call.documents is not None:
        return "" if call.documents else ", found nothing"
    if tool.is_action:
        return ", no evidence by ingest.action_names"
    if tool.result is None:
        return ", without a result on its span"
    return ", answered by a model" if tool.evidence else ", whose result is no evidence"


def _unused(tree: Tree, parts: Mapping[str, list[str]], tools: Collection[Node]) -> dict[Node, list[str]]:
    called = tree.nearest(tools)
    hiding = tree.nearest({node for node in tree.nodes if node.role in HIDING})
    calls = tree.nearest({node for node in tree.nodes if node.role == "llm"})
    failed = tree.nearest({node for node in tree.nodes if node.failed})
    outer = {calls[node.parent] for node in tree.nodes if node.role == "llm"}
    holding: set[Node | None] = {node.parent for node in tree.nodes if node.role in ("retrieval", "rerank", "llm")}
    for node in reversed(tree.nodes):
        if node in holding:
            holding.add(node.parent)
    reasons: dict[Node, list[str]] = {}
    for node in tree.nodes:
        if node.role == "tool" and (node.is_control or called[node.parent] is not None):
            why = "it only steers agents" if node.is_control else "a part of the call around it"
        elif node.failed:
            why = "it failed"
        elif node.role not in ("retrieval", "rerank", "llm", "tool"):
            continue
        elif node in tree.lost and (attempt := failed[node]) is not None:
            why = f"inside {attempt.short_name}, which failed"
        elif (around := hiding[node.parent]) is not None:
            why = f"inside a {around.role}"
        elif node in outer:
            why = "another model call is inside it"
        elif node.role == "tool":
            why = "the spans inside it count" if node in holding else _why_unused(node)
        elif node.role != "llm":
            why = "no model call follows"
        else:
            call = calls[node.parent]
            in_used = node.is_blank and call is not None and call.span.span_id in parts
            why = "the call around it has the texts" if in_used else "follows no retrieval"
        reasons[node] = [f"unused: {why}"]
    return reasons


def _why_unused(tool: Node) -> str:
    number = number_of(tool)
    if tool.is_error:
        return "its reply is an error"
    if number in ("not captured", "0"):
        return "its reply has no documents"
    if number.isdecimal() and not tool.searches:
        return "its name indicates no search, and its reply has no ids or scores"
    return "no model call follows" if number.isdecimal() else f"its reply is {number}"
