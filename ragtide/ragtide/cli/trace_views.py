"""The spans of captured traces, and the interactions that they hold, as tables and lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import typer
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_aggregator.reading.interaction_trace import PassedStation
from ragtide_producers.ingest.span_store import SpanStore
from ragtide_producers.ingest.stored_spans import StoredTrace
from ragtide_producers.traces.explained_content import ExplainedContent
from ragtide_producers.traces.explaining import ExplainedSpan, ExplainedTrace, explain_traces
from ragtide_producers.traces.interactions import Mapped
from ragtide_producers.traces.options import MappingOptions
from ragtide_producers.traces.otlp import read_capture
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas.printable import printable

from .fitting import Column, fitted
from .options import given
from .with_redis import with_redis

TEXT_MAX: Final = 300
"""Most characters of a question, document or answer on the screen."""


NAME_MAX: Final = 60
_TRACE_ID: Final = re.compile(r"(?:otel-)?([0-9a-fA-F]{8,32})(?:-[0-9a-z]{1,16}){0,2}")


def stations_table(found: Sequence[PassedStation]) -> RenderableType:
    """Return the stations of an interaction as a table: station, time and fact, below pipeline and partition."""
    groups: dict[tuple[str | None, int], list[PassedStation]] = {}
    for station in found:
        groups.setdefault((station.pipeline, station.partition), []).append(station)
    shown: list[RenderableType] = []
    for (pipeline, partition), stations in groups.items():
        where = f"pipeline {printable(pipeline)}, " if pipeline else ""
        shown.append(Text(f"{where}partition {partition}; times in UTC", style="bright_black"))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for station in stations:
            time = "" if station.at is None else f"{station.at:%Y-%m-%d %H:%M:%S}"
            table.add_row(station.station, time, Text(printable(station.text)))
        shown.append(table)
    return Group(*shown)


def traces_of_files(context: typer.Context, files: Sequence[Path], trace: str | None) -> list[ExplainedTrace]:
    """Return the traces in the files of captured requests, explained."""
    spans = [span for file in files for span in read_capture(file) if span.trace_id.startswith((trace or "").lower())]
    return explain_traces(spans, MappingOptions.of(given(context).settings().ingest))


def stored_traces(context: typer.Context, ids: Sequence[str]) -> list[ExplainedTrace]:
    """Return the traces with these ids, explained as far as Redis still has their spans.

    Raises:
        ConfigurationError: Redis has no spans of one of them.
    """
    settings = given(context).settings()

    async def find(redis: Redis, _: RedisHandle) -> list[list[StoredTrace]]:
        store = SpanStore(redis, settings.layout, settings.ingest)
        return [await store.find(trace_id) for trace_id in ids]

    found = with_redis(settings, find)
    for trace_id, traces in zip(ids, found, strict=True):
        if not traces:
            raise ConfigurationError(
                f"Redis has no spans of the trace {trace_id}: they stay for ingest.explain_s "
                f"({settings.ingest.explain_s:,.0f} s) after the trace is over, and of many traces only the newest; "
                "capture the next ones with ragtide serve --capture FOLDER"
            )
    options = MappingOptions.of(settings.ingest)
    # Spans that came with different tokens are traces of their own, also those with one id.
    return [
        explained for traces in found for trace in traces for explained in explain_traces(trace.read_spans(), options)
    ]


def trace_id_in(text: str) -> str | None:
    """Return the id of a trace, or its beginning, that an argument names, or an interaction of it; None for a file.

    >>> trace_id_in("9238C17BA6A2"), trace_id_in("otel-9238c17ba6a2e9c84e0c1dc524fedfa9-d051a79a249cdf01")
    ('9238c17ba6a2', '9238c17ba6a2e9c84e0c1dc524fedfa9')
    """
    named = _TRACE_ID.fullmatch(text)
    return named[1].lower() if named and not Path(text).exists() else None


def trace_heading(trace: ExplainedTrace) -> str:
    """Return the heading of a trace."""
    of = f" of {printable(trace.service)[:NAME_MAX]}" if trace.service else ""
    return f"trace {trace.trace_id}{of}"


def trace_spans_table(spans: Sequence[ExplainedSpan], width: int) -> RenderableType:
    """Return the spans of a trace as a table."""
    names = ["  " * min(span.depth, 10) + printable(span.name)[:NAME_MAX] for span in spans]
    parts = [
        ": ".join(part for part in (span.role if span.role != "other" else "", span.part) if part) for span in spans
    ]
    return fitted([Column("span", names, yields=8, shortest=16), Column("part", parts)], width)


def interaction_lines(number: int, mapped: Mapped, content: ExplainedContent) -> Iterator[Text]:
    """Yield the lines about an interaction of a trace."""
    yield Text(f"interaction {number}: {printable(mapped.interaction_id)}", style="bold")
    found = mapped.interaction
    if found is None:
        yield Text(f"  cannot be used ({mapped.refusal}): {printable(mapped.detail)}", style="yellow")
    else:
        yield _line("pipeline", found.pipeline)
    yield from _content_lines(content)
    if mapped.probability is not None:
        yield _line("sampled", f"the sender kept {mapped.probability:.2%} of the traces")
    if found is not None and found.left_out:
        yield _line("left out", ", ".join(sorted(found.left_out)))
    if found is not None and "time_unit" in found.metadata:
        yield _line("times", f"read as {found.metadata['time_unit']}: OpenTelemetry has nanoseconds there")


def _content_lines(content: ExplainedContent) -> Iterator[Text]:
    """Yield the question, the documents, the prompts and the response, each with its place."""
    if content.question is not None:
        yield _line("question", content.question, content.question_from)
    for place, document in enumerate(content.documents, 1):
        notes = [*document.spans, *(["only a part is in the prompt"] if document.is_cut else [])]
        yield _line(f"document {place} {document.document_id or ''}".rstrip(), document.text, ", ".join(notes))
    if not content.documents:
        yield _line("documents", "none were given" if content.not_given else "none were found")
    for document in content.not_given:
        yield _line(f"not given {document.document_id or ''}".rstrip(), document.text, ", ".join(document.spans))
    if content.documents_from == "retrieval" and content.documents:
        yield _line("documents from", "the retrievals, because the spans have no prompt")
    for prompt in content.prompts:
        for message in prompt.messages:
            yield _line(f"prompt of {prompt.span}", message["text"], message["author"])
    if content.response is not None:
        yield _line("response", content.response, content.response_from)


def _line(name: str, text: str, place: str = "") -> Text:
    cut = printable(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")
    where = f" ({printable(place[: 2 * NAME_MAX])})" if place else ""
    return Text.assemble((f"  {printable(name[:NAME_MAX])}{where}: ", "bright_black"), cut)


def traces_summary(found: Sequence[ExplainedTrace]) -> str:
    """Return the numbers of traces and interactions in words."""
    interactions = [mapped for trace in found for mapped in trace.interactions]
    refused = sum(mapped.interaction is None for mapped in interactions)
    spans = sum(span.role != "missing" for trace in found for span in trace.spans)
    unusable = f", {refused} of them cannot be used" if refused else ""
    counted = [_counted(spans, "span"), _counted(len(found), "trace"), _counted(len(interactions), "interaction")]
    return f"{', '.join(counted)}{unusable}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fields_of_trace(trace: ExplainedTrace) -> dict[str, Any]:
    """Return an explained trace as values that JSON can hold."""
    return {
        "trace_id": trace.trace_id,
        "service": trace.service,
        "spans": [
            {"depth": span.depth, "name": span.name, "span_id": span.span_id, "role": span.role, "part": span.part}
            for span in trace.spans
        ],
        "interactions": [
            {
                "interaction_id": mapped.interaction_id,
                "refusal": mapped.refusal,
                "detail": mapped.detail,
                "sampling_probability": mapped.probability,
                "left_out": dict(mapped.interaction.left_out) if mapped.interaction else {},
                "interaction": mapped.interaction.model_dump(mode="json") if mapped.interaction else None,
                "content": asdict(content),
            }
            for mapped, content in zip(trace.interactions, trace.contents, strict=True)
        ],
        "reason": trace.reason,
    }
