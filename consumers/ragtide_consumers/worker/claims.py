"""Renews a worker's claims on entries from a thread, so that a busy event loop is not mistaken for a dead worker.

An entry belongs to the worker that took it until it has been idle for `worker_min_idle_s`. The thread renews each claim
three times in that time. It does not wait for the event loop, which labeling may occupy. If the event loop has not run
for `SILENT_S`, the thread renews no claim, so that another worker takes over the entries of a worker that hangs.
"""

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Final

from redis import Redis, RedisError, ResponseError

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.consumer_groups import renew_claims
from ragtide_runtime.redis.keys import AWAITING, LABEL_GROUP, Streams
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.telemetry.health import SILENT_S, Heartbeat
from ragtide_runtime.telemetry.outages import Outage

BEYOND: Final = "18446744073709551615-18446744073709551614"
"""The highest id but one: a read of a consumer's own entries after this id returns nothing."""

JOIN_S: Final = 2.0
"""Seconds that a stopping worker waits for the thread, which may itself wait for Redis."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The entries of one partition that a worker is working on."""

    stream: str
    entry_ids: Callable[[], Sequence[str]]
    """Returns the ids of these entries; called from the thread."""
    heartbeat: Heartbeat


class ClaimRenewer:
    """Renews the claims of one worker process on all its partitions.

    Args:
        url: of Redis; the thread has a connection of its own.
        consumer: name of the worker in the consumer group.
        min_idle_s: idle seconds after which another worker takes an entry over.
        clock: monotonic seconds.
        outage: of Redis, shared with the other loops of the worker.
    """

    def __init__(
        self,
        url: str,
        *,
        consumer: str,
        min_idle_s: float,
        clock: Callable[[], float] = monotonic,
        outage: Outage | None = None,
    ) -> None:
        self._outage = (outage or Outage("Redis")).attempt("renewing claims on entries")
        self._url = url
        self._consumer = consumer
        self._pause_s = min(min_idle_s / 3, 5.0)
        self._clock = clock
        self._claims: dict[str, Claim] = {}
        self._renewing = threading.Lock()
        self._stopping = threading.Event()
        self._event_loop_ran = clock()
        self._thread = threading.Thread(
            # The thread has the context of the worker, so its log lines name the role.
            target=copy_context().run,
            args=(self._run,),
            name="ragtide claims",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        self._event_loop_ran = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End the thread. It is a daemon, so that an unreachable Redis does not keep the process alive."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def event_loop_ran(self) -> None:
        """Report that the event loop is alive."""
        self._event_loop_ran = self._clock()

    def add(self, streams: Streams, entry_ids: Callable[[], Sequence[str]], heartbeat: Heartbeat) -> None:
        """Begin to renew the claims on the entries of a partition that `entry_ids` returns."""
        self._claims = {**self._claims, streams.interactions: Claim(streams.interactions, entry_ids, heartbeat)}

    def remove(self, streams: Streams) -> None:
        """Stop renewing the claims of a partition; a renewal in progress has ended when this returns."""
        self._claims = {stream: claim for stream, claim in self._claims.items() if stream != streams.interactions}
        if self._renewing.acquire(timeout=JOIN_S):
            self._renewing.release()

    def _run(self) -> None:
        client: Redis | None = None
        while not self._stopping.wait(self._pause_s):
            with self._renewing:
                try:
                    client = client or connect(self._url)
                    self._renew(client)
                except (RedisError, OSError) as error:
                    self._failed(error)
        if client is not None:
            client.close()

    def _renew(self, client: Redis) -> None:
        silent_s = self._clock() - self._event_loop_ran
        if silent_s > SILENT_S:
            for claim in self._claims.values():
                claim.heartbeat.failed(f"the event loop has been blocked for {silent_s:.0f} s: claims are not renewed")
            return
        for claim in self._claims.values():
            if entry_ids := claim.entry_ids():
                # An entry of a sample stays with the consumer of those that wait, while it is tried again.
                holders = (self._consumer, AWAITING)
                calls = [renew_claims(claim.stream, LABEL_GROUP, holder, entry_ids) for holder in holders]
                run_scripts_blocking(client, calls)
            else:
                self._report_alive(client, claim.stream)
            claim.heartbeat.beat("renewing claims")
        self._outage.succeeded()

    def _report_alive(self, client: Redis, stream: str) -> None:
        """Show `ragtide doctor` that the worker is alive: before Redis 7.2 a read without entries does not show it."""
        try:
            client.xreadgroup(LABEL_GROUP, self._consumer, {stream: BEYOND}, count=1)
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):  # the worker creates the group again
                raise

    def _failed(self, error: Exception) -> None:
        for claim in self._claims.values():
            claim.heartbeat.failed(f"renewing claims fails: {error}")
        self._outage.failed(error)
