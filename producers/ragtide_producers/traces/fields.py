"""The fields of the interaction that a group of spans is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ..shapes.documents import Found
from ..shapes.texts import text_in
from .attributes import first, under
from .content import answer_of, documents_in, question_of
from .conventions import GENAI
from .grouping import SpanGroup
from .history import history_of
from .options import MappingOptions
from .steps import steps_of
from .tree import Node
from .usage import covered_ns, period_ns, seconds_of, usage_of

UNKNOWN_SERVICE: Final = "unknown_service"
"""Beginning of the name that an SDK gives to a service without a name."""


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


def fields_of(group: SpanGroup, readings: Sequence[Node], options: MappingOptions) -> dict[str, Any]:
    """Return the fields of the interaction, but for its id.

    Args:
        group: its spans.
        readings: the anchor and the spans above it, then its model calls and its retrievals.
        options: names of attributes and keys.

    Raises:
        RefusedError: the interaction cannot be used.
        UnreadableError: the content of a span is not whole, or could be read in two ways.
    """
    question = question_of(group, options.question_keys)
    response = answer_of(group, options.answer_keys)
    documents = documents_in(group, question)
    _check_content(question, response, documents, readings, group)
    own = _own(readings)
    usage, about_cost = usage_of(group, own)
    return {
        "pipeline": _pipeline(readings, own, options),
        "occurred_at": datetime.fromtimestamp(period_ns(group)[1] / 1e9, UTC),
        "question": question,
        "documents": [document._asdict() for document in documents or ()],
        "response": response,
        "reference_answer": text_in(own.get("reference_answer"), "reference"),
        "segments": _segments(readings, own, options),
        "session_id": own.get("session_id") or _first_text(readings, "session"),
        "turn": own.get("turn"),
        "history": history_of(group, own.get("history"), question, documents, given_only=not options.history),
        "steps": steps_of(group, documents or ()),
        "user_id": own.get("user_id") or _first_text(readings, "user"),
        "source": "otel",
        "usage": usage,
        "metadata": {**_metadata(group, readings), **about_cost},
    }


def _check_content(
    question: str | None,
    response: str | None,
    documents: list[Found] | None,
    readings: Sequence[Node],
    group: SpanGroup,
) -> None:
    has_texts = documents is not None and all(document.text is not None for document in documents)
    missing = [
        name
        for name, found in (("question", question), ("documents", has_texts or None), ("response", response))
        if found is None
    ]
    if not missing:
        return
    what = f"the spans have no {' and no '.join(missing)}"
    own = f"set the attribute{'s' * (len(missing) > 1)} {', '.join(f'ragtide.{name}' for name in missing)}"
    remedies = (remedy for reading in readings if "documents" in missing if (remedy := reading.hidden_documents))
    hidden = next(remedies, None)
    seen = None if hidden else next((place for name in missing for place in _seen(name, readings, group)), None)
    if seen:
        raise RefusedError(Refusal.INVALID, f"{what} in a form that can be read: {seen}, or {own}")
    switch = hidden or next((reading.switch for reading in readings if reading.switch), GENAI.switch)
    raise RefusedError(Refusal.NO_CONTENT, f"{what}: let the instrumentation capture content ({switch}), or {own}")


_PLACES: Final = {
    "question": (("inputs", "query", "input_messages"), "name its key in ingest.question_keys"),
    "documents": (("reranked", "documents", "outputs"), "give a list of texts, or of objects with a text"),
    "response": (("outputs", "output_messages"), "name its key in ingest.answer_keys"),
}
"""For each content the columns that may have it, and the remedy if its form is not known."""


def _seen(missing: str, readings: Sequence[Node], group: SpanGroup) -> Iterator[str]:
    """Yield the spans that have something in place of a content, with the remedy.

    Ids of documents without texts are nothing, and so is a call that only asks for tools.
    """
    if missing == "documents":
        spans = [reading for reading in group.retrievals if reading.documents is None]
    else:
        spans = [reading for reading in readings if reading not in group.retrievals and not reading.calls_tools]
    columns, remedy = _PLACES[missing]
    yield from (f"{found}: {remedy}" for reading in spans if (found := reading.seen(*columns)))


def _pipeline(readings: Sequence[Node], own: Mapping[str, Any], options: MappingOptions) -> str:
    names = [own.get("pipeline")]
    for name in options.pipeline_attributes:
        names.extend(first(reading.span.attributes, [name]) for reading in readings)
        names.extend(first(reading.span.resource, [name]) for reading in readings)
    named = (name for name in names if isinstance(name, str) and not name.startswith(UNKNOWN_SERVICE))
    found = next(named, None) or options.default_pipeline
    if found is None:
        raise RefusedError(
            Refusal.NO_PIPELINE,
            "no attribute names the pipeline: set OTEL_SERVICE_NAME in the application, the attribute "
            "ragtide.pipeline, or the setting ingest.default_pipeline",
        )
    return found


def _own(readings: Iterable[Node]) -> dict[str, Any]:
    """Return the explicit attributes: those of spans before those of processes, those of the anchor first."""
    found: dict[str, Any] = {}
    known = list(readings)
    for source in (*(reading.own for reading in known), *(reading.own_resource for reading in known)):
        for key, value in source.items():
            found.setdefault(key, value)
    return found


def _first_text(readings: Iterable[Node], column: str) -> str | None:
    return next((text for reading in readings if (text := reading.text(column))), None)


def _segments(readings: Sequence[Node], own: Mapping[str, Any], options: MappingOptions) -> dict[str, Any]:
    places = [place for reading in readings for place in (reading.span.attributes, reading.span.resource)]
    named = (
        (name, first(place, [attribute])) for name, attribute in options.segments.items() for place in places[::-1]
    )
    found = {name: value for name, value in named if value is not None}
    return {**found, **under(own, "segments.")}


def _metadata(group: SpanGroup, readings: Sequence[Node]) -> dict[str, Any]:
    units = (reading.span.time_unit for reading in readings)
    found = {
        "trace_id": readings[0].span.trace_id,
        "span_id": group.anchor.span.span_id or None,
        "model": _first_text(reversed(group.calls), "model"),
        "response_id": _first_text(reversed(group.calls), "response_id"),
        "generation_s": seconds_of(covered_ns(group.calls)),
        "time_unit": next((unit for unit in units if unit != "nanoseconds"), None),
    }
    return {name: value for name, value in found.items() if value is not None}
