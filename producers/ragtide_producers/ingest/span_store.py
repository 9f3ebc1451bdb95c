"""The spans of all traces in Redis: stored, claimed when due, decided, closed. All ingest processes share them."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, TraceField
from ragtide_runtime.redis.layout import Layout, partition_of
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_scripts
from ragtide_runtime.settings.producers import IngestSettings
from ragtide_schemas import DeadLetter

from .assembling import Assembly, Timing
from .stored_spans import SEPARATOR, StoredTrace, joined_ids

STORE: Final = Lua("store_spans")
CLAIM: Final = Lua("claim_traces")
READ: Final = Lua("read_trace")
DECIDE: Final = Lua("decide_trace")
FINISH: Final = Lua("finish_trace")
CLOSE: Final = Lua("close_trace")

CLAIM_S: Final = 30.0
"""Seconds after which the claim of a process that died on a trace ends."""
CLAIMED_MAX: Final = 100
"""Most traces of a partition that are claimed at once."""
READ_BYTES: Final = 16 * 1024 * 1024
"""Traces are read until together they have so many bytes; a single trace may have more."""
CLOSED_MAX: Final = 500
"""Most traces that are closed in one round trip."""


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Numbers of spans by the outcome of storing them."""

    stored: int = 0
    repeated: int = 0
    """Spans that were stored before: an exporter sent them again."""
    late: int = 0
    """Spans of a trace whose interactions were published before."""
    rejected: int = 0
    """Spans beyond the limits of one trace."""

    def __add__(self, other: "StoreCounts") -> "StoreCounts":
        return StoreCounts(
            self.stored + other.stored,
            self.repeated + other.repeated,
            self.late + other.late,
            self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """Traces of a partition that this process reads now."""

    streams: Streams
    now_ms: int
    """Time of the server, in milliseconds since 1970."""
    names: Sequence[str]


def trace_name(trace_id: str, pipelines: Sequence[str]) -> str:
    """Return the name of a trace in Redis.

    Spans of tokens with other allowed pipelines never meet in one trace, so that no token writes into the interactions
    of another.
    """
    if not pipelines:
        return trace_id
    return f"{trace_id}-{blake2b(_patterns(pipelines).encode(), digest_size=8).hexdigest()}"


def _patterns(pipelines: Sequence[str]) -> str:
    return "\n".join(sorted(pipelines))


class SpanStore:
    """Stores spans and reads traces.

    Args:
        redis: client.
        layout: partitions of the deployment. All spans of a trace are in the partition of its id.
        settings: limits and times.
    """

    def __init__(self, redis: Redis, layout: Layout, settings: IngestSettings) -> None:
        self.redis = redis
        self._layout = layout
        self._settings = settings
        self.timing = Timing.of(settings)

    def store_call(
        self, trace_id: str, fields: Sequence[tuple[bytes, bytes]], pipelines: Sequence[str] = ()
    ) -> ScriptCall[StoreCounts | None]:
        """Return the call that stores spans of one trace; its reply is None if there is no room."""
        name = trace_name(trace_id, pipelines)
        streams = Streams(self._layout.prefix, partition_of(trace_id, self._layout.partitions))
        limits = self._settings
        arguments: list[Argument] = [
            name,
            self.timing.settle_ms,
            limits.traces_cap,
            limits.traces_bytes,
            limits.trace_spans,
            limits.trace_bytes,
            _patterns(pipelines),
        ]
        for pair in fields:
            arguments.extend(pair)
        return ScriptCall(STORE, _keys(streams, name), arguments, _counts)

    async def claim(self) -> list[Claimed]:
        """Claim traces of every partition that are due."""
        partitions = self._layout.all()
        replies = await run_scripts(self.redis, [_claim(streams.open_traces) for streams in partitions])
        return [Claimed(streams, *reply) for streams, reply in zip(partitions, replies, strict=True) if reply[1]]

    async def read(self, streams: Streams, names: Sequence[str]) -> list[StoredTrace]:
        """Return the first of these traces, as many as fit into `READ_BYTES`; at least one."""
        async with self.redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hget(streams.trace(name), TraceField.BYTES)
            sizes = await pipe.execute()
        wanted, total = 0, 0
        for size in sizes:
            total += int(size or 0)
            if wanted and total > READ_BYTES:
                break
            wanted += 1
        calls: list[ScriptCall[Any]] = [
            ScriptCall(READ, (streams.trace(name),), (), _by_field) for name in names[:wanted]
        ]
        replies = await run_scripts(self.redis, calls)
        return [StoredTrace.of(name, reply) for name, reply in zip(names, replies, strict=False)]

    def decide_call(self, streams: Streams, found: Assembly, letters: Sequence[DeadLetter]) -> ScriptCall[int | None]:
        """Return the call that writes a decision down; its reply is the decision's number, None if spans have come."""
        arguments: tuple[Argument, ...] = (
            found.trace.version,
            joined_ids(found.used),
            b"".join(found.contents),
            SEPARATOR.join(found.payloads),
            *(letter.encode() for letter in letters),
        )
        return ScriptCall(DECIDE, (streams.trace(found.trace.name), streams.dead_letters), arguments, _number)

    def finish_call(self, streams: Streams, found: Assembly, *, version: int, decision: int) -> ScriptCall[int]:
        """Return the call that ends the reading of a trace, after its interactions were published.

        Args:
            streams: keys of the partition.
            found: the result of reading, with the next step.
            version: version of the trace after the decision.
            decision: number of the decision whose interactions are published; 0 for none.
        """
        arguments: tuple[Argument, ...] = (
            found.trace.name,
            version,
            decision,
            found.next_step,
            found.at_ms,
            self.timing.hold_ms,
            *(bytes.fromhex(span_id) for span_id in found.expired),
        )
        return ScriptCall(FINISH, _keys(streams, found.trace.name), arguments, int)

    async def close_read(self, *, evict: bool = False) -> int:
        """Close traces that were read and whose time is over, and return their number.

        Args:
            evict: whether to close the next traces that were read, although their time is not over.
        """
        partitions = self._layout.all()
        if evict:
            async with self.redis.pipeline(transaction=False) as pipe:
                for streams in partitions:
                    pipe.zrange(streams.read_traces, 0, CLOSED_MAX - 1)
                found = [[name.decode() for name in names] for names in await pipe.execute()]
        else:
            found = [
                names
                for _, names in await run_scripts(self.redis, [_claim(streams.read_traces) for streams in partitions])
            ]
        calls = [
            ScriptCall(CLOSE, _keys(streams, name), (name, self.timing.hold_ms), int)
            for streams, names in zip(partitions, found, strict=True)
            for name in names
        ]
        return sum(await run_scripts(self.redis, calls)) if calls else 0

    async def sizes(self) -> list[tuple[int, int]]:
        """Return for each partition the number of open traces and the bytes of its stored spans."""
        partitions = self._layout.all()
        async with self.redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.zcard(streams.open_traces)
                pipe.get(streams.traces_bytes)
            found = await pipe.execute()
        return [(int(found[at]), int(found[at + 1] or 0)) for at in range(0, len(found), 2)]


def _claim(key: str) -> ScriptCall[tuple[int, list[str]]]:
    return ScriptCall(CLAIM, (key,), (int(CLAIM_S * 1000), CLAIMED_MAX), _claimed)


def _keys(streams: Streams, name: str) -> tuple[str, ...]:
    return streams.trace(name), streams.open_traces, streams.read_traces, streams.traces_bytes


def _counts(reply: list[int]) -> StoreCounts | None:
    return None if reply[0] < 0 else StoreCounts(*reply)


def _claimed(reply: Any) -> tuple[int, list[str]]:
    return int(reply[0]), [name.decode() for name in reply[1]]


def _by_field(reply: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _number(reply: int | None) -> int | None:
    return None if reply is None else int(reply)
