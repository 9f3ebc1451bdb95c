"""Counts the selected entries of a recording, in all and for every scope."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, cast

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import MetricEvent, RagInteraction
from ragtide_schemas.suggestions import unknown

from .selection import (
    OF_SESSIONS,
    EntryCounts,
    MetricVersion,
    NothingSelectedError,
    Scope,
    ScopeCount,
    Selection,
    first_entry,
)

NAMES: Final = {EntryKind.INTERACTIONS: "interactions", EntryKind.METRICS: "metric events"}


def count_selected(recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]) -> EntryCounts:
    """Return the number of selected entries, in all and by scope, in one pass over the recording.

    Args:
        kind: interactions or metric events.
        selection: the part to count.
        fields: names of the fields that separate scopes.

    Raises:
        NothingSelectedError: nothing is selected.
        ConfigurationError: the recording has no such pipeline or segment value.
        UnreadableRecordingError: a file is missing or damaged.
    """
    for name in sorted(selection.pipelines or ()):
        if name not in (known := recording.pipelines()):
            raise ConfigurationError(f"--pipeline: {unknown('pipeline', name, known)}")
    counts = EntryCounts.of(_scope_counts(recording, kind, selection, fields))
    _check_segments(recording, kind, selection, {scope.segment for scope in counts.scopes})
    if not counts.total:
        raise NothingSelectedError(
            f"{recording.url} has no {NAMES[kind]} in this selection: widen --since, --until, --pipeline or --segment"
        )
    return counts


def _check_segments(
    recording: Recording, kind: EntryKind, selection: Selection, selected_rows: Collection[str | None]
) -> None:
    missing = [value for value in map("=".join, selection.segments) if value not in selected_rows]
    if not missing:
        return
    everything = Selection(pipelines=selection.pipelines)
    counted = (scope.segment for scope, _, _ in _scope_counts(recording, kind, everything, ()))
    known = {segment for segment in counted if segment is not None}
    for name in missing:
        if name not in known:
            raise ConfigurationError(f"--segment: {unknown('segment value', name, known)}")


def _scope_counts(
    recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]
) -> Iterator[ScopeCount]:
    since, pipelines = first_entry(selection), selection.pipelines
    if any(file.format != "jsonl" for file in recording.files(kind, since=since, pipelines=pipelines)):
        from .tables import scope_counts, selected_rows  # noqa: PLC0415 - JSON Lines need no pyarrow

        for table in recording.tables(kind, since=since, pipelines=pipelines):
            yield from scope_counts(selected_rows(table, selection), fields)
        return
    for entry in recording.entries(kind, since=since, pipelines=pipelines):
        model = cast("RagInteraction | MetricEvent", entry.model)
        if selection.takes(model) and not (isinstance(model, MetricEvent) and model.is_tick):
            values = (*(getattr(model, name) for name in fields), *(OF_SESSIONS if model.is_session else ()))
            scored = isinstance(model, MetricEvent) and model.is_session
            metrics = _metric_versions(cast("MetricEvent", model)) if scored else frozenset[MetricVersion]()
            for segment in (None, *(f"{name}={value}" for name, value in model.segments.items())):
                yield Scope(values, segment), 1, metrics


def _metric_versions(event: MetricEvent) -> frozenset[MetricVersion]:
    declared = event.declared or {}
    return frozenset(
        (metric, declared[metric].version if metric in declared else None)
        for metric in {*event.scores, *event.absent, *declared}
    )
