"""One ownership session of a recorder: its work on a partition, while it owns the partition.

One step:

1. Entries after the positions of the last manifest are read, until it is time to write (`roll_s`, `ROLL_ENTRIES`,
   `ROLL_BYTES`, or the end).
2. They are redacted and written as data files. The files do not count yet.
3. Redis checks that the lease is still held, and that all entries that were read are still in the streams.
4. The manifest is created under the next number, unless that number is taken. From here on the step counts.
5. The group `record` of each stream is moved, so that recorded entries may be trimmed.

If the recorder is killed before 4, the step does not count: no manifest names its files, and the next session removes
them. The next session first creates a manifest of its own, so that a frozen earlier owner cannot name them afterwards.
If the recorder is killed before 5, the next session moves the group.
"""

import asyncio
from collections.abc import Callable
from datetime import date, timedelta
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, TypeVar

import structlog
from redis.asyncio import Redis

from ragtide_runtime import __version__
from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.manifest import (
    COMPLETE_EVERY,
    FAR,
    FOLDER,
    Manifest,
    Recorded,
    RecordedFile,
    is_complete,
    manifest_path,
    read_chain,
    replaced_manifests,
    step_of,
)
from ragtide_runtime.recordings.store import TEMPORARY, Store
from ragtide_runtime.redis.copies import Copies
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.log import ReadSize, end_at, last_id, read_after
from ragtide_runtime.settings.retention import RecorderSettings
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import SCHEMA_VERSION, utc_now

from ..redaction.redaction import Redaction
from .fence import Fence
from .telemetry import RecorderTelemetry
from .writing import FileWriter, NotRecordableError, UnwrittenEntries, WrittenFiles

ROLL_ENTRIES: Final = 50_000
"""Entries that wait for a file at most."""
ROLL_BYTES: Final = 67_108_864
"""Bytes of JSON of waiting entries at which they are written before `roll_s` has passed, which bounds memory."""

READ: Final = 250
"""Most entries of each stream that one read takes."""

BLOCK_S: Final = 0.5
"""Most seconds that one read waits, so that a stop is noticed."""

CHECK_S: Final = 1.0
"""Seconds between two checks of the streams and of old days, while nothing is written."""

STOP_S: Final = 20.0
"""Most seconds for writing the remaining entries of the streams after a stop."""

log = structlog.get_logger("ragtide.recorder")

T = TypeVar("T")


class RecorderSession:
    """Records a partition while this recorder owns it."""

    def __init__(
        self,
        redis: Redis,
        settings: RecorderSettings,
        ownership: Ownership,
        *,
        store: Store,
        redaction: Redaction,
        user_ids: UserIds,
        telemetry: RecorderTelemetry,
        storing: Attempt | None = None,
    ) -> None:
        (streams,) = ownership.streams
        token = ownership.tokens[streams.partition]
        self._storing = storing
        self._redis = redis
        self._streams = streams
        self._settings = settings
        self._store = store
        self._redaction = redaction
        self._token = token
        self.ownership = ownership
        self._telemetry = telemetry
        self._kinds = [EntryKind(name) for name in settings.kinds]
        self._fence = Fence(redis, streams, self._kinds, token=token)
        suffix = blake2b(token.encode(), digest_size=3).hexdigest()
        self._writer = FileWriter(
            store, streams.partition, form=settings.format, redaction=redaction, user_ids=user_ids, suffix=suffix
        )
        self._recorded = Recorded(streams.partition)
        self._read_size = ReadSize(redis)
        self._next = UnwrittenEntries()
        self._stop_by: float | None = None

    async def run(self) -> None:
        """Record until the ownership is to end; then write all entries of the streams, for at most `STOP_S`.

        Raises:
            LeaseLostError: another recorder owns the partition.
            StreamRollbackError: Redis lost entries that were read; begin again.
            NotRecordableError: the recording belongs to another deployment.
            RedactionError: a text could not be redacted.
            StepAbortedError, RedactionAbortedError: writing took longer than `STOP_S` after the stop.
            UnreadableRecordingError: the manifests cannot be read.
            redis.RedisError, OSError: Redis or the store failed; begin again.
        """
        await self.begin()
        check_at = monotonic() + CHECK_S
        while True:
            wait_s = BLOCK_S
            if self._next.count:
                wait_s = min(wait_s, self._next.since + self._settings.roll_s - monotonic())
            behind = await self.take(max(wait_s, 0.0))
            self._turned()
            stopping = self.ownership.stop.is_set()
            if self._due() or (stopping and self._next.count and not behind):
                await self.write()
            elif monotonic() >= check_at:
                await self._check()
                await self._drop_old_days()
                check_at = monotonic() + CHECK_S
            if stopping and ((not behind and not self._next.count) or self._is_late()):
                return

    def _turned(self) -> None:
        self.ownership.check()
        doing = f"recording, {self._next.count} read and not written yet"
        self._telemetry.partition_turned(self._streams.partition, doing)

    def _is_late(self) -> bool:
        if self.ownership.stop.is_set() and self._stop_by is None:
            self._stop_by = monotonic() + STOP_S
        return self._stop_by is not None and monotonic() >= self._stop_by

    async def begin(self) -> None:
        """Read the positions of the recording, and create a manifest of this session."""
        self._recorded = await self._aside(lambda: read_chain(self._store, self._streams.partition))
        prefix = self._recorded.prefix
        if prefix is not None and prefix != self._streams.prefix:
            raise NotRecordableError(
                f"{self._settings.url} holds the recording of the deployment {prefix!r}, but this deployment is "
                f"{self._streams.prefix!r}: give each deployment a recorder.url of its own"
            )
        void: dict[EntryKind, str] = {}
        anew: list[EntryKind] = []
        positions: dict[EntryKind, str] = {}
        for kind in self._kinds:
            position, stream = self._recorded.position(kind), kind.stream(self._streams)
            end = await end_at(self._redis, stream, position)
            positions[kind] = end
            if end == position:
                continue
            if await last_id(self._redis, stream) == START:
                # Redis was emptied or replaced: the archive stays valid.
                anew.append(kind)
            else:
                void[kind] = end
            log.error(
                "a stream ends before the last manifest: Redis lost its end",
                partition=self._streams.partition,
                stream=kind.value,
                recorded=position,
                found=end,
            )
        if void:
            # Redis was restored from a copy in which these streams did not exist yet: their entries are lost, too.
            void |= {kind: positions[kind] for kind in anew}
            anew = []
        await self._fence.pin()
        await self._fence.check({})
        self._writer.copies = await Copies.read(self._redis, self._streams)
        await self._commit(self._manifest(positions=positions, void=void, anew=tuple(anew)))
        removed = await self._aside(lambda: remove_left_overs(self._store, self._recorded))
        await self._drop_old_days()
        log.info(
            "recording a partition",
            partition=self._streams.partition,
            url=self._settings.url,
            manifest=self._recorded.number,
            left_overs=removed,
        )
        log.info(
            "recording: a file is written this long after its first entry, or earlier at this many entries or bytes",
            partition=self._streams.partition,
            seconds=self._settings.roll_s,
            entries=ROLL_ENTRIES,
            bytes=ROLL_BYTES,
        )

    async def take(self, wait_s: float) -> bool:
        """Read the next entries, and return whether there may be more at once."""
        positions = {kind.stream(self._streams): self._position(kind) for kind in self._kinds}
        kinds = {kind.stream(self._streams): kind for kind in self._kinds}
        # BLOCK 0 waits for ever, so a wait below a millisecond does not block.
        count = await self._read_size.next(positions, READ)
        reads = await read_after(self._redis, positions, count=count, block_ms=int(wait_s * 1000) or None)
        for stream, entries in reads:
            if entries:
                self._next.add(kinds[stream], entries)
        return any(len(entries) == count for _, entries in reads)

    def _position(self, kind: EntryKind) -> str:
        ends = self._next.ends.get(kind)
        return ends[-1] if ends else self._recorded.position(kind)

    def _due(self) -> bool:
        settings, collected = self._settings, self._next
        return collected.count > 0 and (
            collected.count >= ROLL_ENTRIES
            or collected.bytes >= ROLL_BYTES
            or monotonic() >= collected.since + settings.roll_s
        )

    async def write(self) -> None:
        """Write the entries that were read, and the manifest that counts them."""
        number = self._recorded.number + 1
        written = await self._aside(lambda: self._writer.write(number, self._next.entries))
        await self._check()
        positions = {kind: ends[-1] for kind, ends in self._next.ends.items()}
        await self._commit(self._manifest(positions=positions, written=written))
        self._next = UnwrittenEntries()
        self._telemetry.wrote(written, self._redaction)
        log.info(
            "files written",
            partition=self._streams.partition,
            manifest=number,
            files=len(written.files),
            entries=written.entries.total(),
            bytes=written.bytes.total(),
        )
        if self._storing is not None:
            self._storing.succeeded()

    async def _check(self) -> None:
        read = {kind: [self._recorded.position(kind), *self._next.ends.get(kind, [])] for kind in self._kinds}
        await self._fence.check(read)

    def _manifest(self, *, written: WrittenFiles | None = None, **changes: Any) -> Manifest:
        number = self._recorded.number + 1
        files = () if written is None else written.files
        manifest = Manifest(
            partition=self._streams.partition,
            number=number,
            prefix=self._streams.prefix,
            files=files,
            unreadable={} if written is None else {kind: n for kind, n in written.unreadable.items() if n},
            written_at=utc_now(),
            written_by=self._token,
            ragtide_version=__version__,
            schema_version=SCHEMA_VERSION,
            redaction=self._redaction.names,
            **changes,
        )
        if not is_complete(number):
            return manifest
        after = self._recorded.following(manifest)
        return manifest.model_copy(update={"complete": True, "files": after.files, "positions": dict(after.positions)})

    async def _commit(self, manifest: Manifest) -> None:
        path = manifest_path(self._streams.partition, manifest.number)
        if not await self._aside(lambda: self._store.create(path, manifest.encode())):
            raise LeaseLostError(
                f"partition {self._streams.partition} has another recorder, which wrote {path} first: standing by"
            )
        self._recorded = self._recorded.following(manifest)
        self._telemetry.committed(self._streams.partition)
        await self._fence.advance(self._recorded.positions)
        if is_complete(manifest.number):
            number = self._recorded.number - COMPLETE_EVERY
            await self._aside(lambda: remove_replaced(self._store, self._streams.partition, number))

    async def _drop_old_days(self) -> None:
        if self._settings.keep_days is None:
            return
        cutoff = utc_now().date() - timedelta(days=self._settings.keep_days)
        old = files_before(self._recorded, cutoff)
        if not old:
            return
        await self._check()
        await self._commit(self._manifest(dropped_before=cutoff))
        for file in old:
            await self._aside(lambda path=file.path: self._store.remove(path))  # type: ignore[misc]  # mypy's lambdas
        log.info("old days removed", partition=self._streams.partition, before=str(cutoff), files=len(old))

    async def _aside(self, work: Callable[[], T]) -> T:
        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            while not (await asyncio.wait([task], timeout=BLOCK_S))[0]:
                if self._is_late():
                    self._redaction.abort()
                self._turned()
        except BaseException:
            # The thread cannot be cancelled: wait for it and ignore its result.
            self._writer.abort()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise
        return task.result()


def remove_left_overs(store: Store, recorded: Recorded) -> int:
    """Remove files that a killed step left, and return their number.

    No later manifest can name these files, because the number of their step is taken.
    """
    named = {file.path for file in recorded.files}
    removed = 0
    for kind in EntryKind:
        for path in [*store.list(kind.value), *store.list(f"{kind.value}-unreadable")]:
            step = step_of(path)
            if step is None or path in named:
                continue
            partition, number = step
            if partition == recorded.partition and number <= recorded.number:
                store.remove(path)
                removed += 1
    for path in store.list(FOLDER):
        if path.endswith(TEMPORARY) and path.startswith(f"{FOLDER}/.p{recorded.partition}-"):
            store.remove(path)
    return removed


def remove_replaced(store: Store, partition: int, number: int) -> None:
    """Remove manifests before a number, which a complete manifest replaces; later ones stay for current readers."""
    for path in replaced_manifests(store, partition, number):
        store.remove(path)


def files_before(recorded: Recorded, cutoff: date) -> list[RecordedFile]:
    """Return the files of days before a day, without files that have no day."""
    return [file for file in recorded.files if file.day < cutoff != FAR]
