"""Reads traces that are due, and publishes their interactions.

The steps of one trace, of which each may be the last if the process dies:

1. Claim the trace, so that other processes leave it alone for `CLAIM_S`.
2. Read it, find the interactions that are complete, and encode each.
3. Write the decision down: the interactions, the spans that they use, the dead letters. If spans have come since, the
   decision is refused, and the trace is read again.
4. Publish the interactions. The ids are known to Redis, so a second time adds nothing.
5. Delete the written interactions, and set the time of the next step.

A process that finds a decision that was not finished continues with step 4.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, RagInteraction, Reason

from ..publishing.batch_publisher import publish_commands
from ..publishing.routes import InteractionRoute, PublishCommand
from ..traces.interactions import Mapped, Refusal
from .assembling import READS_MAX, Assembly, assemble
from .span_store import Claimed, SpanStore
from .stored_spans import StoredTrace
from .telemetry import ROLE, IngestTelemetry

POLL_S: Final = 0.2
"""Seconds between two looks for traces that are due."""
FULL_MS: Final = 1000
"""Milliseconds after which a trace is published again whose stream was full."""
LETTER_STREAM: Final = "traces"
"""Name of the source in dead letters: the spans were in no stream."""
COMPONENT: Final = "ingest"

log = structlog.get_logger("ragtide.ingest")


async def run_ingest(settings: Settings, redis: Redis, stop: asyncio.Event, telemetry: IngestTelemetry) -> None:
    """Read traces that are due, in all partitions, until `stop` is set."""
    reader = TraceReader(settings, redis, telemetry)
    with telemetry.health.reporting(ROLE, telemetry.loop):
        await reader.run(stop)


class TraceReader:
    """Reads the traces of a deployment. Any number of processes may do so at once.

    Args:
        settings: all settings.
        telemetry: counts interactions.
    """

    def __init__(self, settings: Settings, redis: Redis, telemetry: IngestTelemetry) -> None:
        self._redis = redis
        self._settings = settings.ingest
        self._telemetry = telemetry
        self._store = SpanStore(redis, settings.layout, settings.ingest)
        self._route = InteractionRoute.of(settings)
        self._user_ids = UserIds.of(settings)

    async def run(self, stop: asyncio.Event) -> None:
        """Read traces until `stop` is set; an outage of Redis is waited for."""
        reading, backoff = redis_outage(self._redis).attempt("reading traces"), Backoff()
        while not stop.is_set():
            try:
                busy = await self.step()
            except (RedisError, RedisClusterException, OSError) as error:
                reading.failed(error)
                self._telemetry.loop.failed(f"Redis failed: {error}")
                await sleep_or_stop(stop, backoff.pause_s())
                continue
            reading.succeeded()
            backoff.succeeded()
            self._telemetry.loop.beat("reading traces")
            if not busy:
                await sleep_or_stop(stop, POLL_S)

    async def step(self) -> bool:
        """Read the traces that are due now, and return whether there were any.

        Raises:
            redis.RedisError: Redis failed; the next step continues.
        """
        sizes = await self._store.sizes()
        self._telemetry.sizes(sizes)
        claims = await self._store.claim()
        for claimed in claims:
            names = list(claimed.names)
            while names:
                traces = await self._store.read(claimed.streams, names)
                await self._handle(claimed, traces)
                self._telemetry.loop.beat("reading traces")
                del names[: len(traces)]
        self._telemetry.closed(await self._store.close_read(sizes))
        return bool(claims)

    async def _handle(self, claimed: Claimed, traces: Sequence[StoredTrace]) -> None:
        new = [trace for trace in traces if not trace.outbox]
        assemblies = await asyncio.to_thread(lambda: [self._assemble(trace, claimed.now_ms) for trace in new])
        decided = await self._decide(claimed.streams, assemblies)
        for trace in (trace for trace in traces if trace.outbox):
            interactions = [RagInteraction.from_entry("", payload) for payload in trace.outbox]
            commands = [self._route.command(interaction) for interaction in interactions]
            again = Assembly(trace, claimed.now_ms, "again", claimed.now_ms)
            decided.append(Decided(again, trace.version, trace.decision, commands))
        await self._publish(decided)
        closed = await run_scripts(
            self._redis,
            [
                self._store.finish_call(
                    claimed.streams, decision.assembly, version=decision.version, decision=decision.number
                )
                for decision in decided
            ],
        )
        self._telemetry.closed(Counter(closed))

    def _assemble(self, trace: StoredTrace, now_ms: int) -> Assembly:
        """Return the result of reading a trace; a trace that cannot be read is given up."""
        if trace.reads > READS_MAX:
            return _given_up(trace, now_ms, f"no process finished reading the trace in {READS_MAX} tries")
        try:
            return assemble(trace, now_ms, self._settings, self._user_ids)
        except Exception as error:  # foreign spans and a defect of this code must not end the role
            log.exception("a trace cannot be read", trace=trace.name)
            return _given_up(trace, now_ms, f"the trace cannot be read: {type(error).__name__}: {error}")

    async def _decide(self, streams: Streams, assemblies: Sequence[Assembly]) -> list["Decided"]:
        deciding = [assembly for assembly in assemblies if assembly.decides]
        calls = [
            self._store.decide_call(streams, assembly, [_dead_letter(assembly, mapped) for mapped in assembly.refused])
            for assembly in deciding
        ]
        numbers = await run_scripts(self._redis, calls) if calls else []
        decided = [Decided(assembly, assembly.trace.version) for assembly in assemblies if not assembly.decides]
        for assembly, number in zip(deciding, numbers, strict=True):
            if number is None:
                continue
            commands = [
                self._route.command(interaction, payload=payload)
                for interaction, payload in zip(assembly.interactions, assembly.payloads, strict=True)
            ]
            decided.append(Decided(assembly, assembly.trace.version + 1, number, commands))
            self._telemetry.changed(assembly.changed)
            self._telemetry.assembled(assembly.interactions)
            for mapped in assembly.refused:
                self._telemetry.refused(mapped, assembly.service)
        return decided

    async def _publish(self, decided: Sequence["Decided"]) -> None:
        owners = [trace for trace in decided for _ in trace.commands]
        commands = [command for trace in decided for command in trace.commands]
        outcomes = await publish_commands(self._redis, self._route, commands)
        for trace, outcome in zip(owners, outcomes, strict=True):
            if outcome is None:
                trace.wait_for_room()
                self._telemetry.warn_once("a stream of interactions is full: the interactions of traces wait for room")
            elif outcome.dropped is not None:
                self._telemetry.published("dropped")
            else:
                self._telemetry.published("published" if outcome.added else "duplicate")


@dataclass(slots=True)
class Decided:
    """A trace whose interactions are written down, on the way to its next step."""

    assembly: Assembly
    version: int
    """Version of the trace after the decision."""
    number: int = 0
    """Number of the decision; 0 without one."""
    commands: Sequence[PublishCommand] = ()

    def wait_for_room(self) -> None:
        """Keep the written interactions, and read the trace again soon."""
        self.number = 0
        at_ms = self.assembly.now_ms + FULL_MS
        self.assembly = replace(self.assembly, next_step="again", at_ms=at_ms, expired=[])


def _given_up(trace: StoredTrace, now_ms: int, detail: str) -> Assembly:
    mapped = Mapped(f"otel-{trace.name}", None, Refusal.INVALID, f"{detail}: report it with the spans of the trace")
    used = [span_id.hex() for span_id in trace.spans]
    return Assembly(trace, now_ms, "close", now_ms, refused=[mapped], used=used, outcome=Refusal.INVALID)


def _dead_letter(assembly: Assembly, mapped: Mapped) -> DeadLetter:
    payload = {"interaction_id": mapped.interaction_id, "trace": assembly.trace.name, "service": assembly.service}
    return DeadLetter.of(
        json.dumps(payload).encode(),
        stream=LETTER_STREAM,
        entry_id=mapped.interaction_id,
        reason=Reason(mapped.refusal or Refusal.INVALID),
        detail=mapped.detail,
        component=COMPONENT,
    )
