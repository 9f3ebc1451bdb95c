"""Configs whose calls fail again and again with one error: which of them to stop. No clock, no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ragtide_runtime.error_kinds import kind_of
from ragtide_schemas.experiments import DRIVER, Execution, Order, Progress, Standing


@dataclass(slots=True)
class _Streak:
    kind: str
    count: int
    last: Execution


class Failing:
    """Counts for each config the calls in a row that failed with the same error, whatever values the error quotes.

    A config that was resumed begins anew: only calls after the resume count.

    Args:
        most: failures in a row after which a config is stopped; 0 stops none.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._streaks: dict[str, _Streak] = {}

    def add(self, execution: Execution) -> None:
        """Take the result of a call, in the order in which calls ended."""
        if execution.copied_from is not None:
            return
        if execution.failure is None:
            self._streaks.pop(execution.config, None)
            return
        kind = kind_of(execution.failure)
        streak = self._streaks.get(execution.config)
        count = streak.count + 1 if streak is not None and streak.kind == kind else 1
        self._streaks[execution.config] = _Streak(kind, count, execution)

    def stops(self, progress: Progress) -> Iterator[Order]:
        """Yield an order to stop each config that runs and fails; `stopped` is told when one was written."""
        for standing in progress.running:
            name = standing.config.name
            streak = self._streaks.get(name)
            resumed_at = _resumed_at(standing)
            if streak is not None and resumed_at is not None and streak.last.at <= resumed_at:
                del self._streaks[name]
            elif streak is not None and 0 < self._most <= streak.count:
                yield Order(
                    op="stop",
                    config=name,
                    by=DRIVER,
                    reason=f"{streak.count} calls in a row failed with the same error: {streak.last.failure}",
                )

    def stopped(self, config: str) -> None:
        """Forget the failures of a config: the order to stop it is written."""
        self._streaks.pop(config, None)


def _resumed_at(standing: Standing) -> datetime | None:
    return standing.last.at if standing.last is not None and standing.last.op == "resume" else None
