"""Decides when the next step of a partition is committed. No clock of its own, no I/O."""

CATCHING_UP = 3.0
"""Factor of the duration of a long commit for which an owner that is behind only reads, before it commits again."""

LONG_COMMIT_S = 0.1
"""Seconds from which a commit is long."""


class CommitTiming:
    """The time of the next commit: every `interval_s`, and later while an owner is behind.

    With many keys a commit takes long. An owner that is behind then does not commit for `CATCHING_UP` times as long.

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

    def is_due(self, now: float, *, behind: bool) -> bool:
        """Return whether it is time to commit; a pause for reading ends as soon as the owner is not behind."""
        if not behind:
            self._next = min(self._next, self._due)
        return now >= self._next

    def committed(self, now: float, *, took_s: float, longest_pause_s: float, behind: bool) -> None:
        """Plan the next commit after a commit that has just ended and took so long; such a pause has a longest time."""
        pause_s = CATCHING_UP * took_s if behind and took_s > LONG_COMMIT_S else 0.0
        self._due = now + self._interval_s
        self._next = max(self._due, now + min(pause_s, longest_pause_s))
