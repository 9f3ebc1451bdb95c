"""The calls of the tools of a run: their rounds by time, what they were asked, what they returned, how they failed."""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Final

from ragtide_schemas.limits import LATENCY_MAX_S
from ragtide_schemas.retrieval_steps import step_name

from ..shapes.calls import ToolCall, error_kind
from ..shapes.documents import Found
from .asked_calls import AskedCalls, own_arguments
from .content import join_retrievals, may_hide_documents
from .conventions import HAYSTACK_NAME
from .grouping import SpanGroup
from .reading import if_readable
from .requests import inside
from .tree import Node

_VARYING: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4,}", re.IGNORECASE)
"""Parts of a name that differ from trace to trace: each would be a step of its own."""


def name_of(node: Node, otherwise: str) -> str:
    """Return the name of the step of a retrieval or of a tool.

    Args:
        node: the span.
        otherwise: the name if nothing of that of the span may be in the name of a step.
    """
    given = node.called_name if node.is_tool else node.tool_name
    name = node.own.get("step") or node.span.attributes.get(HAYSTACK_NAME) or given
    return step_name(_VARYING.sub(" ", str(name)[:400])) or otherwise


def tool_calls_of(group: SpanGroup, question: str | None) -> list[ToolCall]:
    """Return the calls of the tools of a group of spans in its order, with their rounds.

    Args:
        group: the spans of an interaction.
        question: its question.
    """
    if not group.tools:
        shown = next((call for call in reversed(group.calls) if call.is_run), None)
        return [] if shown is None else shown.given_calls
    asked = AskedCalls(group.calls)
    rounds = _rounds(group.tools, asked)
    retrievals = sorted(group.retrievals, key=attrgetter("first"))
    may_hide = cache(partial(may_hide_documents, group, question))
    calls: list[ToolCall] = []
    for tool in group.tools:
        error = error_kind(tool.call_errors) if tool.call_errors else None
        arguments = own_arguments(tool)
        call_id = tool.text("call_id")
        found = inside(tool, retrievals)
        calls.append(
            ToolCall(
                name_of(tool, "tool"),
                asked.arguments_of(tool) if arguments is None else arguments,
                call_id,
                rounds[tool],
                error=error,
                latency_s=min(max(0.0, (tool.span.end_ns - tool.span.start_ns) / 1e9), LATENCY_MAX_S),
                documents=None if error is not None else _documents_of(tool, found, may_hide),
            )
        )
    return calls


def _documents_of(tool: Node, retrievals: Sequence[Node], may_hide: Callable[[], bool]) -> Sequence[Found] | None:
    if tool.is_action:
        return None
    if not retrievals:
        is_known = tool.has_output or tool.repeated_result is not None
        return [] if is_known and tool.evidence == [] else None
    joined, is_unknown = if_readable(lambda: join_retrievals(retrievals, may_hide), ([], True))
    return None if is_unknown and not joined else joined


def _rounds(tools: Sequence[Node], asked: AskedCalls) -> dict[Node, int]:
    """Return the rounds of calls: a call is of the round after the last one that had ended when it was asked for."""
    asked_ns = {tool: asked.time_of(tool) for tool in tools}
    by_end = sorted(tools, key=lambda tool: tool.span.end_ns)
    rounds: dict[Node, int] = {}
    last = ended = 0
    for tool in sorted(tools, key=lambda tool: (asked_ns[tool], tool.span.start_ns)):
        while ended < len(by_end) and by_end[ended].span.end_ns <= asked_ns[tool] and by_end[ended] in rounds:
            last = max(last, rounds[by_end[ended]])
            ended += 1
        rounds[tool] = last + 1
    return rounds
