"""The metric events in the parts of a replay, as a recording that has them; and the rows that are dead letters."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.recordings.parquet import entries_of
from ragtide_runtime.redis.keys import Streams, identity_digest
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, Reason

from ..replay.selection import SCOPE_FIELDS, EntryCounts
from ..replay.tables import scope_counts
from .part_files import all_parts, read_part, recorded
from .recorded_input import RecordedInput

COMPONENT = "replay"
"""Component of the dead letters of a replay in parts."""

Place = tuple[int, int, int]
"""The two numbers of an entry id, and the partition: the order in which a replay publishes."""


DeadLetterOf = tuple[Streams, str, DeadLetter]
"""Keys of the partition, entry id of the interaction, and dead letter with this id, so that it is there once."""


@dataclass(frozen=True, slots=True)
class _LabeledPart:
    """A part, with what is known of its rows, whose numbers in the part are from 0."""

    path: Path
    partitions: frozenset[int]
    skipped: tuple[int, ...] = ()
    """Rows of interactions whose id an earlier one has."""
    failed: Mapping[int, tuple[str, Reason]] = field(default_factory=dict)
    """Rows without scores that are not skipped: pipeline and reason."""
    rejected: Mapping[int, tuple[Reason, str]] = field(default_factory=dict)
    """Rows whose metric event cannot be counted, and that are not skipped: reason and sentence."""

    def events(self) -> Any:
        """Return the metric events as a table of a recording."""
        table = self._table()
        taken = np.ones(table.num_rows, dtype=bool)
        taken[list(self.skipped)] = False
        return _as_recorded(table.filter(pc.and_(pa.array(taken), pc.is_null(table["problem"]))))

    def letters(self, of: RecordedInput, user_ids: UserIds, layout: Mapping[int, Streams]) -> Iterator[DeadLetterOf]:
        """Yield the dead letters, in the order of their entries."""
        if not self.failed and not self.rejected:
            return
        table, reader = self._table(), of.reader()
        for row in sorted([*self.failed, *self.rejected]):
            result = table.slice(row, 1)
            ms, number, partition = _place(result["file"][0].as_py())
            streams, entry_id = layout[partition], f"{ms}-{number}"
            if row in self.failed:
                place = result["row"][0].as_py()
                (recorded_row,) = reader.between(place - 1, place)
                interaction = recorded_row.interaction
                assert interaction is not None  # noqa: S101 - for the type checker: recorded rows have one
                payload, stream = user_ids.with_pseudonym(interaction).encode(), streams.interactions
                reason, detail = _reason_of(result["problem"][0].as_py())
            else:
                (entry,) = entries_of(EntryKind.METRICS, _as_recorded(result))
                payload, stream = entry.model.encode(), streams.metrics
                reason, detail = self.rejected[row]
            letter = DeadLetter.of(
                payload, stream=stream, entry_id=entry_id, reason=reason, detail=detail, component=COMPONENT
            )
            yield streams, entry_id, letter

    def _table(self) -> Any:
        with parquet.ParquetFile(self.path) as file:
            return file.read()


def _as_recorded(table: Any) -> Any:
    places = pc.split_pattern(table["file"].cast(pa.string()).combine_chunks(), "-").flatten().to_numpy(False)
    ms, numbers, partitions = places.reshape(-1, 3).T
    rows = recorded(table.drop_columns(["file"]))
    columns = {
        "entry_id": pa.array([f"{first}-{second}" for first, second in zip(ms, numbers, strict=True)], pa.string()),
        "entry_ms": pa.array(ms.astype(np.uint64)),
        "entry_number": pa.array(numbers.astype(np.uint64)),
        "partition": pa.array(partitions.astype(np.int32)),
    }
    for name, column in columns.items():
        if name in rows.column_names:
            rows = rows.drop_columns([name])
        rows = rows.append_column(name, column)
    return rows


def _place(text: str) -> Place:
    return cast("Place", tuple(int(part) for part in text.split("-")))


def _reason_of(problem: str) -> tuple[Reason, str]:
    code, _, detail = problem.partition(": ")
    try:
        return Reason(code), detail
    except ValueError:  # its event does not fit into a part
        return Reason.INVALID, problem


@dataclass(frozen=True, slots=True)
class RelabeledRecording(Recording):
    """A recording whose metric events are those of parts; all else is as it was recorded."""

    parts: Sequence[_LabeledPart] = ()

    def tables(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[Any]:
        """Yield tables as `Recording.tables`; those of metric events are not limited by time or pipeline."""
        if EntryKind(kind) is not EntryKind.METRICS:
            yield from Recording.tables(
                self, kind, since=since, until=until, pipelines=pipelines, partitions=partitions
            )
            return
        for part in self.parts:
            wanted = part.partitions if partitions is None else part.partitions.intersection(partitions)
            if not wanted:
                continue
            events = part.events()
            for partition in sorted(wanted):
                table = events.filter(pc.equal(events["partition"], partition))
                if table.num_rows:
                    yield table

    def entries(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[RecordedEntry]:
        """Yield entries as `Recording.entries`; metric events are those of `tables`."""
        if EntryKind(kind) is EntryKind.METRICS:
            for table in self.tables(kind, partitions=partitions):
                yield from entries_of(EntryKind.METRICS, table)
            return
        yield from Recording.entries(self, kind, since=since, until=until, pipelines=pipelines, partitions=partitions)


@dataclass(frozen=True, slots=True)
class Relabeled:
    """The metric events of all parts."""

    recording: RelabeledRecording
    counted: EntryCounts
    """Numbers of metric events, by `SCOPE_FIELDS`. Those of a scope have the failed rows of its pipeline, too: an
    interaction without scores is a part of the population, and its labeler and segments are not known."""
    dead_letters: Counter[str]
    """Interactions without scores, and metric events that cannot be counted, by reason."""
    duplicates: int
    """Interactions that are left out, because an earlier one has the same id."""
    cost_usd: float
    tokens: tuple[int, int]
    """Tokens of prompts and of answers."""
    cache_hits: int

    def letters(self, of: RecordedInput, user_ids: UserIds, layout: Mapping[int, Streams]) -> Iterator[DeadLetterOf]:
        """Yield the dead letters: those of a partition in the order of their entries.

        Args:
            of: the interactions that were labeled.
            user_ids: whether pseudonyms are in the place of ids of users.
            layout: keys of the workspace by partition.
        """
        for part in self.recording.parts:
            yield from part.letters(of, user_ids, layout)


def relabeled(folder: Path, recording: Recording) -> Relabeled:
    """Return the metric events of all parts of a folder, after a pass over them.

    Args:
        recording: whose interactions were labeled.

    Raises:
        UnusablePartsError: a part is missing or cannot be read.
    """
    paths = all_parts(folder)
    cost_usd, tokens, cache_hits = 0.0, [0, 0], 0
    rows, digests = [], list[NDArray[np.uint64]]()
    for path in paths:
        part, of_part = read_part(path), _PartRows.of(path)
        cost_usd += part.totals.cost_usd
        tokens = [before + more for before, more in zip(tokens, of_part.tokens, strict=True)]
        cache_hits += of_part.cache_hits
        digests.append(np.array([_number(name) for name in of_part.names], dtype=np.uint64))
        rejected = {row: (Reason(reason), detail) for row, reason, detail in part.rejected}
        rows.append((of_part.partitions, of_part.failed(), rejected))
    parts = []
    for path, repeated, (partitions, failed, rejected) in zip(paths, _repeated(paths, digests), rows, strict=True):
        for row in repeated:
            failed.pop(row, None)
            rejected.pop(row, None)
        parts.append(_LabeledPart(path, partitions, repeated, failed, rejected))
    of_parts = RelabeledRecording(recording.url, recording.partitions, recording._store, parts)
    tables = of_parts.tables(EntryKind.METRICS)
    counted = EntryCounts.of(chain.from_iterable(scope_counts(table, SCOPE_FIELDS) for table in tables))
    unlabeled = Counter(pipeline for part in parts for pipeline, _ in part.failed.values())
    for scope in counted.scopes:
        counted.scopes[scope] += unlabeled[scope.fields[0] or ""]
    reasons = [str(reason) for part in parts for _, reason in part.failed.values()]
    reasons += [str(reason) for part in parts for reason, _ in part.rejected.values()]
    duplicates = sum(len(part.skipped) for part in parts)
    prompt_tokens, completion_tokens = tokens
    return Relabeled(
        of_parts,
        counted,
        Counter(reasons),
        duplicates,
        cost_usd,
        (prompt_tokens, completion_tokens),
        cache_hits,
    )


_READ = ("file", "pipeline", "interaction_id", "problem", "prompt_tokens", "completion_tokens", "counters")


class _PartRows(NamedTuple):
    """The rows of a part."""

    names: list[tuple[str, str]]
    """Pipeline and interaction id."""
    places: list[str]
    problems: list[str | None]
    tokens: tuple[int, int]
    cache_hits: int

    @classmethod
    def of(cls, path: Path) -> Self:
        with parquet.ParquetFile(path) as file:
            table = file.read(columns=list(_READ))
        names = zip(table["pipeline"].to_pylist(), table["interaction_id"].to_pylist(), strict=True)
        sent, answered = (pc.sum(table[name]).as_py() or 0 for name in ("prompt_tokens", "completion_tokens"))
        counters = [dict(counts or ()) for counts in table["counters"].to_pylist()]
        return cls(
            list(names),
            table["file"].cast(pa.string()).to_pylist(),
            table["problem"].to_pylist(),
            (sent, answered),
            sum(counts.get("cache_hits", 0) for counts in counters),
        )

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(int(place.rpartition("-")[2]) for place in self.places)

    def failed(self) -> dict[int, tuple[str, Reason]]:
        """Return the rows without scores, each with pipeline and reason."""
        return {
            row: (self.names[row][0], _reason_of(problem)[0])
            for row, problem in enumerate(self.problems)
            if problem is not None
        }


def _number(name: tuple[str, str]) -> int:
    return int.from_bytes(identity_digest(*name)[:8])


def _repeated(paths: Sequence[Path], digests: Sequence[NDArray[np.uint64]]) -> list[tuple[int, ...]]:
    numbers, counts = np.unique(np.concatenate(digests), return_counts=True)
    doubtful = numbers[counts > 1]
    rows_of: defaultdict[tuple[str, str], list[tuple[Place, int, int]]] = defaultdict(list)
    for part, (path, of_part) in enumerate(zip(paths, digests, strict=True)):
        rows = np.flatnonzero(np.isin(of_part, doubtful)).tolist()
        if rows:
            names = _PartRows.of(path)
            for row in rows:
                rows_of[names.names[row]].append((_place(names.places[row]), part, row))
    repeated: defaultdict[int, list[int]] = defaultdict(list)
    for same in rows_of.values():
        for _, part, row in sorted(same)[1:]:
            repeated[part].append(row)
    return [tuple(sorted(repeated[part])) for part in range(len(paths))]
