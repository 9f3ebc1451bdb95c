"""The fields of the interaction that a group of spans is."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.printable import NAME_PATTERN, printable
from ragtide_schemas.times import check_time, utc_now

from ..shapes.documents import Found
from .attributes import first, whole
from .content import answer_of, documents_in, question_of
from .conventions import GENAI
from .costs import cost_of
from .grouping import SpanGroup
from .history import UnreadableHistoryError, history_of
from .options import MappingOptions
from .reading import SpanReading
from .steps import steps_of
from .usage import covered_ns, seconds_of, usage_of

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


def fields_of(group: SpanGroup, readings: Sequence[SpanReading], options: MappingOptions) -> dict[str, Any]:
    """Return the fields of the interaction, but for its id.

    Args:
        group: its spans.
        readings: the anchor and the spans above it, then its model calls and its retrievals.
        options: names of attributes and keys.

    Raises:
        RefusedError: the interaction cannot be used.
        TruncatedError: the content of a span is not whole.
    """
    question = question_of(group, options.question_keys)
    response = answer_of(group, options.answer_keys)
    documents = documents_in(group, question)
    _check_content(question, response, documents, readings)
    own = _own(readings)
    cost_usd, about_cost = cost_of(group.calls)
    return without_absent(
        {
            "pipeline": _pipeline(readings, own, options),
            "occurred_at": _occurred_at(group),
            "question": whole(question),
            "documents": [_document(document) for document in documents or ()],
            "response": whole(response),
            "reference_answer": whole(own.get("reference_answer")),
            "segments": _segments(readings, own, options),
            "session_id": short(own.get("session_id") or _first_text(readings, "session")),
            "turn": own.get("turn"),
            "history": _history(group, own, question, documents, options),
            "steps": steps_of(group, documents or ()),
            "user_id": short(own.get("user_id") or _first_text(readings, "user")),
            "source": "otel",
            "usage": usage_of(group, own, cost_usd),
            "metadata": {**_metadata(group, readings), **about_cost},
        }
    )


def _history(
    group: SpanGroup,
    own: Mapping[str, Any],
    question: str | None,
    documents: list[Found] | None,
    options: MappingOptions,
) -> list[dict[str, str]] | None:
    explicit = own.get("history")
    if explicit is None and not options.history:
        return None
    try:
        found = history_of(group, explicit, question, documents)
    except UnreadableHistoryError as error:
        form = 'give a list of JSON such as [{"question": "...", "response": "..."}]'
        raise RefusedError(Refusal.INVALID, f"ragtide.history holds no turns ({error}): {form}") from None
    return [{name: whole(text) for name, text in turn.items()} for turn in found] or None


def _check_content(
    question: str | None, response: str | None, documents: list[Found] | None, readings: Sequence[SpanReading]
) -> None:
    has_texts = documents is not None and all(document.text is not None for document in documents)
    missing = [
        name
        for name, found in (("question", question), ("documents", has_texts or None), ("response", response))
        if found is None
    ]
    if missing:
        rows = [reading.convention for reading in readings if reading.convention and reading.convention.switch]
        hidden = (remedy for reading in readings if "documents" in missing if (remedy := reading.hidden_documents))
        switch = next(hidden, (rows[0] if rows else GENAI).switch)
        detail = f"the spans have no {' and no '.join(missing)}: let the instrumentation capture content ({switch})"
        raise RefusedError(Refusal.NO_CONTENT, f"{detail}, or set the attributes ragtide.{missing[0]} and so on")


def _pipeline(readings: Sequence[SpanReading], own: Mapping[str, Any], options: MappingOptions) -> str:
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


def _occurred_at(group: SpanGroup) -> datetime:
    anchor = group.anchor.reading
    alone = anchor is not None and group.turn is None
    ends = [anchor] if anchor and alone else [*group.calls, *group.retrievals]
    span = max((reading.span for reading in ends), key=lambda span: span.end_ns)
    time = datetime.fromtimestamp(span.end_ns / 1e9, UTC)
    try:
        check_time(time, utc_now())
    except ValueError as error:
        where = f"the end of the span {printable(span.name[:60])!r}, in nanoseconds since 1970,"
        raise RefusedError(Refusal.INVALID, f"occurred_at, {where} {error}") from None
    return time


def _own(readings: Iterable[SpanReading]) -> dict[str, Any]:
    """Return the explicit attributes: those of spans before those of processes, those of the anchor first."""
    found: dict[str, Any] = {}
    known = list(readings)
    for source in (*(reading.own for reading in known), *(reading.own_resource for reading in known)):
        for key, value in source.items():
            found.setdefault(key, value)
    return found


def _first_text(readings: Iterable[SpanReading], column: str) -> str | None:
    return next((text for reading in readings if (text := reading.text(column))), None)


def _segments(readings: Sequence[SpanReading], own: Mapping[str, Any], options: MappingOptions) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, attribute in options.segments.items():
        places = (place for reading in readings for place in (reading.span.attributes, reading.span.resource))
        value = next((value for place in places if (value := first(place, [attribute])) is not None), None)
        if isinstance(value, str | int | float):
            found[name] = short(str(value)) or ""
    explicit = {key.removeprefix("segments."): value for key, value in own.items() if key.startswith("segments.")}
    return {**found, **{key: str(value) for key, value in explicit.items()}}


def _metadata(group: SpanGroup, readings: Sequence[SpanReading]) -> dict[str, Any]:
    units = (reading.span.time_unit for reading in readings)
    return without_absent(
        {
            "trace_id": readings[0].span.trace_id,
            "span_id": group.anchor.span_id or None,
            "model": _first_text(reversed(group.calls), "model"),
            "response_id": short(_first_text(reversed(group.calls), "response_id")),
            "generation_s": seconds_of(covered_ns(group.calls)),
            "time_unit": next((unit for unit in units if unit != "nanoseconds"), None),
        }
    )


def _document(document: Found) -> dict[str, Any]:
    name = document.id if document.id and _is_name(document.id) else None
    return without_absent({"text": whole(document.text), "id": name, "score": document.score})


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_MAX_CHARS and bool(re.match(NAME_PATTERN, text)) and bool(text.strip())


def short(text: Any) -> str | None:
    """Return an id as a name; a text that no name may be becomes its SHA-256."""
    if text is None or text == "":
        return None
    found = str(text)
    return found if _is_name(found) else hashlib.sha256(found.encode("utf-8", "replace")).hexdigest()


def without_absent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}
