"""Which spans of a trace are its retrievals, and which are the model calls that may have answered."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..shapes.replies import has_objects
from .conventions import WRITING_WORDS
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
        elif node.role == "tool" or (node.role == "other" and node.is_search):
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
        writes = any(word in name.lower() for name in node.names for word in WRITING_WORDS)
        return documents is not None and node.searches and not writes
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
