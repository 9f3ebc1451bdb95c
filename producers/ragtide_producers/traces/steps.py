"""The steps of a trace: which call of a tool, retriever and reranker returned which documents of the interaction.

What cannot be matched without guessing is left out: a document is that of a span if its text is the same, or if its id
is the same and no other document has it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ragtide_schemas.limits import STEPS_MAX
from ragtide_schemas.plain_values import LeftOut
from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX, StepKind

from ..shapes.calls import DocumentPlaces, ToolCall, step_fields
from ..shapes.documents import Found
from .content import key_of
from .grouping import SpanGroup
from .reading import if_readable
from .requests import inside
from .tool_calls import name_of, tool_calls_of
from .tree import Node


def steps_of(
    group: SpanGroup, question: str | None, documents: Sequence[Found], left_out: LeftOut
) -> tuple[list[dict[str, Any]] | None, int]:
    """Return the steps of an interaction as its field has them, and the number of calls that are not among them.

    They are the calls of tools, and after them the retrieval steps for which no call stands. Without a call they are
    None if there is one step or none. A call whose documents are not known has none: so is one that returned documents,
    if a document of the interaction came from no step, because texts were changed on the way.

    Args:
        group: spans of the interaction.
        question: its question.
        documents: that the generator got.
        left_out: takes the count of what is left out.
    """
    calls = tool_calls_of(group, question)
    if not calls:
        return _retrieval_steps(group, documents), 0
    places = DocumentPlaces(documents)
    places_of = [set(places.of(call.documents or ())) for call in calls]
    beside = replace(group, retrievals=_beside_calls(group, calls))
    returned = if_readable(lambda: _returned(beside), None) or {}
    known = set().union(*places_of, *(places.of(list(by_key.values())) for by_key in returned.values()))
    if len(known) < len(documents) or left_out["documents"]:
        calls = [
            call if own or not call.documents else call._replace(documents=None)
            for call, own in zip(calls, places_of, strict=True)
        ]
    steps, calls_left_out = step_fields(calls, documents, left_out)
    names = {step["name"] for step in steps}
    others = _retrieval_steps(beside, documents, names, known) or []
    fits = len(names) + len(others) <= STEP_NAMES_MAX and len(steps) + len(others) <= STEPS_MAX
    return [*steps, *(others if fits else ())], calls_left_out


def _beside_calls(group: SpanGroup, calls: Sequence[ToolCall]) -> tuple[Node, ...]:
    """Return the retrievals for which no call stands; those inside a call only if it returned other documents."""
    by_place = sorted(group.retrievals, key=attrgetter("first"))
    stand_in: set[Node] = set()
    for tool, call in zip(group.tools, calls, strict=False):  # calls in messages have no spans
        own = inside(tool, by_place)
        keys = {key_of(document) for document in call.documents or ()}
        leaves = if_readable(lambda own=own: [leaf for leaf, _ in _leaves(own)], [])  # type: ignore[misc]
        if call.error or all({key_of(document) for document in leaf.documents or ()} == keys for leaf in leaves):
            stand_in.update(own)
    return tuple(node for node in group.retrievals if node not in stand_in and not node.is_run)


def _retrieval_steps(
    group: SpanGroup,
    documents: Sequence[Found],
    names_of_calls: Collection[str] = (),
    places_of_calls: Collection[int] = (),
) -> list[dict[str, Any]] | None:
    """Return the retrievers and rerankers of an interaction; None if there is one or none, and no call.

    Spans of one name and kind are one step, so several queries of one retriever are joined. None, too, if a document of
    the interaction came from no step, because texts were changed on the way, or if a name with its kind is that of
    another step.
    """
    returned = if_readable(lambda: _returned(group), None) or {}
    counts = Counter([*(name for name, _ in returned), *names_of_calls])
    names = {step: f"{step[0][:50]}_{step[1]}" if counts[step[0]] > 1 else step[0] for step in returned}
    least = 1 if names_of_calls else 2
    if not least <= len(returned) <= STEP_NAMES_MAX or len({*names.values(), *names_of_calls}) < len(names) + len(
        names_of_calls
    ):
        return None
    known = DocumentPlaces(documents)
    places = {step: known.of(list(by_key.values())) for step, by_key in returned.items()}
    retrievers = {step: by_key for step, by_key in returned.items() if step[1] == "retriever"}
    if {*places_of_calls, *(place for step in retrievers for place in places[step])} != set(range(len(documents))):
        return None
    have_texts = all(document.text is not None for by_key in retrievers.values() for document in by_key.values())
    by_document = Counter(key for by_key in retrievers.values() for key in by_key)
    steps: list[dict[str, Any]] = []
    for step, by_key in returned.items():
        fields = {"name": names[step], "kind": step[1], "documents": places[step], "returned": len(by_key)}
        if have_texts and step in retrievers and len(retrievers) > 1:
            fields["shared"] = sum(by_document[key] > 1 for key in by_key)
        steps.append(fields)
    return steps


def _returned(group: SpanGroup) -> dict[tuple[str, StepKind], dict[str, Found]]:
    # The steps have the order in which their spans ended, so that a reranker comes after its retrievers.
    steps: dict[tuple[str, StepKind], dict[str, Found]] = {}
    for node, kind in sorted(_leaves(group.retrievals), key=lambda leaf: (leaf[0].span.end_ns, leaf[0].span.start_ns)):
        step = steps.setdefault((name_of(node, kind), kind), {})
        for document in node.documents or ():
            step.setdefault(key_of(document), document)
    return steps


def _leaves(retrievals: Sequence[Node]) -> Iterator[tuple[Node, StepKind]]:
    waiting = list(retrievals)
    while waiting:
        node = waiting.pop()
        parts = _parts(node)
        if node.documents is None:
            waiting.extend(parts)
            continue
        inside = {key_of(document) for part in parts for document in part.documents or ()}
        if node.role == "rerank":
            yield node, "reranker"
        elif not parts or not inside.issuperset(map(key_of, node.documents)):
            yield node, "retriever"
        else:
            waiting.extend(parts)
            if not any(part.role == "rerank" for part in parts):
                yield node, "reranker"


def _parts(retrieval: Node) -> list[Node]:
    parts: list[Node] = []
    waiting = list(retrieval.parts)
    name = name_of(retrieval, "retriever")
    while waiting:
        part = waiting.pop()
        if name_of(part, "retriever") == name and part.role == retrieval.role:
            waiting.extend(part.parts)
        else:
            parts.append(part)
    return parts
