"""Whether the texts of a span are the question of a user and the answer to it.

A span around several requests may have a text that goes in and one that comes out, too: the name of a data set and the
share of right answers, say. So its texts count only if the spans below it show them.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from ..shapes.texts import ANSWER_KEYS
from .reading import if_readable, plain_text
from .tree import Node, Tree

START_CHARS: Final = 60
"""Characters at the start of a document by which it is found in a text."""
UNREAD: Final = "?"
"""An answer that is there and cannot be read: the interaction is refused by name."""
QUESTIONS_MAX: Final = 16
"""Questions below a span that are looked up among the texts of its models."""


_PLACE: Final = attrgetter("first")


def inside(node: Node, others: Sequence[Node], most: int | None = None) -> Sequence[Node]:
    """Return those of the nodes in the order of a walk that are this node or below it, or the first of them."""
    start = bisect_left(others, node.first, key=_PLACE)
    end = bisect_right(others, node.last, lo=start, key=_PLACE)
    return others[start : end if most is None else min(end, start + most)]


def none_in(places: Sequence[int], node: Node) -> bool:
    """Whether none of the numbers of nodes, which are sorted, is that of a node or of one below it."""
    return bisect_left(places, node.first) == bisect_right(places, node.last)


def is_request(tree: Tree, node: Node, retrievals: Sequence[Node], calls: Sequence[Node]) -> bool:
    """Whether a span with a question is one request: spans below it have the question, or wrote its answer.

    Args:
        tree: the trace.
        node: the span.
        retrievals: those below it, in the order of a walk.
        calls: model calls below it that succeeded, in this order.
    """
    question = node.plain_question
    if not question:
        return True  # it is cut, and the request is refused
    calls = [call for call in calls if call is not node]
    if _has_several(tree, node, question, retrievals, calls):
        return False
    answer = node.plain_answer
    writers = (*calls, *(retrieval for retrieval in retrievals if retrieval.answers_itself))
    replies = [text for writer in writers for text in writer.replied_texts]
    if answer and any(stands_in(text, answer) or stands_in(answer, text) for text in replies):
        return True
    if any(stands_in(question, text) for below in (*calls, *retrievals) for text in below.given_texts):
        return not replies or not repeats_documents(answer, retrievals)
    return bool(calls) and not replies and not any(call.given_texts for call in calls)


def repeats_documents(answer: str, retrievals: Sequence[Node]) -> bool:
    """Whether a plain text is one of the retrieved texts, or has one: then a search wrote it, and no model."""
    texts = (text for retrieval in retrievals for text in retrieval.plain_documents)
    return bool(answer) and any(stands_in(answer, text) or stands_in(text[:START_CHARS], answer) for text in texts)


def stands_in(part: str, text: str) -> bool:
    """Whether a plain text stands in another one, and not inside a word of it.

    >>> stands_in("who?", "answer this: who? briefly"), stands_in("it", "the kitten")
    (True, False)
    """
    place = text.find(part) if part else -1
    for _ in range(QUESTIONS_MAX):
        if place < 0:
            return False
        end = place + len(part)
        if not (_is_word(text[place - 1 : place], part[0]) or _is_word(part[-1], text[end : end + 1])):
            return True
        place = text.find(part, place + 1)
    return False


def _is_word(before: str, after: str) -> bool:
    return before.isascii() and before.isalnum() and after.isascii() and after.isalnum()


def _has_several(tree: Tree, node: Node, asked: str, retrievals: Sequence[Node], calls: Sequence[Node]) -> bool:
    searching, calling = ([below.first for below in nodes] for nodes in (retrievals, calls))
    same: list[Node] = []
    others: dict[str, Node] = {}
    place = node.first + 1
    while place <= node.last and len(others) < QUESTIONS_MAX:
        unit = tree.nodes[place]
        place += 1
        if not unit.is_of_application or none_in(calling, unit) or none_in(searching, unit):
            place = unit.last + 1
        elif unit.has_question_and_answer:
            question = unit.plain_question
            if not question or stands_in(question, asked) or stands_in(asked, question):
                same.append(unit)
            else:
                others[question] = unit
                place = unit.last + 1
    if _has_another(node, others, calls):
        return True
    beside = any(not any(other in unit for other in others.values()) for unit in same)
    if len(others) + beside < 2:
        return False
    last = max(calls, key=lambda call: call.span.start_ns)
    is_own = not any(last in unit for unit in (*same, *others.values()))
    if is_own and stands_in(asked, plain_text(last.last_asked or "")):
        return False
    written = [text for call in calls for text in call.replied_texts]
    foreign = sum(not any(stands_in(question, text) for text in written) for question in others)
    return foreign > 0 and foreign + beside > 1


def _has_another(node: Node, others: Mapping[str, Node], calls: Sequence[Node]) -> bool:
    own = [call for call in calls if others and not any(call in unit for unit in others.values())]
    answer = node.plain_answer
    if not any(stands_in(text, answer) for call in own for text in call.replied_texts):
        return False
    used = [answer, *(text for call in own for text in call.given_texts)]
    written = [text for call in calls for text in call.replied_texts]
    for question, unit in others.items():
        said = (if_readable(partial(unit.answer, ANSWER_KEYS), None) or "")[:START_CHARS]
        spelled = {plain_text(said), plain_text(json.dumps(said)[1:-1])} - {""}
        is_part = any(stands_in(start, text) for start in spelled for text in used)
        if spelled and not is_part and not any(stands_in(question, text) for text in written):
            return True
    return False


def nothing_was_given(tree: Tree, node: Node, retrievals: Sequence[Node]) -> bool:
    """Whether retrievals found nothing, or a step left nothing of it, and the span has an answer of its own."""
    by_retrieval = [if_readable(partial(getattr, retrieval, "documents"), None) for retrieval in retrievals]
    answer = UNREAD if node.shows_stream else plain_text(if_readable(lambda: node.answer(ANSWER_KEYS), UNREAD) or "")
    if not answer or any(documents is None for documents in by_retrieval) or repeats_documents(answer, retrievals):
        return False
    marks = [(document.text or document.id, document.id) for documents in by_retrieval for document in documents or ()]
    starts = [plain_text(mark)[:START_CHARS] for pair in marks for mark in pair if mark]
    steps = (step for step in tree.nodes[node.first + 1 : node.last + 1] if step.role == "other" and step.gives_nothing)
    given = (text for step in steps for text in step.given_texts)
    return not starts or any(stands_in(start, text) for text in given for start in starts[:QUESTIONS_MAX])
