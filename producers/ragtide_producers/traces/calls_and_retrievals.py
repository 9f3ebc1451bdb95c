"""Which spans of a trace are its retrievals, its model calls that may have answered, and the calls of its agents."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..shapes.replies import has_objects
from .conventions import DECODERS
from .reading import if_readable
from .requests import none_in
from .tree import Node, Tree

CALLS_BELOW_MAX: Final = 8
"""Most calls inside another one with which its texts are compared, beside the last."""
HIDING: Final = ("retrieval", "rerank", "embedding", "guard")
"""Roles of spans whose model calls write no answer."""


def retrievals_of(tree: Tree) -> list[Node]:
    """Return the retrievals and rerankings that are not a part of another which has documents.

    A tool counts as a retrieval if its reply reads as documents with ids or scores, and no retrieval is below it. So
    does a step of a chain whose name indicates a search and whose output has documents, if no model call is below it.
    """
    kept: list[Node] = []
    tools: list[Node] = []
    calls: list[int] = []
    covered_until = -1
    for node in tree.nodes:
        if node in tree.lost or node.first <= covered_until:
            continue
        if node.role in ("retrieval", "rerank"):
            kept.append(node)
            if if_readable(lambda node=node: bool(node.documents), True):  # type: ignore[misc]
                covered_until = node.last
        elif node.role == "llm":
            calls.append(node.first)
        elif (node.role == "tool" and not node.is_action) or (node.role == "other" and node.is_search):
            tools.append(node)
    places = [node.first for node in kept]
    for node in reversed(tools):  # those below come first
        if none_in(places, node) and (node.role == "tool" or none_in(calls, node)) and _finds_documents(node):
            kept.append(node)
            insort(places, node.first)
    return kept


def _finds_documents(node: Node) -> bool:
    documents = if_readable(lambda: node.documents, None)
    if not documents:
        return documents is not None and node.searches and not node.writes
    return (
        node.searches
        or if_readable(lambda: has_objects(node.output), False)
        or all(document.id is not None or document.score is not None for document in documents)
    )


def calls_of(tree: Tree) -> list[Node]:
    """Return the model calls that succeeded and are no part of a retrieval, a guard or another model call.

    They are the innermost calls; for those without content the call around them that has it, if it is no agent. A call
    around others with another prompt and another reply is one of its own: spans of a batch may stand inside each other.
    """
    calls: list[Node] = []
    covered_until = -1
    for node in tree.nodes:
        if node.first <= covered_until:
            continue
        if node.role in HIDING:
            covered_until = node.last
        elif node.role == "llm" and node not in tree.lost:
            calls.append(node)
    # In the order of a walk, the node after a call with calls below it is one of these.
    inner = [call for call, after in pairwise([*calls, tree.root]) if after not in call or _differ(call, calls)]
    if not any(call.is_blank for call in inner):
        return inner
    full = [call.first for call in inner if not call.is_blank]
    around = tree.nearest({call for call in calls if not call.is_blank and not call.is_agent})
    kept: dict[Node, None] = {}
    for call in inner:
        outer = around[call] if call.is_blank else None
        # If the nearest has another call with content in it, so have those around it.
        kept[outer if outer is not None and none_in(full, outer) else call] = None
    return list(kept)


def _differ(call: Node, calls: Sequence[Node]) -> bool:
    start = bisect_right(calls, call.first, key=lambda other: other.first)
    end = bisect_right(calls, call.last, key=lambda other: other.first)
    text = None if call.is_agent else if_readable(lambda: call.generated, None)
    if not text or not call.given_texts:
        return False
    for other in [calls[place] for place in sorted({*range(start, min(start + CALLS_BELOW_MAX, end)), end - 1})]:
        said = if_readable(lambda other=other: other.generated, None) or ""  # type: ignore[misc]
        if text.startswith(said) or said.startswith(text) or other.given_texts == call.given_texts:
            return False
    return True


def tools_of(tree: Tree, calls: Sequence[Node]) -> list[Node]:
    """Return the calls of tools that an agent made, in the order of a walk.

    Of tools inside each other the outermost is the call, such as that of an MCP client around that of its server. If a
    model inside the outer tool asked for the inner one, the outer tool is another agent, and the inner call is one of
    its run. A tool that failed is a call; what an attempt did that failed as a whole is none.

    Args:
        tree: the trace.
        calls: its model calls that succeeded.
    """
    if not any(node.is_tool for node in tree.nodes):
        return []
    asked_ns: dict[Node, int] = {}
    """The first start below a node of a model call that asks for tools."""
    with_model = {node for node in tree.nodes if node.role == "llm"}
    for call in calls:
        if if_readable(lambda call=call: call.calls_tools, True) or call.is_blank:  # type: ignore[misc]
            asked_ns[call] = call.span.start_ns
    for node in reversed(tree.nodes):
        if node in with_model and node.parent is not None:
            with_model.add(node.parent)
        if node in asked_ns and node.parent is not None:
            asked_ns[node.parent] = min(asked_ns.get(node.parent, asked_ns[node]), asked_ns[node])
    kept: dict[Node, None] = {}
    around: dict[Node | None, Node | None] = {None: None}
    """The call that a node is a part of."""
    is_left_out: dict[Node | None, bool] = {None: False}
    for node in tree.nodes:
        outer = around[node.parent]
        around[node] = outer
        if node.is_tool and not node.is_control and not is_left_out[node.parent]:
            is_asked_for = outer is None or asked_ns.get(outer, node.span.start_ns) < node.span.start_ns
            if is_asked_for:
                if outer is not None:
                    kept.pop(outer, None)
                kept[node] = None
                around[node] = node
        hides = (node.role in HIDING and not node.is_tool) or node.span.name.startswith(DECODERS)
        is_left_out[node] = is_left_out[node.parent] or hides or (node.failed and node in with_model)
    return list(kept)
