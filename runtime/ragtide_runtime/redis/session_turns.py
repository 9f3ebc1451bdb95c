"""The turns of sessions that have not ended: they are found, ended, and moved to another partition.

A worker adds a turn in the script that commits its result (`deliver_events.lua`). A session has ended when no entry
that came within the quiet time after its last turn is unfinished (`due_sessions.lua`). So neither a slow worker nor an
outage of the judge ends it, and the turns of several workers are one session. It is ended by one script
(`end_session.lua`): its turns are forgotten, and what is asked about the session joins the stream of interactions. The
script compares the number of turns, so that of several workers only one ends a session, and no turn is lost in between.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.conversation import TURNS_MAX, sessions_of, turn_of

from .keys import LABEL_GROUP, SESSIONS_TOTAL, SessionField, Streams, known_digest, session_digest
from .layout import Layout
from .scripts import Argument, Lua, ScriptCall, number_or_none, run_script

DUE: Final = Lua("due_sessions")
END: Final = Lua("end_session")
FORGET: Final = Lua("forget_turn")

SESSION_BYTES: Final = 1_000_000
"""Most bytes of the turns of one session; the oldest turns are dropped, but never the last one."""

SESSIONS_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of the turns of all sessions of a partition; above it the sessions that were quiet for longest end."""

KEPT_S: Final = 604_800.0
"""Seconds after its last turn, beyond the quiet time, in which a session can be ended; then its turns are deleted."""

AT_ONCE: Final = 100
"""Most sessions that one look ends."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session as it was read."""

    digest: str
    turns: Sequence[RagInteraction]
    """The turns that are kept, in the order in which they were added; empty if they have expired."""
    count: int | None
    """Number of turns, with those that were dropped; None if they have expired."""

    @property
    def missing(self) -> int:
        """Number of turns that were dropped."""
        return (self.count or 0) - len(self.turns)


def limits_of_turns(quiet_s: float) -> tuple[Argument, ...]:
    """Return the arguments of `deliver_events.lua` about turns: most turns, most bytes, and ms to keep them."""
    return (TURNS_MAX, SESSION_BYTES, int(1000 * (quiet_s + KEPT_S)))


def session_key(streams: Streams, interaction: RagInteraction) -> str:
    """Return the key of the session of an interaction that has a session id."""
    return streams.session(session_digest(interaction.pipeline, cast("str", interaction.session_id)))


def encoded_turn(interaction: RagInteraction) -> bytes:
    """Return an interaction as a turn of its session."""
    return turn_of(interaction).encode()


def due_sessions(streams: Streams, quiet_s: float, most_open: int) -> ScriptCall[list[str]]:
    """Return the call that finds the digests of sessions that have ended, at most a hundred."""
    keys = (streams.interactions, streams.open_sessions, streams.session_sizes)
    arguments = (LABEL_GROUP, int(1000 * quiet_s), most_open, SESSIONS_BYTES, AT_ONCE)
    return ScriptCall(DUE, keys, arguments, lambda reply: [digest.decode() for digest in reply])


def end_session(
    streams: Streams, session: OpenSession, interactions: Sequence[RagInteraction], *, dedupe_ms: int
) -> ScriptCall[int | None]:
    """Return the call that ends a session; its reply is the number of interactions that were added.

    The reply is None if another worker ended the session, or a turn came meanwhile.

    Args:
        streams: keys of the partition.
        session: as it was read.
        dedupe_ms: milliseconds for which the ids of the interactions are known.
    """
    keys = [streams.session(session.digest), streams.open_sessions, streams.session_sizes, streams.interactions]
    arguments: list[Argument] = ["" if session.count is None else session.count, dedupe_ms]
    for interaction in interactions:
        identity = interaction.pipeline, interaction.interaction_id
        keys += streams.owner_keys(*identity)
        arguments += [known_digest(*identity), interaction.encode()]
    return ScriptCall(END, keys, arguments, number_or_none)


async def read_session(redis: Redis, streams: Streams, digest: str) -> OpenSession:
    """Return a session with its turns."""
    fields = cast("dict[bytes, bytes]", await redis.hgetall(streams.session(digest)))
    count = fields.pop(SessionField.TURNS.encode(), None)
    fields.pop(SessionField.FIRST.encode(), None)
    turns = []
    for number in sorted(fields, key=int):
        with suppress(InvalidEntryError):  # written by another release: it counts as dropped
            turns.append(RagInteraction.decode(fields[number]))
    return OpenSession(digest, turns, None if count is None else int(count))


@dataclass(slots=True)
class EndedSessions:
    """What one look at the sessions of a partition did."""

    due: int = 0
    """Sessions that had ended."""
    asked: int = 0
    """Interactions that were added to the stream, one for each session that a judge is asked about."""
    expired: int = 0
    """Sessions whose turns had been deleted, because no worker ended them in time."""


async def end_due_sessions(
    redis: Redis,
    streams: Streams,
    *,
    quiet_s: float,
    most_open: int,
    dedupe_ms: int,
    is_asked: Callable[[RagInteraction], bool],
) -> EndedSessions:
    """End the sessions of a partition that have ended, at most a hundred.

    Args:
        redis: client.
        streams: keys of the partition.
        quiet_s: seconds without a turn after which a session has ended.
        most_open: most sessions that may be open.
        dedupe_ms: milliseconds for which the ids of the interactions are known.
        is_asked: whether a judge is asked about the interaction of a session; a session without one is only forgotten.

    Raises:
        redis.RedisError: some sessions may not have been ended; they are found again.
    """
    ended = EndedSessions()
    for digest in await run_script(redis, due_sessions(streams, quiet_s, most_open)):
        session = await read_session(redis, streams, digest)
        whole = sessions_of(session.turns, quiet_s, missing=session.missing) if session.turns else []
        asked = [interaction for interaction in whole if is_asked(interaction)]
        added = await run_script(redis, end_session(streams, session, asked, dedupe_ms=dedupe_ms))
        if added is not None:
            ended.due += 1
            ended.asked += added
            ended.expired += session.count is None
    return ended


async def forget_turns(redis: Redis, layout: Layout, interaction_id: str, pipeline: str | None = None) -> int:
    """Delete the texts of an interaction from the sessions that have not ended, and return their number.

    Args:
        redis: client.
        pipeline: of the turn; None for any.
    """
    forgotten = 0
    for streams in layout.all():
        keys = (streams.open_sessions, streams.session_sizes)
        for member in cast("list[bytes]", await redis.zrange(streams.open_sessions, 0, -1)):
            key = streams.session(member.decode())
            for number, text in cast("dict[bytes, bytes]", await redis.hgetall(key)).items():
                if number.isdigit() and _is_turn_of(text, interaction_id, pipeline):
                    forgotten += await run_script(redis, ScriptCall(FORGET, (key, *keys), (number, text), int))
    return forgotten


def _is_turn_of(text: bytes, interaction_id: str, pipeline: str | None) -> bool:
    try:
        turn = RagInteraction.decode(text)
    except InvalidEntryError:
        return False
    return turn.interaction_id == interaction_id and pipeline in (None, turn.pipeline)


async def move_sessions(redis: Redis, streams: Streams, layout: Layout) -> None:
    """Move the open sessions of a partition to the partitions of a new layout; an interrupted move can be repeated."""
    open_sessions = cast("list[tuple[bytes, float]]", await redis.zrange(streams.open_sessions, 0, -1, withscores=True))
    for member, last_ms in open_sessions:
        digest = member.decode()
        source = streams.session(digest)
        fields = cast("dict[bytes, bytes]", await redis.hgetall(source))
        turns = (await read_session(redis, streams, digest)).turns
        target = layout.of(turns[0].pipeline, digest) if turns else None
        if target == streams:
            continue
        size = int(await redis.hget(streams.session_sizes, digest) or 0)
        if target is not None:
            expires_ms = max(int(await redis.pttl(source)), 1)
            async with redis.pipeline(transaction=True) as writing:
                writing.delete(target.session(digest))
                writing.hset(target.session(digest), mapping=cast("Any", fields))
                writing.pexpire(target.session(digest), expires_ms)
                writing.zadd(target.open_sessions, {digest: last_ms})
                writing.hset(target.session_sizes, digest, str(size))
                await writing.execute()
        async with redis.pipeline(transaction=True) as deleting:
            deleting.delete(source)
            deleting.zrem(streams.open_sessions, digest)
            deleting.hdel(streams.session_sizes, digest)
            await deleting.execute()
    for changed in {streams, *layout.all()}:
        sizes = cast("dict[bytes, bytes]", await redis.hgetall(changed.session_sizes))
        sizes.pop(SESSIONS_TOTAL.encode(), None)
        if sizes:
            await redis.hset(changed.session_sizes, SESSIONS_TOTAL, str(sum(map(int, sizes.values()))))
        else:
            await redis.delete(changed.session_sizes)
