"""A trace becomes RAG interactions, each with its source, or with the reason why it cannot be used."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.user_ids import AS_SENT, UserIds
from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.limits import DOCUMENT_TEXT_MAX_CHARS, DOCUMENTS_MAX, ENTRY_MAX_BYTES, SEGMENTS_MAX
from ragtide_schemas.plain_values import LeftOut
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from ..given_fields import ASKED, fitted
from ..shapes.documents import Found
from ..shapes.literals import BrokenTextError, UnreadableError
from ..shapes.texts import ANSWER_KEYS, QUESTION_KEYS, text_in
from .attributes import OWN, first, with_prefix
from .content import answer_of, documents_in, is_cut, question_of, was_closed
from .conventions import GENAI
from .grouping import SpanGroup, groups_of
from .history import history_of
from .span import Span, sampling_probability
from .steps import steps_of
from .tree import Node, Tree
from .usage import covered_ns, period_ns, seconds_of, usage_of
from .versions import VERSION, version_of

UNKNOWN_SERVICE: Final = "unknown_service"
"""Beginning of the name that an SDK gives to a service without a name."""
TRUNCATED_REMEDY: Final = (
    "the content of a span is not whole: {error}: set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000, and no limit of length"
)
_CAPTURE: Final = "let the instrumentation capture content"
_PLACES: Final = {
    "question": (("inputs", "query", "input_messages"), "name its key in ingest.question_keys"),
    "documents": (("reranked", "documents", "outputs"), "give a list of texts, or of objects with a text"),
    "response": (("outputs", "output_messages"), "name its key in ingest.answer_keys"),
}
"""For each content the columns that may have it, and the remedy if its form is not known."""


class Refusal(StrEnum):
    """Why an interaction of a trace cannot be used."""

    TRUNCATED = "truncated"
    """Attributes were dropped or cut."""
    NO_CONTENT = "no_content"
    """The spans have no question, no documents or no answer: capturing content is off."""
    NO_PIPELINE = "no_pipeline"
    """No attribute names the pipeline, and there is no default."""
    INVALID = "invalid"
    """A field is not valid, such as a text that is too long."""


class RefusedError(Exception):
    """An interaction of a trace cannot be used.

    Attributes:
        reason: code of the reason.
    """

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mapped:
    """An interaction that a trace holds."""

    interaction_id: str
    interaction: RagInteraction | None
    """None if the interaction cannot be used."""
    refusal: Refusal | None = None
    detail: str = ""
    """The reason with its remedy, if the interaction cannot be used."""
    probability: float | None = None
    """Probability with which the sender kept the trace, if the trace indicates it."""
    payload: bytes = b""
    """The interaction as JSON; empty without one. It is encoded here, and not again on the way into the stream."""


def interactions_of(spans: Iterable[Span], settings: IngestSettings, user_ids: UserIds = AS_SENT) -> list[Mapped]:
    """Return the interactions of one trace, by time; the order of the spans does not matter."""
    tree = Tree(spans, settings.retrieval_names, settings.action_names)
    return [interaction_of(group, settings, user_ids) for group in groups_of(tree)]


def interaction_of(group: SpanGroup, settings: IngestSettings, user_ids: UserIds = AS_SENT) -> Mapped:
    """Return the interaction of a group of spans, or the reason why it cannot be used."""
    nodes = [*group.anchor.upwards(), *group.calls, *group.retrievals]
    own_id = first(group.anchor.own, ("interaction_id",))
    turn = "" if group.turn is None else f"-{group.turn}"
    trace_id = f"otel-{nodes[0].span.trace_id}-{group.anchor.span.span_id or 'trace'}{turn}"
    probabilities = (sampling_probability(node.span.trace_state) for node in nodes)
    kept = [probability for probability in probabilities if probability is not None]
    mapped = Mapped(own_id if isinstance(own_id, str) else trace_id, None, probability=min(kept, default=None))
    try:
        left_out = LeftOut()
        fields = {"interaction_id": mapped.interaction_id, **fields_of(group, nodes, settings, left_out)}
        if kept:
            fields["sampling_probability"] = mapped.probability
        interaction = sent(RagInteraction.from_fields, fields, utc_now())
        interaction = interaction.with_left_out(sum((node.left_out for node in nodes if node.left_out), left_out))
    except RefusedError as refused:
        return replace(mapped, refusal=refused.reason, detail=str(refused))
    except BrokenTextError as error:
        return replace(mapped, refusal=Refusal.TRUNCATED, detail=TRUNCATED_REMEDY.format(error=error))
    except UnreadableError as error:
        return replace(mapped, refusal=Refusal.INVALID, detail=str(error))
    except InvalidEntryError as error:
        return replace(mapped, refusal=Refusal.INVALID, detail=error.detail)
    interaction = fitted(user_ids.with_pseudonym(interaction))
    payload = interaction.encode()
    if len(payload) > ENTRY_MAX_BYTES:
        detail = f"the interaction has {len(payload):,} bytes: retrieve less, at most {ENTRY_MAX_BYTES:,} are allowed"
        return replace(mapped, refusal=Refusal.INVALID, detail=detail)
    return replace(mapped, interaction=interaction, payload=payload)


def fields_of(group: SpanGroup, nodes: Sequence[Node], settings: IngestSettings, left_out: LeftOut) -> dict[str, Any]:
    """Return the fields of the interaction, but for its id.

    Args:
        group: its spans.
        nodes: the anchor and the spans above it from the nearest on, then its model calls and its retrievals.
        settings: names of attributes and keys.
        left_out: takes the count of what is left out.

    Raises:
        RefusedError: the interaction cannot be used.
        UnreadableError: the content of a span is not whole, or could be read in two ways.
    """
    question = question_of(group, (*settings.question_keys, *QUESTION_KEYS))
    response = answer_of(group, (*settings.answer_keys, *ANSWER_KEYS))
    documents, retrieved, source, not_given = documents_in(group, question, response)
    has_texts = documents is not None and all(document.text is not None for document in documents)
    if group.is_run:
        documents, retrieved = _bounded(documents, left_out), retrieved[:DOCUMENTS_MAX]
    contents = {"question": question, "documents": has_texts or None, "response": response}
    if missing := [name for name, content in contents.items() if content is None]:
        raise _missing_content(missing, nodes, group)
    # Those of spans come before those of processes, and those of the anchor first.
    own = ChainMap(
        *filter(None, (*(node.own for node in nodes), *(with_prefix(node.span.resource, OWN) for node in nodes)))
    )
    usage, about_cost = usage_of(group, own)
    steps, steps_left_out = steps_of(group, question, retrieved or documents or (), left_out)
    if steps is not None and not settings.arguments:
        steps = [{name: value for name, value in step.items() if name not in ASKED} for step in steps]
    units = (node.span.time_unit for node in nodes)
    places = [place for node in nodes for place in (node.span.attributes, node.span.resource)]
    mapped = ((name, first(place, [key])) for name, key in settings.segments.items() for place in places[::-1])
    segments = {**{name: value for name, value in mapped if value is not None}, **with_prefix(own, "segments.")}
    if VERSION not in {*segments, *settings.segments} and len(segments) < SEGMENTS_MAX:
        version = version_of(nodes, settings.version_from)
        segments |= {} if version is None else {VERSION: version}
    metadata = {
        "trace_id": nodes[0].span.trace_id,
        "span_id": group.anchor.span.span_id or None,
        "model": _first_text(reversed(group.calls), "model"),
        "response_id": _first_text(reversed(group.calls), "response_id"),
        "response_cut": "true" if is_cut(group, response or "") else None,
        "generation_s": seconds_of(covered_ns(group.calls)),
        "time_unit": next((unit for unit in units if unit != "nanoseconds"), None),
        **about_cost,
        "documents_from": source,
        "documents_not_given": None if not_given is None else len(not_given),
    }
    return {
        "pipeline": _pipeline(nodes, own, settings),
        "occurred_at": datetime.fromtimestamp(period_ns(group)[1] / 1e9, UTC),
        "question": question,
        "documents": [document._asdict() for document in documents or ()],
        "response": response,
        "reference_answer": text_in(own.get("reference_answer"), "reference"),
        "segments": segments,
        "session_id": own.get("session_id")
        or next(filter(None, (node.own_session for node in nodes)), None)
        or _first_text(nodes, "session"),
        "turn": own.get("turn"),
        "history": history_of(group, own.get("history"), question, documents, given_only=not settings.history),
        "steps": steps,
        "steps_left_out": steps_left_out,
        "user_id": own.get("user_id") or _first_text(nodes, "user"),
        "source": "otel",
        "usage": usage,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }


def _bounded(documents: Sequence[Found] | None, left_out: LeftOut) -> list[Found] | None:
    """Return the documents that an interaction may have, with texts that they may have: of a run all calls count."""
    if documents is None:
        return None
    if len(documents) > DOCUMENTS_MAX:
        left_out["documents"] = len(documents) - DOCUMENTS_MAX
    kept = list(documents[:DOCUMENTS_MAX])
    long = [place for place, document in enumerate(kept) if len(document.text or "") > DOCUMENT_TEXT_MAX_CHARS]
    for place in long:
        kept[place] = kept[place]._replace(text=(kept[place].text or "")[:DOCUMENT_TEXT_MAX_CHARS])
    if long:
        left_out["documents.text"] = len(long)
    return kept


def _missing_content(missing: Sequence[str], nodes: Sequence[Node], group: SpanGroup) -> RefusedError:
    what = f"the spans have no {' and no '.join(missing)}"
    own = f"set the attribute{'s' * (len(missing) > 1)} {', '.join(f'ragtide.{name}' for name in missing)}"
    hidden = next((node.hidden_documents for node in nodes if node.hidden_documents), None)
    advice = [f"{_CAPTURE} ({hidden})"]
    if hidden is None or "documents" not in missing:
        for name in missing if not was_closed(group) else ():
            columns, remedy = _PLACES[name]
            # Ids of documents without texts are nothing, and so is a reply without a word.
            places = (
                [node for node in group.retrievals if node.documents is None]
                if name == "documents"
                else [node for node in nodes if node not in group.retrievals and not node.wordless]
            )
            if seen := next(filter(None, (node.seen(*columns) for node in places)), None):
                return RefusedError(Refusal.INVALID, f"{what} in a form that can be read: {remedy}, or {own}: {seen}")
        advice = [_advice(name, nodes, group) for name in missing]
        advice.sort(key=lambda text: not text.startswith(_CAPTURE))
    return RefusedError(Refusal.NO_CONTENT, f"{what}: {advice[0]}, or {own}")


def _advice(name: str, nodes: Sequence[Node], group: SpanGroup) -> str:
    if name == "response" and was_closed(group):
        return (
            f"no span has the text that was shown of the stream of {group.anchor.short_name!r}, which was closed early "
            "or is not recorded"
        )
    near = (group.retrievals if name == "documents" else group.calls)[::-1]
    for node in near if not any(node.hides for node in nodes) else ():
        if name == "documents" and node.documents:
            return f"record the texts of the documents, which have only ids in the span {node.short_name!r}"
        if name == "response" and node.wordless:
            return f"trace the call that answers: the reply of {node.short_name!r} has no text ({node.wordless})"
    return capture_advice(name, near, nodes)


def capture_advice(name: str, near: Sequence[Node], nodes: Sequence[Node]) -> str:
    """Return how the instrumentation captures a content: by its switch, unless other content shows that it is on.

    Args:
        name: of the content, such as `response`.
        near: the spans that should have it.
        nodes: these and others.
    """
    if seen := next(filter(None, (node.seen() for node in near)), None):
        return f"record it under the name of a known dialect, which this is not: {seen}"
    switch = next((node.switch for node in (*near, *nodes) if node.switch), "")
    has_two = "output" in switch.lower()  # one for what goes in, and one for what comes out
    sides = {column for known, (columns, _) in _PLACES.items() for column in columns if known == name or not has_two}
    alike = (node for node in nodes if node.switch == switch and not node.hides)
    if seen := next(filter(None, (node.seen(*sorted(sides)) for node in alike)), None):
        return f"record it by hand, because the instrumentation captures only other content: {seen}"
    return f"{_CAPTURE} ({switch or GENAI.switch})"


def _pipeline(nodes: Sequence[Node], own: Mapping[str, Any], settings: IngestSettings) -> str:
    names = [own.get("pipeline")]
    for name in settings.pipeline_attributes:
        names.extend(first(node.span.attributes, [name]) for node in nodes)
        names.extend(first(node.span.resource, [name]) for node in nodes)
    named = (name for name in names if isinstance(name, str) and not name.startswith(UNKNOWN_SERVICE))
    pipeline = next(named, None) or settings.default_pipeline
    if pipeline is None:
        raise RefusedError(
            Refusal.NO_PIPELINE,
            "no attribute names the pipeline: set OTEL_SERVICE_NAME in the application, the attribute "
            "ragtide.pipeline, or the setting ingest.default_pipeline",
        )
    return pipeline


def _first_text(nodes: Iterable[Node], column: str) -> str | None:
    return next((text for node in nodes if (text := node.text(column))), None)
