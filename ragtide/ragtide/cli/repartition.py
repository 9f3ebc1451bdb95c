"""`ragtide repartition`: another number of partitions, or other splits, while nothing runs; nothing is lost.

1. Everything must have come to rest: no aggregator, no recorder, nothing that waits to be labeled or recorded, every
   checkpoint at the end of its streams. Otherwise nothing is done.
2. The layout to be is noted; from now on roles and producers refuse to start until this is finished. What is known of
   single interactions (whose id is taken, where their metric events are, what was graded) is copied to where it will be
   looked for, and the checkpoints to be are written beside the present ones. Interrupted here, the next run does it
   again.
   Copies of metric events, and in step 3 of alerts, have the token of this change in their field `moved`.
3. It is noted that all is prepared; interrupted from now on, the next run goes on. Checkpoints are renamed into place,
   dead letters, and alerts of partitions that are no more, are moved, and the new layout is written.
"""

from typing import Annotated, Any, Final, cast
from uuid import uuid4

import typer
from redis.asyncio import Redis

from ragtide_aggregator.state.repartitioning import Fields, pipeline_of, relocated
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.copies import begin_copies, end_copies
from ragtide_runtime.redis.deployment import decode_layout, encode_layout, layout_key
from ragtide_runtime.redis.keys import DATA_FIELD, MOVED_FIELD, CheckpointField, RepartitionField, Streams, known_digest
from ragtide_runtime.redis.known_ids import copy_ids, find_id, remember_id, without_entries
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.log import START, last_id, read_all
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, RagInteraction

from .common import err, given, with_redis

KINDS: Final = ("owner", "graded", "scored")
"""Families of keys that hold one interaction each."""

BUCKETS: Final = ("owners", "events")
"""Families of keys that hold many interactions each (`known_ids.py`)."""

AT_ONCE: Final = 500
"""Entries or keys moved in one round trip."""


def repartition(
    context: typer.Context,
    partitions: Annotated[int, typer.Argument(min=1, max=1024, help="Number of partitions to be.")],
    split: Annotated[
        list[str] | None, typer.Option(help="Pipeline to be split, such as shop=4; all that are to be.")
    ] = None,
) -> None:
    """Change the number of partitions, while neither producers nor roles run; then set RAGTIDE_PARTITIONS to it."""
    settings = given(context).settings()
    splits = dict(_split(text) for text in split or [])
    wanted = settings.model_copy(update={"partitions": partitions, "splits": splits})
    Settings.model_validate(wanted.model_dump())  # whether they fit together
    body = _Repartition(settings, wanted.layout)
    moved = with_redis(settings, lambda redis, _: body.run(redis), any_layout=True)
    err.print(
        f"{partitions} partitions now, {moved:,} metric events in another one: set RAGTIDE_PARTITIONS={partitions}"
        + (" and RAGTIDE_SPLITS" if splits else "")
        + " everywhere, then start the roles and the producers",
        highlight=False,
    )


def _split(text: str) -> tuple[str, int]:
    pipeline, _, parts = text.rpartition("=")
    if not pipeline or not parts.isdigit():
        raise typer.BadParameter(f"{text!r} is not a split: give pipeline=parts, such as shop=4")
    return pipeline, int(parts)


class _Repartition:
    def __init__(self, settings: Settings, new: Layout) -> None:
        self._settings = settings
        self._new = new
        self._token = ""

    async def run(self, redis: Redis) -> int:
        """Change the layout, and return how many metric events are in another partition now."""
        home = Streams(self._new.prefix, 0)
        stored = cast("bytes | None", await redis.get(layout_key(self._new.prefix)))
        old = self._settings.layout if stored is None else decode_layout(self._new.prefix, stored)
        noted = cast("dict[bytes, bytes]", await redis.hgetall(home.repartition))
        if not noted:
            # 1.
            for streams in old.all():
                await _at_rest(redis, streams)
            await redis.hset(home.repartition, RepartitionField.LAYOUT, encode_layout(self._new))
        elif noted[RepartitionField.LAYOUT.encode()] != encode_layout(self._new):
            begun = decode_layout(self._new.prefix, noted[RepartitionField.LAYOUT.encode()])
            raise ConfigurationError(
                f"a change to {begun.partitions} partitions was interrupted: finish it first, with "
                f"ragtide repartition {begun.partitions} and its splits"
            )
        await redis.hsetnx(home.repartition, RepartitionField.TOKEN, uuid4().hex)
        self._token = cast("bytes", await redis.hget(home.repartition, RepartitionField.TOKEN)).decode()
        for streams in self._new.all():
            await begin_copies(redis, streams, self._token)
        moved = 0
        if RepartitionField.PREPARED.encode() not in noted:
            # 2.
            try:
                moved = await self._prepare(redis, old)
            except ConfigurationError:  # it cannot be done, and nothing has been copied
                await redis.delete(home.repartition)
                raise
            await redis.hset(home.repartition, RepartitionField.PREPARED, 1)
        # 3.
        for streams in self._new.all():
            if await redis.exists(streams.next_checkpoint):
                await redis.rename(streams.next_checkpoint, streams.checkpoint)
        for streams in old.all():
            await self._move_letters(redis, streams)
            if streams.partition >= self._new.partitions:
                await self._empty(redis, streams)
        for streams in self._new.all():
            await end_copies(redis, streams, self._token)
        await redis.set(layout_key(self._new.prefix), encode_layout(self._new))
        await redis.delete(home.repartition)
        return moved

    async def _prepare(self, redis: Redis, old: Layout) -> int:
        checkpoints: dict[int, Fields] = {}
        for streams in old.all():
            stored = cast("dict[bytes, bytes]", await redis.hgetall(streams.checkpoint))
            checkpoints[streams.partition] = {name.decode(): data for name, data in stored.items()}
        try:
            fields = relocated(old, self._new, checkpoints)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        moved = sum([await self._copy_known(redis, streams) for streams in old.all()])
        for streams in self._new.all():
            mine = fields[streams.partition]
            mine[CheckpointField.STEPS] = checkpoints.get(streams.partition, {}).get(CheckpointField.STEPS, b"0")
            for name, stream in _positions(streams):
                mine[name] = (await last_id(redis, stream)).encode()
            await redis.delete(streams.next_checkpoint)
            names = list(mine)
            for start in range(0, len(names), AT_ONCE):
                await redis.hset(
                    streams.next_checkpoint, mapping={name: mine[name] for name in names[start : start + AT_ONCE]}
                )
        return moved

    async def _copy_known(self, redis: Redis, streams: Streams) -> int:
        """Copy the stored data about single interactions to every partition that their pipelines go to."""
        moved: list[tuple[Streams, MetricEvent]] = []
        targets: dict[int, Streams] = {}
        async for entry in read_all(redis, streams.metrics):
            try:
                event = MetricEvent.decode(entry.fields[DATA_FIELD])
            except (InvalidEntryError, KeyError):  # it is among the dead letters
                continue
            target = self._new.of(event.pipeline, event.interaction_id)
            if target != streams:
                moved.append((target, event))
        stored = cast("list[bytes]", await redis.hkeys(streams.checkpoint))
        for name in stored:
            for target in _targets(name.decode(), self._new):
                if target != streams:
                    targets[target.partition] = target
        for kind in KINDS:
            await _copy(redis, streams, kind, list(targets.values()))
        for kind in BUCKETS:
            await _copy_buckets(redis, streams, kind, list(targets.values()))
        window_ms = int(self._settings.feedback_window_s * 1000)
        for target, event in moved:
            identity = event.pipeline, event.interaction_id
            digest = known_digest(*identity)
            found = await run_script(redis, find_id(streams.event_keys(*identity), digest))
            added = await redis.xadd(target.metrics, {DATA_FIELD: event.encode(), MOVED_FIELD: self._token})
            if found is not None:
                entry_id = cast("bytes", added).decode()
                await run_script(redis, remember_id(target.event_keys(*identity), digest, entry_id, window_ms))
        return len(moved)

    async def _move_letters(self, redis: Redis, streams: Streams) -> None:
        """Move dead letters to where their interactions belong now, so that they can be retried there."""
        async for entry in read_all(redis, streams.dead_letters):
            try:
                letter = DeadLetter.decode(entry.fields[DATA_FIELD])
            except (InvalidEntryError, KeyError):  # no dead letter, so it belongs nowhere else
                continue
            target = self._home_of(letter, streams)
            if target == streams:
                continue
            kind = letter.stream.rpartition(":")[2]
            letter = letter.model_copy(update={"stream": getattr(target, kind, letter.stream)})
            await redis.xadd(target.dead_letters, {DATA_FIELD: letter.encode()})
            await redis.xdel(streams.dead_letters, entry.entry_id)

    def _home_of(self, letter: DeadLetter, streams: Streams) -> Streams:
        here = streams if streams.partition < self._new.partitions else Streams(self._new.prefix, 0)
        try:
            one = RagInteraction.from_entry(letter.entry_id, letter.payload_bytes())
        except ValueError:
            return here
        return self._new.of(one.pipeline, one.interaction_id)

    async def _empty(self, redis: Redis, streams: Streams) -> None:
        """Move the alerts of a partition that is no more, and remove it."""
        home = Streams(self._new.prefix, 0)
        async for entry in read_all(redis, streams.alerts):
            await redis.xadd(home.alerts, {DATA_FIELD: entry.fields[DATA_FIELD], MOVED_FIELD: self._token})
            await redis.xdel(streams.alerts, entry.entry_id)
        for name, count in (await redis.hgetall(streams.dropped)).items():
            await redis.hincrby(home.dropped, name, int(count))
        gone = [
            streams.interactions,
            streams.metrics,
            streams.feedback,
            streams.estimates,
            streams.alerts,
            streams.dead_letters,
            streams.checkpoint,
            streams.dropped,
            streams.fencing_tokens,
            streams.recorder_fencing_tokens,
            streams.copies,
        ]
        await redis.delete(*gone)
        for kind in (*KINDS, *BUCKETS):
            async for key in redis.scan_iter(match=getattr(streams, kind)("*"), count=AT_ONCE):
                await redis.unlink(key)


def _positions(streams: Streams) -> tuple[tuple[CheckpointField, str], ...]:
    return (CheckpointField.POSITION, streams.metrics), (CheckpointField.FEEDBACK_POSITION, streams.feedback)


def _targets(field: str, new: Layout) -> list[Streams]:
    if not field.startswith(CheckpointField.ESTIMATE):
        return []
    return new.all_of(cast("str", pipeline_of(field, b"")))


async def _at_rest(redis: Redis, streams: Streams) -> None:
    name = f"partition {streams.partition}"
    owner = cast("bytes | None", await redis.get(streams.lease))
    if owner is not None:
        raise ConfigurationError(f"{name} is owned by aggregator {owner.decode()}: stop all roles and producers first")
    recorder = cast("bytes | None", await redis.get(streams.recorder_lease))
    if recorder is not None:
        raise ConfigurationError(f"{name} has the recorder {recorder.decode()}: stop all roles and producers first")
    (backlog,) = await read_backlogs(redis, [streams])
    if backlog.unrecorded_s:
        raise ConfigurationError(
            f"{name} has entries that are not recorded: run ragtide recorder and stop it again, which writes them, or "
            "let go of them with ragtide recorder --forget"
        )
    waiting = backlog.waiting
    if waiting:
        raise ConfigurationError(
            f"{name} has {waiting} interactions that wait: stop the producers, and let workers and aggregators finish "
            "before you stop them (ragtide doctor shows what waits)"
        )
    for field, stream in _positions(streams):
        last = await last_id(redis, stream)
        position = cast("bytes | None", await redis.hget(streams.checkpoint, field))
        if last != START and (position is None or position.decode() != last):
            raise ConfigurationError(
                f"{name} has entries in {stream} that are not aggregated: let an aggregator finish before you stop it"
            )


async def _copy(redis: Redis, source: Streams, kind: str, targets: list[Streams]) -> None:
    """Copy all keys of a kind to other partitions with their remaining lifetime; values that exist there stay."""
    if not targets:
        return
    names: list[str] = []
    async for key in redis.scan_iter(match=getattr(source, kind)("*"), count=AT_ONCE):
        names.append(key.decode())
        if len(names) == AT_ONCE:
            await _copy_some(redis, source, names, kind, targets)
            names = []
    await _copy_some(redis, source, names, kind, targets)


async def _copy_some(redis: Redis, source: Streams, names: list[str], kind: str, targets: list[Streams]) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.pttl(name)
            if kind == "graded":
                pipe.smembers(name)
            else:
                pipe.get(name)
        replies: list[Any] = await pipe.execute()
    digests = [name.rpartition(":")[2] for name in names]
    for target in targets:
        async with redis.pipeline(transaction=False) as pipe:
            for digest, ttl_ms, data in zip(digests, replies[::2], replies[1::2], strict=True):
                if ttl_ms <= 0 or not data:
                    continue
                name = getattr(target, kind)(digest)
                if kind == "graded":
                    pipe.sadd(name, *data)
                    pipe.pexpire(name, ttl_ms)
                else:
                    # Metric events get new entry ids there; the ids of copied events are written afterwards.
                    pipe.set(name, START if kind == "scored" else data, px=ttl_ms, nx=True)
            await pipe.execute()


async def _copy_buckets(redis: Redis, source: Streams, kind: str, targets: list[Streams]) -> None:
    """Copy buckets of known ids to the same buckets of other partitions, for as long as they are kept here."""
    if not targets:
        return
    async for key in redis.scan_iter(match=getattr(source, kind)("*"), count=AT_ONCE):
        kept_ms = await redis.pttl(key)
        groups = cast("list[bytes]", await redis.hvals(key))
        if kind == "events":  # metric events get new entry ids there, which are written afterwards
            groups = [without_entries(group) for group in groups]
        shard_and_bucket = key.decode().partition(f":{kind}:")[2]
        for target in targets:
            name = getattr(target, kind)(shard_and_bucket)
            for start in range(0, len(groups), AT_ONCE):
                await run_script(redis, copy_ids(name, groups[start : start + AT_ONCE], kept_ms))
