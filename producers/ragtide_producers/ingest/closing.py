"""Ends stored traces: they are counted, and their spans are kept to be explained, or deleted. No spans are read."""

from time import time
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script

from .outcomes import outcomes_key

HOLD_MS: Final = 600_000
"""Time after which an interaction of spans counts as complete in any case. For as long again it is remembered which
spans became interactions, so that late repeats add nothing."""

CLOSE: Final = Lua("close_trace")
TRACE_CHARS: Final = 32
"""Characters of the id of a trace; its name in Redis may be longer."""


def trace_keys(streams: Streams, name: str) -> tuple[str, ...]:
    """Return the keys that scripts about a trace need, in their order; `traces.lua` names them."""
    stored = (streams.trace(name), streams.open_traces, streams.read_traces, streams.traces_bytes)
    return (*stored, streams.kept_traces)


def close_call(streams: Streams, name: str, *, now_ms: int, hold_ms: int, keeps: bool) -> ScriptCall[str]:
    """Return the call that ends a trace which was read; its reply is what the trace gave, if it was not counted before.

    Args:
        streams: keys of the partition.
        now_ms: time of the server, in milliseconds since 1970.
        hold_ms: time for which the ids of its used spans are kept.
        keeps: whether its spans are kept to be explained.
    """
    keys = (*trace_keys(streams, name), outcomes_key(streams, now_ms))
    return ScriptCall(CLOSE, keys, (name, hold_ms, "keep" if keeps else "delete"), bytes.decode)


async def forget_spans(redis: Redis, layout: Layout, interaction_id: str) -> int:
    """Delete the spans of traces that were read and have an interaction, and return the number of traces.

    Args:
        layout: partitions of the deployment.
        interaction_id: of the interaction; a trace has it if its id is in it, or if a span names it.
    """
    named, deleted = interaction_id.encode(), 0
    for streams in layout.all():
        names = [*await redis.zrange(streams.kept_traces, 0, -1), *await redis.zrange(streams.read_traces, 0, -1)]
        for name in (name.decode() for name in names):
            fields = cast("dict[bytes, bytes]", await redis.hgetall(streams.trace(name)))
            if name[:TRACE_CHARS] in interaction_id or any(named in value for value in fields.values()):
                now_ms = int(time() * 1000)
                await run_script(redis, close_call(streams, name, now_ms=now_ms, hold_ms=HOLD_MS, keeps=False))
                deleted += 1
    return deleted
