"""Writes the data files of one step: decodes and redacts entries, one file by kind, day and pipeline. No Redis."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from time import monotonic
from typing import Any, Final, NamedTuple

import structlog

from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, RecordedFile, json_lines
from ragtide_runtime.recordings.manifest import data_name, data_path, day_of, span
from ragtide_runtime.recordings.store import Store
from ragtide_runtime.redis.copies import Copies
from ragtide_runtime.redis.entries import Entry, payload_of, raw_of
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, RagInteraction
from ragtide_schemas.base import VersionedModel

from ..redaction.process import NotRedactedError
from ..redaction.redaction import Redaction


class NotRecordableError(RagtideError):
    """The recording at this place belongs to another deployment."""


class StepAbortedError(RagtideError):
    """The step that is being written is aborted; its entries stay in Redis."""


log = structlog.get_logger("ragtide.recorder")

NOT_REDACTED: Final = "not_redacted"
"""Reason of a recorded entry whose texts are withheld, because redaction took too long or crashed."""


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that a step wrote, and counts of their content."""

    files: tuple[RecordedFile, ...]
    entries: Counter[EntryKind] = field(default_factory=Counter)
    unreadable: Counter[EntryKind] = field(default_factory=Counter)
    bytes: Counter[EntryKind] = field(default_factory=Counter)
    withheld: Counter[EntryKind] = field(default_factory=Counter)
    """Entries whose texts are not recorded, because they could not be redacted; they also count as unreadable."""


class _FilePlace(NamedTuple):
    kind: EntryKind
    day: date
    pipeline: str | None
    """None for unreadable entries."""


class FileWriter:
    """Writes the data files of one ownership session of one partition.

    Args:
        form: file format, `parquet` or `jsonl`.
        redaction: applied before a file is written.
        user_ids: whether pseudonyms are written instead of the ids of users.
        suffix: letters of this session alone.

    Raises:
        ConfigurationError: the form is Parquet and pyarrow is not installed.
    """

    def __init__(
        self, store: Store, partition: int, *, form: str, redaction: Redaction, user_ids: UserIds, suffix: str
    ) -> None:
        self._store = store
        self._partition = partition
        self._form = form
        self._redaction = redaction
        self._user_ids = user_ids
        self._suffix = suffix
        self._encode = _encoder(form)
        self.copies = Copies()
        """Entries that are skipped, because their originals were recorded."""
        self._aborted = False
        self._logged = False

    def abort(self) -> None:
        """Abort the step that is being written, before its next entry; any thread may call it."""
        self._aborted = True

    def write(self, step: int, entries_by_kind: Mapping[EntryKind, Sequence[Entry]]) -> WrittenFiles:
        """Write entries, and return the files. Files count once a manifest names them.

        All entries are decoded and redacted before the first file is written.

        Args:
            step: number of the manifest that will name the files.
            entries_by_kind: new entries of each stream, in order.

        Raises:
            RedactionError: a text could not be redacted; nothing was written.
            StepAbortedError: the step was aborted; nothing was written.
            OSError: the store failed; files that were written are left over.
        """
        places: defaultdict[_FilePlace, list[Any]] = defaultdict(list)
        redacted: Counter[_FilePlace] = Counter()
        withheld: Counter[EntryKind] = Counter()
        for kind, entries in entries_by_kind.items():
            for entry in entries:
                if self.copies.has(kind.value, entry):
                    continue
                if self._aborted:
                    raise StepAbortedError("the step was aborted: its entries stay in Redis for the next recorder")
                try:
                    placed = self._place_row(kind, entry)
                except NotRedactedError as error:
                    placed = self._withhold(kind, entry, error)
                    withheld[kind] += 1
                if placed is not None:
                    place, row, changed = placed
                    places[place].append(row)
                    redacted[place] += changed
        written = WrittenFiles(
            tuple(self._write_file(step, place, rows, redacted[place]) for place, rows in places.items()),
            withheld=withheld,
        )
        for file in written.files:
            written.entries[file.kind] += file.count
            written.bytes[file.kind] += file.bytes
            written.unreadable[file.kind] += file.count * file.unreadable
        return written

    def _place_row(self, kind: EntryKind, entry: Entry) -> tuple[_FilePlace, Any, bool] | None:
        # None for a session, because its turns are recorded.
        day = day_of(entry.entry_id)
        try:
            model = self._model(kind, entry)
        except InvalidEntryError as error:
            return _FilePlace(kind, day, None), self._unreadable_row(kind, entry, error), False
        if isinstance(model, RagInteraction) and model.is_session:
            return None
        redacted = self._redaction.model(kind, entry.entry_id, model)
        pipeline: str = redacted.pipeline  # type: ignore[attr-defined]  # every recorded model has one
        return (
            _FilePlace(kind, day, pipeline),
            RecordedEntry(self._partition, entry.entry_id, redacted),
            redacted != model,
        )

    def _model(self, kind: EntryKind, entry: Entry) -> VersionedModel:
        model = kind.decode(entry.entry_id, payload_of(entry.fields, kind.value))
        if isinstance(model, RagInteraction):
            return self._user_ids.with_pseudonym(model)
        if isinstance(model, MetricEvent):
            return self._user_ids.with_pseudonym(model)
        return model

    def _withhold(
        self, kind: EntryKind, entry: Entry, error: NotRedactedError
    ) -> tuple[_FilePlace, dict[str, Any], bool]:
        # The row counts as unreadable, because a replay would score any text that replaced the withheld texts.
        if not self._logged:
            log.error(
                "an entry is recorded without its texts; further such entries are only counted",
                partition=self._partition,
                stream=kind.value,
                entry_id=entry.entry_id,
                detail=str(error),
            )
            self._logged = True
        raw = raw_of(entry.fields)
        row: dict[str, Any] = {"entry_id": entry.entry_id, "partition": self._partition, "reason": NOT_REDACTED}
        row |= {"detail": str(error), "withheld_bytes": len(raw)}
        with suppress(InvalidEntryError):
            row["fields"] = self._redaction.without_texts(kind, self._model(kind, entry))
        return _FilePlace(kind, day_of(entry.entry_id), None), row, False

    def _unreadable_row(self, kind: EntryKind, entry: Entry, error: InvalidEntryError) -> dict[str, Any]:
        row: dict[str, Any] = {"entry_id": entry.entry_id, "partition": self._partition, "reason": error.reason.value}
        raw = raw_of(entry.fields)
        payload = self._redaction.unreadable(raw)
        if payload is None:
            return {**row, "withheld_bytes": len(raw)}
        if payload == raw and not self._redaction.names:
            row["detail"] = error.detail  # it may show a value, so it is left out if anything is redacted
        # A dead letter cuts long payloads.
        dead_letter = DeadLetter.of(
            payload,
            stream=kind.value,
            entry_id=entry.entry_id,
            reason=error.reason,
            detail=error.detail,
            component="recorder",
        )
        included = {"payload", "payload_encoding", "size_bytes", "sha256"}
        return {**row, **dead_letter.model_dump(include=included, exclude_none=True)}

    def _write_file(self, step: int, place: _FilePlace, rows: Sequence[Any], redacted: int) -> RecordedFile:
        unreadable = place.pipeline is None
        if unreadable:
            suffix, (data, unpacked) = json_lines.SUFFIX, _packed(json_lines.lines_of(rows))
            first_id, last_id = rows[0]["entry_id"], rows[-1]["entry_id"]
            first_at = last_at = None
        else:
            suffix, (data, unpacked) = self._encode(place.kind, rows)
            first_id, last_id = rows[0].entry_id, rows[-1].entry_id
            first_at, last_at = span(getattr(row.model, place.kind.time_field) for row in rows)
        name = data_name(
            partition=self._partition,
            step=step,
            first_id=first_id,
            last_id=last_id,
            writer=self._suffix,
            suffix=suffix,
        )
        path = data_path(place.kind, place.day, place.pipeline, name)
        self._store.write(path, data)
        return RecordedFile(
            kind=place.kind,
            path=path,
            format="jsonl" if unreadable else self._form,
            partition=self._partition,
            step=step,
            day=place.day,
            pipeline=place.pipeline,
            unreadable=unreadable,
            first_id=first_id,
            last_id=last_id,
            count=len(rows),
            redacted=redacted,
            first_at=first_at,
            last_at=last_at,
            bytes=len(data),
            unpacked_bytes=unpacked,
            sha256=sha256(data).hexdigest(),
        )


def prepare(form: str) -> None:
    """Load the library of a file format before there is a lease, because loading takes seconds.

    Raises:
        ConfigurationError: the form is Parquet and pyarrow is not installed.
    """
    _encoder(form)


def _encoder(form: str) -> Any:
    if form == "jsonl":
        return lambda _, rows: (json_lines.SUFFIX, _packed(json_lines.lines_of(json_lines.rows_of(rows))))
    try:
        from ragtide_runtime.recordings import parquet  # noqa: PLC0415 - an extra; JSON Lines do without
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        raise ConfigurationError(
            "recorder.format is parquet, which needs pyarrow: pip install 'ragtide[recorder]', or set jsonl"
        ) from None
    return lambda kind, rows: (parquet.SUFFIX, (parquet.encode_table(parquet.table_of(kind, rows)), None))


def _packed(lines: bytes) -> tuple[bytes, int]:
    return json_lines.pack(lines), len(lines)


@dataclass(slots=True)
class UnwrittenEntries:
    """Entries that were read and are not written yet, by kind."""

    entries: defaultdict[EntryKind, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    ends: defaultdict[EntryKind, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Last entry of every read."""
    count: int = 0
    bytes: int = 0
    since: float = 0.0
    """Monotonic time at which the first entry was read."""

    def add(self, kind: EntryKind, entries: Sequence[Entry]) -> None:
        """Add the entries of a read."""
        if not self.count:
            self.since = monotonic()
        self.entries[kind] += entries
        self.ends[kind].append(entries[-1].entry_id)
        self.count += len(entries)
        self.bytes += sum(len(value) for entry in entries for value in entry.fields.values())
