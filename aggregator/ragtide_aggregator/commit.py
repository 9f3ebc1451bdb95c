"""One step of the aggregator in one script: state, position, estimates, alerts and dead letters, or none of them.

Inside the script, in this order:

1. The lease must still hold this owner's fencing token; otherwise nothing is written (`fenced`).
2. The stored positions, in the metrics stream and in the feedback stream, must be those this step started from;
   otherwise nothing is written (`moved`). A step that was sent again after a lost reply finds its own positions there
   and counts as done.
3. Changed rows and the new positions are written, gone rows removed; what feedback graded is remembered; estimates,
   alerts and dead letters are added.
4. The lease is prolonged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from ragtide_schemas import Alert, DeadLetter, Estimate, Streams

from .errors import LeaseLostError

CHECKPOINT_VERSION: Final = b"2"
"""Version of what the checkpoint's fields hold."""

START: Final = "0-0"
"""Position before the first entry."""

COMMIT_SCRIPT: Final = """
-- KEYS: lease, checkpoint, estimates, alerts, dead letters, then for each graded metric the set of its interaction
-- ARGV: token, lease ms, positions before (metrics, feedback), positions after, version, cap of estimates,
--       feedback window ms, then six lists, each preceded by its length: rows (field, value), gone fields, graded
--       metrics, estimates, alerts, dead letters
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'fenced'
end
local metrics = redis.call('HGET', KEYS[2], 'position') or '0-0'
local feedback = redis.call('HGET', KEYS[2], 'feedback') or '0-0'
if metrics ~= ARGV[3] or feedback ~= ARGV[4] then
    if metrics == ARGV[5] and feedback == ARGV[6] then
        return 'committed'
    end
    return 'moved'
end
local at = 10
local set = 5
local function list(visit)
    local last = at + tonumber(ARGV[at])
    at = at + 1
    while at <= last do
        at = at + visit(at)
    end
end
list(function(i) redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) return 2 end)
list(function(i) redis.call('HDEL', KEYS[2], ARGV[i]) return 1 end)
list(function(i)
    set = set + 1
    redis.call('SADD', KEYS[set], ARGV[i])
    redis.call('PEXPIRE', KEYS[set], ARGV[9])
    return 1
end)
list(function(i) redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[8], '*', 'data', ARGV[i]) return 1 end)
list(function(i) redis.call('XADD', KEYS[4], '*', 'data', ARGV[i]) return 1 end)
list(function(i) redis.call('XADD', KEYS[5], '*', 'data', ARGV[i]) return 1 end)
redis.call('HSET', KEYS[2], 'position', ARGV[5], 'feedback', ARGV[6], 'version', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'committed'
"""


@dataclass(frozen=True, slots=True)
class Step:
    """Everything one step changes."""

    before: str
    """Position in the metrics stream it started from."""
    after: str
    """Position of the last metric event it applied."""
    feedback_before: str = START
    """Position in the feedback stream it started from."""
    feedback_after: str = START
    """Position of the last feedback it took."""
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    graded: Sequence[tuple[str, str]] = ()
    """Key of an interaction's set of graded metrics, and a metric with the entry that graded it."""
    estimates: Sequence[Estimate] = ()
    alerts: Sequence[Alert] = ()
    dead_letters: Sequence[DeadLetter] = ()


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
            redis.RedisError: it may or may not have been written; commit the same step again.
        """
        rows = [part for item in step.rows.items() for part in item]
        models = (step.estimates, step.alerts, step.dead_letters)
        arguments: list[str | bytes | int] = [
            token,
            self._lease_ms,
            step.before,
            step.feedback_before,
            step.after,
            step.feedback_after,
            CHECKPOINT_VERSION,
            self._cap,
            self._feedback_ms,
            len(rows),
            *rows,
            len(step.gone),
            *step.gone,
            len(step.graded),
            *(metric for _, metric in step.graded),
        ]
        for encoded in models:
            arguments += [len(encoded), *(model.encode() for model in encoded)]
        streams = self._streams
        reply = await self._script(
            keys=[
                streams.lease,
                streams.checkpoint,
                streams.estimates,
                streams.alerts,
                streams.dead_letters,
                *(key for key, _ in step.graded),
            ],
            args=arguments,
        )
        if reply != b"committed":
            raise LeaseLostError(
                f"partition {streams.partition} has another owner now ({reply.decode()}): this aggregator stands by"
            )
