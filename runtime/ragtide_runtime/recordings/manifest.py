"""The append-only chain of manifests of each partition; a manifest is created once and never changed.

A data file counts from the moment a manifest names it. The number of a manifest is one higher than the number before
it, and if two recorders write the next manifest, the store refuses the second. Every hundredth manifest is complete: it
repeats all files and replaces the manifests before it. The number alone determines the file name, so two recorders
always choose the same name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from ragtide_schemas import describe, from_milliseconds

from ..redis.entries import START, order
from .entries import EntryKind, UnreadableRecordingError
from .store import Store

MANIFEST_VERSION: Final = 1
"""Version of the manifest format; a release reads this version and older ones."""

COMPLETE_EVERY: Final = 100
"""Number of manifests from one complete manifest to the next."""

FOLDER: Final = "manifests"

FAR: Final = date(9999, 12, 31)
"""Day of an entry whose id was chosen by hand and is no time."""

_NAME: Final = re.compile(rf"^{FOLDER}/p(\d+)-(\d+)(\.complete)?\.json$")
_DATA_NAME: Final = re.compile(r"^p(\d+)-(\d+)-")

SUFFIXES: Final = {"parquet": ".parquet", "jsonl": ".jsonl.gz"}
"""Suffix of a data file by its format."""

EntryId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}-[0-9]{1,20}$")]
Natural = Annotated[int, Field(ge=0)]


class _Stored(BaseModel):
    # Unknown fields are ignored: a newer release may add fields that do not change the meaning of the others.
    model_config = ConfigDict(frozen=True, extra="ignore")


class RecordedFile(_Stored):
    """One data file: entries of one kind, day, pipeline and partition, in the order of the stream."""

    kind: EntryKind
    path: str
    """Path in the recording: it follows from the other fields, and ends with letters of the recorder."""
    format: Literal["parquet", "jsonl"]
    """`parquet` or `jsonl` (gzip)."""
    partition: Natural
    step: Natural
    """Number of the manifest that added the file; all entries of a step come before the entries of the next step."""
    day: date
    """UTC day on which the entries were added to the stream."""
    pipeline: str | None = None
    """None for unreadable entries."""
    unreadable: bool = False
    """Whether the file holds unreadable entries, unchanged, with the reason."""
    first_id: EntryId
    last_id: EntryId
    count: Natural
    redacted: Natural | None = None
    """Number of its entries whose texts redaction changed; None in files of the first recorders."""
    first_at: datetime | None = None
    """Earliest time in the models (`occurred_at`, `given_at`, `fired_at`)."""
    last_at: datetime | None = None
    bytes: Natural
    unpacked_bytes: Natural | None = None
    """Bytes of a `jsonl` file before compression; None for a `parquet` file."""
    sha256: str
    void_after: EntryId | None = None
    """Redis lost the entries after this entry, so they do not count; None if no entry was lost."""

    @model_validator(mode="after")
    def _is_where_a_recorder_puts_it(self) -> Self:
        """Refuse any other path, because retention removes the files that a manifest names, and readers read them."""
        if self.unreadable != (self.pipeline is None):
            raise ValueError("unreadable and pipeline contradict each other: unreadable entries have no pipeline")
        if (self.unpacked_bytes is None) != (self.format == "parquet"):
            raise ValueError("unpacked_bytes is the size of a jsonl file before compression: give it for such a file")
        name = f"p{self.partition}-{self.step}-{self.first_id}-{self.last_id}-"
        begin = data_path(self.kind, self.day, self.pipeline, name)
        rest = self.path.removeprefix(begin)
        if rest == self.path or re.fullmatch(rf"[A-Za-z0-9]{{1,16}}{re.escape(SUFFIXES[self.format])}", rest) is None:
            raise ValueError(
                f"path {self.path[:200]!r} is not the path of this file in a recording ({begin}...): only files inside "
                "the recording, with names of recorders, are read or removed"
            )
        for entry_id in (self.first_id, self.last_id):
            if day_of(entry_id) != self.day:
                raise ValueError(f"day {self.day} is not the day of entry {entry_id}, {day_of(entry_id)}")
        return self

    @property
    def void(self) -> bool:
        """Whether no entry of the file counts."""
        return self.void_after is not None and order(self.void_after) < order(self.first_id)

    @property
    def partly_void(self) -> bool:
        """Whether some entries of the file may not count."""
        return self.void_after is not None and order(self.void_after) < order(self.last_id)


class Manifest(_Stored):
    """One step of the recorder in one partition."""

    manifest_version: int = MANIFEST_VERSION
    partition: Natural
    number: Natural
    complete: bool = False
    """Whether `files` holds all files, and not only the files of this step."""
    prefix: str
    """Key prefix of the recorded deployment."""
    positions: dict[EntryKind, EntryId] = {}
    """Last recorded entry of each stream."""
    files: tuple[RecordedFile, ...] = ()
    void: dict[EntryKind, EntryId] = {}
    """Streams whose end Redis lost: recorded entries after this entry do not count."""
    anew: tuple[EntryKind, ...] = ()
    """Streams that began again, because Redis was emptied or replaced: all recorded entries count."""
    dropped_before: date | None = None
    """Retention removed the days before this day."""
    unreadable: dict[EntryKind, int] = {}
    """Number of unreadable entries of this step."""
    written_at: datetime
    written_by: str
    """Holder of the lease; each start of a recorder has another name."""
    ragtide_version: str
    schema_version: int
    redaction: tuple[str, ...] = ()
    """Redactions applied to texts before they were written: `email`, `phone`, `card`, a function's name."""

    @model_validator(mode="after")
    def _names_files_of_its_own(self) -> Self:
        for file in self.files:
            if file.partition != self.partition or file.step > self.number:
                raise ValueError(
                    f"manifest {self.number} of partition {self.partition} names {file.path}, which belongs to another "
                    "partition or to a later step"
                )
        return self

    def encode(self) -> bytes:
        """Return the manifest as JSON."""
        return self.model_dump_json(exclude_none=True, indent=1).encode() + b"\n"


def manifest_path(partition: int, number: int) -> str:
    """Return the path of a manifest.

    >>> manifest_path(0, 200)
    'manifests/p0-000000000200.complete.json'
    """
    return f"{FOLDER}/p{partition}-{number:012d}{'.complete' if is_complete(number) else ''}.json"


def is_complete(number: int) -> bool:
    """Return whether the manifest of a number is complete, so that it repeats all files."""
    return number % COMPLETE_EVERY == 0


def manifest_of(path: str) -> tuple[int, int] | None:
    """Return partition and number of the manifest at a path; None if the path is no manifest."""
    match = _NAME.fullmatch(path)
    return None if match is None else (int(match[1]), int(match[2]))


def step_of(path: str) -> tuple[int, int] | None:
    """Return partition and step of the data file at a path, finished or not; None if it is no data file."""
    match = _DATA_NAME.match(path.rpartition("/")[2].lstrip("."))
    return None if match is None else (int(match[1]), int(match[2]))


def decode_manifest(data: bytes, path: str) -> Manifest:
    """Return a manifest as stored.

    Raises:
        UnreadableRecordingError: the data are no valid manifest, or a newer release wrote it.
    """
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise UnreadableRecordingError(
            f"{path} is no valid manifest ({describe(error)}): restore it from a copy, or upgrade ragtide"
        ) from None
    if manifest.manifest_version > MANIFEST_VERSION:
        raise UnreadableRecordingError(
            f"{path} has manifest_version {manifest.manifest_version}, and this release reads versions up to "
            f"{MANIFEST_VERSION}: upgrade ragtide"
        )
    if path != manifest_path(manifest.partition, manifest.number) or manifest.complete != is_complete(manifest.number):
        raise UnreadableRecordingError(
            f"{path} holds manifest {manifest.number} of partition {manifest.partition}, which has another name: "
            "restore it from a copy"
        )
    return manifest


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded state of a partition after a manifest; `following` returns the state after the next manifest."""

    partition: int
    number: int = 0
    prefix: str | None = None
    positions: Mapping[EntryKind, str] = field(default_factory=dict)
    files: tuple[RecordedFile, ...] = ()
    dropped_before: date | None = None
    written_at: datetime | None = None
    written_by: str | None = None
    """Token of the recorder that wrote the manifest."""
    redaction: tuple[str, ...] = ()

    def position(self, kind: EntryKind) -> str:
        """Return the last recorded entry of a stream."""
        return self.positions.get(kind, START)

    def following(self, manifest: Manifest) -> "Recorded":
        """Return the recorded state after another manifest: the next manifest or a complete manifest."""
        if manifest.complete:
            files = list(manifest.files)
        else:
            files = [_voided(file, manifest.void) for file in self.files]
            if manifest.dropped_before is not None:
                files = [file for file in files if file.day >= manifest.dropped_before]
            files += manifest.files
        return replace(
            self,
            number=manifest.number,
            prefix=manifest.prefix,
            positions={**self.positions, **manifest.positions},
            files=tuple(files),
            dropped_before=manifest.dropped_before or self.dropped_before,
            written_at=manifest.written_at,
            written_by=manifest.written_by,
            redaction=manifest.redaction,
        )


def _voided(file: RecordedFile, void: Mapping[EntryKind, str]) -> RecordedFile:
    after = void.get(file.kind)
    if after is None or order(after) >= order(file.last_id):
        return file
    if file.void_after is not None and order(file.void_after) <= order(after):
        return file
    return file.model_copy(update={"void_after": after})


def fold(partition: int, manifests: Iterable[Manifest]) -> Recorded:
    """Return the recorded state of a partition from its manifests, in order.

    Raises:
        UnreadableRecordingError: a manifest between them is missing.
    """
    recorded = Recorded(partition)
    for manifest in manifests:
        if not manifest.complete and manifest.number != recorded.number + 1:
            raise UnreadableRecordingError(
                f"{manifest_path(partition, recorded.number + 1)} is missing: restore it from a copy"
            )
        recorded = recorded.following(manifest)
    return recorded


def day_of(entry_id: str) -> date:
    """Return the UTC day of an entry id.

    >>> day_of("1700000000123-0")
    datetime.date(2023, 11, 14)
    """
    try:
        return from_milliseconds(order(entry_id)[0]).date()
    except (ValueError, OverflowError, OSError):
        return FAR


def data_path(kind: EntryKind, day: date, pipeline: str | None, name: str) -> str:
    """Return the path of a data file; without a pipeline it is a file of unreadable entries."""
    if pipeline is None:
        return f"{kind}-unreadable/day={day}/{name}"
    return f"{kind}/day={day}/pipeline={safe_name(pipeline)}/{name}"


def data_name(*, partition: int, step: int, first_id: str, last_id: str, writer: str, suffix: str) -> str:
    """Return the name of a data file: partition, step, first and last entry, and a few letters of its writer.

    The letters keep a recorder that was frozen from overwriting a file that another recorder's manifest already names.
    """
    return f"p{partition}-{step}-{first_id}-{last_id}-{writer}{suffix}"


def safe_name(pipeline: str) -> str:
    """Return a pipeline's name as part of a path: percent-encoded; a long name is cut and followed by a hash.

    >>> safe_name("shop/v2 Ä")
    'shop%2Fv2%20%C3%84'
    """
    quoted = quote(pipeline, safe="")
    if len(quoted) <= 120:
        return quoted
    cut = re.sub(r"%[0-9A-F]?$", "", quoted[:100])
    return f"{cut}~{blake2b(pipeline.encode(), digest_size=8).hexdigest()}"


def span(times: Iterable[Any]) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and the latest of some times, in UTC."""
    moments = [time.astimezone(UTC) for time in times]
    return (min(moments), max(moments)) if moments else (None, None)


TRIES = 3
"""Attempts to read a chain while the recorder replaces manifests."""


def partitions_of(store: Store) -> list[int]:
    """Return the partitions that have manifests."""
    return sorted(_numbers(store))


def read_chain(store: Store, partition: int) -> Recorded:
    """Return the recorded state of a partition; it is empty if there is no manifest.

    Raises:
        UnreadableRecordingError: the chain has a gap, or holds a file that is no valid manifest.
    """
    for tries_left in reversed(range(TRIES)):
        numbers = sorted(_numbers(store).get(partition, []))
        first = max((number for number in numbers if is_complete(number)), default=1)
        try:
            return fold(
                partition,
                [
                    decode_manifest(store.read(path), path)
                    for path in (manifest_path(partition, number) for number in numbers if number >= first)
                ],
            )
        except FileNotFoundError as error:  # the recorder has just replaced it
            if not tries_left:
                raise UnreadableRecordingError(f"a manifest vanished while it was read ({error}): read again") from None
    raise AssertionError("not reached")


def replaced_manifests(store: Store, partition: int, number: int) -> list[str]:
    """Return the manifests of a partition before a number."""
    return [manifest_path(partition, earlier) for earlier in _numbers(store).get(partition, []) if earlier < number]


def _numbers(store: Store) -> dict[int, list[int]]:
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for path in store.list(FOLDER):
        known = manifest_of(path)
        if known is not None:
            by_partition[known[0]].append(known[1])
    return by_partition
