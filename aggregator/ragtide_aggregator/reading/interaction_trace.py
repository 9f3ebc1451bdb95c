"""Follows one interaction through Redis: published, taken, labeled, rejected, aggregated."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Entry, order, payload_of
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import (
    DATA_FIELD,
    LABEL_GROUP,
    RESCUER,
    CheckpointField,
    Streams,
    awaited_labeler,
    known_digest,
)
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, RagInteraction, utc_now
from ragtide_schemas.details import Station, TraceStation
from ragtide_schemas.times import from_milliseconds, to_milliseconds

from ..statistics.tables.windows import Window

SCANNED: Final = 2000
"""Newest entries of a stream that are searched for an id."""

AHEAD: Final = timedelta(seconds=60)
"""Time by which an entry may be ahead of this machine's clock before its time counts as wrong."""

FINISHED: Final = "Finished by a worker: labeled, or a dead letter."

NOT_TAKEN: Final = "Waiting: no worker has taken it yet."

TRIMMED: Final = "Gone before a worker took it: a cap trimmed it, or a person deleted it."

LEFT: Final = (
    "Left the group of the workers unfinished, because another client changed the group. An aggregator delivers it "
    "again within a few seconds."
)

GONE: Final = (
    "Gone, and no result is known: a worker finished it longer ago than feedback_window_s, or another client deleted "
    "it or its dead letter."
)

PAGE: Final = 20
"""Entries in memory at once: an entry has up to 4 MiB."""


DetailOf = Callable[[Streams, str, DeadLetter], Awaitable[str]]
"""Returns what is shown of the detail of a dead letter, which may quote texts of users; given its streams and id."""


async def whole_detail(streams: Streams, letter_id: str, letter: DeadLetter) -> str:
    """Return the detail of a dead letter as it is stored."""
    del streams, letter_id
    return letter.detail


class InteractionTrace:
    """Looks for an interaction in every partition, and writes nothing.

    The index of known ids needs the pipeline of an id. So ids are looked up in the pipelines that are given, and in
    those of entries with this id among the newest `SCANNED` interactions and dead letters of each partition.

    The interactions of a trace are those whose id or metadata names it, among the newest `SCANNED` interactions and
    metric events of each partition.

    Args:
        redis: client.
        identity: id of the interaction, or of the trace that it was read from.
        detail_of: what is shown of the detail of a dead letter.
    """

    def __init__(
        self,
        redis: Redis,
        layout: Layout,
        identity: str,
        windows: Sequence[Window] = (),
        *,
        detail_of: DetailOf = whole_detail,
    ) -> None:
        self._redis: Any = redis  # redis-py leaves open whether replies are bytes
        self._layout = layout
        self._identity = identity
        self._windows = windows
        self._detail_of = detail_of
        self._marks = {identity.encode(), json.dumps(identity)[1:-1].encode()}

    async def follow(self, pipelines: Sequence[str]) -> list[TraceStation]:
        """Return the facts in the order of the way; none if the id is unknown.

        Raises:
            redis.RedisError: Redis failed.
        """
        facts: list[TraceStation] = []
        entries: dict[tuple[int, str], str | None] = {}
        known: set[tuple[str, str]] = {(name, self._identity) for name in pipelines}
        for streams in self._layout.all():
            due = await self._redis.zscore(streams.open_traces, self._identity)
            if due is not None:
                text = "Spans of this trace are stored and wait for the rest of it; they are due at this time."
                facts.append(_station("spans", streams.partition, None, text, at=from_milliseconds(int(due))))
            known |= await self._published(streams, entries)
            known |= await self._scored(streams)
        for name, its_id in sorted(known):
            streams = self._layout.of(name, its_id)
            call = find_id(streams.owner_keys(name, its_id), known_digest(name, its_id))
            owner = await run_script(self._redis, call)
            if owner is not None and owner != "0-0":
                entries[streams.partition, owner] = name
        for (partition, entry_id), its in sorted(entries.items(), key=lambda item: order(item[0][1])):
            text = f"Published as entry {entry_id}."
            if _time(entry_id) > utc_now() + AHEAD:
                text += " Its time is not true: the clock of Redis was ahead then, and has been set back."
            facts.append(_station("published", partition, its, text, at=_time(entry_id)))
            facts.append(await self._labeling(Streams(self._layout.prefix, partition), entry_id, its))
        for name, its_id in sorted(known):
            facts += await self._scoring(self._layout.of(name, its_id), name, its_id)
        for streams in self._layout.all():
            facts += await self._dead_letters(streams, {entry for part, entry in entries if part == streams.partition})
        if not any(station.station in ("labeled", "dead-letter") for station in facts):
            facts = [
                station.model_copy(update={"text": GONE}) if station.text == FINISHED else station for station in facts
            ]
        return facts

    async def _published(self, streams: Streams, entries: dict[tuple[int, str], str | None]) -> set[tuple[str, str]]:
        known = set()
        async for entry, payload in self._entries(streams.interactions):
            try:
                interaction = RagInteraction.from_entry(entry.entry_id, payload)
            except ValueError:
                continue
            if self._is_mine(interaction.interaction_id, interaction.metadata.get("trace_id")):
                entries[streams.partition, entry.entry_id] = interaction.pipeline
                known.add((interaction.pipeline, interaction.interaction_id))
        return known

    async def _scored(self, streams: Streams) -> set[tuple[str, str]]:
        known = set()
        async for _, payload in self._entries(streams.metrics):
            try:
                event = MetricEvent.decode(payload)
            except InvalidEntryError:
                continue
            if not event.is_tick and self._is_mine(event.interaction_id, None):
                known.add((event.pipeline, event.interaction_id))
        return known

    def _is_mine(self, interaction_id: object, trace_id: object) -> bool:
        if self._identity in (interaction_id, trace_id):
            return True
        return isinstance(interaction_id, str) and interaction_id.startswith(f"otel-{self._identity}-")

    async def _labeling(self, streams: Streams, entry_id: str, pipeline: str | None) -> TraceStation:
        try:
            groups = await self._redis.xinfo_groups(streams.interactions)
        except ResponseError as error:
            if not is_missing(error):
                raise
            groups = []
        group = next((fields for fields in groups if fields["name"] == LABEL_GROUP.encode()), None)
        here = await read_range(self._redis, streams.interactions, first=entry_id, last=entry_id, count=1)
        if group is None:
            text = "Waiting: no worker has started yet. Start one: ragtide worker"
        elif await self._redis.zscore(streams.finished, entry_id) is not None:
            text = FINISHED
        elif held := await self._redis.xpending_range(streams.interactions, LABEL_GROUP, entry_id, entry_id, 1):
            text = _held(held[0])
        elif order(entry_id) > order(group["last-delivered-id"].decode()):
            text = NOT_TAKEN if here else TRIMMED
        else:
            text = LEFT if here else FINISHED
        return _station("label", streams.partition, pipeline, text)

    async def _scoring(self, streams: Streams, pipeline: str, interaction_id: str) -> list[TraceStation]:
        call = find_id(streams.event_keys(pipeline, interaction_id), known_digest(pipeline, interaction_id))
        event_id = await run_script(self._redis, call)
        if event_id is None or event_id == "0-0":
            return []
        text, windows = f"Labeled: metric event {event_id}.", ""
        labelers: tuple[str, ...] = ()
        absences: dict[str, str] = {}
        for entry in await read_range(self._redis, streams.metrics, first=event_id, last=event_id, count=1):
            try:
                event = MetricEvent.decode(payload_of(entry.fields, "metric event"))
            except InvalidEntryError:
                continue
            windows = self._windows_text(to_milliseconds(event.occurred_at))
            text = f"Labeled by {event.labeler}: metric event {event_id}, {len(event.scores)} scores."
            first, *others = event.parts()
            for part in others:
                text += f" {part.labeler} scored it, too: {len(part.scores)} scores."
            labelers = tuple(dict.fromkeys(part.labeler for part in (first, *others)))
            scored = event.by_evaluator()
            # With one name for several labelers, the reason of the first counts.
            absences = {name: why for part in reversed(scored) for name, why in part.absent.items()}
            text += "".join(f" {name} is absent: {why}." for name, why in sorted(absences.items()))
        stations = [
            _station(
                "labeled", streams.partition, pipeline, text, at=_time(event_id), labelers=labelers, absent=absences
            )
        ]
        stored: bytes | None = await self._redis.hget(streams.checkpoint, CheckpointField.POSITION)
        position = "0-0" if stored is None else stored.decode()
        if order(event_id) <= order(position):
            text = f"Aggregated, unless a dead letter says otherwise: the checkpoint is at {position}.{windows}"
        else:
            owner = await self._redis.exists(streams.lease)
            why = (
                "the aggregator is behind"
                if owner
                else "no aggregator owns the partition; start one: ragtide aggregator"
            )
            text = f"Not aggregated yet, the checkpoint is at {position}: {why}."
        return [*stations, _station("aggregated", streams.partition, pipeline, text)]

    def _windows_text(self, time_ms: int) -> str:
        spans = [(window.name, *map(from_milliseconds, window.covering(time_ms))) for window in self._windows]
        named = [f"{name} ({start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC)" for name, start, end in spans]
        late = "unless it came later than lateness_s after their end"
        return f" It counts in all time, and in the windows {', '.join(named)}, {late}." if named else ""

    async def _dead_letters(self, streams: Streams, entry_ids: set[str]) -> list[TraceStation]:
        stations = []
        async for entry, payload in self._entries(streams.dead_letters, entry_ids):
            try:
                letter = DeadLetter.decode(payload)
            except InvalidEntryError:
                continue
            mine = letter.stream == streams.interactions and letter.entry_id in entry_ids
            if not mine and not self._is_in_payload(letter.payload_bytes()):
                continue
            detail = await self._detail_of(streams, entry.entry_id, letter)
            text = f"Dead letter {entry.entry_id} ({letter.reason})" + (f": {detail}" if detail else "")
            stations.append(_station("dead-letter", streams.partition, letter.pipeline, text, at=letter.failed_at))
        return stations

    def _is_in_payload(self, payload: bytes) -> bool:
        try:
            content = json.loads(payload)
        except (ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            return self._is_mine(content.get("interaction_id"), content.get("trace"))
        return json.dumps(self._identity).encode() in payload

    async def _entries(self, stream: str, marks: Collection[str] = ()) -> AsyncIterator[tuple[Entry, bytes]]:
        wanted = self._marks | {mark.encode() for mark in marks}
        last, read = "+", 0
        while read < SCANNED:
            page = await self._redis.xrevrange(stream, max=last, count=PAGE)
            for entry_id, fields in page:
                payload = fields.get(DATA_FIELD, b"")
                if any(mark in payload for mark in wanted):
                    yield Entry(entry_id.decode(), fields), payload
            if len(page) < PAGE:
                return
            read += PAGE
            last = f"({page[-1][0].decode()}"


def _station(station: Station, partition: int, pipeline: str | None, text: str, **fields: Any) -> TraceStation:
    return TraceStation(station=station, partition=partition, pipeline=pipeline, text=text, **fields)


def _held(pending: Mapping[str, Any]) -> str:
    if pending["consumer"] == RESCUER.encode():
        return "It had left the group of the workers unfinished. It waits for a worker to take it over."
    labeler = awaited_labeler(pending["consumer"].decode())
    if labeler is not None:
        return f"It waits for {labeler}, which is unavailable."
    worker, idle_s = pending["consumer"].decode(), pending["time_since_delivered"] / 1000
    taken = f"worker {worker}, which last renewed it {idle_s:,.1f} s ago"
    return f"Taken by {taken}; deliveries: {pending['times_delivered']:,}."


def _time(entry_id: str) -> datetime:
    return from_milliseconds(order(entry_id)[0])
