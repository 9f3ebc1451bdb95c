"""The results table of an experiment: execution, scores and cost for each config and item. No I/O."""

from collections import defaultdict
from collections.abc import Mapping
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
from ragtide_schemas.experiments import Execution, Plan

from .errors import kind_of

Outcome = Literal["waiting", "failed", "unlabeled", "scored"]
"""Outcome of an execution: no labels yet, a failed call, an answer that no worker could label, or labels."""


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """The stored part of a metric event, because a large experiment has many events."""

    scores: Mapping[str, float]
    absent: Mapping[str, str]
    labeler: str
    labeler_version: str
    profile: str
    cost_usd: float
    tokens: int

    @classmethod
    def of(cls, event: MetricEvent) -> "AnswerScores":
        """Return the stored part of an event."""
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
class Result:
    """The result of one config on one item."""

    execution: Execution | None = None
    event: AnswerScores | None = None
    unlabeled: str | None = None
    """Detail of the dead letter, if the answer became one."""

    @property
    def outcome(self) -> Outcome:
        """The outcome so far."""
        if self.event is not None:
            return "scored"
        if self.unlabeled is not None:
            return "unlabeled"
        return "failed" if self.execution is not None and self.execution.failure is not None else "waiting"

    def score(self, metric: str) -> float:
        """Return a score; nan if it is missing."""
        return nan if self.event is None else self.event.scores.get(metric, nan)

    @property
    def cost_usd(self) -> float:
        """Cost of the answer and its labels."""
        answer = 0.0 if self.execution is None else self.execution.cost_usd
        return answer + (0.0 if self.event is None else self.event.cost_usd)

    @property
    def tokens(self) -> int:
        """Tokens of the answer and its labels."""
        labeling = 0 if self.event is None else self.event.tokens
        return labeling + (0 if self.execution is None else self.execution.tokens)


@dataclass(slots=True)
class ResultsTable:
    """The results of an experiment by config and item; an item is its index in the order in which items are run."""

    by_config: dict[str, dict[int, Result]] = field(default_factory=lambda: defaultdict(dict))
    answers_usd: float = 0.0
    """Cost of all answers."""
    labels_usd: float = 0.0
    """Cost of all labels; a separate sum, so that the order of reading the streams does not change the total."""
    tokens: int = 0
    """Tokens of all answers and labels."""
    failures_in_a_row: dict[str, list[Execution]] = field(default_factory=dict)
    """For each config its most recent failures in a row with the same kind of error."""
    declared: dict[str, MetricDeclaration] = field(default_factory=dict)
    """Declarations of metrics that are not ragtide's own, from the events."""
    measures: dict[str, Measure | None] = field(default_factory=dict)
    """For each metric the measure of its first score; scores with another measure are not comparable."""

    @property
    def cost_usd(self) -> float:
        """Cost of all answers and labels."""
        return self.answers_usd + self.labels_usd

    def definition(self, plan: Plan, metric: str) -> MetricDefinition | None:
        """Return the definition of a metric, from the plan or from events; None if it has none."""
        return definition_of(metric, {**self.declared, **plan.declared})

    def value_range(self, plan: Plan, metric: str) -> tuple[float, float]:
        """Return the range of a metric; 0 to 1 if it has no definition."""
        definition = self.definition(plan, metric)
        return (0.0, 1.0) if definition is None else (definition.lower, definition.upper)

    def result(self, config: str, item: int) -> Result:
        """Return a result, which may still be empty."""
        return self.by_config[config].setdefault(item, Result())

    def executed(self) -> list[Result]:
        """Return the results that have an execution, config by config."""
        results = (result for by_item in self.by_config.values() for result in by_item.values())
        return [result for result in results if result.execution is not None]

    def add_execution(self, execution: Execution) -> None:
        """Add an execution; adding it again changes nothing."""
        result = self.result(execution.config, execution.item)
        if result.execution is not None:
            return
        result.execution = execution
        self.answers_usd += execution.cost_usd
        self.tokens += execution.tokens
        if execution.failure is None:
            if execution.copied_from is None:
                self.failures_in_a_row.pop(execution.config, None)
            return
        before = self.failures_in_a_row.get(execution.config, [])
        if not before or kind_of(before[-1].failure or "") != kind_of(execution.failure):
            before = self.failures_in_a_row[execution.config] = []
        before.append(execution)

    def add_event(self, event: MetricEvent) -> None:
        """Add the scores of an answer; a second event about it is ignored."""
        item = item_of(event.interaction_id)
        if item is None or (result := self.result(event.pipeline, item)).event is not None:
            return
        result.event = AnswerScores.of(self._comparable(event))
        self.labels_usd += result.event.cost_usd
        self.tokens += result.event.tokens

    def _comparable(self, event: MetricEvent) -> MetricEvent:
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

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Add a dead letter, if its entry held an answer."""
        try:
            interaction = RagInteraction.from_entry(letter.entry_id, letter.payload_bytes())
        except InvalidEntryError:
            return
        item = item_of(interaction.interaction_id)
        if item is not None:
            self.result(interaction.pipeline, item).unlabeled = letter.detail

    def complete(self, config: str, item: int) -> bool:
        """Return whether a config has its final result on an item."""
        result = self.by_config[config].get(item)
        return result is not None and result.outcome != "waiting"


def item_of(interaction_id: str) -> int | None:
    """Return the index of the item in the interaction id of an answer; None for other interactions.

    >>> item_of("item-12"), item_of("other")
    (12, None)
    """
    start, _, number = interaction_id.partition("-")
    return int(number) if start == "item" and number.isdecimal() else None
