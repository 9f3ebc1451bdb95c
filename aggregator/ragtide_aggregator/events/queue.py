"""Collects metric events, one by one, until they are applied together as columns. No clock, no I/O."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragtide_schemas import MetricDeclaration, MetricEvent, to_milliseconds

from ..statistics.tables.batches import Floats
from .batch import EventList
from .columns import EventColumns
from .values import EventPart, layout


class _Group(NamedTuple):
    """The properties of an event, besides its scope, on which its keys depend."""

    labeler: str
    labeler_version: str
    profile: str
    absent: tuple[tuple[str, str], ...]
    has_prompts: bool
    declared: tuple[tuple[str, MetricDeclaration], ...]
    scores: tuple[str, ...]


class EventQueue:
    """Metric events and later gold scores, in the order in which they are applied."""

    def __init__(self) -> None:
        self._events: list[MetricEvent] = []
        self._gold: list[tuple[int, EventPart]] = []
        self._times: list[tuple[int, int]] = []
        self._runs: dict[tuple[str, str | None], int] = {}
        self._groups: dict[_Group, int] = {}
        self._segments: dict[Hashable, int] = {}
        self._codes: list[tuple[int, int, int]] = []
        self._seen: set[tuple[int, int, int]] = set()
        self.is_empty = True
        """Read at every look at a number, so it is no method."""
        self.most_keys = 0
        """Upper bound of the number of keys that the queue changes."""

    def __len__(self) -> int:
        return len(self._events) + len(self._gold)

    def add(self, event: MetricEvent, processed_ms: int) -> None:
        """Add an event that `values.check` has accepted, with its time of scoring."""
        self.is_empty = False
        self._events.append(event)
        self._times.append((to_milliseconds(event.occurred_at), processed_ms))
        run = event.pipeline, event.run
        group = _Group(
            event.labeler, event.labeler_version, event.profile, tuple(event.absent.items()), bool(event.prompts),
            tuple(event.declared.items()) if event.declared else (), tuple(event.scores),
        )  # fmt: skip
        segments = tuple(sorted(event.segments.items()))
        codes = (
            self._runs.setdefault(run, len(self._runs)),
            self._groups.setdefault(group, len(self._groups)),
            self._segments.setdefault(segments, len(self._segments)),
        )
        self._codes.append(codes)
        if event.judged is not None or codes not in self._seen:
            self._seen.add(codes)
            self._expect(event)

    def add_gold(self, part: EventPart) -> None:
        """Add later gold scores."""
        self.is_empty = False
        self._gold.append((len(self._events), part))
        self._expect(part.event)

    def _expect(self, event: MetricEvent) -> None:
        judged = event.judged
        # With a gold score, a score also has a squared error.
        names = len(layout(event.scores, event.declared).names) + 2 * len(event.scores) + len(event.absent)
        if judged is not None:
            names += len(layout(judged.scores, event.declared).names) + len(judged.absent)
        self.most_keys += (1 + len(event.segments)) * names + len(event.absent) + 2

    def columns(self) -> EventColumns:
        """Return the queue as columns."""
        events = self._events
        runs, groups, segments = np.array(self._codes, dtype=np.int64).reshape(-1, 3).T
        occurred_ms, processed_ms = np.array(self._times, dtype=np.int64).reshape(-1, 2).T
        declared: dict[str, MetricDeclaration] = {}
        declarations: dict[object, int] = {(): 0}
        for group in self._groups:
            declarations.setdefault(group.declared, len(declarations))
            declared = {**dict(group.declared), **declared}
        # Columns have one declaration per metric; events with another declaration are applied row by row.
        conflicting = np.array([_conflicts(group, declared) for group in self._groups], dtype=bool)
        numbers = np.array([declarations[group.declared] for group in self._groups], dtype=np.int64)
        judged = np.array([event.judged is not None for event in events], dtype=bool)
        return EventColumns(
            source=EventList(events),
            runs=runs,
            groups=(groups,),
            segments=segments,
            scores=_by_metric([event.scores for event in events]),
            gold_scores=_by_metric([event.gold_scores for event in events]),
            occurred_ms=occurred_ms,
            processed_ms=processed_ms,
            latency_s=np.array([event.latency_s for event in events], dtype=np.float64),
            cost_usd=np.array([event.cost_usd for event in events], dtype=np.float64),
            population_size=np.array([event.population_size or 0 for event in events], dtype=np.int64),
            probability=np.array([event.sampling_probability for event in events], dtype=np.float64),
            row_wise=judged | conflicting[groups],
            declared=declared,
            declarations=numbers[groups],
            gold=self._gold,
        )


def _conflicts(group: _Group, declared: Mapping[str, MetricDeclaration]) -> bool:
    own = dict(group.declared)
    return bool(declared) and any(own.get(metric) != declared.get(metric) for metric in group.scores)


def _by_metric(scores: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Return a column for each metric; nan for an event without the score."""
    by_names: dict[tuple[str, ...], list[int]] = {}
    for place, score in enumerate(scores):
        if score:
            by_names.setdefault(tuple(score), []).append(place)
    found: dict[str, Floats] = {}
    for names, places in by_names.items():
        values = np.array([tuple(scores[place].values()) for place in places], dtype=np.float64)
        for number, name in enumerate(names):
            column = found.setdefault(name, np.full(len(scores), np.nan))
            column[places] = values[:, number]
    return found
