"""One ownership session of a notifier: its work on a partition, while it owns the partition.

1. Alerts are read from the consumer group `notify`. One script makes them entries of the outbox and acknowledges them.
   The outbox has its own position in the stream, so a group that is lost or set back repeats no alert, and alerts that
   a group skips are read all the same.
2. The outbox returns the messages that are due. They are marked as tried by the same script, which checks the lease.
3. Each message is sent in a task of its own, so that no destination delays another.
4. The answers are written by the same script.

If the process is killed before 2, nothing was sent. If it is killed between 2 and 4, the next session sends the message
once more, with the same key.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import time
from typing import Any, Final, cast

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.calls.breaker import Breaker
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.entries import START, Entry, Unreadable, order
from ragtide_runtime.redis.keys import NOTIFY_GROUP, interaction_digest
from ragtide_runtime.redis.log import last_id, pin, read_range
from ragtide_runtime.settings.notify import NotifySettings
from ragtide_schemas import Alert, InvalidEntryError, Specimen
from ragtide_schemas.alert_text import MOST_WORST, WorstAnswer, worst_answer

from .destinations.protocol import Destination, Refused, TryLater
from .grouping import DeliveryTimes, DueMessage, KnownDestination, PendingChange
from .notification import Notification
from .outbox import NotificationOutbox, WithheldBy, item_url
from .outbox_step import OutboxStore
from .silences import MutedAlerts, read_muted
from .telemetry import NotifyTelemetry

READ: Final = 100
"""Most alerts of one read."""

BLOCK_MS: Final = 500
"""Milliseconds that one read waits, so that a stop is noticed."""

CONSUMER: Final = "notifier"
"""The consumer of every session: one process at a time owns the partition."""

REFRESH_S: Final = 1.0
"""Seconds for which silences and acknowledgements that were read are used."""

SHORTEST_WAIT_S: Final = 0.05
"""Least seconds between two looks at the outbox if no alert was read."""

BACKLOG_READS: Final = 200
"""Most reads of a backlog before messages are sent, so that alerts that resolved meanwhile are not sent."""

log = structlog.get_logger("ragtide.notify")


@dataclass(frozen=True, slots=True)
class OpenDestination:
    """A destination to which a process can send, with the breaker that all its partitions share."""

    known: KnownDestination
    destination: Destination
    breaker: Breaker


class NotifySession:
    """Sends the notifications of a partition while its process owns the partition.

    Args:
        notify: settings.
    """

    def __init__(
        self,
        redis: Redis,
        notify: NotifySettings,
        ownership: Ownership,
        *,
        prefix: str,
        destinations: Mapping[str, OpenDestination],
        telemetry: NotifyTelemetry,
    ) -> None:
        (self._streams,) = ownership.streams
        self._redis = redis
        self._notify = notify
        self._prefix = prefix
        self._ownership = ownership
        self._destinations = destinations
        self._telemetry = telemetry
        self._store = OutboxStore(redis, self._streams, ownership.tokens[self._streams.partition])
        self._outbox = NotificationOutbox(
            [destination.known for destination in destinations.values()],
            notify,
            partition=self._streams.partition,
            stream=self._streams.alerts,
        )
        self._sending: dict[asyncio.Task[str], DueMessage] = {}
        self._unreadable = Unreadable("alert")
        self._muted = MutedAlerts()
        self._withheld_by = WithheldBy()
        self._refresh_at = 0.0

    async def run(self) -> None:
        """Send until the ownership is to end; then wait for the answers to the messages in flight.

        Raises:
            LeaseLostError: another process owns the partition.
            StreamRollbackError: Redis lost what was written; begin again.
            redis.RedisError: Redis failed; begin again.
        """
        await pin(self._redis, self._streams.alerts, NOTIFY_GROUP)
        self._outbox.load(await self._store.read(), _now_ms())
        names = ", ".join(self._destinations)
        log.info("partition acquired, sending notifications", partition=self._streams.partition, to=names)
        await self._read_backlog()
        reading = asyncio.create_task(self._read(">", BLOCK_MS))
        try:
            while not self._ownership.stop.is_set():
                self._ownership.check()
                self._telemetry.report(self._streams.partition, self._outbox)
                self._telemetry.partition_turned(self._streams.partition, f"sending {len(self._sending)} notifications")
                await self._send_due()
                await asyncio.wait(
                    {reading, *self._sending}, timeout=self._wait_s(), return_when=asyncio.FIRST_COMPLETED
                )
                self._take_answers()
                read = []
                if reading.done():
                    read = self._take(reading.result())
                    reading = asyncio.create_task(self._read(">", BLOCK_MS))
                await self._store.write(self._outbox.take_changes(), read)
            await self._finish()
        except RedisError:
            # Messages in flight would be sent again unless their answers are written.
            await self._finish()
            raise
        finally:
            await end(reading)
            for task, message in self._sending.items():
                await end(task)
                self._destinations[message.destination].breaker.abandoned()
            self._telemetry.no_longer_owned(self._streams.partition)

    async def _finish(self) -> None:
        if self._sending:
            await asyncio.wait(self._sending)
            self._take_answers()
        await self._store.write(self._outbox.take_changes())

    async def _read_backlog(self) -> None:
        start = START
        for _ in range(BACKLOG_READS):
            entries = await self._read(start, None)
            await self._store.write(self._outbox.take_changes(), self._take(entries))
            self._ownership.check()
            if not entries and start == ">":
                return
            start = ">" if not entries else start

    async def _read(self, start: str, block_ms: int | None) -> list[Entry]:
        streams: dict[Any, Any] = {self._streams.alerts: start}
        reply: Any = await self._redis.xreadgroup(NOTIFY_GROUP, CONSUMER, streams, count=READ, block=block_ms)
        read = [Entry(entry_id.decode(), fields or {}) for _, entries in reply or [] for entry_id, fields in entries]
        return await self._add_skipped(read)

    async def _add_skipped(self, read: list[Entry]) -> list[Entry]:
        """Return entries with those before them that the group has skipped, because another client set it forward."""
        position = self._store.position
        if position is None:
            return read
        stream = self._streams.alerts
        if any(order(entry.entry_id) <= order(position) for entry in read) or not read:
            last = await last_id(self._redis, stream)
            if order(last) < order(position):
                log.warning(
                    "the stream of alerts was deleted or replaced: reading it from its beginning", stream=stream
                )
                self._store.position = position = START
        if not read:
            # The blocking read has just found nothing new for the group.
            return await read_range(self._redis, stream, first=f"({position}", count=READ)
        ids = {entry.entry_id for entry in read}
        most = max(ids, key=order)
        if order(most) <= order(position):
            return read
        skipped = await read_range(self._redis, stream, first=f"({position}", last=f"({most}", count=READ)
        missed = [entry for entry in skipped if entry.entry_id not in ids]
        if missed:
            log.warning(
                "another client set the group notify forward: reading the alerts that it skipped", alerts=len(missed)
            )
        return sorted([*read, *missed], key=lambda entry: order(entry.entry_id))

    def _take(self, entries: list[Entry]) -> list[str]:
        now_ms = _now_ms()
        for entry in entries:
            position = self._store.position
            if position is not None and order(entry.entry_id) <= order(position):
                continue  # another client set the group back
            self._store.position = entry.entry_id
            alert = self._unreadable.decode(Alert, self._streams.alerts, entry) if entry.fields else None
            if alert is not None:
                self._outbox.take(PendingChange(status=alert.status, alert=alert, entry_id=entry.entry_id), now_ms)
        warning = self._unreadable.due_warning()
        if warning is not None:
            log.warning("alerts cannot be read and are not sent", detail=warning)
        return [entry.entry_id for entry in entries]

    async def _send_due(self) -> None:
        await self._refresh()
        messages = self._outbox.due(
            _now_ms(), self._withheld_by, may_try=lambda name: self._destinations[name].breaker.admits()
        )
        try:
            notifications = [await self._complete_notification(message) for message in messages]
            await self._store.write(self._outbox.take_changes())
        except BaseException:
            for message in messages:
                self._destinations[message.destination].breaker.abandoned()
            raise
        for message, notification in zip(messages, notifications, strict=True):
            deliver = self._destinations[message.destination].destination.deliver(notification)
            self._sending[asyncio.create_task(_deliver_in_time(deliver, 2 * self._notify.timeout_s))] = message

    async def _complete_notification(self, message: DueMessage) -> Notification:
        notification, now = self._outbox.notification(message), datetime.now(UTC)
        texts = self._destinations[message.destination].known.settings.questions
        worst: dict[str, tuple[WorstAnswer, ...]] = {}
        silenced: dict[str, datetime] = {}
        acknowledged: dict[str, str] = {}
        for alert in notification.alerts:
            worst[alert.alert_id] = await self._worst_answers(alert, texts=texts)
            until, by = self._muted.silenced_until(alert, now), self._muted.acknowledged_by(alert.alert_id)
            silenced |= {} if until is None else {alert.alert_id: until}
            acknowledged |= {} if by is None else {alert.alert_id: by}
        return replace(notification, worst=worst, silenced_until=silenced, acknowledged=acknowledged)

    async def _worst_answers(self, alert: Alert, *, texts: bool) -> tuple[WorstAnswer, ...]:
        ids = () if alert.status == "resolved" else alert.worst_interaction_ids[:MOST_WORST]
        if not ids:
            return ()
        keys = [self._streams.specimen(interaction_digest(alert.pipeline, interaction_id)) for interaction_id in ids]
        answers = []
        payloads = cast("list[bytes | None]", await self._redis.mget(keys))
        for interaction_id, stored in zip(ids, payloads, strict=True):
            try:
                specimen = None if stored is None else Specimen.from_stored(stored)
            except InvalidEntryError:  # damaged, so no reader can show it
                specimen = None
            answer = worst_answer(alert, interaction_id, specimen, texts=texts)
            link = None if specimen is None else item_url(self._notify.public_url, alert, interaction_id)
            answers.append(replace(answer, link=link))
        return tuple(answers)

    async def _refresh(self) -> None:
        next_ms = self._outbox.next_ms(_now_ms())
        if next_ms is None or next_ms > _now_ms() or time() < self._refresh_at:
            return
        self._muted = muted = await read_muted(self._redis, self._prefix)
        now = datetime.now(UTC)
        self._withheld_by = WithheldBy(
            lambda alert: muted.silenced_until(alert, now) is not None, muted.acknowledged.__contains__
        )
        self._refresh_at = time() + REFRESH_S

    def _take_answers(self) -> None:
        for task in [task for task in self._sending if task.done()]:
            self._record_answer(self._sending.pop(task), task)

    def _record_answer(self, message: DueMessage, task: asyncio.Task[str]) -> None:
        name, now_ms = message.destination, _now_ms()
        breaker, error = self._destinations[name].breaker, task.exception()
        if error is None:
            breaker.succeeded()
            self._telemetry.answered(name, "sent")
            self._outbox.record_sent(message, task.result(), now_ms)
            return
        reason = str(error)
        if isinstance(error, Refused):
            # A destination that gives a reason works.
            breaker.succeeded()
            self._telemetry.answered(name, "refused")
            log.warning(
                "a destination refused a notification, which is now a dead letter", destination=name, reason=reason
            )
            self._outbox.record_failure(message, reason, now_ms, refused=True)
            return
        retry_after_s = error.retry_after_s if isinstance(error, TryLater) else None
        if not isinstance(error, TryLater):
            reason = f"{type(error).__name__} in the destination's code"
            log.error("a destination failed", destination=name, exc_info=error)
        self._telemetry.answered(name, "failed")
        if breaker.failed():
            pause_s = round(breaker.resumes_in_s, 1)
            log.warning("a destination keeps failing: it is tried again later", destination=name, pause_s=pause_s)
        log.info("a notification was not delivered: it is tried again", destination=name, reason=reason)
        share = random.uniform(0.5, 1)  # noqa: S311 - not for secrets
        self._outbox.record_failure(message, reason, now_ms, retry_after_s=retry_after_s, share=share)

    def _wait_s(self) -> float:
        next_ms = self._outbox.next_ms(_now_ms())
        wait_s = BLOCK_MS / 1000 if next_ms is None else (next_ms - _now_ms()) / 1000
        return min(max(wait_s, SHORTEST_WAIT_S), BLOCK_MS / 1000)


async def _deliver_in_time(deliver: Any, seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            sent_as: str = await deliver
    except TimeoutError:
        raise TryLater(f"no answer in {seconds:g} s") from None
    return sent_as


def _now_ms() -> int:
    return int(time() * 1000)


def known_destination(settings: Any, destination: Destination, notify: NotifySettings) -> KnownDestination:
    """Return a destination as the outbox knows it.

    Args:
        destination: that the settings describe.
        notify: settings of all notifications.
    """
    resend_ms = None if destination.resend_s is None else int(destination.resend_s * 1000)
    wait_ms = int(notify.group_wait_s * 1000) if destination.grouped else 0
    times = DeliveryTimes(wait_ms, int(notify.repeat_s * 1000), resend_ms)
    return KnownDestination(settings, destination.grouped, times)
