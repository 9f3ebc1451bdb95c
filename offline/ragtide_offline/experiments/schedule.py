"""The schedule of an experiment: selects the config and the item of the next call. No clock, no I/O.

All configs run on an item before the next item, in the order of the plan, so no worker waits for the end of a shard.
Calls run only some items ahead of the last comparison point, because the answers of a config that then loses are
wasted.
"""

from collections import Counter

from ragtide_schemas.experiments import Plan

from .state import ConfigStatus, ExperimentState


def ahead(plan: Plan, running: int) -> int:
    """Return the number of items after the last comparison point that may be run, for a number of running configs.

    The number is large enough that every call has an item while two comparison points are open.
    """
    return 2 * plan.race.look_every + -(-2 * plan.concurrency // max(running, 1))


class Schedule:
    """The calls that this process has begun, and the next one."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, int]] = set()
        self._going: Counter[str] = Counter()

    @property
    def going(self) -> int:
        """Number of calls in flight."""
        return self._going.total()

    def start(self, config: str, item: int) -> None:
        """Count a call that begins."""
        self._begun.add((config, item))
        self._going[config] += 1

    def end(self, config: str) -> None:
        """Count a call that ends."""
        self._going[config] -= 1

    def next(self, state: ExperimentState) -> tuple[str, int] | None:
        """Return the config and the item of the next call, with the lowest item first; None to wait."""
        plan = state.plan
        if state.paused is not None or state.completed or self.going >= plan.concurrency:
            return None
        running = state.running
        best: tuple[int, int, str] | None = None
        for status in running:
            name = status.config.name
            if plan.concurrency_per_config is not None and self._going[name] >= plan.concurrency_per_config:
                continue
            item = self._first_missing(status, state, len(running))
            # For equal items take the config with the fewest calls in flight.
            if item is not None and (best is None or (item, self._going[name]) < best[:2]):
                best = (item, self._going[name], name)
        return None if best is None else (best[2], best[0])

    def _first_missing(self, status: ConfigStatus, state: ExperimentState, running: int) -> int | None:
        """Return the first item to call a config on: after the last comparison point or, once all are compared, any."""
        name, size = status.config.name, state.plan.population_size
        first, end = state.compared, min(state.compared + ahead(state.plan, running), size)
        if state.all_compared:
            first, end = 0, size
        results = state.results.by_config[name]
        for item in range(first, end):
            result = results.get(item)
            if (name, item) not in self._begun and (result is None or result.execution is None):
                return item
        return None
