"""The retrieval steps of a trace: which retriever and reranker returned which documents of the interaction.

What cannot be matched without guessing is left out: a document is that of a span if its text is the same, or if its id
is the same and no other document has it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragtide_schemas.retrieval_steps import STEPS_MAX, StepKind, step_name

from ..shapes.documents import Found
from .content import key_of
from .conventions import HAYSTACK_NAME
from .grouping import SpanGroup
from .reading import if_readable
from .tree import Node

_VARYING: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4,}", re.IGNORECASE)
"""Parts of a name that differ from trace to trace: each would be a step of its own."""

_NAMELESS: Final[dict[StepKind, str]] = {"retriever": "retriever", "reranker": "reranker"}


@dataclass(slots=True)
class _FoundStep:
    name: str
    kind: StepKind
    documents: dict[str, Found] = field(default_factory=dict)
    """By text or id, in the order in which they were returned."""


def steps_of(group: SpanGroup, documents: Sequence[Found]) -> list[dict[str, Any]] | None:
    """Return the steps of an interaction as its field has them; None if there is one step or none.

    Spans of one name and kind are one step, so several queries of one retriever are joined. None, too, if a document of
    the interaction came from no retriever, because texts were changed on the way, or if a name with its kind is that of
    another step.

    Args:
        group: spans of the interaction.
        documents: that the generator got.
    """
    steps = if_readable(lambda: _steps(group), ())
    if not 2 <= len(steps) <= STEPS_MAX or len({step.name for step in steps}) < len(steps):
        return None
    places = {step.name: _places(step, documents) for step in steps}
    retrievers = [step for step in steps if step.kind == "retriever"]
    if {place for step in retrievers for place in places[step.name]} != set(range(len(documents))):
        return None
    known = all(document.text is not None for step in retrievers for document in step.documents.values())
    found = []
    for step in steps:
        fields: dict[str, Any] = {
            "name": step.name,
            "kind": step.kind,
            "documents": places[step.name],
            "returned": len(step.documents),
        }
        if known and step.kind == "retriever" and len(retrievers) > 1:
            others = {key for other in retrievers if other is not step for key in other.documents}
            fields["shared"] = len(step.documents.keys() & others)
        found.append(fields)
    return found


def _steps(group: SpanGroup) -> list[_FoundStep]:
    """Return the steps in the order in which their spans ended, so that a reranker comes after its retrievers."""
    found: dict[tuple[str, StepKind], _FoundStep] = {}
    readings = sorted(_leaves(group.retrievals), key=lambda leaf: (leaf[0].span.end_ns, leaf[0].span.start_ns))
    for reading, kind in readings:
        name = _name_of(reading, kind)
        step = found.setdefault((name, kind), _FoundStep(name, kind))
        for document in reading.documents or ():
            step.documents.setdefault(key_of(document), document)
    names = Counter(name for name, _ in found)
    for (name, kind), step in found.items():
        if names[name] > 1:
            step.name = f"{name[:50]}_{kind}"
    return list(found.values())


def _leaves(retrievals: Sequence[Node]) -> Iterator[tuple[Node, StepKind]]:
    """Yield the spans that are steps, with their kinds.

    A retrieval with others inside it chooses among their documents (as a fusion does), if it has none of its own. It is
    no step if a reranking inside it has chosen already.
    """
    waiting = list(retrievals)
    while waiting:
        reading = waiting.pop()
        parts = _parts(reading)
        if reading.documents is None:
            waiting.extend(parts)
        elif reading.role == "rerank":
            yield reading, "reranker"
        elif not parts:
            yield reading, "retriever"
        else:
            inside = {key_of(document) for part in parts for document in part.documents or ()}
            if not all(key_of(document) in inside for document in reading.documents):
                yield reading, "retriever"
                continue
            waiting.extend(parts)
            if not any(part.role == "rerank" for part in parts):
                yield reading, "reranker"


def _parts(reading: Node) -> list[Node]:
    """Return the retrievals right inside a retrieval; one of the same name is the same retrieval, seen twice."""
    found: list[Node] = []
    waiting = list(reading.parts)
    name = _name_of(reading, "retriever")
    while waiting:
        part = waiting.pop()
        if _name_of(part, "retriever") == name and part.role == reading.role:
            waiting.extend(part.parts)
        else:
            found.append(part)
    return found


def _name_of(reading: Node, kind: StepKind) -> str:
    given = reading.own.get("step") or reading.span.attributes.get(HAYSTACK_NAME) or reading.tool_name
    return step_name(_VARYING.sub(" ", str(given)[:400])) or _NAMELESS[kind]


def _places(step: _FoundStep, documents: Sequence[Found]) -> list[int]:
    """Return the indexes of the interaction's documents that a step returned, in the step's order."""
    by_text = {document.text: index for index, document in enumerate(documents)}
    by_id: dict[str, int | None] = {}
    for index, document in enumerate(documents):
        if document.id is not None:
            by_id[document.id] = None if document.id in by_id else index
    own_ids = Counter(document.id for document in step.documents.values())
    found: dict[int, None] = {}
    for document in step.documents.values():
        place = None if document.text is None else by_text.get(document.text)
        if place is None and document.id is not None and own_ids[document.id] == 1:
            place = by_id.get(document.id)
        if place is not None:
            found[place] = None
    return list(found)
