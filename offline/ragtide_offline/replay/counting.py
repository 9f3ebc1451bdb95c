"""Counts the selected entries of a recording: the population sizes of a replay, for every scope."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, cast

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import MetricEvent, RagInteraction
from ragtide_schemas.suggestions import unknown

from .selection import Selection

EARLY = timedelta(days=1)
"""A producer's clock may be this far ahead of Redis's clock, so reading begins this much before `since`."""


SCOPE_FIELDS: Final = ("pipeline", "run", "profile", "labeler", "labeler_version")
"""Fields that separate the estimates of a replay, besides segment and metric."""


class NothingSelectedError(ConfigurationError):
    """A selection of a recording holds no entry."""


class Scope(NamedTuple):
    """The values of the fields that separate scopes, and a segment value such as `lang=de`; None for all segments."""

    fields: tuple[str | None, ...]
    segment: str | None = None


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """Numbers of selected entries."""

    total: int = 0
    scopes: Counter[Scope] = field(default_factory=Counter)

    def population_of(self, key: EstimateKey) -> int:
        """Return the number of metric events in the scope of a key, counted by `SCOPE_FIELDS`; 0 if it has none."""
        return self.scopes.get(Scope(tuple(getattr(key, name) for name in SCOPE_FIELDS), key.segment), 0)


def count_selected(recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]) -> EntryCounts:
    """Return the number of selected entries, in all and by scope, in one pass over the recording.

    Args:
        recording: with the entries.
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
    scopes: Counter[Scope] = Counter()
    for values, of_segment, count in _found(recording, kind, selection, fields):
        scopes[Scope(values, of_segment)] += count
    _check_segments(recording, kind, selection, {scope.segment for scope in scopes})
    total = sum(count for scope, count in scopes.items() if scope.segment is None)
    if not total:
        raise NothingSelectedError(
            f"{recording.url} has no {NAMES[kind]} in this selection: widen --since, --until, --pipeline or --segment"
        )
    return EntryCounts(total, scopes)


def _check_segments(
    recording: Recording, kind: EntryKind, selection: Selection, selected: Collection[str | None]
) -> None:
    """Check that the recording has every segment value that the selection names; a second pass only if one is missing.

    Raises:
        ConfigurationError: a segment value is in no entry.
    """
    missing = [one for one in map("=".join, selection.segments) if one not in selected]
    if not missing:
        return
    everything = Selection(pipelines=selection.pipelines)
    known = {segment for _, segment, _ in _found(recording, kind, everything, ()) if segment is not None}
    for name in missing:
        if name not in known:
            raise ConfigurationError(f"--segment: {unknown('segment value', name, known)}")


NAMES = {EntryKind.INTERACTIONS: "interactions", EntryKind.METRICS: "metric events"}


def first_entry(selection: Selection) -> datetime | None:
    """Return the earliest time of publishing of a selected entry; None for any time."""
    return None if selection.since is None else selection.since - EARLY


def _found(
    recording: Recording, kind: EntryKind, selection: Selection, fields: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], str | None, int]]:
    """Yield values of the fields, a segment value (None for all), and the number of entries that have them."""
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
