"""Reads the system from Redis: processes, leases, streams, servers, and outboxes of notifications."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from pydantic import ValidationError
from redis import ResponseError
from redis.asyncio import Redis

from ragtide_consumers.notify.destination_state import DestinationState
from ragtide_consumers.notify.grouping import NotificationGroup
from ragtide_consumers.notify.outbox import GROUP, STATE
from ragtide_consumers.notify.routing import FAILING_RULE
from ragtide_roles.doctor.server import servers
from ragtide_runtime.alert_book import STORED
from ragtide_runtime.redis.backlog import COUNT_CAP, SEEN_MS, Backlog, read_backlogs
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import LABEL_GROUP, RESCUER, Streams, awaited_labeler
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings_reports import SettingsReport, destinations_in_force, read_reports
from ragtide_schemas import Alert, InvalidEntryError

FULL: Final = 0.8
"""Share of its cap above which a stream, or Redis's memory, is marked."""
PARTITIONS_SHOWN: Final = 64
"""Most partitions in the table."""
OUTBOX_FIELDS: Final = 2_000
"""Fields of an outbox above which only their number is read."""


@dataclass(frozen=True, slots=True)
class DestinationStatus:
    """The status of one destination, as the outboxes have it."""

    name: str
    kind: str
    sent_at: datetime | None
    """Time of the newest message that is still known; None if none is."""
    waiting: int
    """Alerts with a change that waits to be sent, or is being sent."""
    retried: int
    """Messages that failed and are tried again."""
    answer: str
    """Reason of the last failure of a message that is tried again."""
    failing: str
    """Message of the alert that it fails; empty if it works."""
    withheld: int
    """Messages that the next summary replaces."""


async def read_outboxes(redis: Redis, partitions: Sequence[Streams]) -> tuple[list[dict[bytes, bytes]], int]:
    """Return the outboxes that are not too large, and how many are."""
    async with redis.pipeline(transaction=False) as pipe:
        for streams in partitions:
            pipe.hlen(streams.outbox)
        sizes: list[int] = await pipe.execute()
    small = [streams for streams, size in zip(partitions, sizes, strict=True) if 0 < size <= OUTBOX_FIELDS]
    async with redis.pipeline(transaction=False) as pipe:
        for streams in small:
            pipe.hgetall(streams.outbox)
        stored: list[dict[bytes, bytes]] = await pipe.execute()
    return stored, sum(size > OUTBOX_FIELDS for size in sizes)


def destination_statuses(
    stored: Sequence[Mapping[bytes, bytes]], settings: Settings, reports: Sequence[SettingsReport] = ()
) -> list[DestinationStatus]:
    """Return the status of each destination of the running notifiers; of the settings if no notifier runs.

    Args:
        stored: fields of the outbox of each partition.
        settings: name the destinations, and their kinds.
    """
    kinds = {destination.name: destination.kind for destination in settings.notify.destinations}
    groups: list[NotificationGroup] = []
    states: list[DestinationState] = []
    alerts: list[Alert] = []
    for field, data in (item for fields in stored for item in fields.items()):
        try:
            if field.startswith(GROUP.encode()):
                groups.append(NotificationGroup.model_validate_json(data))
            elif field.startswith(STATE.encode()):
                states.append(DestinationState.model_validate_json(data))
            elif field.startswith(STORED.encode()):
                alerts.append(Alert.decode(data))
        except (ValidationError, InvalidEntryError):  # the notifier reports it
            continue
    return [
        _status_of(
            name,
            kinds.get(name, ""),
            [group for group in groups if group.destination == name],
            [state for state in states if state.name == name],
            next((alert.message for alert in alerts if alert.rule == FAILING_RULE + name), ""),
        )
        for name in destinations_in_force(settings, reports)
    ]


def _status_of(
    name: str, kind: str, groups: Sequence[NotificationGroup], states: Sequence[DestinationState], failing: str
) -> DestinationStatus:
    times = [group.last_sent_ms for group in groups if group.last_sent_ms is not None]
    times += [time for state in states for time in state.sent_ms]
    tried = [group for group in groups if group.tries]
    return DestinationStatus(
        name,
        kind,
        datetime.fromtimestamp(max(times) / 1000, UTC) if times else None,
        sum(len(group.members) for group in groups if group.due_ms is not None),
        len(tried),
        max(tried, key=lambda group: group.tries).answer if tried else "",
        failing,
        sum(state.summary.n_withheld for state in states if state.summary is not None),
    )


Lease = tuple[str, float | None]
"""Name of the process that owns a partition for a role, and the seconds since it renewed its lease; None if the lease
has another length than the settings say."""


@dataclass(frozen=True, slots=True)
class PartitionOwners:
    """The owners of one partition by role; None without an owner."""

    partition: int
    backlog: Backlog
    aggregator: Lease | None
    recorder: Lease | None
    notifier: Lease | None


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """A worker in the consumer groups."""

    name: str
    idle_s: float
    """Seconds since its last read."""
    pending: int
    """Interactions that it has taken and not finished."""
    partitions: int
    """Partitions from which it reads."""

    @property
    def is_present(self) -> bool:
        """Whether it has read within the last minute."""
        return self.idle_s * 1000 < SEEN_MS


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server that takes writes."""

    name: str
    """Name in a cluster; empty for a single server."""
    version: str
    uptime_s: float
    used_bytes: int
    max_bytes: int
    """Limit of its memory; 0 without a limit."""
    policy: str
    append_only: bool
    append_works: bool
    snapshot_s: float | None
    """Seconds since the last snapshot; None if there was none since the server started."""
    changes: int
    """Changes since the last snapshot."""

    @property
    def memory_share(self) -> float | None:
        """Share of its memory limit that it uses; None without a limit."""
        return self.used_bytes / self.max_bytes if self.max_bytes else None

    @property
    def is_full(self) -> bool:
        """Whether it is near its memory limit."""
        return (self.memory_share or 0.0) >= FULL

    clients: int
    replicas: int
    commands_per_s: float


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """The system at one moment."""

    partitions: Sequence[PartitionOwners]
    workers: Sequence[SeenWorker]
    aggregators: Mapping[str, int]
    """Partitions that each aggregator owns which said that it runs."""
    servers: Sequence[RedisServer]
    destinations: Sequence[DestinationStatus]
    outboxes_too_large: int
    """Outboxes with so many fields that they were not read."""

    @property
    def backlogs(self) -> list[Backlog]:
        """The backlog of each partition."""
        return [partition.backlog for partition in self.partitions]

    @property
    def present(self) -> int:
        """Workers that have read within the last minute."""
        return sum(worker.is_present for worker in self.workers)

    @property
    def owned(self) -> int:
        """Partitions with an aggregator."""
        return sum(partition.aggregator is not None for partition in self.partitions)

    @property
    def waiting(self) -> int:
        """Interactions that wait for a worker."""
        return sum(backlog.waiting for backlog in self.backlogs)

    @property
    def oldest_s(self) -> float:
        """Age of the oldest of them."""
        return max((backlog.oldest_s for backlog in self.backlogs), default=0.0)

    @property
    def events_waiting(self) -> int:
        """Metric events that wait for an aggregator, counted to `COUNT_CAP` in each partition."""
        return sum(backlog.events_waiting for backlog in self.backlogs)

    @property
    def events_at_least(self) -> bool:
        """Whether there are more metric events than were counted."""
        return any(backlog.events_waiting >= COUNT_CAP for backlog in self.backlogs)

    @property
    def events_oldest_s(self) -> float:
        """Age of the oldest of them."""
        return max((backlog.events_oldest_s for backlog in self.backlogs), default=0.0)

    @property
    def dropped(self) -> list[tuple[str, int]]:
        """Number of dropped entries by reason, the largest first."""
        dropped: Counter[str] = Counter()
        for backlog in self.backlogs:
            dropped.update(backlog.dropped)
        return sorted(dropped.items(), key=lambda item: (-item[1], item[0]))

    @property
    def oldest_partitions(self) -> list[PartitionOwners]:
        """The partitions of the table in their order: those with the oldest waiting entries."""
        oldest_first = sorted(
            self.partitions, key=lambda owners: -max(owners.backlog.oldest_s, owners.backlog.events_oldest_s)
        )
        return sorted(oldest_first[:PARTITIONS_SHOWN], key=lambda owners: owners.partition)


async def read_system(redis: Redis, settings: Settings) -> SystemFacts:
    """Return the state of the system.

    Raises:
        redis.RedisError: Redis failed.
    """
    partitions = settings.layout.all()
    stored, too_large = await read_outboxes(redis, partitions)
    try:
        redis_servers = [redis_server(name, info) for name, info in await servers(redis)]
    except ResponseError:  # an ACL, or a service, forbids INFO
        redis_servers = []
    return SystemFacts(
        await _owners(redis, partitions, settings.lease_s),
        await _workers(redis, partitions),
        await _aggregators(redis, settings),
        redis_servers,
        destination_statuses(stored, settings, await read_reports(redis, settings.prefix)),
        too_large,
    )


async def _owners(redis: Redis, partitions: Sequence[Streams], lease_s: float) -> list[PartitionOwners]:
    backlogs = await read_backlogs(redis, partitions)
    async with redis.pipeline(transaction=False) as pipe:
        for streams in partitions:
            for key in (streams.lease, streams.recorder_lease, streams.notifier_lease):
                pipe.get(key)
                pipe.pttl(key)
        replies: list[Any] = await pipe.execute()
    owners = []
    for place, (streams, backlog) in enumerate(zip(partitions, backlogs, strict=True)):
        leases = replies[6 * place : 6 * place + 6]
        holders = [_holder(leases[2 * role], leases[2 * role + 1], lease_s) for role in range(3)]
        owners.append(PartitionOwners(streams.partition, backlog, *holders))
    return owners


def _holder(token: bytes | None, left_ms: int, lease_s: float) -> Lease | None:
    if token is None:
        return None
    # A token is a rising number, the name of the process, and random letters.
    name = token.decode(errors="replace")
    renewed_s = lease_s - left_ms / 1000
    return name, renewed_s if left_ms >= 0 and renewed_s >= -0.5 else None


async def _workers(redis: Redis, partitions: Sequence[Streams]) -> list[SeenWorker]:
    workers: dict[str, SeenWorker] = {}
    async with redis.pipeline(transaction=False) as pipe:
        for streams in partitions:
            pipe.xinfo_consumers(streams.interactions, LABEL_GROUP)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
    for consumers in replies:
        if isinstance(consumers, ResponseError) and is_missing(consumers):  # no stream or no group yet
            continue
        if isinstance(consumers, Exception):
            raise consumers
        for consumer in consumers:
            name, idle_s = consumer["name"].decode(errors="replace"), consumer["idle"] / 1000
            if name == RESCUER or awaited_labeler(name) is not None:  # they hold entries, and are no workers
                continue
            known = workers.get(name, SeenWorker(name, idle_s, 0, 0))
            workers[name] = SeenWorker(
                name, min(known.idle_s, idle_s), known.pending + consumer["pending"], known.partitions + 1
            )
    return sorted(workers.values(), key=lambda worker: (worker.idle_s >= 60, worker.name))


async def _aggregators(redis: Redis, settings: Settings) -> dict[str, int]:
    members = cast("dict[bytes, bytes]", await redis.hgetall(Streams(settings.prefix, 0).aggregators))
    time: Any = await redis.time()
    times = list(time.values()) if isinstance(time, dict) else [time]
    now_ms = max(int(seconds) * 1000 for seconds, _ in times)
    counts = {}
    for name, data in sorted(members.items()):
        try:
            until_ms, count = (int(part) for part in data.split())
        except ValueError:  # any client may write to Redis
            continue
        if until_ms >= now_ms:
            counts[name.decode(errors="replace")] = count
    return counts


def redis_server(name: str, info: Mapping[str, Any]) -> RedisServer:
    """Return the facts in a reply to INFO; fields that a service leaves out are 0."""
    saved, now = int(info.get("rdb_last_save_time", 0)), int(info.get("server_time_usec", 0)) // 1_000_000
    return RedisServer(
        name=name.removesuffix(": "),
        version=str(info.get("valkey_version", info.get("redis_version", "?"))),
        uptime_s=float(info.get("uptime_in_seconds", 0)),
        used_bytes=int(info.get("used_memory", 0)),
        max_bytes=int(info.get("maxmemory", 0)),
        policy=str(info.get("maxmemory_policy", "?")),
        append_only=bool(info.get("aof_enabled")),
        append_works=info.get("aof_last_write_status", "ok") == "ok",
        snapshot_s=max(0.0, float(now - saved)) if saved and now else None,
        changes=int(info.get("rdb_changes_since_last_save", 0)),
        clients=int(info.get("connected_clients", 0)),
        replicas=int(info.get("connected_slaves", 0)),
        commands_per_s=float(info.get("instantaneous_ops_per_sec", 0)),
    )
