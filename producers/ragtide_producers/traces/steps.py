"""The retrieval steps of a trace: which retriever and reranker returned which documents of the interaction.

What cannot be matched without guessing is left out: a document is that of a span if its text is the same, or if its id
is the same and no other document has it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ragtide_schemas.retrieval_steps import STEP_NAMES_MAX, StepKind, step_name

from ..shapes.documents import Found
from .content import key_of
from .conventions import HAYSTACK_NAME
from .grouping import SpanGroup
from .reading import if_readable
from .tree import Node

_VARYING: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{4,}", re.IGNORECASE)
"""Parts of a name that differ from trace to trace: each would be a step of its own."""

_NAMELESS: Final[dict[StepKind, str]] = {"retriever": "retriever", "reranker": "reranker"}


def steps_of(group: SpanGroup, documents: Sequence[Found]) -> list[dict[str, Any]] | None:
    """Return the steps of an interaction as its field has them; None if there is one step or none.

    Spans of one name and kind are one step, so several queries of one retriever are joined. None, too, if a document of
    the interaction came from no retriever, because texts were changed on the way, or if a name with its kind is that of
    another step.

    Args:
        group: spans of the interaction.
        documents: that the generator got.
    """
    returned = if_readable(lambda: _returned(group), None) or {}
    counts = Counter(name for name, _ in returned)
    names = {step: f"{step[0][:50]}_{step[1]}" if counts[step[0]] > 1 else step[0] for step in returned}
    if not 2 <= len(returned) <= STEP_NAMES_MAX or len(set(names.values())) < len(names):
        return None
    places = {step: _places(list(by_key.values()), documents) for step, by_key in returned.items()}
    retrievers = {step: by_key for step, by_key in returned.items() if step[1] == "retriever"}
    if {place for step in retrievers for place in places[step]} != set(range(len(documents))):
        return None
    known = all(document.text is not None for by_key in retrievers.values() for document in by_key.values())
    by_document = Counter(key for by_key in retrievers.values() for key in by_key)
    steps: list[dict[str, Any]] = []
    for step, by_key in returned.items():
        fields = {"name": names[step], "kind": step[1], "documents": places[step], "returned": len(by_key)}
        if known and step in retrievers and len(retrievers) > 1:
            fields["shared"] = sum(by_document[key] > 1 for key in by_key)
        steps.append(fields)
    return steps


def _returned(group: SpanGroup) -> dict[tuple[str, StepKind], dict[str, Found]]:
    # The steps have the order in which their spans ended, so that a reranker comes after its retrievers.
    steps: dict[tuple[str, StepKind], dict[str, Found]] = {}
    for node, kind in sorted(_leaves(group.retrievals), key=lambda leaf: (leaf[0].span.end_ns, leaf[0].span.start_ns)):
        step = steps.setdefault((_name_of(node, kind), kind), {})
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
    name = _name_of(retrieval, "retriever")
    while waiting:
        part = waiting.pop()
        if _name_of(part, "retriever") == name and part.role == retrieval.role:
            waiting.extend(part.parts)
        else:
            parts.append(part)
    return parts


def _name_of(node: Node, kind: StepKind) -> str:
    name = node.own.get("step") or node.span.attributes.get(HAYSTACK_NAME) or node.tool_name
    return step_name(_VARYING.sub(" ", str(name)[:400])) or _NAMELESS[kind]


def _places(returned: Sequence[Found], documents: Sequence[Found]) -> list[int]:
    by_text = {document.text: index for index, document in enumerate(documents)}
    by_id = {document.id: index for index, document in enumerate(documents)}
    ids = Counter(document.id for document in documents)
    own_ids = Counter(document.id for document in returned)
    places: dict[int, None] = {}
    for document in returned:
        place = None if document.text is None else by_text.get(document.text)
        if place is None and document.id is not None and own_ids[document.id] == ids[document.id] == 1:
            place = by_id[document.id]
        if place is not None:
            places[place] = None
    return list(places)
