"""One step of the aggregator in one script: state, position, estimates, alerts and dead letters, or none of them.

Inside the script, in this order:

1. The lease must still hold this owner's fencing token; otherwise nothing is written (`fenced`).
2. The number of steps in the checkpoint must be what this step started from; otherwise nothing is written (`moved`). A
   step that was sent again after a lost reply finds its own number there and counts as done.
3. What this step has read must still be in the streams; otherwise Redis lost its tail, what is lost will be scored
   again, and nothing is written (`lost`). It is enough to look for the last entry of every read, because a tail is lost
   from the end. An entry that was trimmed is not lost.
4. Changed rows and the new positions are written, gone rows removed; what feedback graded is remembered; estimates,
   alerts and dead letters are added.
5. The lease is prolonged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import START
from ragtide_runtime.redis.stream_loss import LOST_LUA
from ragtide_schemas import Alert, DeadLetter

CHECKPOINT_VERSION: Final = b"3"
"""Version of what the checkpoint's fields hold."""

COMMIT_SCRIPT: Final = (
    LOST_LUA
    + """
-- KEYS: lease, checkpoint, metrics, feedback, estimates, alerts, dead letters, then for each graded metric the set of
--       its interaction
-- ARGV: token, lease ms, steps before, steps after, positions after (metrics, feedback), version, cap of estimates,
--       feedback window ms, then eight lists, each preceded by its length: ends of reads of metrics and of feedback,
--       rows (field, value), gone fields, graded metrics, estimates, alerts, dead letters
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
local steps = redis.call('HGET', KEYS[2], 'steps') or '0'
if steps ~= ARGV[3] then
    return steps == ARGV[4] and 'committed' or 'moved'
end
local at = 10
local set = 7
local function list(visit)
    local last = at + tonumber(ARGV[at])
    at = at + 1
    while at <= last do
        at = at + visit(at)
    end
end
local gone = false
list(function(i) gone = gone or lost(KEYS[3], ARGV[i]) return 1 end)
list(function(i) gone = gone or lost(KEYS[4], ARGV[i]) return 1 end)
if gone then
    return 'lost'
end
list(function(i) redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) return 2 end)
list(function(i) redis.call('HDEL', KEYS[2], ARGV[i]) return 1 end)
list(function(i)
    set = set + 1
    redis.call('SADD', KEYS[set], ARGV[i])
    redis.call('PEXPIRE', KEYS[set], ARGV[9])
    return 1
end)
list(function(i) redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[8], '*', 'data', ARGV[i]) return 1 end)
list(function(i) redis.call('XADD', KEYS[6], '*', 'data', ARGV[i]) return 1 end)
list(function(i) redis.call('XADD', KEYS[7], '*', 'data', ARGV[i]) return 1 end)
redis.call('HSET', KEYS[2], 'steps', ARGV[4], 'position', ARGV[5], 'feedback', ARGV[6], 'version', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'committed'
"""
)


@dataclass(frozen=True, slots=True)
class Step:
    """Everything one step changes."""

    before: int
    """Number of steps it started from."""
    position: str
    """Position of the last metric event it applied."""
    feedback_position: str = START
    """Position of the last feedback it took."""
    read: Sequence[str] = ()
    """Last metric event of every read since the step before."""
    feedback_read: Sequence[str] = ()
    """Last feedback of every read since then."""
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    graded: Sequence[tuple[str, str]] = ()
    """Key of an interaction's set of graded metrics, and a metric with the entry that graded it."""
    estimates: Sequence[bytes] = ()
    """As they go on the stream: encoded where it takes the event loop no time."""
    alerts: Sequence[Alert] = ()
    dead_letters: Sequence[DeadLetter] = ()
    capped: int = 0
    """How often something counted in `other`; not written, the rows say it."""


class Committer:
    """Commits the steps of one partition's owner."""

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        *,
        lease_s: float,
        estimates_cap: int,
        feedback_window_s: float = 604_800.0,
    ) -> None:
        self._streams = streams
        self._lease_ms = int(lease_s * 1000)
        self._cap = estimates_cap
        self._feedback_ms = int(feedback_window_s * 1000)
        self._script = redis.register_script(COMMIT_SCRIPT)

    async def commit(self, step: Step, token: str) -> None:
        """Write a step.

        Raises:
            LeaseLostError: another aggregator owns the partition or moved on; nothing was written.
            StreamRollbackError: what was read is no longer there; nothing was written.
            redis.RedisError: it may or may not have been written; commit the same step again.
        """
        rows = [part for item in step.rows.items() for part in item]
        models = (step.alerts, step.dead_letters)
        arguments: list[str | bytes | int] = [
            token,
            self._lease_ms,
            step.before,
            step.before + 1,
            step.position,
            step.feedback_position,
            CHECKPOINT_VERSION,
            self._cap,
            self._feedback_ms,
            len(step.read),
            *step.read,
            len(step.feedback_read),
            *step.feedback_read,
            len(rows),
            *rows,
            len(step.gone),
            *step.gone,
            len(step.graded),
            *(metric for _, metric in step.graded),
        ]
        arguments += [len(step.estimates), *step.estimates]
        for of_kind in models:
            arguments += [len(of_kind), *(model.encode() for model in of_kind)]
        streams = self._streams
        reply = await self._script(
            keys=[
                streams.lease,
                streams.checkpoint,
                streams.metrics,
                streams.feedback,
                streams.estimates,
                streams.alerts,
                streams.dead_letters,
                *(key for key, _ in step.graded),
            ],
            args=arguments,
        )
        if reply == b"lost":
            raise StreamRollbackError(
                f"partition {streams.partition} lost what had been read of its streams, up to {step.position}: Redis "
                "came back without its last writes; the rest is read again from the checkpoint"
            )
        if reply != b"committed":
            raise LeaseLostError(
                f"partition {streams.partition} has another owner now ({reply.decode()}): this aggregator stands by"
            )
