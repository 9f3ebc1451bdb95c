"""How much of a recording is selected: the size of a replay's finite population, of every scope."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from ..recordings import Kind, Recording
from .selection import Selection

EARLY = timedelta(days=1)
"""How far a producer's clock may run ahead of Redis's: what is selected by event time is looked for from there on."""


class Scope(NamedTuple):
    """Fields that a scope is told apart by, and a segment value such as `lang=de`; None for all of them."""

    fields: tuple[str | None, ...]
    segment: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of selected entries."""

    total: int = 0
    scopes: Counter[Scope] = field(default_factory=Counter)


def count_selected(recording: Recording, kind: Kind, selection: Selection, fields: Sequence[str]) -> Counted:
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
    total = 0
    for columns in _columns(recording, kind, selection, ("pipeline", "occurred_at", "segments", *fields)):
        for pipeline, occurred_at, segments, *values in zip(*columns, strict=True):
            one = _Seen(pipeline, occurred_at, dict(segments or ()))
            if not selection.takes(one):
                continue
            total += 1
            scopes[Scope(tuple(values))] += 1
            for name, value in one.segments.items():
                scopes[Scope(tuple(values), f"{name}={value}")] += 1
    if not total:
        raise ConfigurationError(
            f"{recording.url} holds no {NAMES[kind]} of that selection: widen --since, --until, --pipeline or --segment"
        )
    return Counted(total, scopes)


NAMES = {Kind.INTERACTIONS: "interactions", Kind.METRICS: "metric events"}


class _Seen(NamedTuple):
    pipeline: str
    occurred_at: datetime
    segments: dict[str, str]


def first_entry(selection: Selection) -> datetime | None:
    """Return the time from which entries can be in a selection."""
    return None if selection.since is None else selection.since - EARLY


def _columns(
    recording: Recording, kind: Kind, selection: Selection, names: Sequence[str]
) -> Iterator[list[Sequence[Any]]]:
    since, pipelines = first_entry(selection), selection.pipelines
    if any(file.format != "jsonl" for file in recording.files(kind, since=since, pipelines=pipelines)):
        for table in recording.tables(kind, since=since, pipelines=pipelines):
            yield [table[name].to_pylist() for name in names]
        return
    # Who reads JSON Lines does not need pyarrow.
    for entry in recording.entries(kind, since=since, pipelines=pipelines):
        yield [[getattr(entry.model, name)] for name in names]
