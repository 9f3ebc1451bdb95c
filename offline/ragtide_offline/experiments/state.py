"""The state of an experiment with its race: the entries of its log, applied one after the other. No I/O.

Driver, race runner, leaderboard, commands and reports all use this state, so they count the same items for a config. A
command takes effect from the most recent comparison point before it in the log. The same scores in the same order give
the same decisions of the race, so a new race runner can replace a killed one.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Final, Literal

from ragtide_aggregator.statistics.comparisons.racing import Elimination, Race
from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_schemas.experiments import (
    Begun,
    Command,
    Completed,
    Config,
    Evidence,
    Limits,
    LogEntry,
    Look,
    Paused,
    Plan,
)
from ragtide_schemas.suggestions import unknown

from .item_weights import ItemWeights, stretched
from .results import Result, ResultsTable

REFUSED_MAX: Final = 1000
"""Most stored commands without effect, the newest; any process may write such commands."""


class ExperimentRace:
    """The race of an experiment up to a comparison point.

    Args:
        value_range: lowest and highest possible score.
    """

    def __init__(self, plan: Plan, value_range: tuple[float, float], weights: ItemWeights | None = None) -> None:
        self._stretch = 1.0 if weights is None else weights.stretch()
        self.names = [config.name for config in plan.configs]
        """Names of the configs, in the order of the race's indices."""
        # A single config has no opponent until it is cloned. The race needs two indices, so the second stays empty.
        if len(self.names) == 1:
            self.names.append("")
        self._trial: tuple[int, Race, list[Elimination]] | None = None
        """The next comparison point, with the race as it would be after it, and its eliminations."""
        self._race = Race(
            len(self.names),
            population=plan.population_size,
            confidence=plan.race.confidence,
            margin=plan.race.margin / self._stretch,
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
        if self._trial is None or self._trial[0] != item:
            race = self._race.copy()
            eliminations = [eliminated for of_item in scores for eliminated in race.update(self._row(of_item))]
            if self._stretch != 1.0:
                eliminations = [
                    replace(eliminated, difference=stretched(eliminated.difference, self._stretch))
                    for eliminated in eliminations
                ]
            self._trial = item, race, eliminations
        return self._trial[2]

    def look(self, item: int, scores: Iterable[Mapping[str, float]]) -> None:
        """Move on to a comparison point; `scores` as in `try_look`."""
        if self._trial is not None and self._trial[0] == item:
            self._race = self._trial[1]
        else:
            for of_item in scores:
                self._race.update(self._row(of_item))
        self._trial = None

    def difference(self, first: str, second: str) -> tuple[int, Interval[float, float]] | None:
        """Return the number of items of a duel, and the mean of the first config minus the mean of the second.

        The interval is that of the duel in which the first may eliminate the second. None without a common item in
        this duel.
        """
        duel = self._race.difference(self.names.index(second), self.names.index(first))
        return duel if duel is None or self._stretch == 1.0 else (duel[0], stretched(duel[1], self._stretch))

    def _row(self, scores: Mapping[str, float]) -> list[float]:
        return [scores.get(name, nan) for name in self.names]


@dataclass(slots=True)
class ConfigStatus:
    """The status of one config, and the items on which its scores count."""

    config: Config
    index: int
    """Its number, from 0, in the order in which configs were added."""
    fingerprint: str
    """Equal for configs with the same parameters."""
    spans: list[list[int | None]]
    """Ranges of items [first, end) on which the config ran; the last end is None while it runs."""
    last: Command | None = None
    """The most recent command about the config."""
    status: Literal["running", "stopped", "deleted"] = "running"
    protected: bool = False
    """Whether the race must not stop the config, because a user has vetoed it."""

    @property
    def running(self) -> bool:
        """Whether the config runs."""
        return self.status == "running"

    def covers(self, item: int) -> bool:
        """Return whether the config ran when the item was compared."""
        return any(first is not None and first <= item and (end is None or item < end) for first, end in self.spans)

    @property
    def evidence(self) -> Evidence | None:
        """Evidence with which the race stopped the config; None if it runs, or a user stopped it."""
        return self.last.evidence if self.last is not None and not self.running else None


@dataclass(frozen=True, slots=True)
class FollowedCommand:
    """A command that had an effect."""

    command: Command
    item: int | None
    """Number of compared items when it took effect; None if the counted items stayed the same."""


@dataclass(frozen=True, slots=True)
class RefusedCommand:
    """A command without effect."""

    command: Command
    reason: str


class ExperimentState:
    """The state of an experiment after some entries of its log; `apply` adds the next one.

    Args:
        plan: from the first entry of the log.
        results: results table, from which the race reads the scores at each comparison point.
        races: whether to follow the race; a caller that only gives a command needs no race.
    """

    def __init__(self, plan: Plan, results: ResultsTable | None = None, *, races: bool = True) -> None:
        self.plan = plan
        self.results = ResultsTable() if results is None else results
        if plan.criterion is not None:
            # Answers to another question, of a worker with other settings, do not count.
            self.results.measures.setdefault(plan.criterion.metric, plan.criterion.declaration().measure)
        self.limits: Limits = plan.limits
        self.compared = 0
        """Number of items up to the most recent comparison point."""
        self.paused: str | None = None
        """Reason of a pause; None while the experiment is not paused."""
        self.completed = False
        self.configs: dict[str, ConfigStatus] = {}
        self.commands: list[FollowedCommand] = []
        self.refused: deque[RefusedCommand] = deque(maxlen=REFUSED_MAX)
        for config in plan.configs:
            self._add(config)
        self.weights = ItemWeights.of(plan)
        """Weights of the items of a drawn data set; None of another one."""
        value_range = self.results.value_range(plan, plan.metric)
        self._lowest = value_range[0]
        self.race = ExperimentRace(plan, value_range, self.weights) if races and plan.race.enabled else None

    @property
    def running(self) -> list[ConfigStatus]:
        """Configs that run, in the order in which they were added."""
        return [status for status in self.configs.values() if status.running]

    @property
    def shown(self) -> list[ConfigStatus]:
        """Configs that were not deleted, in the order in which they were added."""
        return [status for status in self.configs.values() if status.status != "deleted"]

    @property
    def all_compared(self) -> bool:
        """Whether all items are compared. Configs may still run on items that they missed while they were stopped."""
        return self.compared == self.plan.population_size

    def next_look(self) -> int:
        """Return the number of items at the next comparison point."""
        return min(self.compared + self.plan.race.look_every, self.plan.population_size)

    def counted(self, name: str) -> Iterator[tuple[int, Result]]:
        """Yield the items on which the scores of a config count, with the results, in the order of items.

        Until all items are compared, these are the items that were compared while the config ran, so that all running
        configs count on the same items. After that they include the items that a running config had missed.
        """
        of_config, status = self.results.by_config[name], self.configs[name]
        late = self.all_compared and status.running
        for item in range(self.compared):
            result = of_config.get(item)
            if result is not None and result.outcome != "waiting" and (late or status.covers(item)):
                yield item, result

    def scores_of(self, items: range) -> Iterator[dict[str, float]]:
        """Yield for each item the scores of running configs in the race's metric; nan for a missing score.

        Those of a drawn data set are weighted: as far above the lowest score as the unit of the item.
        """
        running = [(status.config.name, self.results.by_config[status.config.name]) for status in self.running]
        for item in items:
            results = ((name, of_config.get(item)) for name, of_config in running)
            scores = {name: nan if result is None else result.score(self.plan.metric) for name, result in results}
            if self.weights is not None:
                unit, low = float(self.weights.units[item]), self._lowest
                scores = {name: low + unit * (score - low) for name, score in scores.items()}
            yield scores

    def apply(self, entry: LogEntry) -> str | None:
        """Apply the next entry of the log; return the reason if the entry has no effect."""
        match entry:
            case Begun():
                return "the experiment has begun already"
            case Look(item=item):
                if not self.compared < item <= self.plan.population_size:
                    return f"item {item} is compared already, or the experiment has fewer items"
                if self.race is not None:
                    self.race.look(item, self.scores_of(range(self.compared, item)))
                self.compared = item
            case Paused(reason=reason):
                self.paused = reason
            case Completed():
                self.completed = True
            case Command():
                refusal = self.refusal(entry)
                if refusal is not None:
                    self.refused.append(RefusedCommand(entry, refusal))
                    return refusal
                self.commands.append(FollowedCommand(entry, self._follow(entry)))
        return None

    def refusal(self, command: Command) -> str | None:
        """Return the reason why a command would have no effect now; None if it would take effect."""
        if command.op == "limits":
            return None
        name, status = command.config, self.configs.get(command.config or "")
        if status is None:
            return unknown("config", name or "", [status.config.name for status in self.shown])
        reasons = (
            (status.status == "deleted", f"config {name!r} was deleted"),
            (command.op == "stop" and not status.running, f"config {name!r} is stopped already"),
            (
                command.op == "stop" and command.evidence is not None and status.protected,
                f"the race must not stop config {name!r}: a user has vetoed it",
            ),
            (
                command.op == "resume" and status.running and (not command.keep or status.protected),
                f"config {name!r} is running",
            ),
            (
                command.op == "clone" and command.clone in self.configs,
                f"there is a config {command.clone!r} already: give the clone another name",
            ),
        )
        refusal = next((reason for holds, reason in reasons if holds), None)
        if refusal is None and self.plan.target_parameters is not None:
            return _unknown_parameter(command, self.plan.target_parameters)
        return refusal

    def doubt(self, command: Command) -> str | None:
        """Return a sentence if a parameter of a clone is probably misspelt, for a target that takes any parameter.

        Such a command is refused when a user gives it, but is followed when it is in the log.
        """
        known = {name for status in self.configs.values() for name in status.config.parameters}
        return _unknown_parameter(command, known) if known else None

    def _follow(self, command: Command) -> int | None:
        if command.op == "limits":
            self.limits, self.paused = command.limits or Limits(), None
            return None
        status = self.configs[command.config or ""]
        name, was_running = status.config.name, status.running
        if command.op == "clone":
            changed = status.config.parameters | command.parameters
            self._add(Config(name=command.clone or "", parameters=changed, parent=name), command)
            if self.race is not None:
                self.race.add(command.clone or "")
            self.paused = None
            return self.compared
        status.last = command
        if command.op == "resume":
            self.paused = None
            status.protected = status.protected or command.keep
            if not was_running:
                status.status, self.completed = "running", False
                status.spans.append([self.compared, None])
            if self.race is not None:
                self.race.resume(name, protected=command.keep)
        else:
            if was_running:
                status.spans[-1][1] = self.compared
            status.status = "stopped" if command.op == "stop" else "deleted"
            if self.race is not None:
                self.race.stop(name)
        return self.compared if was_running != status.running else None

    def _add(self, config: Config, command: Command | None = None) -> None:
        self.completed = False
        fingerprint = json.dumps(config.parameters, sort_keys=True)
        self.configs[config.name] = ConfigStatus(
            config, len(self.configs), fingerprint, [[self.compared, None]], command
        )


def _unknown_parameter(command: Command, known: Iterable[str]) -> str | None:
    odd = [name for name in command.parameters if name not in set(known)]
    return f"{unknown('parameter', odd[0], known)}" if odd else None
