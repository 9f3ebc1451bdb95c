"""Repartition: changes the number of partitions, or the splits, of a deployment at rest without losing data.

1. Check that the deployment is at rest: no aggregator, no recorder, no entry that waits to be labeled or recorded,
   every checkpoint at the end of its streams. Otherwise change nothing.
2. Store the new layout: from now on roles and producers refuse to start until the repartition is complete. Copy the
   data about interaction ids (owners, metric events, graded metrics) to their new partitions, and write the new
   checkpoints, and the lists of the history that move, beside the present ones. If this is interrupted, the next call
   repeats it.
   Copies of metric events, and in step 3 of alerts, have the token of this repartition in their field `moved`.
3. Store that everything is prepared: if this is interrupted, the next call continues here. Rename the new checkpoints
   and lists, move the turns of open sessions, dead letters, and alerts of removed partitions, and make the new layout
   the layout of the deployment.
"""

from typing import Final, cast
from uuid import uuid4

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.copies import begin_copies, end_copies
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import DATA_FIELD, MOVED_FIELD, CheckpointField, RepartitionField, Streams, known_digest
from ragtide_runtime.redis.known_ids import find_id, remember_id
from ragtide_runtime.redis.layout import Layout, decode_layout, encode_layout, layout_key
from ragtide_runtime.redis.log import last_id, read_all
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.redis.session_turns import move_sessions
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, RagInteraction

from .moved_keys import (
    AT_ONCE,
    BUCKETS,
    KEYS,
    copy_buckets,
    copy_history,
    copy_keys,
    drop_other_history,
    series_in,
    take_history,
)
from .repartitioned_fields import Fields, pipeline_of, place_of, repartitioned

SPECIMENS: Final = ("specimen", "specimen_order", "specimen_sizes", "specimen_lists", "specimen_list")
"""Families of keys of specimens, which a removed partition takes with it."""

HISTORY: Final = ("history", "next_history")
"""Families of lists of the history, which have been copied from a removed partition."""


class Repartition:
    """A new repartition of a deployment, or the continuation of an interrupted repartition.

    Args:
        redis: client.
        settings: of the deployment before the repartition.
        new: the layout after it.
    """

    def __init__(self, redis: Redis, settings: Settings, new: Layout) -> None:
        self._redis = redis
        self._settings = settings
        self._new = new
        self._token = ""

    async def run(self) -> int:
        """Change the layout, and return the number of metric events that are in another partition now.

        Raises:
            ConfigurationError: the deployment is not at rest, the change is impossible, or another repartition was
                interrupted.
        """
        redis = self._redis
        home = Streams(self._new.prefix, 0)
        stored = cast("bytes | None", await redis.get(layout_key(self._new.prefix)))
        old = self._settings.layout if stored is None else decode_layout(self._new.prefix, stored)
        begun = cast("dict[bytes, bytes]", await redis.hgetall(home.repartition))
        if not begun:
            # 1.
            for streams in old.all():
                await check_at_rest(redis, streams)
            for streams in old.all():
                await delete_read_traces(redis, streams)
            await redis.hset(home.repartition, RepartitionField.LAYOUT, encode_layout(self._new))
        elif begun[RepartitionField.LAYOUT.encode()] != encode_layout(self._new):
            other = decode_layout(self._new.prefix, begun[RepartitionField.LAYOUT.encode()])
            raise ConfigurationError(
                f"a change to {other.partitions} partitions was interrupted: finish it first, with "
                f"ragtide capacity repartition {other.partitions} and its splits"
            )
        await redis.hsetnx(home.repartition, RepartitionField.TOKEN, uuid4().hex)
        self._token = cast("bytes", await redis.hget(home.repartition, RepartitionField.TOKEN)).decode()
        for streams in self._new.all():
            await begin_copies(redis, streams, self._token)
        moved = 0
        if RepartitionField.PREPARED.encode() not in begun:
            # 2.
            try:
                moved = await self._prepare(old)
            except ConfigurationError:  # the change is impossible, and nothing has been copied
                await redis.delete(home.repartition)
                raise
            await redis.hset(home.repartition, RepartitionField.PREPARED, 1)
        # 3.
        await self._rename_prepared()
        for streams in old.all():
            await move_sessions(redis, streams, self._new)
            await self._move_dead_letters(streams)
            if streams.partition >= self._new.partitions:
                await self._remove_partition(streams)
        for streams in self._new.all():
            await end_copies(redis, streams, self._token)
        await redis.set(layout_key(self._new.prefix), encode_layout(self._new))
        await redis.delete(home.repartition)
        return moved

    async def _prepare(self, old: Layout) -> int:
        checkpoints: dict[int, Fields] = {}
        for streams in old.all():
            stored = cast("dict[bytes, bytes]", await self._redis.hgetall(streams.checkpoint))
            checkpoints[streams.partition] = {name.decode(): data for name, data in stored.items()}
        try:
            fields = repartitioned(old, self._new, checkpoints)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        for streams in old.all():
            await self._copy_history(old, streams, checkpoints[streams.partition])
        moved = sum([await self._copy_known(streams) for streams in old.all()])
        for streams in self._new.all():
            mine = fields[streams.partition]
            mine[CheckpointField.STEPS] = checkpoints.get(streams.partition, {}).get(CheckpointField.STEPS, b"0")
            for name, stream in positions(streams):
                mine[name] = (await last_id(self._redis, stream)).encode()
            await self._redis.delete(streams.next_checkpoint)
            names = list(mine)
            for start in range(0, len(names), AT_ONCE):
                await self._redis.hset(
                    streams.next_checkpoint, mapping={name: mine[name] for name in names[start : start + AT_ONCE]}
                )
        return moved

    async def _rename_prepared(self) -> None:
        for streams in self._new.all():
            if await self._redis.exists(streams.next_checkpoint):
                await self._redis.rename(streams.next_checkpoint, streams.checkpoint)
            await take_history(self._redis, streams)
            await drop_other_history(self._redis, streams)

    async def _copy_history(self, old: Layout, streams: Streams, fields: Fields) -> None:
        targets = {}
        for digest, key in series_in(fields).items():
            pipeline = cast("str", pipeline_of(CheckpointField.HISTORY_SERIES + key, b""))
            place = place_of(old, self._new, streams.partition, pipeline)
            if place != streams.partition:
                targets[digest] = Streams(self._new.prefix, place)
        if targets:
            await copy_history(self._redis, streams, targets)

    async def _copy_known(self, streams: Streams) -> int:
        moved: list[tuple[Streams, MetricEvent]] = []
        targets: dict[int, Streams] = {}
        async for entry in read_all(self._redis, streams.metrics):
            try:
                event = MetricEvent.decode(entry.fields[DATA_FIELD])
            except (InvalidEntryError, KeyError):  # the aggregator made it a dead letter
                continue
            target = self._new.of(event.pipeline, event.interaction_id)
            if target != streams and not event.is_tick:  # feedback is joined with moved events
                moved.append((target, event))
        stored = cast("list[bytes]", await self._redis.hkeys(streams.checkpoint))
        for name in stored:
            field = name.decode()
            if not field.startswith(CheckpointField.ESTIMATE):
                continue
            for target in self._new.all_of(cast("str", pipeline_of(field, b""))):
                if target != streams:
                    targets[target.partition] = target
        for kind in KEYS:
            await copy_keys(self._redis, streams, kind, list(targets.values()))
        for kind in BUCKETS:
            await copy_buckets(self._redis, streams, kind, list(targets.values()))
        window_ms = int(self._settings.feedback_window_s * 1000)
        for target, event in moved:
            identity = event.pipeline, event.interaction_id
            digest = known_digest(*identity)
            known_id = await run_script(self._redis, find_id(streams.event_keys(*identity), digest))
            added = await self._redis.xadd(target.metrics, {DATA_FIELD: event.encode(), MOVED_FIELD: self._token})
            if known_id is not None:
                entry_id = cast("bytes", added).decode()
                await run_script(self._redis, remember_id(target.event_keys(*identity), digest, entry_id, window_ms))
        return len(moved)

    async def _move_dead_letters(self, streams: Streams) -> None:
        """Move dead letters to the new partitions of their interactions, so that they can be retried there."""
        async for entry in read_all(self._redis, streams.dead_letters):
            try:
                letter = DeadLetter.decode(entry.fields[DATA_FIELD])
            except (InvalidEntryError, KeyError):  # malformed, so it belongs to no interaction
                continue
            target = self._new_home(letter, streams)
            if target == streams:
                continue
            kind = letter.stream.rpartition(":")[2]
            letter = letter.model_copy(update={"stream": getattr(target, kind, letter.stream)})
            await self._redis.xadd(target.dead_letters, {DATA_FIELD: letter.encode()})
            await self._redis.xdel(streams.dead_letters, entry.entry_id)

    def _new_home(self, letter: DeadLetter, streams: Streams) -> Streams:
        here = streams if streams.partition < self._new.partitions else Streams(self._new.prefix, 0)
        try:
            interaction = RagInteraction.from_entry(letter.entry_id, letter.payload_bytes())
        except ValueError:
            return here
        return self._new.of(interaction.pipeline, interaction.interaction_id)

    async def _remove_partition(self, streams: Streams) -> None:
        home = Streams(self._new.prefix, 0)
        async for entry in read_all(self._redis, streams.alerts):
            await self._redis.xadd(home.alerts, {DATA_FIELD: entry.fields[DATA_FIELD], MOVED_FIELD: self._token})
            await self._redis.xdel(streams.alerts, entry.entry_id)
        for name, count in (await self._redis.hgetall(streams.dropped)).items():
            await self._redis.hincrby(home.dropped, name, int(count))
        gone = [
            streams.interactions,
            streams.metrics,
            streams.feedback,
            streams.estimates,
            streams.alerts,
            streams.dead_letters,
            streams.checkpoint,
            streams.field_names,
            streams.dropped,
            streams.finished,
            streams.rejected,
            streams.deliveries,
            streams.fencing_tokens,
            streams.recorder_fencing_tokens,
            streams.notifier_fencing_tokens,
            streams.outbox,
            streams.copies,
            streams.specimen_pipelines,
            streams.specimen_usage,
            streams.specimen_pins,
            streams.specimen_pinned,
        ]
        await self._redis.delete(*gone)
        for kind in (*KEYS, *BUCKETS, *SPECIMENS, *HISTORY):
            async for key in self._redis.scan_iter(match=getattr(streams, kind)("*"), count=AT_ONCE):
                await self._redis.unlink(key)


async def check_at_rest(redis: Redis, streams: Streams) -> None:
    """Check that a partition has no owner, and no entry that waits to be labeled, aggregated or recorded.

    Raises:
        ConfigurationError: the partition is not at rest; the message names the remedy.
    """
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
            f"{name} has entries that are not recorded: start ragtide recorder and stop it again, which records them, "
            "or release them with ragtide recorder --forget"
        )
    if backlog.waiting:
        raise ConfigurationError(
            f"{name} has {backlog.waiting} interactions that wait: stop the producers, let workers and aggregators "
            "finish, and then stop them (ragtide doctor shows the backlog)"
        )
    if traces := await redis.zcard(streams.open_traces):
        raise ConfigurationError(
            f"{name} has {traces} traces that wait to be read: stop the senders, let ragtide serve read them, which "
            "takes up to ten minutes, and then stop it"
        )
    for field, stream in positions(streams):
        last = await last_id(redis, stream)
        position = cast("bytes | None", await redis.hget(streams.checkpoint, field))
        if last != START and (position is None or position.decode() != last):
            raise ConfigurationError(
                f"{name} has entries in {stream} that are not aggregated: let an aggregator finish before you stop it"
            )


async def delete_read_traces(redis: Redis, streams: Streams) -> None:
    """Delete the spans of traces that were read: in a new layout their partition is another."""
    for key in (streams.read_traces, streams.kept_traces):
        for name in cast("list[bytes]", await redis.zrange(key, 0, -1)):
            await redis.delete(streams.trace(name.decode()))
    await redis.delete(streams.read_traces, streams.kept_traces, streams.traces_bytes)


def positions(streams: Streams) -> tuple[tuple[CheckpointField, str], ...]:
    """Return the fields of a checkpoint that hold positions, each with its stream."""
    return (CheckpointField.POSITION, streams.metrics), (CheckpointField.FEEDBACK_POSITION, streams.feedback)
