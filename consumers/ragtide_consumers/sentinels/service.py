"""Asks sentinels on a schedule: one worker of the deployment at a time, the owner of the sentinels' lease.

One turn:

1. It waits until the last answer is older than `judge.sentinels_every_s`.
2. The judge is asked about the next sentinel, without the cache. While it is unavailable, or over its budget, the turn
   waits and asks again; an answer without labels counts as an answer.
3. The answer is compared with the earlier ones to the same sentinel (`answers.py`).
4. One script writes what is remembered and the metric event, if the lease is still held and the number is the next one.

If the worker is killed before 4, the sentinel is asked again. A sentinel is labeled as it is in its file, with its own
pipeline and segments; the event has the pipeline `ragtide-sentinels`, and metrics of sentinels only, so that no
estimate, rule or limit of traffic counts it.
"""

import json
from asyncio import Event
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from time import perf_counter
from typing import Final, NamedTuple, cast

import structlog
from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.processes.waiting import sleep_or_stop
from ragtide_runtime.redis.keys import SentinelField, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricEvent, RagInteraction, to_milliseconds, utc_now
from ragtide_schemas.limits import NAME_MAX_CHARS
from ragtide_schemas.metric_definitions import SENTINEL_AGREEMENT, SENTINEL_PIPELINE, SENTINEL_UNLIKE

from ..labelers.event import labeler_id, metric_event
from ..labelers.protocol import Labeler, LabelerUnavailable, Labeling
from ..metrics.scores import nothing_to_label
from .answers import SentinelMemory, answer_of

RECORD: Final = Lua("record_sentinel")

ROLE: Final = "sentinels"
"""Name of this work in logs and health reports."""

STEP_S: Final = 1.0
"""Most seconds that a wait takes between two reports of progress."""

OF_JUDGE: Final = {
    "labeler", "labeler_version", "profile", "prompts", "prompt_tokens", "completion_tokens", "cost_usd",
    "cost_source", "latency_s", "counters",
}  # fmt: skip
"""Fields that the event of a sentinel has of the usual event of its labeling."""

log = structlog.get_logger("ragtide.sentinels")


@dataclass(frozen=True, slots=True)
class Sentinel:
    """One item about which the judge is asked again and again."""

    digest: str
    """Of what the judge reads: a changed text is another sentinel."""
    interaction: RagInteraction


def sentinels_of(interactions: Sequence[RagInteraction], most: int) -> list[Sentinel]:
    """Return the sentinels among interactions, in the order of their digests; those that no judge can label are none.

    Args:
        most: number of sentinels; of more, those with the lowest digests.
    """
    sentinels: dict[str, Sentinel] = {}
    for interaction in interactions:
        if nothing_to_label(interaction) is None:
            read = interaction.model_dump(
                mode="json", include={"question", "documents", "response", "reference_answer", "history", "segments"}
            )
            digest = blake2b(json.dumps(read, sort_keys=True).encode(), digest_size=12).hexdigest()
            sentinels[digest] = Sentinel(digest, interaction)
    return [sentinels[digest] for digest in sorted(sentinels)[:most]]


def sentinel_streams(layout: Layout) -> Streams:
    """Return the keys of the partition that has the events of sentinels, and what is remembered of them."""
    return Streams(layout.prefix, layout.all_of(SENTINEL_PIPELINE)[0].partition)


def record_sentinel(
    streams: Streams, token: str, number: int, *, asked_ms: int, digest: str, memory: bytes, event: bytes
) -> ScriptCall[str]:
    """Return the call that records an answer; its reply is `recorded`, `fenced` or `before`.

    Args:
        streams: keys of the partition.
        token: fencing token of the owner.
        asked_ms: time of the answer.
        memory: what is remembered of it from now on.
        event: JSON of the metric event.
    """
    keys = (streams.sentinels_lease, streams.sentinels, streams.metrics)
    return ScriptCall(RECORD, keys, (token, number, asked_ms, digest, memory, event), bytes.decode)


class Progress(NamedTuple):
    """How far the asking of sentinels has come."""

    answers: int
    """Number of answers so far."""
    asked_ms: int
    """Milliseconds since 1970 of the last one; 0 before the first."""


async def read_progress(redis: Redis, layout: Layout) -> Progress:
    """Return how many answers sentinels had, and when the last one came."""
    key = sentinel_streams(layout).sentinels
    number, last_asked = await redis.hmget(key, [SentinelField.NUMBER, SentinelField.ASKED])
    return Progress(int(number or 0), int(last_asked or 0))


async def forget_sentinels(redis: Redis, layout: Layout) -> int:
    """Forget the earlier answers to all sentinels, so that the next ones are the baseline; return their number.

    The owner notices it at the next answer.
    """
    streams = sentinel_streams(layout)
    fields = cast("list[bytes]", await redis.hkeys(streams.sentinels))
    await redis.hincrby(streams.sentinels, SentinelField.BASELINE, 1)
    return sum(name.startswith(SentinelField.ITEM.encode()) for name in fields)


class Sentinels:
    """Asks the sentinels, while this process owns their lease.

    Args:
        labeler: asks the judge past the cache, and scores nothing when it cannot.
        sentinels: at least one.
    """

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        labeler: Labeler,
        sentinels: Sequence[Sentinel],
        process: ProcessTelemetry | None = None,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._labeler = labeler
        self._sentinels = sentinels
        self._streams = sentinel_streams(settings.layout)
        self._every_ms = int(1000 * settings.judge.sentinels_every_s)
        self._telemetry = OwnerTelemetry(ROLE, settings.partitions, process)
        self._unavailable = LogLimit()
        lease = Lease(redis, self._streams, holder=process_name(), lease_s=settings.lease_s, role="sentinels")
        self._owner = PartitionOwner(redis, [lease], self._work, telemetry=self._telemetry)

    async def run(self, stop: Event) -> None:
        """Ask until `stop` is set."""
        await self._owner.run(stop)

    async def _work(self, ownership: Ownership) -> None:
        log.info("asking sentinels", sentinels=len(self._sentinels), every_s=self._settings.judge.sentinels_every_s)
        current = {f"{SentinelField.ITEM}{sentinel.digest}".encode() for sentinel in self._sentinels}
        fields = cast("list[bytes]", await self._redis.hkeys(self._streams.sentinels))
        others = [name for name in fields if name.startswith(SentinelField.ITEM.encode()) and name not in current]
        if others:
            await self._redis.hdel(self._streams.sentinels, *others)
        while not ownership.stop.is_set():
            number, asked_ms = await read_progress(self._redis, self._settings.layout)
            now_ms = to_milliseconds(utc_now())
            # A clock that went back must not stop the schedule.
            wait_ms = min(max(asked_ms + self._every_ms - now_ms, 0), self._every_ms)
            await self._wait(ownership, wait_ms / 1000, "waiting for the next sentinel")
            if not ownership.stop.is_set():
                await self._ask_next(ownership, number)

    async def _wait(self, ownership: Ownership, seconds: float, doing: str) -> None:
        while True:
            ownership.check()
            self._telemetry.partition_turned(self._streams.partition, doing)
            if await sleep_or_stop(ownership.stop, min(seconds, STEP_S)) or seconds <= STEP_S:
                return
            seconds -= STEP_S

    async def _ask_next(self, ownership: Ownership, number: int) -> None:
        sentinel = self._sentinels[number % len(self._sentinels)]
        started = perf_counter()
        try:
            labeling = await self._labeler.label(sentinel.interaction)
        except LabelerUnavailable as error:
            if times := self._unavailable.due():
                log.warning("the judge does not answer sentinels now", because=str(error), times=times)
            await self._wait(ownership, error.resume_in_s, "waiting for the judge")
            return
        latency_s = perf_counter() - started
        ownership.check()
        field = f"{SentinelField.ITEM}{sentinel.digest}"
        names = [field, SentinelField.BASELINE]
        stored, baseline = cast("list[bytes | None]", await self._redis.hmget(self._streams.sentinels, names))
        basis = f"{int(baseline or 0)}/{self._labeler.version}/{self._labeler.profile}"
        known = {} if stored is None else json.loads(stored)
        memory = SentinelMemory.of_json(known["answers"] if known.get("basis") == basis else ())
        event = self._event(sentinel, labeling, number, memory, latency_s)
        remembered = json.dumps({"basis": basis, "answers": memory.as_json()}, separators=(",", ":")).encode()
        reply = await run_script(
            self._redis,
            record_sentinel(
                self._streams,
                ownership.tokens[self._streams.partition],
                number,
                asked_ms=to_milliseconds(event.labeled_at),
                digest=sentinel.digest,
                memory=remembered,
                event=event.encode(),
            ),
        )
        if reply == "fenced":
            raise LeaseLostError("the lease of the sentinels ran out, and another process took it")

    def _event(
        self, sentinel: Sentinel, labeling: Labeling, number: int, memory: SentinelMemory, latency_s: float
    ) -> MetricEvent:
        # With 20 characters for the number, the id stays within the bounds of a name.
        name = f"{sentinel.interaction.interaction_id[: NAME_MAX_CHARS - 21]}#{number}"
        compared = memory.take(answer_of(labeling), name=f"{sentinel.digest}\0{number}")
        # While answers are learned nothing is asked of the metrics, so they are neither scored nor absent.
        scores: dict[str, float] = {}
        if compared is not None:
            scores = {SENTINEL_UNLIKE.name: float(compared.unlike), SENTINEL_AGREEMENT.name: compared.agreement}
        now = utc_now()
        whole = metric_event(
            sentinel.interaction, labeler_id(self._labeler), labeling, labeled_at=now, latency_s=latency_s
        )
        return MetricEvent(
            interaction_id=name,
            pipeline=SENTINEL_PIPELINE,
            occurred_at=now,
            labeled_at=now,
            scores=scores,
            **whole.model_dump(include=OF_JUDGE),
        )
