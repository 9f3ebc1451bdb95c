"""The race of an experiment, item by item along its log: who has surely lost at the next look. No clock, no I/O.

Whoever reads the log from its start, with the same scores, comes to the same decisions: a racer that was killed is
replaced by another that does just that.
"""

from math import nan
from typing import Final

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_aggregator.statistics.racing import Elimination, Race
from ragtide_schemas.experiments import RACE, Completed, Entry, Evidence, Looked, Order, Progress

from .results import Book

MOST_EVIDENCE: Final = 1e300
"""Most that evidence is written as."""


class Judging:
    """Where an experiment stands, and its race.

    `next_entries` lets the race see the items of the next look. If somebody else was faster to write to the log, what
    it saw may not be what counts: it is `stale` then, and another is to begin from the log's start.

    Args:
        progress: right after the beginning.
        book: what is scored; it may know more than what was looked at.
    """

    def __init__(self, progress: Progress, book: Book) -> None:
        self.progress = progress
        self.book = book
        self.stale = False
        plan = progress.plan
        options = plan.race
        self._places = {config.name: place for place, config in enumerate(plan.configs)}
        self._seen: tuple[int, int] | None = None
        self._found: list[Elimination] = []
        self._race: Race | None = None
        if not options.enabled:
            return
        # A single config has no opponent until it is cloned. The race needs two places, so the second stays empty.
        self._race = Race(
            max(len(plan.configs), 2),
            population=plan.population_size,
            confidence=options.confidence,
            margin=options.margin,
            look_every=options.look_every,
            value_range=book.value_range(plan, plan.metric),
            higher_is_better=plan.higher_is_better,
        )
        if len(plan.configs) == 1:
            self._race.stop(1)

    def apply(self, entry: Entry) -> str | None:
        """Take an entry of the log; return why it changes nothing, if it does not."""
        before = self.progress.looked
        pending = self._seen is not None and self._seen[0] == before
        self.stale |= pending and not (isinstance(entry, Looked) and (before, entry.item) == self._seen)
        refusal = self.progress.apply(entry)
        if refusal is not None:
            return refusal
        if isinstance(entry, Looked):
            self._look(before, entry.item)
        elif isinstance(entry, Order):
            self._follow(entry)
        return None

    def next_entries(self) -> list[Entry]:
        """Return what is to be written now: the next look with the orders of the race, or the end; nothing to wait."""
        progress = self.progress
        running = [standing.config.name for standing in progress.running]
        if progress.completed or not running:
            return []
        if progress.all_looked:
            items = range(progress.plan.population_size)
            done = all(self.book.complete(config, item) for config in running for item in items)
            return [Completed()] if done else []
        first, last = progress.looked, progress.next_look()
        if not all(self.book.complete(config, item) for config in running for item in range(first, last)):
            return []
        looked: list[Entry] = [Looked(item=last)]
        orders = [self._stop(elimination) for elimination in self._look(first, last)]
        decided = len(running) - len(orders) == 1 and len(progress.configs) > 1 and not progress.plan.race.finish
        return [*looked, *orders, *([Completed()] if decided else [])]

    def difference(self, first: str, second: str) -> tuple[int, Difference] | None:
        """Return the mean of one config minus that of another with the race's interval, and over how many items.

        The interval is that of the duel in which the second may be ruled out by the first. None without a race, or
        without an item of their duel on which both have a score.
        """
        if self._race is None or first not in self._places or second not in self._places:
            return None
        return self._race.difference(self._places[second], self._places[first])

    def _look(self, first: int, last: int) -> list[Elimination]:
        """Let the race see items, if it has not yet, and return who has surely lost at the last of them."""
        if self._race is None or (first, last) == self._seen:
            return self._found
        self._seen, self._found = (first, last), []
        for item in range(first, last):
            self._found += self._race.update(self._scores(item))
        return self._found

    def _scores(self, item: int) -> list[float]:
        assert self._race is not None  # noqa: S101 - for the type checker: there is a race
        scores = [nan] * len(self._race.running)
        for config, place in self._places.items():
            cell = self.book.cells[config].get(item)
            if cell is not None and self.progress.configs[config].status == "running":
                scores[place] = cell.score(self.progress.plan.metric)
        return scores

    def _follow(self, order: Order) -> None:
        """Let the race know of an order; its own it knows."""
        if self._race is None or order.config is None:
            return
        place = self._places[order.config]
        if order.op == "resume":
            self._race.resume(place, protected=order.keep)
        elif order.op == "clone" and order.clone is not None:
            self._places[order.clone] = self._race.add()
        elif self._race.running[place]:
            self._race.stop(place)

    def _stop(self, elimination: Elimination) -> Order:
        names = {place: name for name, place in self._places.items()}
        loser, winner, plan = names[elimination.place], names[elimination.by], self.progress.plan
        difference = elimination.difference
        evidence = Evidence(
            by=winner,
            n=elimination.n,
            item=elimination.item,
            difference=difference.estimate,
            lower=difference.lower,
            upper=difference.upper,
            # JSON has no infinity; more than this is as sure.
            e_value=min(elimination.evidence, MOST_EVIDENCE),
            alpha=elimination.alpha,
            margin=plan.race.margin,
        )
        better = "higher" if plan.higher_is_better else "lower"
        gap = abs(difference.estimate)
        reason = (
            f"after {elimination.n} items {winner} is {gap:.3f} {better} in {plan.metric}: {loser} is not better than "
            f"it by {plan.race.margin:g} or more, at an error probability of {elimination.alpha:.2g}"
        )
        return Order(op="stop", config=loser, by=RACE, reason=reason, evidence=evidence)
