"""Recordings for tests: the entries of streams, written as the recorder writes them, in several steps."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from ragtide_consumers.recorder.writing import FileWriter
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_runtime.recordings import EntryKind, RecordedEntry, RecordedFile, Recording
from ragtide_runtime.recordings.manifest import Manifest, data_name, data_path, day_of, manifest_path
from ragtide_runtime.recordings.parquet import encode_table, table_of
from ragtide_runtime.recordings.store import open_store
from ragtide_runtime.redis.entries import Entry
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.user_ids import UserIds


def record_streams(redis: Any, layout: Layout, folder: Path, *, steps: int = 3) -> Recording:
    """Record the present entries of a deployment's streams, and return the recording."""
    entries: list[tuple[EntryKind, RecordedEntry]] = []
    for streams in layout.all():
        for kind in EntryKind:
            for entry_id, fields in redis.xrange(kind.stream(streams)):
                model = kind.decode(entry_id.decode(), fields[DATA_FIELD])
                entries.append((kind, RecordedEntry(streams.partition, entry_id.decode(), model)))
    return record(entries, folder, prefix=layout.prefix, partitions=layout.partitions, steps=steps)


def record(
    entries: Iterable[tuple[EntryKind, RecordedEntry]],
    folder: Path,
    *,
    prefix: str = "ragtide",
    partitions: int = 1,
    steps: int = 3,
) -> Recording:
    """Write entries as a recording of so many steps, and return it."""
    store = open_store(str(folder), None)
    of: defaultdict[int, list[tuple[EntryKind, RecordedEntry]]] = defaultdict(list)
    for kind, entry in entries:
        of[entry.partition].append((kind, entry))
    for partition in range(partitions):
        found = sorted(of[partition], key=lambda one: one[1].order)
        size = -(-len(found) // steps) or 1
        for step in range(1, steps + 1):
            groups: defaultdict[tuple[Any, ...], list[RecordedEntry]] = defaultdict(list)
            for kind, entry in found[(step - 1) * size : step * size]:
                pipeline = getattr(entry.model, "pipeline")  # noqa: B009 - every recorded model has one
                groups[kind, day_of(entry.entry_id), pipeline].append(entry)
            files = []
            for (kind, day, pipeline), of_file in groups.items():
                data = encode_table(table_of(kind, of_file))
                first, last = of_file[0].entry_id, of_file[-1].entry_id
                name = data_name(
                    partition=partition, step=step, first_id=first, last_id=last, writer="test", suffix=".parquet"
                )
                path = data_path(kind, day, pipeline, name)
                store.write(path, data)
                files.append(
                    RecordedFile(
                        kind=kind,
                        path=path,
                        format="parquet",
                        partition=partition,
                        step=step,
                        day=day,
                        pipeline=pipeline,
                        first_id=first,
                        last_id=last,
                        count=len(of_file),
                        bytes=len(data),
                        sha256=sha256(data).hexdigest(),
                    )
                )
            manifest = Manifest(
                partition=partition,
                number=step,
                prefix=prefix,
                files=tuple(files),
                written_at=datetime.now(UTC),
                written_by="test",
                ragtide_version="0",
                schema_version=1,
            )
            store.create(manifest_path(partition, step), manifest.encode())
    return Recording.open(str(folder))


def record_raw(folder: Path, payloads: Mapping[str, bytes], *, partition: int = 0, step: int) -> Recording:
    """Record payloads by entry id as the next step of a recording, as the recorder does; they may be unreadable.

    Returns:
        The recording, opened again.
    """
    store = open_store(str(folder), None)
    writer = FileWriter(
        store, partition, form="parquet", redaction=Redaction(), user_ids=UserIds(hashed=False), suffix="raw"
    )
    entries = [Entry(entry_id, {DATA_FIELD: payload}) for entry_id, payload in payloads.items()]
    written = writer.write(step, {EntryKind.INTERACTIONS: entries})
    manifest = Manifest(
        partition=partition,
        number=step,
        prefix="ragtide",
        files=written.files,
        written_at=datetime.now(UTC),
        written_by="test",
        ragtide_version="0",
        schema_version=1,
    )
    store.create(manifest_path(partition, step), manifest.encode())
    return Recording.open(str(folder))
