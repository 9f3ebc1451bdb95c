"""When the next step of a partition is committed. No clock of its own, no I/O."""

CATCHING_UP = 3.0
"""While behind, how much longer than a long commit took nothing is committed: that part of the time is for reading."""

LONG_COMMIT_S = 0.1
"""Seconds from which on a commit is long."""


class CommitTiming:
    """Commits come every `interval_s`; while there is more to read than that, reading comes first.

    With many keys a commit takes long. A reader that is behind then pauses committing for `CATCHING_UP` times as long.

    Args:
        interval_s: seconds between two commits.
        longest_pause_s: most seconds of such a pause.
        now: the monotonic clock.
    """

    def __init__(self, interval_s: float, *, longest_pause_s: float, now: float) -> None:
        self._interval_s = interval_s
        self._longest_pause_s = longest_pause_s
        self._due = self._next = now + interval_s

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next commit."""
        return max(self._next - now, 0.0)

    def is_due(self, now: float, *, behind: bool) -> bool:
        """Return whether it is time to commit; without more to read, a pause for reading ends at once."""
        if not behind:
            self._next = min(self._next, self._due)
        return now >= self._next

    def committed(self, now: float, *, took_s: float, behind: bool) -> None:
        """Take note of a commit that has just ended."""
        pause_s = CATCHING_UP * took_s if behind and took_s > LONG_COMMIT_S else 0.0
        self._due = now + self._interval_s
        self._next = max(self._due, now + min(pause_s, self._longest_pause_s))
