"""Commits one step of the aggregator in one script: state, positions, estimates, alerts and dead letters, or nothing.

The script does the following in this order:

1. The lease must still have this owner's fencing token; otherwise nothing is written (`fenced`).
2. The checkpoint must have the number of steps that this step started from; otherwise nothing is written (`moved`). A
   step that was sent again after a lost reply finds its own number there and counts as done.
3. The entries that this step has read must still be in the streams. Otherwise Redis lost the end of a stream, the lost
   interactions will be scored again, and nothing is written (`lost`). It is enough to check the last entry of every
   read, because streams are lost from the end. Entries after the position of the checkpoint are never trimmed.
4. Changed rows and the new positions are written, and gone rows are removed. Graded metrics are remembered. Closed
   panes of the history are added to their lists, which are cut. Estimates, alerts and dead letters are added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Literal, cast

from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script
from ragtide_schemas import Alert, DeadLetter

from ..state.options import ClosedPanes

CHECKPOINT_VERSION: Final = b"4"
"""Version of the content of a checkpoint's fields."""

COMMIT: Final = Lua("commit_step")

LENGTH: Final = Struct(">I")
"""Length of a field or of a value in packed rows."""

Outcome = Literal["committed", "fenced", "moved", "lost"]
"""Result of a commit. Nothing is written if the lease has another token (`fenced`), the checkpoint another number of
steps (`moved`), or a stream lost entries that were read (`lost`)."""


@dataclass(frozen=True, slots=True)
class Step:
    """All changes of one step."""

    before: int
    """Number of steps that it started from."""
    position: str
    """Position of the last metric event that it applied."""
    feedback_position: str = START
    """Position of the last feedback that it took."""
    read: Sequence[str] = ()
    """Last metric event of every read since the step before."""
    feedback_read: Sequence[str] = ()
    """Last feedback of every read since the step before."""
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    graded: Sequence[tuple[str, str]] = ()
    """Key of an interaction's set of graded metrics, and a metric with the entry that graded it."""
    estimates: Sequence[bytes] = ()
    """Encoded, so that encoding takes no time of the event loop."""
    alerts: Sequence[Alert] = ()
    dead_letters: Sequence[DeadLetter] = ()
    closed: Sequence[ClosedPanes] = ()
    """Panes of the history that closed."""
    adds: bool = True
    """Whether there may be new keys."""
    names: bytes | None = None
    """The list of the names of fields before this step, if it is written anew."""
    capped: int = 0
    """Number of times that a key was counted in `other`; it is not written, because rows hold it."""


class Committer:
    """Commits the steps of one partition's owner."""

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        *,
        estimates_cap: int = 100_000,
        feedback_window_s: float = 604_800.0,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._estimates_cap = estimates_cap
        self._feedback_ms = int(feedback_window_s * 1000)

    async def commit(self, step: Step, token: str) -> None:
        """Write a step.

        Raises:
            LeaseLostError: another aggregator owns the partition, or has committed; nothing was written.
            StreamRollbackError: entries that were read are no longer in a stream; nothing was written.
            redis.RedisError: the step may or may not have been written; commit the same step again.
        """
        partition = self._streams.partition
        call = commit_step(self._streams, step, token, estimates_cap=self._estimates_cap, feedback_ms=self._feedback_ms)
        outcome = await run_script(self._redis, call)
        if outcome == "lost":
            raise StreamRollbackError(
                f"partition {partition} lost entries that were read, up to {step.position}: Redis came back without "
                "its last writes; the remaining entries are read again from the checkpoint"
            )
        if outcome != "committed":
            raise LeaseLostError(f"partition {partition} has another owner now ({outcome}): this aggregator stands by")


def commit_step(
    streams: Streams, step: Step, token: str, *, estimates_cap: int, feedback_ms: int
) -> ScriptCall[Outcome]:
    """Return the call that writes a step; its reply says why if nothing was written.

    Args:
        estimates_cap: entries that the stream of estimates may hold.
        feedback_ms: milliseconds for which graded metrics are remembered.
    """
    keys = (
        streams.lease,
        streams.checkpoint,
        streams.metrics,
        streams.feedback,
        streams.estimates,
        streams.alerts,
        streams.dead_letters,
        streams.field_names,
        *(key for key, _ in step.graded),
        *(streams.history(panes.series) for panes in step.closed),
    )
    lists: tuple[Sequence[Argument], ...] = (
        step.read,
        step.feedback_read,
        step.gone,
        [metric for _, metric in step.graded],
        step.estimates,
        [alert.encode() for alert in step.alerts],
        [letter.encode() for letter in step.dead_letters],
        [item for panes in step.closed for item in (panes.kept, panes.expire_ms, joined(panes.records))],
    )
    arguments: list[Argument] = [
        token,
        step.before,
        step.before + 1,
        step.position,
        step.feedback_position,
        CHECKPOINT_VERSION,
        estimates_cap,
        feedback_ms,
        packed(step.rows),
        int(step.adds),
        "" if step.names is None else "anew",
        step.names or b"",
    ]
    for items in lists:
        arguments += [len(items), *items]
    return ScriptCall(COMMIT, keys, arguments, _outcome)


def joined(records: Iterable[bytes]) -> bytes:
    """Return records as the script reads them: each after its length, in 4 bytes, the highest byte first."""
    return b"".join(LENGTH.pack(len(record)) + record for record in records)


def packed(rows: Mapping[str, bytes]) -> bytes:
    """Return fields and values as the script reads them: each after its length, in 4 bytes, the highest byte first.

    As one argument, the thousands of fields of a step cost the client and Redis less time.
    """
    parts = []
    for name, value in rows.items():
        field = name.encode()
        parts += [LENGTH.pack(len(field)), field, LENGTH.pack(len(value)), value]
    return b"".join(parts)


def _outcome(reply: bytes) -> Outcome:
    return cast("Outcome", reply.decode())
