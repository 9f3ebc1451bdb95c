"""Which spans of a trace belong to one interaction."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice, takewhile
from operator import attrgetter
from typing import Any, Final

from ragtide_schemas.retrieval_steps import step_name

from ..shapes.literals import UnreadableError
from .asked_calls import AskedCalls, in_asked_order
from .attributes import first
from .calls_and_retrievals import HIDING, calls_of, retrievals_of, tools_of
from .conventions import AGENT_NAMES
from .reading import if_readable, plain_text
from .requests import inside, is_request, none_in, nothing_was_given, repeats_documents, stands_in
from .tree import ABOVE_MAX, Node, Tree

CALLS_BEFORE: Final = 16
"""Model calls before a tool that may have asked for it."""
LATER_CALLS_MAX: Final = 16
"""Most calls of other agents that are known to have been given one answer."""
CALLS_AT_ONCE_MAX: Final = 64
"""Most calls of one tool whose results one model call is given."""
AT_ONCE_MAX: Final = 16
"""Most agents that worked at once, and whose answers a later agent may have been given."""
TURNS_MAX: Final = 16
"""Turns whose queries are looked up among the texts that a model wrote before them."""
STEP_SEARCHES_MAX: Final = 64
"""Retrievals of a step that its output is compared with: spans of a batch may stand inside each other."""
REFUSED_MAX: Final = 16
"""Spans above each other that are looked at until one is a request: else a deep chain would take a square of its
length."""


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of one interaction."""

    anchor: Node
    """The span of the request; without one, the lowest above the retrievals and a model call that came after them."""
    retrievals: tuple[Node, ...]
    """Retrievals and rerankings by time; those in tools that one reply of a model asked for in the order of these."""
    calls: tuple[Node, ...]
    """Model calls that succeeded, by time; the last of them that has a text is the answer. Empty if no document was
    left to ask a model about."""
    turn: int | None = None
    """Number of the turn, if several turns share the anchor."""
    later: tuple[Node, ...] = ()
    """Model calls of other agents that were given the answer: which text the user saw may be one of theirs."""
    has_texts: bool = True
    """Whether the texts of the anchor may be the question and the answer: not if the spans below show others."""
    asked_by: Node | None = None
    """The model call that asked for the tool at the anchor, whose result was the answer: it has the user's question."""
    tools: tuple[Node, ...] = ()
    """Calls of tools that agents of the run made, also those that failed: by time, but those that one reply of a model
    asked for in its order, because they may have run at once."""

    @property
    def is_run(self) -> bool:
        """Whether an agent called tools, whose spans or messages are known."""
        return bool(self.tools) or any(node.is_run for node in self.retrievals)


def groups_of(tree: Tree) -> list[SpanGroup]:
    """Return the interactions of a trace, by time.

    The anchor of a retrieval is the request above it: the highest span of its process that has a question and the
    answer which a model wrote after the retrieval. Without a request it is the lowest span below which a model call of
    no request began later. If no model was asked after retrievals that found nothing, their anchor is the highest span
    that has a question and an answer. What failed is not used, but for calls of tools: a search that failed counts as
    one without documents. The time is linear in the number of spans, but for a sort.
    """
    calls = calls_of(tree)
    tools = tools_of(tree, calls)
    _assign_results(tree, calls)
    _assign_results_by_name(tools, calls)
    _assign_parts(tree)
    failed_searches = {tool for tool in tools if tool.is_failed_search}
    searches = {*retrievals_of(tree), *(call for call in calls if _retrieves(call)), *failed_searches}
    if not searches and not any(node.is_tool for node in tree.nodes):
        searches = _runs_in_messages(calls)
    if not searches and not any(node.is_explicit for node in tree.nodes):
        return []
    retrievals = [node for node in tree.nodes if node in searches]
    asked = _asked_tools(tree, calls)
    requests = _requests(tree, retrievals, calls, asked)
    anchors = _anchors(tree, retrievals, calls, requests, asked)
    nearest, failed = tree.nearest({*anchors, *requests}), tree.nearest(tree.lost)
    own: dict[Node, list[Node]] = {anchor: [] for anchor in anchors}
    for call in calls:
        if (anchor := nearest[call]) in own and not _failed_below(anchor, failed[call]):
            own[anchor].append(call)
    groups = [
        group
        for anchor, below in anchors.items()
        for group in _turns(
            anchor,
            below,
            own[anchor] or [node for node in below if node.answers_itself],
            is_one=anchor in requests,
        )
    ]
    free = [call for call in calls if nearest[call] is None]
    by_time = _sort_by_time(free)
    groups = [replace(group, asked_by=_asking_call(group.anchor, by_time)) for group in _add_later_calls(groups, free)]
    groups += _unanswered(tree, [node for node in retrievals if nearest[node] is None], calls)
    groups = _add_tools(tree, groups, requests, tools, failed_searches)
    return sorted(groups, key=lambda group: (group.anchor.first, group.turn or 0))


def _add_tools(
    tree: Tree,
    groups: Sequence[SpanGroup],
    requests: Collection[Node],
    tools: Sequence[Node],
    failed_searches: Collection[Node],
) -> list[SpanGroup]:
    if not tools:
        return list(groups)
    nearest = tree.nearest({*requests, *(group.anchor for group in groups)})
    own: dict[Node | None, list[Node]] = {}
    for tool in tools:
        own.setdefault(nearest[tool], []).append(tool)
    by_anchor: dict[Node, list[SpanGroup]] = {}
    for group in groups:
        by_anchor.setdefault(group.anchor, []).append(group)
    complete: list[SpanGroup] = []
    for anchor, turns in by_anchor.items():
        starts = [min((node.span.start_ns for node in (*turn.retrievals, *turn.calls)), default=0) for turn in turns]
        by_turn: list[list[Node]] = [[] for _ in turns]
        for tool in _sort_by_time(own.get(anchor, ())):
            # A retrieval with which a turn starts may be inside the tool.
            by_turn[max(0, bisect_right(starts, tool.span.end_ns) - 1)].append(tool)
        complete += [
            _in_asked_order(_with_evidence(*pair, failed_searches)) for pair in zip(turns, by_turn, strict=True)
        ]
    return complete


def _with_evidence(group: SpanGroup, tools: Sequence[Node], failed_searches: Collection[Node]) -> SpanGroup:
    """Return the group with calls of tools, and with those among its retrievals whose results are evidence."""
    retrievals = [node for node in group.retrievals if node not in failed_searches]
    working = sorted(node.first for node in (*retrievals, *group.calls))
    for tool in tools:
        if none_in(working, tool) and tool.evidence:
            tool.documents, tool.is_beside = tool.evidence, True
            retrievals.append(tool)
    return replace(group, retrievals=_sort_by_time(retrievals), tools=tuple(tools))


def _in_asked_order(group: SpanGroup) -> SpanGroup:
    places = AskedCalls(group.calls).places_of(group.tools) if len(group.tools) > 1 else {}
    by_place = sorted(group.retrievals, key=attrgetter("first")) if places else []
    of_retrievals = {node: place for tool, place in places.items() for node in inside(tool, by_place)}
    return replace(
        group,
        retrievals=in_asked_order(group.retrievals, of_retrievals),
        tools=in_asked_order(group.tools, places),
    )


def _asking_call(anchor: Node, calls: Sequence[Node]) -> Node | None:
    query = if_readable(lambda: anchor.query, None) if anchor.role == "tool" else None
    if not query:
        return None

    def gives_query(call: Node) -> bool:
        return if_readable(lambda: call.calls_tools and any(query in text for text in call.called_with), False)

    last = bisect_left(calls, anchor.span.start_ns, key=lambda call: call.span.start_ns)
    return next(filter(gives_query, reversed(calls[max(0, last - CALLS_BEFORE) : last])), None)


def _assign_results(tree: Tree, calls: Sequence[Node]) -> None:
    silent: dict[str, list[Node]] = {}
    for node in tree.nodes:
        if node.role == "tool" and not node.has_output and (call_id := node.text("call_id")) is not None:
            silent.setdefault(call_id, []).append(node)
    for call in calls if silent else ():
        with suppress(UnreadableError):
            for call_id, result in call.results_by_call.items():
                # Of several calls with one id the last messages say which has which result.
                if len(nodes := silent.get(call_id, [])) == 1 and nodes[0].repeated_result is None:
                    nodes[0].repeated_result = result


def _assign_results_by_name(tools: Sequence[Node], calls: Sequence[Node]) -> None:
    """Give tools that have no result yet (a client of MCP) what the next model call was given for their names."""
    waiting: dict[str | None, list[Node]] = {}
    for tool in sorted(tools, key=lambda tool: tool.span.end_ns):
        if all(part.result is None for part in tool.tool_parts):
            waiting.setdefault(step_name(tool.called_name), []).append(tool)
    for call in _sort_by_time(calls) if waiting else ():
        results: dict[str | None, list[Any]] = {}
        for name, result in if_readable(partial(getattr, call, "last_results"), []):
            results.setdefault(step_name(name), []).append(result)
        for name, given in results.items():
            open_tools = waiting.get(name, [])
            count = bisect_right(open_tools, call.span.start_ns, key=lambda tool: tool.span.end_ns)
            ended = open_tools[max(0, count - CALLS_AT_ONCE_MAX) : count]
            own = ended if len(ended) == len(given) else [tool for tool in ended if tool.parent is call.parent]
            if len(own) == len(given):
                for tool, result in zip(_sort_by_time(own), given, strict=True):
                    tool.repeated_result = result
                open_tools[:count] = [tool for tool in ended if tool.repeated_result is None]


def _assign_parts(tree: Tree) -> None:
    own = {node for node in tree.nodes if node.role in ("retrieval", "rerank") and node not in tree.lost}
    nearest = tree.nearest(own)
    for node in tree.nodes:
        around = nearest[node.parent]
        if around is not None and node in own:
            around.parts.append(node)


def _requests(tree: Tree, retrievals: Sequence[Node], calls: Sequence[Node], asked: Collection[Node]) -> set[Node]:
    named = {node for node in tree.nodes if node.is_explicit}
    above = tree.nearest(named)
    explicit = {node for node in named if above[node.parent] is None}
    latest = _starts(tree, [*calls, *(node for node in retrievals if node.answers_itself)], max)
    earliest = _starts(tree, retrievals, min)

    def answers(node: Node) -> bool:
        is_answered = node in earliest and latest.get(node, -1) >= earliest[node] and node not in marked
        return is_answered and (node.has_question if node.failed else node.has_question_and_answer)

    def asks(node: Node) -> bool:
        return node in earliest and latest.get(node, -1) >= earliest[node] and node not in around and node.has_question

    @cache
    def fits(node: Node) -> bool:
        return is_request(tree, node, inside(node, retrievals), inside(node, calls))

    marked = _starts(tree, explicit, min)
    requests = explicit | _highest(tree, {*explicit, *asked}, answers, fits)
    around = _starts(tree, requests, min)
    return requests | _highest(tree, {*requests, *asked}, asks, fits)


def _highest(
    tree: Tree, taken: Collection[Node], has_texts: Callable[[Node], bool], fits: Callable[[Node], bool]
) -> set[Node]:
    # What begins after the end of a span is no part of its answer, so it may be a request of its own.
    highest: set[Node] = set()
    covering: dict[Node | None, Node | None] = {None: None}
    refused: dict[Node | None, int] = {None: 0}
    for node in tree.nodes:
        above = covering[node.parent]
        is_below = above is not None and not node.span.parent_is_remote and node.span.start_ns <= above.span.end_ns
        covering[node] = node if node in taken else above if is_below else None
        refused[node] = refused[node.parent]
        may_ask = node.is_of_application or node.role == "tool"
        if covering[node] is not None or not may_ask or refused[node] > REFUSED_MAX or not has_texts(node):
            continue
        if fits(node):
            highest.add(node)
            covering[node] = node
        else:
            refused[node] += 1
    return highest


def _asked_tools(tree: Tree, calls: Sequence[Node]) -> dict[Node, Node | None]:
    process: dict[Node | None, Node | None] = {None: None}
    tools = tree.nearest({node for node in tree.nodes if node.role == "tool"})
    for node in tree.nodes:
        process[node] = node if node.parent is None or node.span.parent_is_remote else process[node.parent]
    free: dict[Node | None, list[Node]] = {}
    for call in sorted(calls, key=lambda call: call.span.start_ns):
        if tools[call] is None:
            free.setdefault(process[call], []).append(call)
    by_tool: dict[Node, Node | None] = {}
    for tool in (node for node in tree.nodes if tools[node] is node):
        beside = free.get(process[tool], [])
        place = bisect_left(beside, tool.span.start_ns, key=lambda call: call.span.start_ns)
        asking = (
            beside[place - 1]
            if place and if_readable(partial(getattr, beside[place - 1], "calls_tools"), False)
            else None
        )
        if asking is not None or place < len(beside):
            by_tool[tool] = asking
    return by_tool


def _anchors(
    tree: Tree,
    retrievals: Sequence[Node],
    calls: Sequence[Node],
    requests: Collection[Node],
    asked: Mapping[Node, Node | None],
) -> dict[Node, list[Node]]:
    anchors: dict[Node, list[Node]] = {node: [] for node in requests if node.is_explicit}
    request, failed = tree.nearest(requests), tree.nearest(tree.lost)
    tools = _top_tools(tree)
    free = [call for call in calls if request[call] is None]
    latest = _starts(tree, free, max)
    beside = _starts(tree, [call for call in free if tools[call] is None], max)
    answered = {node: node.span.start_ns for node in retrievals if node.answers_itself}
    for call in calls:
        if (anchor := request[call]) is not None:
            answered[anchor] = max(answered.get(anchor, -1), call.span.start_ns)
    waiting, is_step = set(retrievals), dict[Node, bool]()
    replying = [call.first for call in calls if call.replied_texts]
    path: list[Node] = []
    """The nodes from the root to this node; a call below each of them begins the later, the higher."""
    for node in tree.nodes:
        del path[node.depth :]
        if node in waiting:
            anchor = request[node]
            if anchor is None:
                tool = tools[node.parent]
                start_ns = node.span.start_ns
                anchor = _lowest(path, beside, start_ns, tool.depth) if tool is not None else None
                anchor = anchor or _lowest(path, latest, start_ns)
                if tool is not None and anchor is not None and anchor in tool and asked.get(tool) is not None:
                    # What the tool wrote is the answer to the question of the call that asked for it.
                    anchor = next(
                        (
                            above
                            for above in reversed(path[max(0, tool.depth - ABOVE_MAX) : tool.depth])
                            if (asking := asked[tool]) is not None and asking in above
                        ),
                        anchor,
                    )
                if anchor is not None and _is_step(anchor, retrievals, replying, is_step):
                    anchor = _lowest(path, latest, anchor.span.end_ns, anchor.depth) or anchor
                anchor = node if _ends_there(node, anchor) else anchor
            elif not anchor.is_explicit and answered.get(anchor, -1) < node.span.start_ns and not node.answers_itself:
                anchor = None
            if anchor is not None and (not _failed_below(anchor, failed[node]) or node.is_failed_search):
                anchors.setdefault(anchor, []).append(node)
        path.append(node)
    return anchors


def _lowest(path: Sequence[Node], latest: Mapping[Node, int], start_ns: int, depth: int | None = None) -> Node | None:
    height = bisect_right(path, -start_ns, hi=depth, key=lambda above: -latest.get(above, -1))
    return path[height - 1] if height else None


def _is_step(anchor: Node, retrievals: Sequence[Node], replying: Sequence[int], known: dict[Node, bool]) -> bool:
    if anchor not in known:
        is_shown = anchor.has_question_and_answer and not none_in(replying, anchor)
        known[anchor] = is_shown and repeats_documents(
            anchor.plain_answer, inside(anchor, retrievals, STEP_SEARCHES_MAX)
        )
    return known[anchor]


def _top_tools(tree: Tree) -> dict[Node | None, Node | None]:
    tools: dict[Node | None, Node | None] = {None: None}
    for node in tree.nodes:
        tools[node] = tools[node.parent] or (node if node.role == "tool" else None)
    return tools


def _failed_below(anchor: Node, failed: Node | None) -> bool:
    return failed is not None and failed in anchor


def _unanswered(tree: Tree, retrievals: Sequence[Node], calls: Sequence[Node]) -> list[SpanGroup]:
    if not retrievals:
        return []
    hiding = tree.nearest({node for node in tree.nodes if node.role in HIDING})
    models = [node for node in tree.nodes if node.role == "llm" and not node.is_agent and hiding[node] is None]
    latest, earliest = _starts(tree, models, max), _starts(tree, retrievals, min)

    def has_texts(node: Node) -> bool:
        return (
            node in earliest
            and latest.get(node, -1) < earliest[node]
            and not node.failed
            and node.has_question_and_answer
        )

    def fits(node: Node) -> bool:
        below = inside(node, retrievals)
        return is_request(tree, node, below, inside(node, calls)) and nothing_was_given(tree, node, below)

    anchors = _highest(tree, (), has_texts, fits)
    return [SpanGroup(node, _sort_by_time(inside(node, retrievals)), ()) for node in tree.nodes if node in anchors]


def _retrieves(call: Node) -> bool:
    return if_readable(lambda: call.documents is not None or call.hidden_documents is not None, False)


def _runs_in_messages(calls: Sequence[Node]) -> set[Node]:
    """Return the model calls whose messages have the calls of a run, where no tool has a span."""
    shown = {call for call in calls if call.shows_searches}
    for call in shown:
        call.is_run = True
        call.documents = [document for given in call.given_calls for document in given.documents or ()]
    return shown


def _ends_there(node: Node, anchor: Node | None) -> bool:
    if node.role == "llm":
        return if_readable(lambda: node.is_final, True)
    return anchor is None and node.answers_itself


def _starts(tree: Tree, nodes: Iterable[Node], choose: Callable[[int, int], int]) -> dict[Node, int]:
    starts = {node: node.span.start_ns for node in nodes}
    for node in reversed(tree.nodes):
        if node in starts and node.parent is not None:
            starts[node.parent] = choose(starts.get(node.parent, starts[node]), starts[node])
    return starts


def _turns(anchor: Node, retrievals: Sequence[Node], calls: Sequence[Node], *, is_one: bool) -> list[SpanGroup]:
    whole = SpanGroup(
        anchor, _sort_by_time(retrievals), _sort_by_time(calls), has_texts=is_one or not anchor.has_question_and_answer
    )
    if len(retrievals) < 2 or len(calls) < 2 or is_one:
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
    if not turns[-1][1] or len({answers[-1].last_asked for _, answers in turns}) < len(turns):
        return [whole]
    first_ns = whole.retrievals[0].span.start_ns
    planned = [text for call in whole.calls if call.span.start_ns < first_ns for text in call.replied_texts]
    queries = (plain_text(if_readable(partial(getattr, nodes[0], "query"), None) or "") for nodes, _ in turns[1:])
    if planned and any(stands_in(query, text) for query in islice(queries, TURNS_MAX) for text in planned):
        return [whole]
    return [SpanGroup(anchor, tuple(nodes), tuple(answers), number) for number, (nodes, answers) in enumerate(turns)]


def _add_later_calls(groups: Sequence[SpanGroup], calls: Sequence[Node]) -> list[SpanGroup]:
    continued = list(groups)
    answered = [
        (max(call.span.start_ns for call in group.calls), place)
        for place, group in enumerate(continued)
        if group.turn is None and group.calls
    ]
    answered.sort(reverse=True)
    latest: dict[Node, list[int]] = {}
    """The places of the latest groups below each highest span; several if they worked at once."""
    said: dict[int, str] = {}
    """The answers of groups, in plain form."""
    for call in _sort_by_time(calls):
        while answered and answered[-1][0] < call.span.start_ns:
            place = answered.pop()[1]
            group = continued[place]
            begun_ns = min(node.span.start_ns for node in (*group.retrievals, *group.calls))
            before = latest.get(group.anchor.top, [])
            at_once = [other for other in before if continued[other].calls[-1].span.end_ns > begun_ns]
            latest[group.anchor.top] = [*at_once, place][-AT_ONCE_MAX:]
        for number in latest.get(call.top, ()):
            group = continued[number]
            if len(group.later) >= LATER_CALLS_MAX:
                continue
            around = next((above for above in group.anchor.upwards() if call in above), None)
            if around is None or around.has_question:
                continue
            agents = [_agent_name(node, around) for node in (group.calls[-1], call)]
            if None in agents or agents[0] == agents[1]:
                continue
            if number not in said:
                texts = (if_readable(partial(getattr, node, "generated"), None) for node in reversed(group.calls))
                said[number] = plain_text(next(filter(None, texts), ""))
            given = (plain_text(message.text) for message in call.prompt if message.author != "assistant")
            if any(stands_in(said[number], text) for text in given):
                continued[number] = replace(group, later=(*group.later, call))
    return continued


def _agent_name(node: Node, around: Node) -> str | None:
    below = takewhile(lambda above: above is not around, node.upwards())
    names = (first(above.attributes, AGENT_NAMES) for above in below)
    return next((name for name in names if isinstance(name, str)), None)


def _sort_by_time(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.span.start_ns, node.span.end_ns)))


def _answered(call: Node) -> bool:
    return if_readable(lambda: call.generated is not None and not call.calls_tools, True)
