"""Which config is to answer which item next. No clock, no I/O.

Items are run one by one over all configs, in the order of the permutation, so that no worker waits for the end of a
shard. How far ahead of the last look may be executed is bounded: what a config answers after it has lost is money
for nothing.
"""

from collections import Counter
from dataclasses import dataclass

from ragtide_schemas.experiments import Progress, Standing

from .ledger import Pair


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be going on."""

    concurrency: int
    """Calls at once."""
    per_config: int | None
    """Calls at once of one config."""

    def ahead(self, running: int, look_every: int) -> int:
        """Return how many items after the last look may be executed, with so many configs running.

        Enough that every call that may go on has an item while two looks are waited for.
        """
        return 2 * look_every + -(-2 * self.concurrency // max(running, 1))


class Schedule:
    """The executions that are still to be done.

    Args:
        done: pairs of config and item that have been executed.
        bounds: how much may be going on.
    """

    def __init__(self, done: set[Pair], bounds: Bounds) -> None:
        self._done = done
        self._going: set[Pair] = set()
        self._bounds = bounds

    @property
    def going(self) -> int:
        """Number of calls that are going on."""
        return len(self._going)

    def start(self, pair: Pair) -> None:
        """Take note that a call is made."""
        self._going.add(pair)

    def end(self, pair: Pair, *, done: bool) -> None:
        """Take note that it came to an end, and whether with a result that was written."""
        self._going.discard(pair)
        if done:
            self._done.add(pair)

    def next(self, progress: Progress) -> Pair | None:
        """Return who is to answer what next: of the configs that run, the one that has got least far; None to wait."""
        if progress.halted is not None or progress.completed or self.going >= self._bounds.concurrency:
            return None
        running = progress.running
        going = Counter(config for config, _ in self._going)
        best: tuple[int, int, Standing] | None = None
        for standing in running:
            name = standing.config.name
            if self._bounds.per_config is not None and going[name] >= self._bounds.per_config:
                continue
            item = self._first_missing(standing, progress, len(running))
            # Of those that are equally far, the one with the fewest calls going on.
            if item is not None and (best is None or (item, going[name]) < best[:2]):
                best = (item, going[name], standing)
        return None if best is None else (best[2].config.name, best[0])

    def _first_missing(self, standing: Standing, progress: Progress, running: int) -> int | None:
        """Return the first item that a config is to answer now and has not: after the last look, or at the end any."""
        name, size = standing.config.name, progress.plan.population_size
        if progress.all_looked:
            first, end = 0, size
        else:
            ahead = self._bounds.ahead(running, progress.plan.race.look_every)
            first, end = progress.looked, min(progress.looked + ahead, size)
        item = first
        while item < end and ((name, item) in self._done or (name, item) in self._going):
            item += 1
        return item if item < end else None
