"""Which model call asked for which call of a tool, with what arguments, and in which order."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ragtide_schemas.retrieval_steps import step_name

from ..shapes.calls import ToolCall, asked
from .reading import if_readable
from .tree import Node


class AskedCalls:
    """What model calls asked tools.

    Args:
        calls: model calls by time.
    """

    def __init__(self, calls: Sequence[Node]) -> None:
        asking = [call for call in calls if if_readable(partial(getattr, call, "calls_tools"), True)]
        self._calls = calls
        self._asking = asking or list(calls)
        self._by_id: dict[str | None, list[tuple[Node, ToolCall]]] = {}
        self._by_name: dict[str | None, list[Node]] = {}
        for call in self._asking:
            for wanted in call.asked_calls:
                self._by_name.setdefault(step_name(wanted.name), []).append(call)
                self._by_id.setdefault(wanted.call_id, []).append((call, wanted))

    def time_of(self, tool: Node) -> int:
        """Return the start of the model call that asked for a call; of the call itself if none is known."""
        call = self._call_of(tool)
        return tool.span.start_ns if call is None else call.span.start_ns

    def arguments_of(self, tool: Node) -> Any:
        """Return the arguments of a call in the reply that asked for it; None if they are not known."""
        call, wanted = self._asked_by_id(tool)
        if wanted is None and (call := self._call_of(tool)) is not None:
            named = [other for other in call.asked_calls if step_name(other.name) == step_name(tool.called_name)]
            wanted = named[0] if len(named) == 1 else None
        return None if wanted is None else wanted.arguments

    def places_of(self, tools: Sequence[Node]) -> dict[Node, tuple[Node, int]]:
        """Return the model calls that asked for calls, and the places of the calls in their replies.

        A place is known by the id, else by the name if one call of the reply has it, else by name and arguments. If the
        reply has no calls, the messages of the next model call have them. A call whose place is not known is left out.

        Args:
            tools: by time.
        """
        by_call: dict[Node, list[Node]] = {}
        for tool in tools:
            if (call := self._call_of(tool)) is not None:
                by_call.setdefault(call, []).append(tool)
        places: dict[Node, tuple[Node, int]] = {}
        for call, own in by_call.items():
            if len(own) > 1:
                known = _places_in(call.asked_calls, own) if call.asked_calls else self._places_after(own)
                places.update((tool, (call, place)) for tool, place in known.items())
        return places

    def _places_after(self, tools: Sequence[Node]) -> dict[Node, int]:
        end_ns = max(tool.span.end_ns for tool in tools)
        later = bisect_left(self._calls, end_ns, key=lambda call: call.span.start_ns)
        given = self._calls[later].given_calls if later < len(self._calls) else []
        places = _places_in([call for call in given if call.round == given[-1].round], tools)
        return places if len({*places.values()}) == len(tools) else {}

    def _asked_by_id(self, tool: Node) -> tuple[Node, ToolCall] | tuple[None, None]:
        pairs = self._by_id.get(tool.text("call_id") or "", [])  # one id may be that of several calls
        place = bisect_right(pairs, tool.span.start_ns, key=lambda pair: pair[0].span.start_ns)
        return pairs[place - 1] if place else (None, None)

    def _call_of(self, tool: Node) -> Node | None:
        start_ns = tool.span.start_ns
        call, _ = self._asked_by_id(tool)
        if call is not None:
            return call
        named: Sequence[Node] = self._by_name.get(step_name(tool.called_name), ())
        for calls in (named, self._asking):
            place = bisect_left(calls, start_ns, key=lambda call: call.span.start_ns)
            if place:
                return calls[place - 1]
        return None


def own_arguments(tool: Node) -> Any:
    """Return the arguments of a call as its spans have them; None if they are not there."""
    given = (if_readable(partial(getattr, part, "arguments"), None) for part in tool.tool_parts)
    return next((value for value in given if value is not None), None)


def in_asked_order(nodes: Sequence[Node], places: Mapping[Node, tuple[Node, int]]) -> tuple[Node, ...]:
    """Return nodes, of which those that one reply asked for have its order; the others keep their places."""
    by_call: dict[Node, list[Node]] = {}
    for node in nodes:
        if node in places:
            by_call.setdefault(places[node][0], []).append(node)
    waiting = {call: iter(sorted(own, key=lambda node: places[node][1])) for call, own in by_call.items()}
    return tuple(next(waiting[places[node][0]]) if node in places else node for node in nodes)


def _places_in(wanted: Sequence[ToolCall], tools: Sequence[Node]) -> dict[Node, int]:
    by_id = {call.call_id: place for place, call in enumerate(wanted) if call.call_id is not None}
    by_name: dict[str | None, list[int]] = {}
    by_arguments: dict[tuple[str | None, str], deque[int]] = {}
    for place, call in enumerate(wanted):
        by_name.setdefault(step_name(call.name), []).append(place)
        by_arguments.setdefault((step_name(call.name), _key_of(call.arguments)), deque()).append(place)
    places: dict[Node, int] = {}
    for tool in tools:
        name, call_id = step_name(tool.called_name), tool.text("call_id")
        named = by_name.get(name, [])
        if call_id in by_id:
            places[tool] = by_id[call_id]
        elif len(named) == 1:
            places[tool] = named[0]
        elif named and (same := by_arguments.get((name, _key_of(own_arguments(tool))))):
            places[tool] = same.popleft() if len(same) > 1 else same[0]
    return places


def _key_of(arguments: Any) -> str:
    fields = asked(arguments)
    named = fields.get("arguments", fields)
    return repr(sorted((str(name), repr(value)) for name, value in named.items()))
