"""Which spans of a trace belong to one interaction."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .reading import SpanReading, TruncatedError
from .tree import Node, Tree


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
    explicit = _highest([node for node in tree.nodes if node.reading and node.reading.is_explicit])
    calls = _calls(tree)
    anchors = _anchors(tree, _retrievals(tree), explicit, _latest_starts(tree, calls))
    anchors = _climbed(tree, anchors, calls, explicit)
    nearest = _nearest(tree, anchors)
    calls_of: dict[Node, list[Node]] = {anchor: [] for anchor in anchors}
    for call in calls:
        anchor = nearest[call]
        if anchor is not None:
            calls_of[anchor].append(call)
    found = [group for anchor, below in anchors.items() for group in _turns(anchor, below, calls_of[anchor])]
    return sorted(found, key=lambda group: (group.anchor.first, group.turn or 0))


def _highest(nodes: Sequence[Node]) -> set[Node]:
    """Return those of the nodes, given in the order of a walk, that are below no other of them."""
    kept: set[Node] = set()
    covered_until = -1
    for node in nodes:
        if node.first > covered_until:
            kept.add(node)
            covered_until = node.last
    return kept


def _nearest(tree: Tree, chosen: Collection[Node]) -> dict[Node, Node | None]:
    """Return for each node the lowest of the chosen nodes that is this node or above it."""
    nearest: dict[Node, Node | None] = {}
    for node in tree.nodes:
        above = nearest[node.parent] if node.parent is not None else None
        nearest[node] = node if node in chosen else above
    return nearest


def _anchors(
    tree: Tree, retrievals: Sequence[Node], explicit: set[Node], latest: Mapping[Node, int]
) -> dict[Node, list[Node]]:
    """Return the retrievals by their anchors."""
    anchors: dict[Node, list[Node]] = {node: [] for node in tree.nodes if node in explicit}
    named = _nearest(tree, explicit)
    waiting = set(retrievals)
    path: list[
        Node
    ] = []  # the nodes from the root to this node; a call below each of them begins the later, the higher
    for node in tree.nodes:
        del path[node.depth :]
        if node in waiting and node.reading is not None:
            start = node.reading.span.start_ns
            height = bisect_right(path, -start, key=lambda above: -latest.get(above, -1))
            anchor = named[node] or (path[height - 1] if height else None)
            if anchor is not None:
                anchors.setdefault(anchor, []).append(node)
        path.append(node)
    return anchors


def _readings(nodes: Sequence[Node]) -> tuple[SpanReading, ...]:
    readings = [node.reading for node in nodes if node.reading]
    return tuple(sorted(readings, key=lambda reading: (reading.span.start_ns, reading.span.end_ns)))


def _retrievals(tree: Tree) -> list[Node]:
    """Return the retrievals and rerankings that are not a part of another which has documents.

    A tool counts as a retrieval if its reply reads as documents with ids or scores, and no retrieval is below it. So
    does a step of a chain whose name tells a search and whose output has documents, if no model call is below it.
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
    """Whether none of the places, which rise, is at or below a node."""
    return bisect_left(places, node.first) == bisect_right(places, node.last)


def _has_documents(reading: SpanReading) -> bool:
    try:
        return bool(reading.documents)
    except TruncatedError:
        return True


def _finds_documents(node: Node) -> bool:
    """Whether the reply of a tool reads as found documents, or its name tells a search."""
    try:
        found = node.reading.documents if node.reading else None
    except TruncatedError:
        return False
    if not found or not node.reading:
        return False
    return node.reading.searches or all(document.id is not None or document.score is not None for document in found)


def _calls(tree: Tree) -> list[Node]:
    """Return the model calls that succeeded and are no part of a retrieval, a guard or another model call."""
    found: list[Node] = []
    covered_until = -1
    for node in tree.nodes:
        if node.reading is None or node.first <= covered_until:
            continue
        role = node.reading.role
        if role in ("retrieval", "rerank", "embedding", "guard"):
            covered_until = node.last
        elif role == "llm" and not node.reading.span.failed:
            found.append(node)
    # In the order of a walk, the node after a call with calls below it is one of these.
    return [call for call, after in pairwise([*found, tree.root]) if after not in call]


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
    the question and the answer.
    """
    nearest = _nearest(tree, anchors)
    outside = [call for call in calls if nearest[call] is None]
    if not outside:
        return dict(anchors)
    latest, free = _latest_starts(tree, calls), _latest_starts(tree, outside)
    telling = _nearest(tree, {node for node in tree.nodes if _tells_both(node)})
    moved: dict[Node, list[Node]] = {}
    for anchor, below in anchors.items():
        place = telling[anchor]
        stays = anchor in explicit or place is None or free.get(place, -1) <= latest.get(anchor, -1)
        moved.setdefault(anchor if stays or place is None else place, []).extend(below)
    return moved


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
    steps = sorted(
        [(reading.span.start_ns, reading) for reading in (*whole.retrievals, *whole.calls)], key=lambda step: step[0]
    )
    for _, reading in steps:
        found, answers = turns[-1]
        if reading.role == "llm":
            answers.append(reading)
        elif answers and found and _answered(answers[-1]):
            turns.append(([reading], []))
        else:
            found.append(reading)
    if not turns[-1][1] or len({_asked(answers[-1]) for _, answers in turns}) < len(turns):
        return [whole]
    return [SpanGroup(anchor, tuple(found), tuple(answers), number) for number, (found, answers) in enumerate(turns)]


def _answered(reading: SpanReading) -> bool:
    try:
        return reading.generated is not None and not reading.calls_tools
    except TruncatedError:
        return True


def _asked(reading: SpanReading) -> str | None:
    try:
        return reading.last_question
    except TruncatedError:
        return None
