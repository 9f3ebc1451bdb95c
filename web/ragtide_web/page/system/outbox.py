"""Reads what the outboxes of notifications hold about each destination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError
from redis.asyncio import Redis

from ragtide_consumers.notify.destination_state import DestinationState
from ragtide_consumers.notify.grouping import NotificationGroup
from ragtide_consumers.notify.outbox import GROUP, STATE
from ragtide_consumers.notify.routing import FAILING_RULE
from ragtide_runtime.alert_book import STORED
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, InvalidEntryError

OUTBOX_FIELDS: Final = 2_000
"""Fields of an outbox above which only their number is read."""


@dataclass(frozen=True, slots=True)
class ToldDestination:
    """What the outboxes hold about one destination."""

    name: str
    kind: str
    told_at: datetime | None
    """Time of the newest message that is still known; None if none is."""
    waiting: int
    """Alerts of which a change waits to be told, or is told now."""
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
    small = [one for one, size in zip(partitions, sizes, strict=True) if 0 < size <= OUTBOX_FIELDS]
    async with redis.pipeline(transaction=False) as pipe:
        for streams in small:
            pipe.hgetall(streams.outbox)
        stored: list[dict[bytes, bytes]] = await pipe.execute()
    return stored, sum(size > OUTBOX_FIELDS for size in sizes)


def told_destinations(stored: Sequence[Mapping[bytes, bytes]], settings: Settings) -> list[ToldDestination]:
    """Return what outboxes hold about each destination of the settings.

    Args:
        stored: fields of the outbox of each partition.
        settings: name the destinations.
    """
    groups: list[NotificationGroup] = []
    states: list[DestinationState] = []
    alerts: list[Alert] = []
    for name, data in (field for fields in stored for field in fields.items()):
        try:
            if name.startswith(GROUP.encode()):
                groups.append(NotificationGroup.model_validate_json(data))
            elif name.startswith(STATE.encode()):
                states.append(DestinationState.model_validate_json(data))
            elif name.startswith(STORED.encode()):
                alerts.append(Alert.decode(data))
        except (ValidationError, InvalidEntryError):  # the notifier reports it
            continue
    return [
        _told(
            one.name,
            one.kind,
            [group for group in groups if group.destination == one.name],
            [state for state in states if state.name == one.name],
            next((alert.message for alert in alerts if alert.rule == FAILING_RULE + one.name), ""),
        )
        for one in settings.notify.destinations
    ]


def _told(
    name: str, kind: str, groups: Sequence[NotificationGroup], states: Sequence[DestinationState], failing: str
) -> ToldDestination:
    times = [one.told_ms for one in groups if one.told_ms is not None]
    times += [time for one in states for time in one.sent_ms]
    tried = [one for one in groups if one.tries]
    return ToldDestination(
        name,
        kind,
        datetime.fromtimestamp(max(times) / 1000, UTC) if times else None,
        sum(len(one.members) for one in groups if one.due_ms is not None),
        len(tried),
        max(tried, key=lambda one: one.tries).answer if tried else "",
        failing,
        sum(one.summary.n_withheld for one in states if one.summary is not None),
    )
