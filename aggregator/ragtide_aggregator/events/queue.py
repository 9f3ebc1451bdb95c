"""Collects metric events, one by one, until they are applied together as columns. No clock, no I/O."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ragtide_schemas import MetricDeclaration, MetricEvent, to_milliseconds
from ragtide_schemas.limits import PROBABILITY_MIN

from ..statistics.tables.batches import Floats
from .batch import EventList
from .columns import Codes, EventColumns
from .values import EventPart, layout


class EventKind(NamedTuple):
    """The properties of an event on which its keys depend."""

    pipeline: str
    run: str | None
    segments: tuple[tuple[str, str], ...]
    labeler: str
    labeler_version: str
    profile: str
    scores: tuple[str, ...]
    absent: tuple[tuple[str, str], ...]
    has_prompts: bool
    declared: tuple[tuple[str, MetricDeclaration], ...]

    @property
    def beside_scope(self) -> tuple[object, ...]:
        """The properties besides pipeline, run and segments."""
        return self[3:]


class EventQueue:
    """Metric events and later gold scores, in the order in which they are applied.

    Args:
        counted: kinds of events of which the keys were counted before.
    """

    def __init__(self, counted: Collection[EventKind] = ()) -> None:
        self._counted = counted
        self._events: list[MetricEvent] = []
        self._gold: list[tuple[int, EventPart]] = []
        self._processed_ms: list[int] = []
        self._kinds: dict[EventKind, int] = {}
        self._kind_of: list[int] = []
        self.is_empty = True
        """Read at every look at a number, so it is no method."""
        self.most_keys = 0
        """About the number of keys that the queue changes and that were not counted before; hardly ever more."""

    def __len__(self) -> int:
        return len(self._events) + len(self._gold)

    def add(self, event: MetricEvent, processed_ms: int) -> None:
        """Add an event that `values.check` has accepted, with its time of scoring."""
        self.is_empty = False
        self._events.append(event)
        self._processed_ms.append(processed_ms)
        absent, segments, declared = event.absent, event.segments, event.declared
        kind = EventKind(
            event.pipeline, event.run, tuple(segments.items()) if segments else (),
            event.labeler, event.labeler_version, event.profile, tuple(event.scores),
            tuple(absent.items()) if absent else (), bool(event.prompts), tuple(declared.items()) if declared else (),
        )  # fmt: skip
        code = self._kinds.get(kind)
        if code is None:
            code = self._kinds[kind] = len(self._kinds)
            if kind not in self._counted:
                self._expect(event)
        if event.judged is not None or event.gold_scores or event.beside:
            self._expect(event, graded=True)
        self._kind_of.append(code)

    @property
    def kinds(self) -> Collection[EventKind]:
        """The kinds of the events."""
        return self._kinds

    def add_gold(self, part: EventPart) -> None:
        """Add later gold scores."""
        self.is_empty = False
        self._gold.append((len(self._events), part))
        self._expect(part.event, graded=True)

    def _expect(self, event: MetricEvent, *, graded: bool = False) -> None:
        if event.beside:
            for scored in event.by_evaluator():
                self._expect(scored, graded=graded)
            return
        judged = event.judged
        names = len(layout(event.scores, event.declared).names) + len(event.absent)
        if graded:
            # With a gold score, a score also has a squared error.
            names += 2 * len(event.scores)
        if judged is not None:
            names += len(layout(judged.scores, event.declared).names) + len(judged.absent)
        self.most_keys += (1 + len(event.segments)) * names + len(event.absent) + 2

    def columns(self) -> EventColumns:
        """Return the queue as columns."""
        events, kinds = self._events, list(self._kinds)
        kind_of = np.array(self._kind_of, dtype=np.intp)
        declared: dict[str, MetricDeclaration] = {}
        for kind in kinds:
            declared = {**dict(kind.declared), **declared}
        # Columns have one declaration per metric; events with another declaration are applied row by row.
        conflicting = np.array([_conflicts(kind, declared) for kind in kinds], dtype=bool)[kind_of]
        # Scores of a judge, of another evaluator, or with another probability are a second part of the event.
        # A session counts for no interaction, which columns cannot represent.
        parts = np.array(
            [event.judged is not None or bool(event.beside or event.unit or event.inclusion) for event in events],
            dtype=bool,
        )
        # Without declarations an event has the code 0.
        declarations = _codes([(), *(kind.declared for kind in kinds)])[1:]
        return EventColumns(
            source=EventList(events),
            runs=_codes([(kind.pipeline, kind.run) for kind in kinds])[kind_of],
            groups=(_codes([kind.beside_scope for kind in kinds])[kind_of],),
            segments=_codes([tuple(sorted(kind.segments)) for kind in kinds])[kind_of],
            scores=_by_metric([event.scores for event in events]),
            gold_scores=_by_metric([event.gold_scores for event in events]),
            occurred_ms=np.array([to_milliseconds(event.occurred_at) for event in events], dtype=np.int64),
            processed_ms=np.array(self._processed_ms, dtype=np.int64),
            latency_s=np.array([event.latency_s for event in events], dtype=np.float64),
            cost_usd=np.array([event.cost_usd for event in events], dtype=np.float64),
            population_size=np.array([event.population_size or 0 for event in events], dtype=np.int64),
            probability=_kept_probability(events),
            row_wise=parts | conflicting,
            declared=declared,
            declarations=declarations[kind_of],
            gold=self._gold,
        )


def _kept_probability(events: Sequence[MetricEvent]) -> Floats:
    """Return `kept_probability` of each event."""
    sampled = np.array([event.sampling_probability for event in events], dtype=np.float64)
    included = np.array([event.inclusion_probability for event in events], dtype=np.float64)
    return np.maximum(sampled * included, PROBABILITY_MIN)


def _codes(properties: Sequence[Hashable]) -> Codes:
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in properties], dtype=np.int64)


def _conflicts(kind: EventKind, declared: Mapping[str, MetricDeclaration]) -> bool:
    own, absent = dict(kind.declared), dict(kind.absent)
    return bool(declared) and any(own.get(metric) != declared.get(metric) for metric in (*kind.scores, *absent))


def _by_metric(scores: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    by_names: dict[tuple[str, ...], list[int]] = {}
    for place, score in enumerate(scores):
        if score:
            by_names.setdefault(tuple(score), []).append(place)
    columns: dict[str, Floats] = {}
    for names, places in by_names.items():
        values = chain.from_iterable([scores[place].values() for place in places])
        by_name = np.fromiter(values, np.float64, len(places) * len(names)).reshape(-1, len(names))
        if len(places) == len(scores):  # all events have the same scores
            return dict(zip(names, np.ascontiguousarray(by_name.T), strict=True))
        for number, name in enumerate(names):
            column = columns.setdefault(name, np.full(len(scores), np.nan))
            column[places] = by_name[:, number]
    return columns
