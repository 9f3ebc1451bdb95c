"""Reads a recording: its files, its entries in the order of the streams, and a check of all files."""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from ragtide_schemas import RagInteraction, to_milliseconds

from ..errors import ConfigurationError
from ..redis.entries import order
from . import json_lines
from .entries import EntryKind, RecordedEntry, UnreadableRecordingError
from .manifest import Recorded, RecordedFile, partitions_of, read_chain
from .store import Store, open_store


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording at the time of opening. Only files that a manifest names count.

    `since` and `until` limit the time at which an entry was added to its stream (the time in its id); `until` itself is
    excluded. By default all pipelines and all partitions are read.
    """

    url: str
    partitions: Mapping[int, Recorded]
    """The recorded state of each partition, from its manifests."""
    _store: Store

    @classmethod
    def open(cls, url: str, *, storage_options: Mapping[str, object] | None = None) -> "Recording":
        """Return the recording in a folder or at a URL that fsspec knows.

        Args:
            url: folder, or URL such as `s3://bucket/folder`.
            storage_options: of the file system of the URL.

        Raises:
            UnreadableRecordingError: there is no recording, or its manifests cannot be read.
            ConfigurationError: a package needed to read it is not installed.
        """
        try:
            store = open_store(url, storage_options)
            partitions = {partition: read_chain(store, partition) for partition in partitions_of(store)}
        except (OSError, ValueError) as error:
            raise UnreadableRecordingError(f"{url} cannot be read ({error}): correct the path or its rights") from None
        if not partitions:
            raise UnreadableRecordingError(f"{url} holds no recording: give the recorder.url of a recorder")
        return cls(url, partitions, store)

    def files(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> list[RecordedFile]:
        """Return the files that hold entries of a kind: partition after partition, in the order of the stream."""
        wanted = _Wanted.of(since, until)
        files = [
            file
            for partition, state in self.partitions.items()
            if partitions is None or partition in partitions
            for file in state.files
            if file.kind == kind and not file.unreadable and not file.void and wanted.overlaps(file)
            if pipelines is None or file.pipeline in pipelines
        ]
        return sorted(files, key=lambda file: (file.partition, file.step, order(file.first_id)))

    def tables(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[Any]:
        """Yield one `pyarrow.Table` for each step of the recorder; only one step is in memory at a time.

        Rows are in the order of the stream, over all pipelines of a partition; partitions come one after another.
        docs/offline/recording.md describes the columns. If the column `exact` of a row is not null, read the row from
        it.

        Args:
            kind: `interactions`, `metrics`, `feedback` or `alerts`.
            since: only entries from this time on.
            until: only entries before this time.
            pipelines: only entries of these.
            partitions: only entries of these.

        Raises:
            UnreadableRecordingError: a file is missing or damaged.
            ConfigurationError: pyarrow is not installed.
        """
        formats = _parquet()
        kind, wanted = EntryKind(kind), _Wanted.of(since, until)
        for files in _steps(self.files(kind, since=since, until=until, pipelines=pipelines, partitions=partitions)):
            tables = []
            for file in files:
                table = formats.table_of(kind, self._lines(file)) if file.format == "jsonl" else self._table(file)
                tables.append(formats.rows_between(table, wanted.since_ms, wanted.until_ms, _void(file)))
            yield formats.merge_tables(kind, tables)

    def entries(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[RecordedEntry]:
        """Yield entries with their models, equal to the entries on the stream, in the order of `tables`.

        Args:
            kind: `interactions`, `metrics`, `feedback` or `alerts`.
            since: only entries from this time on.
            until: only entries before this time.
            pipelines: only entries of these.
            partitions: only entries of these.

        Raises:
            UnreadableRecordingError: a file is missing or damaged.
            ConfigurationError: pyarrow is not installed and the recording is Parquet.
            InvalidEntryError: a model is of a newer release.
        """
        kind, wanted = EntryKind(kind), _Wanted.of(since, until)
        for files in _steps(self.files(kind, since=since, until=until, pipelines=pipelines, partitions=partitions)):
            yield from heapq.merge(*(self._entries(file, wanted) for file in files), key=lambda entry: entry.order)

    def _entries(self, file: RecordedFile, wanted: "_Wanted") -> list[RecordedEntry]:
        void = _void(file)
        entries = self._all(file)
        return [entry for entry in entries if wanted.has(entry.order[0]) and (void is None or entry.order <= void)]

    def _all(self, file: RecordedFile) -> list[RecordedEntry]:
        """Return the entries of a file, void ones included."""
        if file.format == "jsonl":
            return self._lines(file)
        with _named(file):
            return list(_parquet().entries_of(file.kind, self._table(file)))

    def count(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> int:
        """Return the number of entries; it reads only files at the ends of the time range or with void entries.

        Args:
            kind: `interactions`, `metrics`, `feedback` or `alerts`.
            since: only entries from this time on.
            until: only entries before this time.
            pipelines: only entries of these.
            partitions: only entries of these.
        """
        wanted = _Wanted.of(since, until)
        files = self.files(kind, since=since, until=until, pipelines=pipelines, partitions=partitions)
        return sum(
            file.count if wanted.covers(file) and not file.partly_void else len(self._entries(file, wanted))
            for file in files
        )

    def redacted(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
    ) -> int:
        """Return the number of entries whose texts were redacted; no file is read, so files count as a whole.

        Args:
            kind: `interactions`, `metrics`, `feedback` or `alerts`.
            since: only files with entries from this time on.
            until: only files with entries before this time.
            pipelines: only entries of these.
        """
        return sum(file.redacted or 0 for file in self.files(kind, since=since, until=until, pipelines=pipelines))

    def unreadable(self, kind: EntryKind | str) -> Iterator[dict[str, Any]]:
        """Yield the unreadable entries of a kind, unchanged, with the reason.

        Args:
            kind: `interactions`, `metrics`, `feedback` or `alerts`.
        """
        for state in self.partitions.values():
            for file in state.files:
                if file.kind == kind and file.unreadable and not file.void:
                    with _named(file):
                        rows = json_lines.decode_lines(self._data(file), _sizes(file))
                    yield from rows

    def lost(self, kind: EntryKind | str) -> list[RecordedEntry]:
        """Return the entries that Redis lost with the end of a stream, and that nobody has published again.

        Without a lost end no file is read. Otherwise files from the first day of a lost entry on are read, because an
        entry that is published again is recorded again.

        Args:
            kind: `interactions` or `feedback`.

        Raises:
            UnreadableRecordingError: a file is missing or damaged.
            ConfigurationError: pyarrow is not installed and the recording is Parquet.
            InvalidEntryError: a model is of a newer release.
        """
        files = [file for state in self.partitions.values() for file in state.files]
        files = [file for file in files if file.kind == kind and not file.unreadable]
        void = [file for file in files if file.void_after is not None and file.partly_void]
        if not void:
            return []
        lost: dict[bytes, RecordedEntry] = {}
        for file in sorted(void, key=lambda file: (file.partition, file.step, order(file.first_id))):
            after = order(file.void_after or file.last_id)
            lost |= {_identity(entry): entry for entry in self._all(file) if entry.order > after}
        first = min(file.day for file in void)
        for file in files:
            if file.day >= first and not file.void:
                for entry in self._entries(file, _Wanted(None, None)):
                    lost.pop(_identity(entry), None)
        return list(lost.values())

    def pipelines(self) -> list[str]:
        """Return the pipelines that have entries of any kind."""
        return sorted({file.pipeline for kind in EntryKind for file in self.files(kind) if file.pipeline is not None})

    @property
    def file_count(self) -> int:
        """Number of files."""
        return sum(len(state.files) for state in self.partitions.values())

    def verify(self, each: Callable[[], object] = lambda: None) -> list[str]:
        """Return a sentence for each file that is missing or differs from its manifest.

        Rows of Parquet files are counted only if pyarrow is installed.

        Args:
            each: called after each file.
        """
        problems = []
        for state in self.partitions.values():
            for file in state.files:
                try:
                    with _named(file):
                        _check(file, self._data(file))
                except UnreadableRecordingError as error:
                    problems.append(str(error))
                each()
        return problems

    def _lines(self, file: RecordedFile) -> list[RecordedEntry]:
        with _named(file):
            return json_lines.decode_entries(file.kind, self._data(file), _sizes(file))

    def _table(self, file: RecordedFile) -> Any:
        with _named(file):
            return _parquet().decode_table(self._data(file), file.count)

    def _data(self, file: RecordedFile) -> bytes:
        try:
            # One byte more than stated, to find a file that is too long.
            data = self._store.read(file.path, file.bytes + 1)
        except FileNotFoundError:
            raise UnreadableRecordingError(
                f"{file.path} is missing: restore it from a copy, or open the recording again if retention removed it"
            ) from None
        except OSError as error:
            raise UnreadableRecordingError(f"{file.path} cannot be read ({error}): look at the store") from None
        if len(data) != file.bytes or sha256(data).hexdigest() != file.sha256:
            raise UnreadableRecordingError(
                f"{file.path} is damaged: its content differs from its manifest; restore it from a copy"
            )
        return data


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The time range in which entries were added to their stream, in milliseconds; the end is excluded."""

    since_ms: int | None
    until_ms: int | None

    @classmethod
    def of(cls, since: datetime | None, until: datetime | None) -> "_Wanted":
        for name, time in (("since", since), ("until", until)):
            if time is not None and time.tzinfo is None:
                raise ValueError(f"{name} is {time}, without a time zone: add a time zone, such as UTC")
        return cls(*(None if time is None else max(to_milliseconds(time), 0) for time in (since, until)))

    def has(self, ms: int) -> bool:
        return (self.since_ms is None or ms >= self.since_ms) and (self.until_ms is None or ms < self.until_ms)

    def covers(self, file: RecordedFile) -> bool:
        return self.has(order(file.first_id)[0]) and self.has(order(file.last_id)[0])

    def overlaps(self, file: RecordedFile) -> bool:
        first_ms, last_ms = order(file.first_id)[0], order(file.last_id)[0]
        return (self.since_ms is None or last_ms >= self.since_ms) and (
            self.until_ms is None or first_ms < self.until_ms
        )


@contextmanager
def _named(file: RecordedFile) -> Iterator[None]:
    """Add the path of the file to an error about its contents."""
    try:
        yield
    except UnreadableRecordingError as error:
        if str(error).startswith(file.path):
            raise
        raise UnreadableRecordingError(f"{file.path}: {error}; restore it and its manifest from a copy") from None


def _check(file: RecordedFile, data: bytes) -> None:
    if file.format == "jsonl":
        json_lines.decode_lines(data, _sizes(file))
        return
    with suppress(ConfigurationError):
        _parquet().check(data, file.count)


def _sizes(file: RecordedFile) -> json_lines.Sizes:
    assert file.unpacked_bytes is not None  # noqa: S101 - for the type checker: a `jsonl` file states its size
    line_bytes = file.unpacked_bytes if file.unreadable else json_lines.ENTRY_LINE_BYTES
    return json_lines.Sizes(lines=file.count, bytes=file.unpacked_bytes, line_bytes=line_bytes)


def _identity(entry: RecordedEntry) -> bytes:
    """Return what an entry that is published again has in common: the id of an interaction, the whole of feedback."""
    model = entry.model
    return f"{model.pipeline}\n{model.interaction_id}".encode() if isinstance(model, RagInteraction) else model.encode()


def _void(file: RecordedFile) -> tuple[int, int] | None:
    return order(file.void_after) if file.void_after is not None and file.partly_void else None


def _steps(files: list[RecordedFile]) -> Iterator[list[RecordedFile]]:
    for _, of_step in groupby(files, key=lambda file: (file.partition, file.step)):
        yield list(of_step)


def _parquet() -> Any:
    try:
        from . import parquet  # noqa: PLC0415 - pyarrow is an extra; JSON Lines recordings do not need it
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        raise ConfigurationError("Parquet recordings need pyarrow: pip install 'ragtide[recorder]'") from None
    return parquet


COUNTS: Final = (*(kind.value for kind in EntryKind), "unreadable", "files", "bytes")
"""Names of the counts of a day and pipeline."""


def counts_by_day(recording: Recording) -> list[dict[str, Any]]:
    """Return the counts of entries, files and bytes by day and pipeline; a partly void file counts as a whole."""
    counts: dict[tuple[date, str | None], Counter[str]] = {}
    for partition in recording.partitions.values():
        for file in partition.files:
            if file.void:
                continue
            numbers = counts.setdefault((file.day, file.pipeline), Counter())
            numbers["unreadable" if file.unreadable else file.kind.value] += file.count
            numbers["files"] += 1
            numbers["bytes"] += file.bytes
    return [
        {"day": str(day), "pipeline": pipeline, **{name: numbers[name] for name in COUNTS}}
        for (day, pipeline), numbers in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]


def partition_rows(recording: Recording) -> list[dict[str, Any]]:
    """Return the last manifest, the positions in the streams, and the redaction of each partition."""
    return [
        {
            "partition": state.partition,
            "manifest": state.number,
            "written_at": None if state.written_at is None else state.written_at.isoformat(),
            "positions": {kind.value: position for kind, position in state.positions.items()},
            "redaction": list(state.redaction),
        }
        for state in recording.partitions.values()
    ]
