"""Why a trace gives no interaction: the nearest cause among its spans, as a code and in a sentence."""

from enum import StrEnum
from typing import Final, NamedTuple

from ragtide_schemas.printable import printable

from ..shapes.literals import BrokenTextError, UnreadableError
from .calls_and_retrievals import calls_of, retrievals_of
from .interactions import capture_advice
from .reading import SEEN_CHARS, SpanReading
from .requests import inside, repeats_documents
from .tree import Tree

OPEN_SPAN: Final = "if plain code calls the retriever and the model, open a span around both"
NO_RETRIEVAL: Final = (
    "instrument the retriever, or set the attributes ragtide.question, ragtide.documents and ragtide.response on one "
    f"span; {OPEN_SPAN}"
)
TOPS_MAX: Final = 100
"""Spans among which the highest answer above the retrievals is sought."""


class Cause(StrEnum):
    """Why a trace gives no interaction, as a code."""

    NO_RETRIEVAL = "no_retrieval"
    """No span is a retrieval: a plain chat, or the building of an index."""
    NO_DOCUMENTS = "no_documents"
    """The reply of a search is not on its span, is an error, or cannot be read as documents."""
    NO_MODEL_CALL = "no_model_call"
    """No span is a model call."""
    NO_LATER_CALL = "no_later_call"
    """No model call began after a retrieval."""
    ANSWER_REPEATS = "answer_repeats"
    """No span is a model call, and the answer is the text of a document: a search or a cache wrote it."""
    FAILED = "failed"
    """The retrievals failed, or the model calls did, or what was above them."""


class Nothing(NamedTuple):
    """Why a trace gives no interaction."""

    cause: Cause
    sentence: str
    """The cause, with the remedy if there is one."""


def why_nothing(tree: Tree) -> Nothing:
    """Return why a trace without a group of spans gives no interaction."""
    retrievals = retrievals_of(tree)
    if not retrievals:
        cause, why = _no_retrieval(tree)
        return Nothing(cause, f"no span is a retrieval that succeeded: {why}")
    failed = _failed(tree, "llm")
    if not calls_of(tree):
        if failed:
            return Nothing(Cause.FAILED, f"no span is a model call that succeeded: {failed}")
        tops = (node for node in tree.nodes[:TOPS_MAX] if inside(node, retrievals) and node.has_question_and_answer)
        top = next(tops, None)
        if top is not None and repeats_documents(top.plain_answer, inside(top, retrievals)):
            return Nothing(Cause.ANSWER_REPEATS, "the answer repeats a document, so a search or a cache wrote it")
        return Nothing(Cause.NO_MODEL_CALL, f"no span is a model call: {OPEN_SPAN}")
    request = next((node for node in tree.nodes if node.failed and inside(node, retrievals)), None)
    if failed is None and request is not None:
        failed = f"{request.short_name} failed"
    if failed is not None:
        return Nothing(Cause.FAILED, f"no model call that succeeded began after a retrieval: {failed}")
    return Nothing(Cause.NO_LATER_CALL, "no model call began after a retrieval")


def _no_retrieval(tree: Tree) -> tuple[Cause, str]:
    failed = _failed(tree, "retrieval", "rerank", "tool")
    if failed:
        return Cause.FAILED, failed
    tools = [node for node in tree.nodes if node.role == "tool"]
    search = next((tool for tool in tools if tool.searches), None)
    if search is None:
        names = ", ".join(dict.fromkeys(printable(tool.tool_name[:SEEN_CHARS]) for tool in tools))
        hint = f"no name of its tools indicates a search ({names[:200]}): if one is, name it in ingest.retrieval_names"
        return Cause.NO_RETRIEVAL, hint if names else NO_RETRIEVAL
    name = printable(search.tool_name[:SEEN_CHARS])
    if not search.has_output:
        advice = capture_advice("documents", [search], tree.nodes)
        return Cause.NO_DOCUMENTS, f"{name} has no result on its span: {advice}"
    if search.is_error:
        return Cause.NO_DOCUMENTS, f"the reply of {name} is an error"
    why = {"truncated": "is cut", "not readable": "cannot be read"}.get(number_of(search), "has no documents")
    remedy = "give it a list of texts, or of objects with a text"
    return Cause.NO_DOCUMENTS, f"the reply of {name} {why}: {remedy}: {search.seen('outputs')}"


def _failed(tree: Tree, *roles: str) -> str | None:
    lost = (node for node in tree.nodes if node in tree.lost and node.role in roles)
    node = next((node for node in lost if node.role != "tool" or node.searches), None)
    while node is not None and not node.failed:
        node = node.parent
    return None if node is None else f"{node.short_name} failed"


def number_of(retrieval: SpanReading) -> str:
    """Return how many documents a retrieval has, or why it is not known."""
    try:
        documents = retrieval.documents
    except BrokenTextError:
        return "truncated"
    except UnreadableError:
        return "not readable"
    return "not captured" if documents is None else str(len(documents))
