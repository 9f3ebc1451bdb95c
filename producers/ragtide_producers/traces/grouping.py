"""Which spans of a trace belong to one interaction."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..shapes.literals import UnreadableError
from .reading import if_readable
from .tree import Node, Tree

HIDING: Final = ("retrieval", "rerank", "embedding", "guard")
"""Roles of spans whose model calls write no answer."""


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of one interaction."""

    anchor: Node
    """The lowest node above the retrievals and a model call that came after them."""
    retrievals: tuple[Node, ...]
    """Retrievals and rerankings by time."""
    calls: tuple[Node, ...]
    """Model calls that succeeded, by time; the last of them that has a text is the answer."""
    turn: int | None = None
    """Number of the turn, if several turns share the anchor."""


def groups_of(tree: Tree) -> list[SpanGroup]:
    """Return the interactions of a trace, by time.

    Each retrieval belongs to its lowest ancestor below which a model call that succeeded began later. Retrievals with
    the same ancestor are one interaction, so two questions below one root are two, and a trace without an answer of a
    model is none. The time is linear in the number of spans, but for a sort.
    """
    named = {node for node in tree.nodes if node.is_explicit}
    above = tree.nearest(named)
    explicit = {node for node in named if above[node.parent] is None}
    calls = calls_of(tree)
    _tell_results(tree, calls)
    _tell_parts(tree)
    anchors = _climbed(tree, _anchors(tree, explicit, calls), calls, explicit)
    nearest = tree.nearest(anchors)
    own: dict[Node, list[Node]] = {anchor: [] for anchor in anchors}
    for call in calls:
        if (anchor := nearest[call]) is not None:
            own[anchor].append(call)
    found = [
        group
        for anchor, below in anchors.items()
        for group in _turns(anchor, below, own[anchor] or [node for node in below if node.answers_itself])
    ]
    return sorted(found, key=lambda group: (group.anchor.first, group.turn or 0))


def _tell_results(tree: Tree, calls: Sequence[Node]) -> None:
    """Give the tools whose spans have no result that which the messages of a model call repeat."""
    silent = {
        call_id: node
        for node in tree.nodes
        if node.role == "tool" and not node.has_output and (call_id := node.text("call_id")) is not None
    }
    for call in calls if silent else ():
        with suppress(UnreadableError):
            for call_id, result in call.results_by_call.items():
                if call_id in silent and silent[call_id].told_result is None:
                    silent[call_id].told_result = result


def _tell_parts(tree: Tree) -> None:
    """Give each retrieval those that are right inside it: a fusion its retrievers, a retriever its reranking."""
    own = {node for node in tree.nodes if node.role in ("retrieval", "rerank") and not node.span.failed}
    nearest = tree.nearest(own)
    for node in tree.nodes:
        around = nearest[node.parent]
        if around is not None and node in own:
            around.parts.append(node)


def _anchors(tree: Tree, explicit: set[Node], calls: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return the anchors, each with the retrievals below it and the model calls that retrieved on their way."""
    anchors: dict[Node, list[Node]] = {node: [] for node in explicit}
    named, latest = tree.nearest(explicit), _latest_starts(tree, calls)
    waiting = {*retrievals_of(tree), *(call for call in calls if _retrieves(call))}
    path: list[Node] = []
    """The nodes from the root to this node; a call below each of them begins the later, the higher."""
    for node in tree.nodes:
        del path[node.depth :]
        if node in waiting:
            height = bisect_right(path, -node.span.start_ns, key=lambda above: -latest.get(above, -1))
            anchor = named[node] or (path[height - 1] if height else None)
            if named[node] is None and _ends_there(node, anchor):
                anchor = tree.telling[node.parent] or node
            if anchor is not None:
                anchors.setdefault(anchor, []).append(node)
        path.append(node)
    return anchors


def _retrieves(call: Node) -> bool:
    """Whether a model call has the documents of a service that retrieved inside the call, or indicates that it did."""
    return if_readable(lambda: call.documents is not None or call.hidden_documents is not None, False)


def _ends_there(node: Node, anchor: Node | None) -> bool:
    if node.role == "llm":
        return if_readable(lambda: node.is_final, True)
    return anchor is None and node.answers_itself


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
        if node.span.failed or node.first <= covered_until:
            continue
        if node.role in ("retrieval", "rerank"):
            kept.append(node)
            if _has_documents(node):
                covered_until = node.last
        elif node.role == "llm":
            calls.append(node.first)
        elif node.role == "tool" or (node.role == "other" and node.is_search):
            tools.append(node)
    places = [node.first for node in kept]
    for node in reversed(tools):  # those below come first
        if _none_in(places, node) and (node.role == "tool" or _none_in(calls, node)) and _finds_documents(node):
            kept.append(node)
            insort(places, node.first)
    return kept


def _has_documents(node: Node) -> bool:
    return if_readable(lambda: bool(node.documents), True)


def _none_in(places: Sequence[int], node: Node) -> bool:
    return bisect_left(places, node.first) == bisect_right(places, node.last)


def _finds_documents(node: Node) -> bool:
    """Whether the reply of a tool reads as found documents, or its name indicates a search, which may find nothing."""
    found = if_readable(lambda: node.documents, None)
    if not found:
        return found is not None and node.searches and node.only_reads
    return node.searches or all(document.id is not None or document.score is not None for document in found)


def calls_of(tree: Tree) -> list[Node]:
    """Return the model calls that succeeded and are no part of a retrieval, a guard or another model call.

    They are the innermost calls; for those without content the call around them that has it, if it is no agent.
    """
    found: list[Node] = []
    covered_until = -1
    for node in tree.nodes:
        if node.first <= covered_until:
            continue
        if node.role in HIDING:
            covered_until = node.last
        elif node.role == "llm" and not node.span.failed:
            found.append(node)
    # In the order of a walk, the node after a call with calls below it is one of these.
    inner = [call for call, after in pairwise([*found, tree.root]) if after not in call]
    if not any(call.is_blank for call in inner):
        return inner
    full = [call.first for call in inner if not call.is_blank]
    around = tree.nearest({call for call in found if not call.is_blank and not call.is_agent})
    kept: dict[Node, None] = {}
    for call in inner:
        outer = around[call] if call.is_blank else None
        # If the nearest has another call with content in it, so have those around it.
        kept[outer if outer is not None and _none_in(full, outer) else call] = None
    return list(kept)


def _latest_starts(tree: Tree, calls: Collection[Node]) -> dict[Node, int]:
    """Return for each node above a model call the latest start of a call below it."""
    latest = {call: call.span.start_ns for call in calls}
    for node in reversed(tree.nodes):
        if node in latest and node.parent is not None:
            latest[node.parent] = max(latest.get(node.parent, 0), latest[node])
    return latest


def _climbed(
    tree: Tree, anchors: dict[Node, list[Node]], calls: Sequence[Node], explicit: set[Node]
) -> dict[Node, list[Node]]:
    """Return the anchors, those moved up whose model calls only prepare the answer of a node above.

    An example is a retrieval whose documents a model grades: the answer comes from a later call, and the node above has
    the question and the answer. Another is an agent whose model calls have no texts (Semantic Kernel): its span has.
    """
    nearest = tree.nearest(anchors)
    outside = [call for call in calls if nearest[call] is None]
    speaking = {nearest[call] for call in calls if not call.is_blank}
    silent = {
        anchor
        for anchor, below in anchors.items()
        if anchor not in speaking and not any(node.answers_itself for node in below)
    }
    if not outside and not silent:
        return anchors
    latest, free = _latest_starts(tree, calls), _latest_starts(tree, outside)
    moved: dict[Node, list[Node]] = {}
    for anchor, below in anchors.items():
        place = tree.telling[anchor] if anchor not in explicit else None
        climbs = place and (anchor in silent or free.get(place, -1) > latest.get(anchor, -1))
        moved.setdefault(place if place and climbs else anchor, []).extend(below)
    return moved


def _turns(anchor: Node, retrievals: Sequence[Node], calls: Sequence[Node]) -> list[SpanGroup]:
    """Return the turns below an anchor: usually one.

    Several turns follow each other below one node that has no question and no answer of its own, such as the span of a
    session. A new turn begins with a retrieval after a call that answered, if the next call has another question.
    """
    whole = SpanGroup(anchor, _by_time(retrievals), _by_time(calls))
    if len(retrievals) < 2 or len(calls) < 2 or anchor.tells_both:
        return [whole]
    turns: list[tuple[list[Node], list[Node]]] = [([], [])]
    retrieving, calling = set(retrievals), set(calls)
    for node in sorted(dict.fromkeys((*whole.retrievals, *whole.calls)), key=lambda node: node.span.start_ns):
        if node in retrieving:
            if turns[-1][1] and turns[-1][0] and _answered(turns[-1][1][-1]):
                turns.append(([], []))
            turns[-1][0].append(node)
        if node in calling:
            turns[-1][1].append(node)
    if not turns[-1][1] or len({_asked(answers[-1]) for _, answers in turns}) < len(turns):
        return [whole]
    return [SpanGroup(anchor, tuple(found), tuple(answers), number) for number, (found, answers) in enumerate(turns)]


def _by_time(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.span.start_ns, node.span.end_ns)))


def _answered(call: Node) -> bool:
    return if_readable(lambda: call.generated is not None and not call.calls_tools, True)


def _asked(call: Node) -> str | None:
    return if_readable(lambda: call.last_question, None)
