"""The race of an experiment: maps names of configs to the race of the statistics room. No clock, no I/O.

The same scores in the same order give the same decisions, so a new race runner can replace a killed one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan

from ragtide_aggregator.statistics.comparisons.comparing import Difference
from ragtide_aggregator.statistics.comparisons.racing import Elimination, Race
from ragtide_schemas.experiments import Plan


@dataclass(frozen=True, slots=True)
class _Trial:
    """The race as it would be after the next comparison point."""

    item: int
    race: Race
    eliminations: list[Elimination]


class ExperimentRace:
    """The race of an experiment up to a comparison point.

    Args:
        plan: of the experiment.
        value_range: lowest and highest possible score.
    """

    def __init__(self, plan: Plan, value_range: tuple[float, float]) -> None:
        self.names = [config.name for config in plan.configs]
        """Names of the configs, in the order of the race's indices."""
        # A single config has no opponent until it is cloned. The race needs two indices, so the second stays empty.
        if len(self.names) == 1:
            self.names.append("")
        self._trial: _Trial | None = None
        self._race = Race(
            len(self.names),
            population=plan.population_size,
            confidence=plan.race.confidence,
            margin=plan.race.margin,
            look_every=plan.race.look_every,
            value_range=value_range,
            higher_is_better=plan.higher_is_better,
        )
        if not self.names[-1]:
            self._race.stop(1)

    def add(self, name: str) -> None:
        """Add a config, such as a clone; it is compared on the items still to come."""
        self._trial = None
        self._race.add()
        self.names.append(name)

    def stop(self, name: str) -> None:
        """Stop a config; its scores no longer count."""
        self._trial = None
        self._race.stop(self.names.index(name))

    def resume(self, name: str, *, protected: bool) -> None:
        """Let a config race again on the items still to come; a protected config is never eliminated."""
        self._trial = None
        self._race.resume(self.names.index(name), protected=protected)

    def try_look(self, item: int, scores: Iterable[Mapping[str, float]]) -> list[Elimination]:
        """Return the eliminations of the next comparison point, without moving on to it.

        Args:
            item: number of items up to the comparison point.
            scores: for each item since the last comparison point, scores by config.
        """
        if self._trial is None or self._trial.item != item:
            race = self._race.copy()
            found = [one for of_item in scores for one in race.update(self._row(of_item))]
            self._trial = _Trial(item, race, found)
        return self._trial.eliminations

    def look(self, item: int, scores: Iterable[Mapping[str, float]]) -> None:
        """Move on to a comparison point; `scores` as in `try_look`."""
        if self._trial is not None and self._trial.item == item:
            self._race = self._trial.race
        else:
            for of_item in scores:
                self._race.update(self._row(of_item))
        self._trial = None

    def difference(self, first: str, second: str) -> tuple[int, Difference] | None:
        """Return the number of items of a duel, and the mean of the first config minus the mean of the second.

        The interval is that of the duel in which the first may eliminate the second. None without a common item in
        this duel.
        """
        return self._race.difference(self.names.index(second), self.names.index(first))

    def _row(self, scores: Mapping[str, float]) -> list[float]:
        return [scores.get(name, nan) for name in self.names]
