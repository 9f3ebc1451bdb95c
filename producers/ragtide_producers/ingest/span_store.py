"""The spans of all traces in Redis: stored, claimed when due, decided, closed. All ingest processes share them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from typing import Any, Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, TraceField
from ragtide_runtime.redis.layout import Layout, partition_of
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, number_or_none, run_scripts
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas import DeadLetter

from .assembling import Assembly
from .closing import HOLD_MS, close_call, trace_keys
from .outcomes import outcomes_key
from .stored_spans import SEPARATOR, StoredTrace, joined_ids

STORE: Final = Lua("store_spans")
CLAIM: Final = Lua("claim_traces")
READ: Final = Lua("read_trace")
DECIDE: Final = Lua("decide_trace")
FINISH: Final = Lua("finish_trace")

TRACE_SPANS: Final = 10_000
"""Most spans of one trace; further ones are refused for good, because a trace is read as a whole."""

TRACE_BYTES: Final = 33_554_432
"""Most bytes of the spans of one trace."""

CLAIM_S: Final = 30.0
"""Seconds after which the claim of a process that died on a trace ends."""
CLAIMED_MAX: Final = 100
"""Most traces of a partition that are claimed at once."""
READ_BYTES: Final = 16 * 1024 * 1024
"""Traces are read until together they have so many bytes; a single trace may have more."""
CLOSED_MAX: Final = 500
"""Most traces that are closed in one round trip."""
KEPT_SHARE: Final = 1 / 64
"""Share of `ingest.traces_bytes` up to which the spans of traces that are over are kept to be explained."""
EVER_MS: Final = -(10**14)
"""Milliseconds after which a trace that is to be closed before its time is due."""


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


class PartitionSize(NamedTuple):
    """What is stored of the traces of a partition."""

    open: int
    """Traces that wait to be read."""
    bytes: int
    """Bytes of the spans of all traces."""
    kept: int
    """Traces that are over and can still be explained."""


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
        layout: partitions of the deployment. All spans of a trace are in the partition of its id.
        settings: limits and times.
    """

    def __init__(self, redis: Redis, layout: Layout, settings: IngestSettings) -> None:
        self.redis = redis
        self._layout = layout
        self._settings = settings
        self._explain_ms = int(settings.explain_s * 1000)

    def store_call(
        self, trace_id: str, fields: Sequence[tuple[bytes, bytes]], pipelines: Sequence[str] = ()
    ) -> ScriptCall[StoreCounts | None]:
        """Return the call that stores spans of one trace; its reply is None if there is no room."""
        name = trace_name(trace_id, pipelines)
        streams = Streams(self._layout.prefix, partition_of(trace_id, self._layout.partitions))
        limits = self._settings
        arguments: list[Argument] = [
            name,
            int(1000 * limits.settle_s),
            limits.traces_cap,
            limits.traces_bytes,
            TRACE_SPANS,
            TRACE_BYTES,
            _patterns(pipelines),
        ]
        for pair in fields:
            arguments.extend(pair)
        return ScriptCall(STORE, trace_keys(streams, name), arguments, _read_counts)

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
            ScriptCall(READ, (streams.trace(name),), (), lambda reply: dict(zip(reply[::2], reply[1::2], strict=True)))
            for name in names[:wanted]
        ]
        replies = await run_scripts(self.redis, calls)
        return [StoredTrace.of(name, reply) for name, reply in zip(names, replies, strict=False)]

    def decide_call(
        self, streams: Streams, assembly: Assembly, letters: Sequence[DeadLetter]
    ) -> ScriptCall[int | None]:
        """Return the call that writes a decision down; its reply is the decision's number, None if spans have come.

        Of many interactions of one service that cannot be used for one reason only the first are dead letters.
        """
        arguments: tuple[Argument, ...] = (
            assembly.trace.version,
            joined_ids(assembly.used),
            b"".join(assembly.contents),
            SEPARATOR.join(assembly.payloads),
            assembly.service,
            *(part for letter in letters for part in (str(letter.reason), letter.encode())),
        )
        keys = (streams.trace(assembly.trace.name), streams.dead_letters, outcomes_key(streams, assembly.now_ms))
        return ScriptCall(DECIDE, keys, arguments, number_or_none)

    def finish_call(self, streams: Streams, assembly: Assembly, *, version: int, decision: int) -> ScriptCall[str]:
        """Return the call that ends the reading of a trace, after its interactions were published.

        Its reply is what the trace gave, if it is over and was not counted before; otherwise it is empty.

        Args:
            streams: keys of the partition.
            assembly: the result of reading, with the next step.
            version: version of the trace after the decision.
            decision: number of the decision whose interactions are published; 0 for none.
        """
        arguments: tuple[Argument, ...] = (
            assembly.trace.name,
            version,
            decision,
            assembly.next_step,
            assembly.at_ms,
            HOLD_MS,
            "keep" if self._explain_ms else "delete",
            f"{assembly.outcome}:{assembly.service}" if assembly.outcome else "",
            *(bytes.fromhex(span_id) for span_id in assembly.expired),
        )
        keys = (*trace_keys(streams, assembly.trace.name), outcomes_key(streams, assembly.now_ms))
        return ScriptCall(FINISH, keys, arguments, bytes.decode)

    async def close_read(self, sizes: Sequence[PartitionSize]) -> Counter[str]:
        """Close traces that were read and whose time is over, and return how many, by what they gave.

        The spans of a closed trace are kept to be explained, while those of its partition are few. Those that were kept
        for long enough, or are too many by now, are deleted, the oldest first; these traces gave nothing else.

        Args:
            sizes: what is stored in each partition.
        """
        budget = self._settings.traces_bytes * KEPT_SHARE
        partitions = self._layout.all()
        claims: list[ScriptCall[tuple[int, list[str]]]] = []
        for streams, size in zip(partitions, sizes, strict=True):
            over = 1 - budget / max(size.bytes, budget)
            oldest = (min(ceil(size.kept * over), CLOSED_MAX), 0) if over else (CLAIMED_MAX, self._explain_ms)
            claims += [_claim(streams.read_traces), _claim(streams.kept_traces, *oldest)]
        read, kept = await self._claimed(claims)
        keeping = [self._explain_ms > 0 and size.bytes <= budget for size in sizes]
        return await self._close([*read, *kept], [*keeping, *(False for _ in kept)])

    async def make_room(self) -> Counter[str]:
        """Close the next traces that were read, although their time is not over, and return how many as `close_read`.

        No spans are kept to be explained.
        """
        claims = [
            _claim(key, CLOSED_MAX, EVER_MS)
            for streams in self._layout.all()
            for key in (streams.read_traces, streams.kept_traces)
        ]
        read, kept = await self._claimed(claims)
        return await self._close([*read, *kept], [False] * len(claims))

    async def _claimed(self, calls: Sequence[ScriptCall[tuple[int, list[str]]]]) -> tuple[list[Claimed], list[Claimed]]:
        partitions = [streams for streams in self._layout.all() for _ in range(2)]
        replies = await run_scripts(self.redis, calls)
        claims = [Claimed(streams, *reply) for streams, reply in zip(partitions, replies, strict=True)]
        return claims[::2], claims[1::2]

    async def _close(self, claims: Sequence[Claimed], keeping: Sequence[bool]) -> Counter[str]:
        calls = [
            close_call(claimed.streams, name, now_ms=claimed.now_ms, hold_ms=HOLD_MS, keeps=keeps)
            for claimed, keeps in zip(claims, keeping, strict=True)
            for name in claimed.names
        ]
        return Counter(await run_scripts(self.redis, calls) if calls else ())

    async def find(self, trace_id: str) -> list[StoredTrace]:
        """Return the stored traces whose ids begin so, those included that are over and still kept; it counts no read.

        Args:
            trace_id: hexadecimal digits.
        """
        traces: list[StoredTrace] = []
        for streams in self._layout.all():
            names: dict[str, None] = {}
            for key in (streams.open_traces, streams.read_traces, streams.kept_traces):
                async for name, _ in self.redis.zscan_iter(key, f"{trace_id}*", 1000):
                    names[name.decode()] = None
            for name in names:
                fields = cast("dict[bytes, bytes]", await self.redis.hgetall(streams.trace(name)))
                traces.append(StoredTrace.of(name, fields))
        return [trace for trace in traces if trace.spans]

    async def sizes(self) -> list[PartitionSize]:
        """Return what is stored in each partition."""
        partitions = self._layout.all()
        async with self.redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.zcard(streams.open_traces)
                pipe.get(streams.traces_bytes)
                pipe.zcard(streams.kept_traces)
            numbers = await pipe.execute()
        return [
            PartitionSize(*(int(number or 0) for number in numbers[at : at + 3])) for at in range(0, len(numbers), 3)
        ]


def _claim(key: str, most: int = CLAIMED_MAX, age_ms: int = 0) -> ScriptCall[tuple[int, list[str]]]:
    return ScriptCall(CLAIM, (key,), (int(CLAIM_S * 1000), most, age_ms), _claimed)


def _read_counts(reply: list[int]) -> StoreCounts | None:
    return None if reply[0] < 0 else StoreCounts(*reply)


def _claimed(reply: Any) -> tuple[int, list[str]]:
    return int(reply[0]), [name.decode() for name in reply[1]]
