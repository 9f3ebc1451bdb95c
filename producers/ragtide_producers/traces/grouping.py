"""Which spans of a trace belong to one interaction."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..shapes.literals import UnreadableError
from .reading import SpanReading, if_readable
from .tree import Node, Tree

HIDING: Final = ("retrieval", "rerank", "embedding", "guard")
"""Roles of spans whose model calls write no answer."""


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of one interaction."""

    anchor: Node
    """The lowest node above the retrievals and a model call that came after them."""
    retrievals: tuple[SpanReading, ...]
    """Retrievals and rerankings by time."""
    calls: tuple[SpanReading, ...]
    """Model calls that succeeded, by time; the last of them that has a text is the answer."""
    turn: int | None = None
    """Number of the turn, if several turns share the anchor."""


def groups_of(tree: Tree) -> list[SpanGroup]:
    """Return the interactions of a trace, by time.

    Each retrieval belongs to its lowest ancestor below which a model call that succeeded began later. Retrievals with
    the same ancestor are one interaction, so two questions below one root are two, and a trace without an answer of a
    model is none. The time is linear in the number of spans, but for a sort.
    """
    named = {node for node in tree.nodes if node.reading and node.reading.is_explicit}
    above = nearest_of(tree, named)
    explicit = {node for node in named if node.parent is None or above[node.parent] is None}
    calls = calls_of(tree)
    _tell_results(tree, calls)
    _tell_parts(tree)
    retrievals = retrievals_of(tree)
    answering = [call for call in calls if call.reading and _answers(call.reading)]
    anchors = _anchors(tree, [*retrievals, *answering], explicit, _latest_starts(tree, calls))
    anchors = _climbed(tree, anchors, calls, explicit)
    nearest = nearest_of(tree, anchors)
    own: dict[Node, list[Node]] = {anchor: [] for anchor in anchors}
    for call in calls:
        anchor = nearest[call]
        if anchor is not None:
            own[anchor].append(call)
    for anchor, below in anchors.items():
        own[anchor] = own[anchor] or [node for node in below if node.reading and node.reading.answers_itself]
    found = [group for anchor, below in anchors.items() for group in _turns(anchor, below, own[anchor])]
    return sorted(found, key=lambda group: (group.anchor.first, group.turn or 0))


def _tell_results(tree: Tree, calls: Sequence[Node]) -> None:
    """Give the tools whose spans have no result that which the messages of a model call repeat."""
    silent = {
        call_id: node.reading
        for node in tree.nodes
        if node.reading and node.reading.role == "tool" and not node.reading.has_output
        if (call_id := node.reading.text("call_id")) is not None
    }
    for call in calls if silent else ():
        if call.reading is None:
            continue
        with suppress(UnreadableError):
            for call_id, result in call.reading.results_by_call.items():
                if call_id in silent and silent[call_id].told_result is None:
                    silent[call_id].told_result = result


def _tell_parts(tree: Tree) -> None:
    """Give each retrieval those that are right inside it: a fusion its retrievers, a retriever its reranking."""
    own = {
        node: node.reading
        for node in tree.nodes
        if node.reading and not node.reading.span.failed and node.reading.role in ("retrieval", "rerank")
    }
    nearest = nearest_of(tree, own)
    for node, reading in own.items():
        around = nearest[node.parent] if node.parent is not None else None
        if around is not None:
            own[around].parts.append(reading)


def _answers(reading: SpanReading) -> bool:
    """Whether a model call has the documents of a service that retrieved inside the call, or indicates that it did."""
    return if_readable(lambda: reading.documents is not None or reading.hidden_documents is not None, False)


def nearest_of(tree: Tree, chosen: Collection[Node]) -> dict[Node, Node | None]:
    """Return for each node the lowest of the chosen nodes that is this node or above it."""
    nearest: dict[Node, Node | None] = {}
    for node in tree.nodes:
        above = nearest[node.parent] if node.parent is not None else None
        nearest[node] = node if node in chosen else above
    return nearest


def _anchors(
    tree: Tree, retrievals: Sequence[Node], explicit: set[Node], latest: Mapping[Node, int]
) -> dict[Node, list[Node]]:
    anchors: dict[Node, list[Node]] = {node: [] for node in tree.nodes if node in explicit}
    named = nearest_of(tree, explicit)
    waiting = set(retrievals)
    telling: dict[Node, Node | None] = {}
    path: list[
        Node
    ] = []  # the nodes from the root to this node; a call below each of them begins the later, the higher
    for node in tree.nodes:
        del path[node.depth :]
        if node in waiting and node.reading is not None:
            start = node.reading.span.start_ns
            height = bisect_right(path, -start, key=lambda above: -latest.get(above, -1))
            anchor = named[node] or (path[height - 1] if height else None)
            if named[node] is None and _ends_there(node.reading, anchor):
                telling = telling or _telling(tree)
                anchor = (telling[node.parent] if node.parent else None) or node
            if anchor is not None:
                anchors.setdefault(anchor, []).append(node)
        path.append(node)
    return anchors


def _ends_there(reading: SpanReading, anchor: Node | None) -> bool:
    return reading.is_final if reading.role == "llm" else anchor is None and reading.answers_itself


def _readings(nodes: Sequence[Node]) -> tuple[SpanReading, ...]:
    readings = [node.reading for node in nodes if node.reading]
    return tuple(sorted(readings, key=lambda reading: (reading.span.start_ns, reading.span.end_ns)))


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
        reading = node.reading
        if reading is None or reading.span.failed or node.first <= covered_until:
            continue
        if reading.role in ("retrieval", "rerank"):
            kept.append(node)
            if _has_documents(reading):
                covered_until = node.last
        elif reading.role == "llm":
            calls.append(node.first)
        elif reading.role == "tool" or (reading.role == "other" and reading.is_search):
            tools.append(node)
    places = [node.first for node in kept]
    for node in reversed(tools):  # those below come first
        is_tool = node.reading is not None and node.reading.role == "tool"
        if _none_in(places, node) and (is_tool or _none_in(calls, node)) and _finds_documents(node):
            kept.append(node)
            insort(places, node.first)
    return kept


def _none_in(places: Sequence[int], node: Node) -> bool:
    return bisect_left(places, node.first) == bisect_right(places, node.last)


def _has_documents(reading: SpanReading) -> bool:
    return if_readable(lambda: bool(reading.documents), True)


def _finds_documents(node: Node) -> bool:
    """Whether the reply of a tool reads as found documents, or its name indicates a search, which may find nothing."""
    found = if_readable(lambda: node.reading.documents if node.reading else None, None)
    if found is None or not node.reading:
        return False
    if not found:
        return node.reading.searches and node.reading.only_reads
    return node.reading.searches or all(document.id is not None or document.score is not None for document in found)


def calls_of(tree: Tree) -> list[Node]:
    """Return the model calls that succeeded and are no part of a retrieval, a guard or another model call."""
    found: list[Node] = []
    covered_until = -1
    for node in tree.nodes:
        if node.reading is None or node.first <= covered_until:
            continue
        role = node.reading.role
        if role in HIDING:
            covered_until = node.last
        elif role == "llm" and not node.reading.span.failed:
            found.append(node)
    # In the order of a walk, the node after a call with calls below it is one of these.
    inner = [call for call, after in pairwise([*found, tree.root]) if after not in call]
    return _with_content(tree, found, inner)


def _with_content(tree: Tree, found: Sequence[Node], inner: Sequence[Node]) -> list[Node]:
    """Return the innermost calls; for those without content the call around them that has it, if it is no agent."""
    blank = {call for call in inner if call.reading and call.reading.is_blank}
    if not blank:
        return list(inner)
    full = [call.first for call in inner if call not in blank]
    around = nearest_of(
        tree, {call for call in found if call.reading and not call.reading.is_blank and not call.reading.is_agent}
    )
    kept: dict[Node, None] = {}
    for call in inner:
        outer = around[call] if call in blank else None
        # If the nearest has another call with content in it, so have those around it.
        kept[outer if outer is not None and _none_in(full, outer) else call] = None
    return list(kept)


def _latest_starts(tree: Tree, calls: Sequence[Node]) -> dict[Node, int]:
    """Return for each node above a model call the latest start of a call below it."""
    latest: dict[Node, int] = {}
    for call in calls:
        if call.reading is not None:
            latest[call] = call.reading.span.start_ns
    for node in reversed(tree.nodes):
        if node in latest and node.parent is not None:
            latest[node.parent] = max(latest.get(node.parent, 0), latest[node])
    return latest


def _climbed(
    tree: Tree, anchors: Mapping[Node, list[Node]], calls: Sequence[Node], explicit: set[Node]
) -> dict[Node, list[Node]]:
    """Return the anchors, those moved up whose model calls only prepare the answer of a node above.

    An example is a retrieval whose documents a model grades: the answer comes from a later call, and the node above has
    the question and the answer. Another is an agent whose model calls have no texts (Semantic Kernel): its span has.
    """
    nearest = nearest_of(tree, anchors)
    outside = [call for call in calls if nearest[call] is None]
    speaking = {nearest[call] for call in calls if call.reading and not call.reading.is_blank}
    silent = {anchor for anchor, below in anchors.items() if anchor not in speaking and not _answered_by(below)}
    if not outside and not silent:
        return dict(anchors)
    latest, free = _latest_starts(tree, calls), _latest_starts(tree, outside)
    telling = _telling(tree)
    moved: dict[Node, list[Node]] = {}
    for anchor, below in anchors.items():
        place = telling[anchor]
        stays = anchor not in silent and (place is None or free.get(place, -1) <= latest.get(anchor, -1))
        moved.setdefault(anchor if stays or place is None or anchor in explicit else place, []).extend(below)
    return moved


def _answered_by(retrievals: Sequence[Node]) -> bool:
    return any(node.reading and node.reading.answers_itself for node in retrievals)


def _telling(tree: Tree) -> dict[Node, Node | None]:
    return nearest_of(tree, {node for node in tree.nodes if _tells_both(node)})


def _tells_both(node: Node) -> bool:
    return node.reading is not None and node.reading.tells_both


def _turns(anchor: Node, retrievals: Sequence[Node], calls: Sequence[Node]) -> list[SpanGroup]:
    """Return the turns below an anchor: usually one.

    Several turns follow each other below one node that has no question and no answer of its own, such as the span of a
    session. A new turn begins with a retrieval after a call that answered, if the next call has another question.
    """
    whole = SpanGroup(anchor, _readings(retrievals), _readings(calls))
    if len(retrievals) < 2 or len(calls) < 2 or _tells_both(anchor):
        return [whole]
    turns: list[tuple[list[SpanReading], list[SpanReading]]] = [([], [])]
    retrieving, calling = set(map(id, whole.retrievals)), set(map(id, whole.calls))
    steps = {id(reading): reading for reading in (*whole.retrievals, *whole.calls)}
    for reading in sorted(steps.values(), key=lambda reading: reading.span.start_ns):
        if id(reading) in retrieving:
            if turns[-1][1] and turns[-1][0] and _answered(turns[-1][1][-1]):
                turns.append(([], []))
            turns[-1][0].append(reading)
        if id(reading) in calling:
            turns[-1][1].append(reading)
    if not turns[-1][1] or len({_asked(answers[-1]) for _, answers in turns}) < len(turns):
        return [whole]
    return [SpanGroup(anchor, tuple(found), tuple(answers), number) for number, (found, answers) in enumerate(turns)]


def _answered(reading: SpanReading) -> bool:
    return if_readable(lambda: reading.generated is not None and not reading.calls_tools, True)


def _asked(reading: SpanReading) -> str | None:
    return if_readable(lambda: reading.last_question, None)
