"""The result of a run in Redis, read past the proxy."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_consumers.specimens.lists import SpecimenLists
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, SPECIMEN_TOTAL, Streams, pipeline_digest
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, DeadLetter, Estimate, InvalidEntryError, MetricEvent, RagInteraction, Specimen

READ_AT_ONCE = 500
"""Entries read in one round trip; some are megabytes large."""

JUMP_S = 3600.0
"""Seconds by which clocks jump."""

EntryKey = tuple[int, str]
"""Partition and id of an entry in the stream of interactions."""


@dataclass(slots=True)
class Outcome:
    """The published entries and their results."""

    entries: dict[EntryKey, tuple[str, str] | bytes] = field(default_factory=dict)
    """Each entry of the interactions: pipeline and id if it is valid, or else the payload of its dead letter."""
    events: list[tuple[int, MetricEvent]] = field(default_factory=list)
    """Metric events with their partitions, in the order of the streams."""
    bad_events: dict[EntryKey, bytes] = field(default_factory=dict)
    """Entries of the metrics stream that are no metric events."""
    jumped: int = 0
    """How many of the events were scored by a process whose clock had jumped."""
    dead_letters: list[tuple[int, DeadLetter]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    """Every change of an alert."""
    estimates: list[Estimate] = field(default_factory=list)
    checkpoints: list[dict[str, bytes]] = field(default_factory=list)
    """The fields of each partition's checkpoint."""
    replayed: list[dict[str, bytes]] = field(default_factory=list)
    """The rows that the same metric events give when one process applies them without any fault."""
    replayed_alerts: list[Alert] = field(default_factory=list)
    """The alerts that this raises."""
    specimens: dict[tuple[str, str], Specimen] = field(default_factory=dict)
    """The kept specimens by pipeline and id."""
    sampled: set[tuple[str, str]] = field(default_factory=set)
    """Interactions that the draw takes into the uniform sample, of those that were scored."""
    lists: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Ranks in each list of specimens, by pipeline and name of the list, the worst first."""
    specimen_bytes: dict[str, list[int]] = field(default_factory=dict)
    """Bytes of the specimens of each pipeline: what each takes."""
    counted_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of the specimens of each pipeline, by the count that the caps look at."""


def read_outcome(redis: Any, settings: Settings, url: str) -> Outcome:
    """Return the result of a run, and the state that its metric events give in a direct computation."""
    outcome = Outcome()
    for partition in range(settings.partitions):
        streams = Streams(settings.prefix, partition)
        for entry_id, fields in _entries(redis, streams.interactions):
            outcome.entries[partition, entry_id] = _published(entry_id, fields)
        state = AggregatorState(state_options(settings))
        for entry_id, fields in _entries(redis, streams.metrics):
            try:
                event = MetricEvent.decode(fields[DATA_FIELD])
            except InvalidEntryError:
                outcome.bad_events[partition, entry_id] = fields[DATA_FIELD]
            else:
                outcome.events.append((partition, event))
                written_ms = order(entry_id)[0]
                outcome.jumped += abs(event.labeled_at.timestamp() - written_ms / 1000) > JUMP_S / 2
                state.apply(event, written_ms)
        changes = state.take_changes()
        outcome.replayed.append(dict(changes.rows))
        outcome.replayed_alerts += changes.alerts
        for _, fields in _entries(redis, streams.dead_letters):
            outcome.dead_letters.append((partition, DeadLetter.decode(fields[DATA_FIELD])))
        outcome.alerts += [Alert.decode(fields[DATA_FIELD]) for _, fields in _entries(redis, streams.alerts)]
        outcome.checkpoints.append({name.decode(): data for name, data in redis.hgetall(streams.checkpoint).items()})
        _read_specimens(redis, streams, outcome)
    drawing = SpecimenLists(settings.specimens, settings.alerts)
    outcome.sampled = {(e.pipeline, e.interaction_id) for _, e in outcome.events if drawing.sampled(e)}
    outcome.estimates = asyncio.run(_estimates(settings, url))
    return outcome


def _read_specimens(redis: Any, streams: Streams, outcome: Outcome) -> None:
    for name in redis.zrange(streams.specimen_pipelines, 0, -1):
        pipeline = name.decode()
        place = pipeline_digest(pipeline)
        for digest in redis.hkeys(streams.specimen_sizes(place)):
            if digest == SPECIMEN_TOTAL.encode():
                continue
            payload = redis.get(streams.specimen(digest.decode()))
            one = Specimen.from_stored(payload)
            outcome.specimens[one.interaction.pipeline, one.interaction.interaction_id] = one
            outcome.specimen_bytes.setdefault(pipeline, []).append(len(payload))
        for list_name in redis.smembers(streams.specimen_lists(place)):
            key = streams.specimens_of(pipeline, list_name.decode())
            ranks = [rank for _, rank in redis.zrange(key, 0, -1, desc=True, withscores=True)]
            outcome.lists[pipeline, list_name.decode()] = ranks
        outcome.counted_bytes[pipeline] = int(redis.hget(streams.specimen_usage, pipeline))


async def _estimates(settings: Settings, url: str) -> list[Estimate]:
    redis = connect_async(url)
    try:
        # The interval of the running strategy depends on the order of the values, this one on their moments only.
        return await Deployment(redis, settings).estimates(strategy="asymptotic")
    finally:
        await redis.aclose()


def _published(entry_id: str, fields: dict[bytes, bytes]) -> tuple[str, str] | bytes:
    payload = fields.get(DATA_FIELD)
    if payload is None:
        return b"\n".join(name + b"=" + value for name, value in fields.items())
    try:
        interaction = RagInteraction.from_entry(entry_id, payload)
    except InvalidEntryError:
        return payload
    return interaction.pipeline, interaction.interaction_id


def _entries(redis: Any, stream: str) -> Iterator[tuple[str, dict[bytes, bytes]]]:
    first = "-"
    while True:
        found = redis.xrange(stream, min=first, count=READ_AT_ONCE)
        for entry_id, fields in found:
            yield entry_id.decode(), fields
        if len(found) < READ_AT_ONCE:
            return
        first = f"({found[-1][0].decode()}"
