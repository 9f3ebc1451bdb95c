"""Counts the selected entries of a recording: the size of the replay's finite population, for every scope."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, cast

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import MetricEvent, RagInteraction

from .selection import Selection

EARLY = timedelta(days=1)
"""How far a producer's clock may run ahead of Redis's clock: a selection by event time begins this much earlier."""


class Scope(NamedTuple):
    """Fields that a scope is told apart by, and a segment value such as `lang=de`; None for all of them."""

    fields: tuple[str | None, ...]
    segment: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of selected entries."""

    total: int = 0
    scopes: Counter[Scope] = field(default_factory=Counter)


def count_selected(recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]) -> Counted:
    """Return how many entries of a kind are selected, in all and by scope, in one pass over the recording.

    Args:
        recording: of which.
        kind: interactions or metric events.
        selection: which of them.
        fields: names of the fields that a scope is told apart by.

    Raises:
        ConfigurationError: nothing is selected.
        UnreadableRecordingError: a file is missing or damaged.
    """
    scopes: Counter[Scope] = Counter()
    for values, of_segment, count in _found(recording, kind, selection, fields):
        scopes[Scope(values, of_segment)] += count
    total = sum(count for scope, count in scopes.items() if scope.segment is None)
    if not total:
        raise ConfigurationError(
            f"{recording.url} holds no {NAMES[kind]} of that selection: widen --since, --until, --pipeline or --segment"
        )
    return Counted(total, scopes)


NAMES = {EntryKind.INTERACTIONS: "interactions", EntryKind.METRICS: "metric events"}


def first_entry(selection: Selection) -> datetime | None:
    """Return the time from which entries can be in a selection."""
    return None if selection.since is None else selection.since - EARLY


def _found(
    recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    """Yield values of the fields, a segment value or None for all, and how many entries have them."""
    since, pipelines = first_entry(selection), selection.pipelines
    if any(file.format != "jsonl" for file in recording.files(kind, since=since, pipelines=pipelines)):
        from .tables import scopes, selected  # noqa: PLC0415 - JSON Lines need no pyarrow

        for table in recording.tables(kind, since=since, pipelines=pipelines):
            yield from scopes(selected(table, selection), fields)
        return
    for entry in recording.entries(kind, since=since, pipelines=pipelines):
        model = cast("RagInteraction | MetricEvent", entry.model)
        if selection.takes(model):
            values = tuple(getattr(model, name) for name in fields)
            for segment in (None, *(f"{name}={value}" for name, value in model.segments.items())):
                yield values, segment, 1
