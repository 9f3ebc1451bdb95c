"""Bounds the size of a step so that it ends long before its lease, and decides when it is committed. No clock, no I/O.

A commit costs time for each changed key: its row and its panes are encoded and sent. With many new keys in one batch, a
step would outlast any lease. The lease is renewed meanwhile, but a step that dies with its aggregator is work lost. The
pace measures both costs and bounds the keys of the next step by them. While the aggregator lags far behind its stream,
longer steps make up the lag sooner: each step writes a key once. If a step was fenced although no other aggregator took
over, it was too long, and the pace halves.
"""

from typing import Final

SHARE_OF_LEASE: Final = 1 / 3
"""Share of the lease for which a step may last while the aggregator keeps up."""

STEP_S: Final = 0.5
"""Most seconds of such a step with any lease, because all pipelines of a partition wait for it."""

SHARE_OF_LAG: Final = 1 / 4
"""Share of the lag for which a step may last, at most for the time of a lease.

A key costs the same in a step of few events and in a step of many.
"""

WRITE_SHARE: Final = 1 / 20
"""Share of the lease for which the script of a commit may block Redis."""

GROWTH: Final = 1.1
"""Factor by which a reduced pace grows with every committed step."""

FIRST_GUESS_S: Final = 0.0005
"""Seconds that a changed key costs, before any step was measured."""

FEW: Final = 50
"""Number of changed keys below which the time of a step is only an upper bound for the cost of a key."""

CATCHING_UP = 10.0
"""Factor of the duration of a long commit for which an owner that is behind only reads, before it commits again."""
LONG_COMMIT_S = 0.1
"""Seconds from which a commit is long."""

GATHER_S: Final = 0.05
"""Most seconds for which entries gather in their streams before an owner that is not behind reads them. They wait for
the next commit anyway, and reading them one by one costs more than to apply them."""


class StepPace:
    """Most events and most changed keys of the next step of one partition.

    Args:
        batch: most events of one read.
        lease_s: seconds of the lease.
    """

    def __init__(self, batch: int, lease_s: float) -> None:
        self._most = batch
        self._lease_s = lease_s
        self._lag_s = 0.0
        self._write_s = WRITE_SHARE * lease_s
        self._scale = 1.0
        self._key_s = FIRST_GUESS_S
        self._key_write_s = FIRST_GUESS_S * WRITE_SHARE / SHARE_OF_LEASE
        self._fenced_at: int | None = None

    @property
    def step_s(self) -> float:
        """Most seconds for which a step may apply events, and most seconds of its commit."""
        keeping_up_s = min(SHARE_OF_LEASE * self._lease_s, STEP_S)
        return max(keeping_up_s, min(SHARE_OF_LAG * self._lag_s, self._lease_s))

    @property
    def batch(self) -> int:
        """Most events of one read, at least 1."""
        return max(int(self._scale * self._most), 1)

    @property
    def keys(self) -> int:
        """Most keys that a step may change, at least 1; a single event may change more."""
        fitting = min(self.step_s / self._key_s, self._write_s / self._key_write_s)
        return max(int(self._scale * fitting), 1)

    def committed(self, keys: int, *, seconds: float, write_s: float) -> None:
        """Learn from a commit.

        Args:
            keys: number of changed keys.
            seconds: duration of the whole commit, without outages of Redis.
            write_s: duration of its script.
        """
        if keys:
            self._key_s = _learned(self._key_s, seconds / keys, few=keys < FEW)
            self._key_write_s = _learned(self._key_write_s, write_s / keys, few=keys < FEW)
        self._scale = min(self._scale * GROWTH, 1.0)

    def lags(self, seconds: float) -> None:
        """Remember the age of the last metric event that was read while later events wait."""
        self._lag_s = seconds

    def fenced(self, steps: int) -> None:
        """Remember that a step was fenced; `steps` is the number of steps before it."""
        self._fenced_at = steps

    def begins(self, steps: int) -> bool:
        """Begin at a checkpoint; return whether the last step was fenced only because it took too long.

        No other aggregator has committed if the checkpoint has the steps that the fenced step started from.
        """
        by_time = self._fenced_at == steps
        if by_time:
            self._scale = max(self._scale / 2, 1 / self._most)
        self._fenced_at = None
        return by_time


def _learned(known_s: float, found_s: float, *, few: bool) -> float:
    """Return the new estimate of the seconds per key, from the old estimate and the time of one step.

    A slow step counts at once; a fast step counts half, because it may have been lucky. A step of few keys spends most
    of its time on other work, so it only gives an upper bound. Without this bound one slow step would keep all later
    steps small for ever.
    """
    if found_s > known_s:
        return known_s if few else found_s
    return (known_s + found_s) / 2


class CommitTiming:
    """The time of the next commit: `interval_s` after the begin of the one before, and later while an owner is behind.

    Between two commits there is at least as much time as the first took, up to `interval_s`, so that a partition with
    many keys does not only commit.

    With many keys a commit takes long. An owner that is behind then does not commit for `CATCHING_UP` times as long:
    a step of more events writes a key as often as one of few.

    Args:
        interval_s: seconds between two commits.
        now: the monotonic clock.
    """

    def __init__(self, interval_s: float, *, now: float) -> None:
        self._interval_s = interval_s
        self._due = self._next = now + interval_s

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next commit."""
        return max(self._next - now, 0.0)

    def gather_s(self, now: float, *, behind: bool) -> float:
        """Return the seconds until the next read, while there is something to commit."""
        return 0.0 if behind else min(self.wait_s(now), GATHER_S)

    def is_due(self, now: float, *, behind: bool) -> bool:
        """Return whether it is time to commit; a pause for reading ends as soon as the owner is not behind."""
        if not behind:
            self._next = min(self._next, self._due)
        return now >= self._next

    def committed(self, now: float, *, took_s: float, longest_pause_s: float, behind: bool) -> None:
        """Plan the next commit after a commit that has just ended and took so long; such a pause has a longest time."""
        pause_s = CATCHING_UP * took_s if behind and took_s > LONG_COMMIT_S else 0.0
        self._due = now + max(self._interval_s - took_s, min(self._interval_s, took_s))
        self._next = max(self._due, now + min(pause_s, longest_pause_s))
