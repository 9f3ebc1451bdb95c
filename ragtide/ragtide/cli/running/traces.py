"""Traces in files and in Redis that commands explain."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle

from . import given
from .redis import with_redis

if TYPE_CHECKING:
    from ragtide_producers.ingest.stored_spans import StoredTrace
    from ragtide_producers.traces.explaining import ExplainedTrace


_TRACE_ID: Final = re.compile(r"(?:otel-)?([0-9a-fA-F]{8,32})(?:-[0-9a-z]{1,16}){0,2}")


def traces_of_files(context: typer.Context, files: Sequence[Path], trace: str | None) -> "list[ExplainedTrace]":
    """Return the traces in the files of captured requests, explained."""
    from ragtide_producers.traces.explaining import explain_traces  # noqa: PLC0415 - needs the extra web
    from ragtide_producers.traces.otlp import read_capture  # noqa: PLC0415 - as above

    spans = [span for file in files for span in read_capture(file) if span.trace_id.startswith((trace or "").lower())]
    return explain_traces(spans, given(context).settings().ingest)


def stored_traces(context: typer.Context, ids: Sequence[str]) -> "list[ExplainedTrace]":
    """Return the traces with these ids, explained as far as Redis still has their spans.

    Raises:
        ConfigurationError: Redis has no spans of one of them.
    """
    from ragtide_producers.ingest.span_store import SpanStore  # noqa: PLC0415 - needs the extra web
    from ragtide_producers.traces.explaining import explain_traces  # noqa: PLC0415 - as above

    settings = given(context).settings()

    async def find(redis: Redis, _: RedisHandle) -> "list[list[StoredTrace]]":
        store = SpanStore(redis, settings.layout, settings.ingest)
        return [await store.find(trace_id) for trace_id in ids]

    by_trace = with_redis(settings, find)
    for trace_id, traces in zip(ids, by_trace, strict=True):
        if not traces:
            raise ConfigurationError(
                f"Redis has no spans of the trace {trace_id}: they stay for ingest.explain_s "
                f"({settings.ingest.explain_s:,.0f} s) after the trace is over, and of many traces only the newest; "
                "capture the next ones with ragtide serve --capture FOLDER"
            )
    # Spans that came with different tokens are traces of their own, also those with one id.
    return [
        explained
        for traces in by_trace
        for trace in traces
        for explained in explain_traces(trace.read_spans(), settings.ingest)
    ]


def trace_id_in(text: str) -> str | None:
    """Return the id of a trace, or its beginning, that an argument names, or an interaction of it; None for a file.

    >>> trace_id_in("9238C17BA6A2"), trace_id_in("otel-9238c17ba6a2e9c84e0c1dc524fedfa9-d051a79a249cdf01")
    ('9238c17ba6a2', '9238c17ba6a2e9c84e0c1dc524fedfa9')
    """
    named = _TRACE_ID.fullmatch(text)
    return named[1].lower() if named and not Path(text).exists() else None
