"""What is known of an experiment's executions: failures, scores, cost. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import nan
from sys import intern
from typing import Literal

from ragtide_schemas import (
    DeadLetter,
    InvalidEntryError,
    Measure,
    MetricDeclaration,
    MetricDefinition,
    MetricEvent,
    RagInteraction,
    definition_of,
)
from ragtide_schemas.experiments import Execution, Plan, Progress, Standing

Outcome = Literal["waiting", "failed", "unlabeled", "scored"]
"""Of an answer: not all is known yet, the call failed, no worker could label it, or it is scored."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What is kept of a metric event: of a large experiment there are many."""

    scores: Mapping[str, float]
    absent: Mapping[str, str]
    labeler: str
    labeler_version: str
    profile: str
    cost_usd: float
    tokens: int

    @classmethod
    def of(cls, event: MetricEvent) -> "Scored":
        """Return what is kept of an event."""
        return cls(
            {intern(metric): score for metric, score in event.scores.items()},
            {intern(metric): intern(reason) for metric, reason in event.absent.items()},
            intern(event.labeler),
            intern(event.labeler_version),
            intern(event.profile),
            event.cost_usd,
            event.prompt_tokens + event.completion_tokens,
        )


@dataclass(slots=True)
class Cell:
    """One config on one item."""

    execution: Execution | None = None
    event: Scored | None = None
    unlabeled: str | None = None
    """Why no worker could label the answer; None if that did not happen."""

    @property
    def outcome(self) -> Outcome:
        """The outcome so far."""
        if self.event is not None:
            return "scored"
        if self.unlabeled is not None:
            return "unlabeled"
        return "failed" if self.execution is not None and self.execution.failure is not None else "waiting"

    def score(self, metric: str) -> float:
        """Return a score; nan where there is none, for whatever reason."""
        return nan if self.event is None else self.event.scores.get(metric, nan)

    @property
    def cost_usd(self) -> float:
        """The cost of the answer and its labels."""
        answer = 0.0 if self.execution is None else self.execution.cost_usd
        return answer + (0.0 if self.event is None else self.event.cost_usd)

    @property
    def tokens(self) -> int:
        """Tokens that answering and labeling took."""
        labeling = 0 if self.event is None else self.event.tokens
        return labeling + (0 if self.execution is None else self.execution.tokens)


@dataclass(slots=True)
class Book:
    """Every cell of an experiment, by config and place of the item in the permutation."""

    cells: dict[str, dict[int, Cell]] = field(default_factory=lambda: defaultdict(dict))
    declared: dict[str, MetricDeclaration] = field(default_factory=dict)
    """Declarations of metrics that are not ragtide's own, from the events."""
    measures: dict[str, Measure | None] = field(default_factory=dict)
    """For each metric the measure of its first score: scores of another one are not comparable."""

    def definition(self, plan: Plan, metric: str) -> MetricDefinition | None:
        """Return the definition of a metric: the plan's, or as events declare it; None where nothing defines it."""
        return definition_of(metric, {**self.declared, **plan.declared})

    def value_range(self, plan: Plan, metric: str) -> tuple[float, float]:
        """Return the range of a metric; 0 to 1 where nothing defines it."""
        definition = self.definition(plan, metric)
        return (0.0, 1.0) if definition is None else (definition.lower, definition.upper)

    def cell(self, config: str, item: int) -> Cell:
        """Return a cell, which may know nothing yet."""
        return self.cells[config].setdefault(item, Cell())

    def add_execution(self, execution: Execution) -> None:
        """Take note of what became of a call."""
        self.cell(execution.config, execution.item).execution = execution

    def add_event(self, event: MetricEvent) -> None:
        """Take note of the scores of an answer; of what was scored before the first scores count."""
        item = place_of(event.interaction_id)
        if item is not None:
            cell = self.cell(event.pipeline, item)
            cell.event = cell.event or Scored.of(self._comparable(event))

    def _comparable(self, event: MetricEvent) -> MetricEvent:
        """Return an event without the scores of metrics that an earlier event measured in another way."""
        declared = event.declared or {}
        others = set()
        for metric in event.scores:
            declaration = declared.get(metric)
            measure = None if declaration is None else declaration.measure
            if self.measures.setdefault(metric, measure) != measure:
                others.add(metric)
            elif declaration is not None:
                self.declared[metric] = declaration
        if not others:
            return event
        kept = {metric: score for metric, score in event.scores.items() if metric not in others}
        return event.model_copy(update={"scores": kept})

    def add_letter(self, letter: DeadLetter) -> None:
        """Take note of a dead letter, if its entry held an answer."""
        try:
            interaction = RagInteraction.from_entry(letter.entry_id, letter.payload_bytes())
        except InvalidEntryError:
            return
        item = place_of(interaction.interaction_id)
        if item is not None:
            self.cell(interaction.pipeline, item).unlabeled = letter.detail

    def complete(self, config: str, item: int) -> bool:
        """Return whether all is known of a config on an item."""
        cell = self.cells[config].get(item)
        return cell is not None and cell.outcome != "waiting"

    def counted(self, progress: Progress, standing: Standing) -> Iterator[tuple[int, Cell]]:
        """Yield the items on which a config counts, in the order of the permutation, with what is known of each.

        While items have their turns, a config counts on those that were looked at while it ran, so that all configs
        that ran count on the same ones. Afterwards, one that still runs also counts on what it had missed.
        """
        cells = self.cells[standing.config.name]
        late = progress.all_looked and standing.status == "running"
        for item in range(progress.looked):
            if (cell := cells.get(item)) is not None and cell.outcome != "waiting" and (late or standing.covers(item)):
                yield item, cell


def place_of(interaction_id: str) -> int | None:
    """Return the place of the item in the permutation that an answer is to; None if it is no answer of an experiment.

    >>> place_of("item-12"), place_of("other")
    (12, None)
    """
    start, _, number = interaction_id.partition("-")
    return int(number) if start == "item" and number.isdecimal() else None
