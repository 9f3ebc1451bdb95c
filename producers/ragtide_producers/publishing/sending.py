"""The thread that sends submitted items, retries, and reports dropped items. Only this thread uses its connection.

Each turn has three steps:

1. Take up to a batch of items from the outbox and encode them. An item that cannot be encoded is dropped as `invalid`.
2. For each partition, send until Redis has accepted or refused every item. While Redis cannot be reached or has no
   room, the pauses grow. The same round trip shows whether Redis lost confirmed items; these are then sent first.
3. Report drops to Redis.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.forks import NOT_FORKING
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import check_layout_blocking
from ragtide_runtime.redis.scripts import ScriptCall, run_scripts_blocking
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_schemas import Dropped, InvalidEntryError, Reason
from ragtide_schemas.base import describe, reason_of
from ragtide_schemas.plain_values import LeftOut

from .batch_publisher import BATCH
from .outbox import QUEUE_BYTES, Outbox
from .partition_buffer import PartitionBuffer
from .routes import Publication, PublishCommand, QueuedItem, Route

log: Final = logging.getLogger("ragtide.producer")

LONGEST_PAUSE_S = 10.0
"""Most seconds between two tries."""

LONGEST_WAIT_FOR_ROOM_S = 1.0
"""Most seconds between two tries to send to a full stream."""

SAFE_SHARE = 0.5
"""Share of the dedupe window within which sending again is safe."""

MOST_KINDS: Final = 20
"""Most kinds of mistakes that are logged; other kinds are only counted."""


class Mistakes:
    """Logs the first mistake of each kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._logged: set[object] = set()

    def log(self, error: Exception) -> None:
        """Log a mistake with field and remedy, if it is the first of its kind."""
        kind = _kind_of(error)
        if kind in self._logged or len(self._logged) >= MOST_KINDS:
            return
        self._logged.add(kind)
        last = " (other kinds of mistakes are counted and not logged)" if len(self._logged) == MOST_KINDS else ""
        log.warning(
            "one of the submitted %s is invalid and dropped: %s; further mistakes of this kind are only counted, as "
            "counts.dropped['invalid']%s",
            self._kind,
            refused(error).detail,
            last,
        )

    def log_left_out(self, left_out: LeftOut) -> None:
        """Log values that were left out of an item, if they are the first of their names."""
        names = [name for name in left_out if name not in self._logged][: MOST_KINDS - len(self._logged)]
        if names:
            self._logged.update(names)
            log.warning(
                "values without a plain meaning are left out of the submitted %s: %s; further ones of these names are "
                "only counted, as counts.left_out",
                self._kind,
                ", ".join(names),
            )


def refused(error: Exception) -> InvalidEntryError:
    """Return an error as an InvalidEntryError with field, value and remedy."""
    if isinstance(error, InvalidEntryError):
        return error
    if isinstance(error, ValidationError):
        return InvalidEntryError(reason_of(error), describe(error))
    return InvalidEntryError(Reason.INVALID, f"{type(error).__name__}: {error}")


def _kind_of(error: BaseException) -> object:
    if isinstance(error, InvalidEntryError):
        return (error.reason, error.detail.partition(" ")[0]) if error.__cause__ is None else _kind_of(error.__cause__)
    if isinstance(error, ValidationError):
        details = error.errors(include_url=False, include_input=False, include_context=False)
        # Without the index in a list, because ten documents without a text are one kind of mistake.
        kinds = {
            (tuple(part for part in detail["loc"] if isinstance(part, str)), detail["type"]) for detail in details[:10]
        }
        return frozenset(kinds)
    return type(error)


class BackgroundSender:
    """Sends from an outbox until `end` is called; `run` is the thread.

    Args:
        route: command and destination of the items.
        outbox: the submitted items.
        mistakes: logs items that cannot be sent.
        before_exit: called when Redis is known, so that work at exit is done before an embedded Redis stops.
    """

    def __init__(
        self,
        settings: ApplicationSettings,
        route: Route,
        outbox: Outbox,
        *,
        mistakes: Mistakes,
        before_exit: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._route = route
        self._outbox = outbox
        self._mistakes = mistakes
        self._before_exit = before_exit
        self._ended = threading.Event()
        self._nudged = threading.Event()
        self._done = threading.Event()
        self._buffers: dict[int, PartitionBuffer] = {}
        self._handle: RedisHandle | None = None
        self._client: Redis | None = None
        self._failed = False
        self._unreachable = Backoff(longest_s=LONGEST_PAUSE_S)
        self._full = Backoff(longest_s=LONGEST_WAIT_FOR_ROOM_S)
        self._warned: set[str] = set()

    def nudge(self) -> None:
        """Let a waiting thread try again at once."""
        self._nudged.set()

    def end(self, timeout_s: float) -> bool:
        """Stop sending, report drops, and return whether the thread ended within the timeout.

        Otherwise the thread waits for a reply, and ends when the reply comes or times out.
        """
        self._ended.set()
        self._nudged.set()
        self._outbox.wake()
        return self._done.wait(timeout_s)

    def run(self) -> None:
        """Send until `end` is called; the thread raises no error."""
        _import_late_modules()
        while not self._ended.is_set():
            try:
                self._turn()
            except Exception:  # noqa: BLE001  # a defect of this code must not stop the thread
                self._warn("failed", "sending %s failed; it is tried again", self._route.kind, exc_info=True)
                self._pause(self._unreachable)
        try:
            if self._client is not None and self._outbox.unreported():
                self._warned.add("unreachable")  # no warning here: `close` logs the dropped items
                self._report()
        finally:
            self._done.set()
            self._disconnect()

    def _turn(self) -> None:
        # 1.
        self._encode(self._outbox.take(BATCH, self._idle_s(), self._ended))
        # 2.
        for partition, buffer in self._buffers.items():
            while buffer.is_due(time.monotonic()) and not self._ended.is_set():
                self._round(partition, buffer)
        # 3.
        if self._outbox.unreported() and not self._ended.is_set():
            self._report()

    def _idle_s(self) -> float | None:
        now = time.monotonic()
        if any(buffer.is_due(now) for buffer in self._buffers.values()):
            return 0.0
        times = [buffer.check_at for buffer in self._buffers.values() if buffer.check_at is not None]
        return max(min(times) - now, 0.0) if times else None

    def _encode(self, taken: list[QueuedItem]) -> None:
        for item in taken:
            try:
                with NOT_FORKING:
                    command = item.command or self._route.command(item.item, item.traceparent)
            except Exception as error:  # noqa: BLE001  # the application may submit anything
                self._outbox.complete([(item, Dropped.INVALID)])
                self._mistakes.log(error)
            else:
                self._buffer(command.partition).add([(item, command)])

    def _buffer(self, partition: int) -> PartitionBuffer:
        if partition not in self._buffers:
            safe_s = SAFE_SHARE * self._route.remembered_s
            self._buffers[partition] = PartitionBuffer(
                keep_s=min(self._settings.producer.resend_s, safe_s),
                safe_s=safe_s,
                most=self._settings.producer.queue,
                most_bytes=QUEUE_BYTES,
            )
        return self._buffers[partition]

    def _round(self, partition: int, buffer: PartitionBuffer) -> None:
        batch, probe, now = buffer.batch(), buffer.probe, time.monotonic()
        try:
            probe_found, outcomes = self._send(batch, probe)
        except (RedisError, RagtideError, OSError) as error:
            buffer.failed(len(batch))
            self._trouble(error)
            return
        self._recovered()
        trip = buffer.complete(outcomes, probe_found=probe_found, now=now)
        # Count the resent items first, because `flush` must not return before that.
        self._outbox.complete_again(resent=trip.resent, dropped=trip.dropped_again)
        self._outbox.complete(trip.outcomes)
        if trip.lost:
            log.warning("Redis lost %s that it had confirmed; %d are sent again", self._route.kind, trip.lost)
        if trip.full:
            stream = Streams(self._route.layout.prefix, partition).interactions
            self._warn(
                "full", "the stream %s is full; interactions wait, and are dropped once the queue is full", stream
            )
            self._pause(self._full)
        elif outcomes:
            self._full.succeeded()
            self._warned.discard("full")

    def _send(self, batch: list[PublishCommand], probe: PublishCommand | None) -> tuple[bool, list[Publication | None]]:
        calls: list[ScriptCall[Any]] = [self._route.call(batch)] if batch else []
        if probe is not None:
            calls.append(self._route.probe(probe))
        replies = run_scripts_blocking(self._connected(), calls)
        outcomes: list[Publication | None] = replies[0] if batch else []
        return probe is None or replies[-1] is not None, outcomes

    def _report(self) -> None:
        drops = self._outbox.unreported()
        try:
            client = self._connected()
            for partition, why in drops:
                key = Streams(self._route.layout.prefix, partition).dropped
                client.hincrby(key, self._route.counted_as(why), drops[partition, why])
                self._outbox.reported({(partition, why): drops[partition, why]})
        except (RedisError, RagtideError, OSError) as error:
            self._trouble(error)
        else:
            self._recovered()

    def _connected(self) -> Redis:
        if self._client is None:
            self._handle = self._handle or resolve_redis(
                self._settings.redis_address, self._settings.data_dir, convert=True
            )
            self._before_exit()
            client = connect(self._handle.url)
            # This thread retries, because its wait can be interrupted. A cluster client must retry itself.
            if isinstance(client, Redis):
                client.set_retry(Retry(NoBackoff(), 0))
            check_layout_blocking(client, self._settings.layout)
            self._client = client
        return self._client

    def _disconnect(self) -> None:
        try:
            if self._client is not None:
                self._client.close()
            if self._handle is not None:
                self._handle.close()
        except (RedisError, RagtideError, OSError):
            pass  # the connection is given up anyway
        self._client = self._handle = None

    def _trouble(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            return  # an idle connection may have been closed; the next try opens a new one
        url = redact(self._handle.url) if self._handle else "Redis"
        self._warn(
            "unreachable",
            "%s cannot be used (%s); %s are queued, and dropped once the queue is full",
            url,
            explained(error),
            self._route.kind,
        )
        self._pause(self._unreachable)

    def _recovered(self) -> None:
        self._failed = False
        self._unreachable.succeeded()
        if "unreachable" in self._warned:
            self._warned.discard("unreachable")
            log.info("Redis can be used again")

    def _pause(self, backoff: Backoff) -> None:
        if not self._ended.is_set() and self._nudged.wait(backoff.pause_s()):
            self._nudged.clear()
            self._unreachable.succeeded()
            self._full.succeeded()

    def _warn(self, what: str, message: str, *details: object, exc_info: bool = False) -> None:
        """Log a warning once per outage, so that an outage does not fill the application's log."""
        if what not in self._warned:
            self._warned.add(what)
            log.warning(message, *details, exc_info=exc_info)


def _import_late_modules() -> None:
    """Let redis-py and the resolver import all modules now, because a later import could block a forked child."""
    # A failure is ignored, because it matters only for a fork at the wrong moment.
    with suppress(Exception), NOT_FORKING, connect("redis://localhost") as client:
        if isinstance(client, Redis):
            client.connection_pool.make_connection()  # creates an object without connecting
        "localhost".encode("idna")
