"""The question, the documents and the answer of a group of spans."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from typing import Final, Literal, NamedTuple

from ..shapes.documents import Found
from ..shapes.literals import UnreadableError, value_of
from ..shapes.other_words import long_words, rephrased_text
from ..shapes.prompts import context_after_instructions, context_in, marks_context, parts_of
from ..shapes.replies import reply_documents, reports_nothing
from ..shapes.texts import ANSWER_KEYS, Meaning
from .conventions import OPENINFERENCE
from .given import calls_behind, given_in, is_verdict
from .grouping import SpanGroup
from .reading import if_readable, plain_text
from .requests import START_CHARS
from .tree import Node

DOCUMENTS_MAX: Final = 16
"""Most documents by which it is known that a prompt has some."""
TOOLS_MAX: Final = 16
"""Tools of an interaction of which the model calls inside are known as such."""


def question_of(group: SpanGroup, keys: tuple[str, ...]) -> str | None:
    """Return the question: that of the anchor, else of the agent, else the first query, else the last of the user.

    The question of an agent is the last message of the user before the model asked for a tool: the query of the tool
    is the model's, and messages in the name of the user that came later are the program's.

    Raises:
        UnreadableError: the content of a span is not whole, or could be read in two ways.
    """
    asked_by = group.asked_by if "question" not in group.anchor.own else None
    asked_for = asked_by.last_question if asked_by is not None else None
    stated = asked_for or _anchor_text(group, "question", "question", lambda: group.anchor.question(keys))
    if stated and group.anchor.is_agent and "question" not in group.anchor.own:
        first = next((text.strip() for call in group.calls if (text := call.last_asked)), None)
        by_user = {message.text.strip() for message in group.anchor.input_messages if message.author == "user"}
        return first if first in by_user else stated
    of_agent = (call.prompt_question or call.last_question for call in _asking(group))
    in_prompts = (call.prompt_question for call in group.calls)
    queries = (retrieval.query for retrieval in group.retrievals)
    asked = (call.last_question for call in reversed(group.calls))
    # A span is read only if no earlier one has the question: the content of the others need not be whole.
    return stated or next(filter(None, chain(of_agent, in_prompts, queries, asked)), None)


def _asking(group: SpanGroup) -> Iterator[Node]:
    tools: list[Node] = []
    for retrieval in group.retrievals:
        above = takewhile(lambda node: node is not group.anchor, retrieval.upwards())
        tools += [node for node in above if node.role == "tool"][-1:]
    first_ns = min((tool.span.start_ns for tool in tools), default=-1)
    for call in group.calls:
        is_inside = any(call in tool for tool in tools[:TOOLS_MAX])
        if not is_inside and (call.calls_tools or call.span.start_ns < first_ns):
            yield call


def answer_of(group: SpanGroup, keys: tuple[str, ...]) -> str | None:
    """Return the answer: that of the anchor, else the text of the last model call that has one, perhaps an empty text.

    An anchor that only prints an object, such as a stream or a cut event of an agent, is read last. If the anchor
    returned nothing, though a model wrote a text, its stream was closed: what was shown is not known.

    Raises:
        UnreadableError: the content of a span is not whole, or could be read in two ways.
    """
    rival = next((call for call in group.later if _may_be_shown(call)), None)
    if rival is not None and "response" not in group.anchor.own:
        raise UnreadableError(
            f"the agent of the span {rival.short_name!r} was given the answer, and no span says which text the user "
            "saw: set input.value and output.value on the span around both agents"
        )
    texts = (call for call in reversed(group.calls) if call.generated)
    first = next(texts, None) if group.anchor.prints_object and "response" not in group.anchor.own else None
    answer = first.generated if first else _anchor_text(group, "response", "answer", lambda: group.anchor.answer(keys))
    # A chat of LlamaIndex ends with an empty answer while its stream goes on.
    ended = group.anchor.latest_ns <= group.anchor.span.end_ns
    if answer or (group.turn is None and ended and group.anchor.answers_empty):
        return answer or ""
    last = next(texts, None)
    if last is not None and (checked := _checked(group, last)):
        raise UnreadableError(
            f"it is not known whether the reply {(last.generated or '').strip()[:20]!r} is the answer, or a text about "
            f"{checked[:40]!r}: trace a span with question and answer, or set the attribute ragtide.response"
        )
    if last is not None:
        is_unknown = (returned_nothing(group) or group.anchor.is_closed) and not last.is_closed
        return None if is_unknown else last.generated
    return "" if any(call.replies_empty for call in group.calls[-1:]) else None


def _may_be_shown(call: Node) -> bool:
    text = if_readable(lambda: call.generated, None)
    value = if_readable(lambda: value_of(text or ""), None)
    is_object = isinstance(value, dict) and value.keys().isdisjoint(ANSWER_KEYS)
    return text is not None and not is_verdict(text) and not is_object


def _checked(group: SpanGroup, last: Node) -> str | None:
    asked = _asked_of(last)
    earlier = [call for call in group.calls if call is not last and call.generated]
    earlier = [call for call in earlier if plain_text(call.generated or "") in asked]
    if is_verdict(last.generated or ""):
        longer = (call.generated for call in earlier if len(call.generated or "") > len(last.generated or ""))
        return next(longer, None)
    retrieved = (if_readable(partial(getattr, retrieval, "documents"), None) or () for retrieval in group.retrievals)
    texts = (document.text for documents in retrieved for document in documents if document.text)
    starts = [plain_text(text[:START_CHARS]) for text in islice(texts, DOCUMENTS_MAX)]
    if len(earlier) != 1 or any(start in asked for start in starts):
        return None
    return earlier[0].generated if any(start in _asked_of(earlier[0]) for start in starts) else None


def _asked_of(call: Node) -> str:
    return plain_text(" ".join(message.text for message in call.prompt if message.author in ("system", "user")))


def returned_nothing(group: SpanGroup) -> bool:
    """Whether the anchor says that it returned nothing, or an empty text."""
    is_null = group.anchor.attributes.get(OPENINFERENCE.outputs[0]) == "null"
    return group.turn is None and (group.anchor.output_is_empty or is_null)


def was_closed(group: SpanGroup) -> bool:
    """Whether the answer was a stream of which the spans have no text that was shown."""
    return returned_nothing(group) or group.anchor.is_closed or (group.turn is None and group.anchor.shows_stream)


def is_cut(group: SpanGroup, response: str) -> bool:
    """Whether a response is only the beginning of what a model wrote: its reader closed the stream."""
    if group.anchor.is_closed or any(call.is_closed for call in group.calls[-1:]):
        return True
    written = if_readable(
        lambda: next((call.generated for call in reversed(group.calls) if call.generated), None), None
    )
    return bool(response) and written is not None and written != response and written.startswith(response)


def _anchor_text(group: SpanGroup, key: str, meaning: Meaning, read: Callable[[], str | None]) -> str | None:
    if group.turn is not None:
        return None
    return group.anchor.text_of([group.anchor.own.get(key)], meaning) or (read() if group.has_texts else None)


class GroupDocuments(NamedTuple):
    """The documents of an interaction, and where they are from."""

    documents: list[Found] | None
    """What the generator got, in the order of its prompt; without a prompt best first. None if no span has them."""
    retrieved: Sequence[Found] = ()
    """The same documents as the retrievals returned them: the whole text of one that was cut."""
    source: Literal["prompt", "retrieval"] | None = None
    """None if the application gave them itself."""
    not_given: Sequence[Found] | None = None
    """What retrievals returned and no prompt has; None without a prompt."""


def documents_in(group: SpanGroup, question: str | None, answer: str | None) -> GroupDocuments:
    """Return the documents that the generator got: those in the prompts of the calls that led to the answer.

    If no span has a prompt, they are those of the retrievals: a reranking replaces the documents that went into it. If
    its inputs are unknown, it replaces the documents of all earlier spans. The remaining documents are joined without
    repeats. Ids without texts take their texts from the prompt.

    Args:
        group: spans of the interaction.
        question: its question, which is no part of the documents in a prompt.
        answer: its answer.

    Raises:
        UnreadableError: documents are missing or cut, could be read in two ways, or stand in no prompt.
    """
    if "documents" in group.anchor.own:
        return GroupDocuments(group.anchor.explicit_documents)
    if not group.calls and not group.anchor.is_explicit:
        return GroupDocuments([], (), "retrieval", _left(group, []) or None)
    joined, is_unknown = join_retrievals(group.retrievals, partial(may_hide_documents, group, question))
    if (is_unknown and not joined) or any(document.text is None for document in joined):
        return GroupDocuments(_prompt_documents(group, joined, question, answer), source="prompt")
    returned = list(_returned(group))
    texts = [document.text or "" for document in returned]
    answers_itself = any(node.role == "llm" or node.answers_itself for node in group.retrievals)
    standing = None if answers_itself or not texts else given_in(group, question, answer, texts)
    if standing is None or standing.prompts is None:
        source: Literal["prompt", "retrieval"] = (
            "prompt" if any(node.is_run for node in group.retrievals) else "retrieval"
        )
        return GroupDocuments(joined, joined, source)
    if not standing.texts:
        contexts = _other_contexts(standing.prompts, question, texts)
        return GroupDocuments(contexts, contexts, "prompt", _left(group, []))
    whole = [returned[number] for number in standing.texts]
    shown = [document._replace(text=text) for document, text in zip(whole, standing.texts.values(), strict=True)]
    left = _left(group, [*shown, *whole])
    known = (question or "", *(document.text or "" for document in shown))
    cut = [document for document, part in zip(whole, shown, strict=True) if document.text != part.text]
    # What is no search may stand there in any words.
    beside = {document for node in group.retrievals if node.is_beside for document in node.documents or ()}
    changed = [document.text or "" for document in (*left, *cut) if document not in beside]
    if rephrased_text(standing.prompts, changed, known) is not None:
        raise UnreadableError(
            "the prompts that led to the answer have some of the retrieved documents as they are, and others in other "
            "words, such as with hidden names: set the attribute ragtide.documents"
        )
    return GroupDocuments(shown, whole, "prompt", left)


def may_hide_documents(group: SpanGroup, question: str | None) -> bool:
    """Whether a prompt has documents, so that a retrieval without an output may have found some."""
    prompts = (prompt for call in group.calls for prompt in call.prompts)
    in_prompt = any(context_in(prompt, None, 1) and context_in(prompt, question, 1) for prompt in prompts)
    return in_prompt or any(call.prompt_documents for call in group.calls)


def join_retrievals(retrievals: Iterable[Node], may_hide: Callable[[], bool]) -> tuple[list[Found], bool]:
    """Return the documents that retrievals left after each other, and whether those of some are unknown.

    Args:
        retrievals: by time.
        may_hide: whether a retrieval without an output may have found documents.

    Raises:
        UnreadableError: the content of a span is not whole, or could be read in two ways.
    """
    kept: dict[Node, list[Found]] = {}
    by_document: dict[str, list[Node]] = {}
    unknown, in_prompt = False, None
    for retrieval in retrievals:
        documents = retrieval.documents
        if documents is not None and retrieval.is_silent and in_prompt is None:
            in_prompt = may_hide()
        if documents is None or (retrieval.is_silent and in_prompt):
            unknown = True
            continue
        if retrieval.role == "rerank":
            unknown = False
            inputs = {key_of(document) for document in retrieval.rerank_inputs}
            for earlier in [node for key in inputs for node in by_document.get(key, ())] if inputs else list(kept):
                if inputs.issuperset(map(key_of, kept.get(earlier, ()))) or not inputs:
                    kept.pop(earlier, None)
        kept[retrieval] = documents
        if documents:
            by_document.setdefault(key_of(documents[0]), []).append(retrieval)
    joined = [document for documents in kept.values() for document in documents]
    return list({key_of(document): document for document in reversed(joined)}.values())[::-1], unknown


def _returned(group: SpanGroup) -> Iterable[Found]:
    by_text: dict[str, Found] = {}
    for retrieval in group.retrievals:
        for document in (*(retrieval.documents or ()), *retrieval.wider_documents):
            if document.text is not None and document.text.strip():
                before = by_text.get(document.text, document)
                by_text[document.text] = document._replace(id=document.id or before.id)
    return by_text.values()


def _left(group: SpanGroup, given: Sequence[Found]) -> list[Found]:
    ids = {document.id for document in given if document.id is not None}
    texts = {document.text for document in given}
    left: dict[str, Found] = {}
    for retrieval in group.retrievals:
        own = [document for document in retrieval.documents or () if document.text is not None]
        has_own_ids = len({document.id for document in own}) == len(own)
        left |= {
            key_of(document): document
            for document in own
            if document.text not in texts and not (has_own_ids and document.id in ids)
        }
    return list(left.values())


def _other_contexts(prompts: Sequence[str], question: str | None, texts: Sequence[str]) -> list[Found]:
    words = {word for text in texts for word in long_words(text)} - {*long_words(question or "")}
    marked = [prompt for prompt in prompts if marks_context(prompt)]
    contexts = [context_in(prompt, question, 1) for prompt in marked]
    known = [context for context in dict.fromkeys(contexts) if context is not None and not reports_nothing(context)]
    if all(not words.isdisjoint(long_words(context)) for context in known) and marked:
        return [Found(context) for context in known]
    if not known and words.isdisjoint(word for prompt in prompts for word in long_words(prompt)):
        return []
    raise UnreadableError(
        f"none of the {len(texts)} documents that were retrieved stands in the prompts that led to the answer, and "
        "whether these have them in other words is not known: set the attribute ragtide.documents"
    )


def key_of(document: Found) -> str:
    """Return what two findings of the same document have in common: the text, else the id."""
    return document.text if document.text is not None else f"id {document.id}"


def _prompt_documents(
    group: SpanGroup, listed: list[Found], question: str | None, answer: str | None
) -> list[Found] | None:
    calls = calls_behind(group, question, answer, all_texts=True)
    written: dict[str, int] = {}
    for call in group.calls:
        written.setdefault(call.generated or "", call.span.start_ns)
    documents: dict[str, Found] = {}
    for call in calls:
        at_ns = call.span.start_ns
        # A text that an earlier model call wrote is no document, also if a tool returned it.
        results = [
            result
            for result in call.tool_results
            if not (isinstance(result, str) and result and written.get(result, at_ns) < at_ns)
        ]
        read = (reply_documents(result) or () for result in results)
        for document in call.prompt_documents or chain.from_iterable(read):
            documents.setdefault(key_of(document), document)
    if not documents and listed:
        for call in reversed(calls):
            contexts = (context_in(prompt, question, len(listed)) for prompt in call.prompts)
            counted = (context_after_instructions(prompt, len(listed)) for prompt in call.prompts)
            if text := next(filter(None, chain(contexts, counted)), None):
                # An answer that quotes a document is written after it, and hides none.
                at_ns = call.span.start_ns
                earlier = (reply for reply, start_ns in written.items() if reply and start_ns < at_ns)
                documents = {} if any(reply in text for reply in earlier) else {text: Found(text)}
                break
    if not documents:
        return None
    shown = list(documents.values())
    texts = [document.text for document in shown if document.text is not None]
    if len(shown) == len(texts) < len(listed):
        parts = parts_of("\n\n".join(texts), len(listed))
        shown = shown if parts is None else [Found(part) for part in parts]
    if len(shown) != len(listed):
        return shown
    return [Found(text.text, known.id, known.score) for text, known in zip(shown, listed, strict=True)]
