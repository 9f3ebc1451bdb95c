"""Turns columns of metric events into batches for the state; rows are looked up once for each group of equal events.

The parts of the events come first, in order, then the groups of parts that add to the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import InvalidEntryError, MetricEvent, to_milliseconds
from ragtide_schemas.metric_definitions import PEOPLES_METRICS

from ..events.batch import BY_ITSELF, LATEST_MS, EventBatch, Scope, Times, cluster_codes, cluster_name
from ..events.columns import (
    MISSING_SCORE,
    Codes,
    EventColumns,
    ExtractedColumns,
    GroupTable,
    RejectedEvent,
    combined,
    extracted,
)
from ..events.keys import COST, GOLD, LATENCY
from ..events.values import EventPart, Targets, parts_of, usage_of
from ..statistics.tables.batches import Floats, Rows
from .cluster_rows import ClusterRows
from .row_lookup import RowLookup, RowMapping


class PartSource:
    """The events of columns and, at the places after them, the events of later gold scores."""

    def __init__(self, columns: EventColumns) -> None:
        self._source, self._size = columns.source, len(columns)
        self._gold = [part.event for _, part in columns.gold]
        self._covariates: dict[str, NDArray[Any]] = {}

    def covariate(self, name: str) -> NDArray[Any]:
        """Return a covariate of each event of the columns, or the values of a segment."""
        if name not in self._covariates:
            self._covariates[name] = self._source.covariate(name)
        return self._covariates[name]

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        return self._source.event(place) if place < self._size else self._gold[place - self._size]

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        return self._source.interaction_id(place) if place < self._size else self.event(place).interaction_id


@dataclass(frozen=True)
class OrderedParts:
    """The parts of columns of events in order: one per event, more if it has scores of a judge or another evaluator.

    Attributes:
        places: place of each part's event in a `PartSource`; each array has one element per part.
        runs: codes of pipeline and run.
        times_ms: event time.
        processed_ms: time of scoring.
        arrived_ms: time at which the part came to the aggregator: that of scoring or, of later gold scores, that of the
            feedback; of a tick the time before which everything is scored.
        is_tick: whether it is a tick.
        population: size of the run, 0 if unknown.
        probability: probability with which the interaction was kept from the traffic and chosen for the evaluator.
        own: by its number each part whose values are not in columns: row-wise fallback, and later gold scores.
        rejected: events that cannot be counted, and have no parts.
    """

    places: Rows
    runs: Codes
    times_ms: Times
    processed_ms: Times
    arrived_ms: Times
    is_tick: NDArray[np.bool_]
    population: NDArray[np.int64]
    probability: Floats
    own: dict[int, EventPart]
    rejected: list[RejectedEvent]

    def __len__(self) -> int:
        return self.places.size


def ordered(
    columns: EventColumns, out_of_range: NDArray[np.bool_], latest_ms: int, targets: Targets = ()
) -> OrderedParts:
    """Return the parts of columns.

    Args:
        out_of_range: whether an event has a score outside its range.
        latest_ms: the latest time that an event can have.
        targets: rules on quantiles, whose shares are counted.
    """
    rejected = []
    row_wise: dict[int, list[EventPart]] = {}
    counts = np.ones(len(columns), dtype=np.intp)
    occurred_ms = columns.occurred_ms.copy()
    from_people = [~np.isnan(scores) for metric, scores in columns.gold_scores.items() if metric in PEOPLES_METRICS]
    for place in np.flatnonzero(np.any([columns.row_wise, out_of_range, *from_people], axis=0)).tolist():
        # The error of the event itself names the score and its range.
        try:
            row_wise[place] = parts_of(columns.source.event(place), targets)
            occurred_ms[place] = to_milliseconds(row_wise[place][0].event.occurred_at)
        except InvalidEntryError as error:
            rejected.append(RejectedEvent(place, error))
        counts[place] = len(row_wise.get(place, ()))
    places = np.repeat(np.arange(len(columns)), counts)
    if columns.gold:
        ends = np.concatenate([[0], np.cumsum(counts)])
        before = ends[[before for before, _ in columns.gold]]
        places = np.insert(places, before, len(columns) + np.arange(len(columns.gold)))
    gold = [part.event for _, part in columns.gold]

    def of_parts(column: NDArray[np.int64], later: Sequence[int]) -> NDArray[np.int64]:
        return np.concatenate([column, np.array(later, dtype=np.int64)])[places]

    processed_ms = of_parts(columns.processed_ms, [to_milliseconds(event.labeled_at) for event in gold])
    processed_ms = np.minimum(processed_ms, latest_ms)
    occurred_ms = of_parts(occurred_ms, [to_milliseconds(event.occurred_at) for event in gold])
    first = int(columns.runs.max(initial=-1)) + 1
    own = {place: iter(parts) for place, parts in row_wise.items()}
    own |= {len(columns) + number: iter([part]) for number, (_, part) in enumerate(columns.gold)}
    numbers = [number for number, place in enumerate(places.tolist()) if place in own] if own else []
    own_parts = {number: next(own[int(places[number])]) for number in numbers}
    probability = np.concatenate([columns.probability, np.ones(len(gold))])[places]
    probability[numbers] = [part.event.kept_probability for part in own_parts.values()]
    arrived_ms, is_tick = processed_ms.copy(), np.zeros(places.size, dtype=bool)
    for number, part in own_parts.items():
        is_tick[number] = part.event.is_tick
        if part.event.is_tick:
            arrived_ms[number] = to_milliseconds(part.event.labeled_at)
        elif part.arrived_ms is not None:
            arrived_ms[number] = min(part.arrived_ms, latest_ms)
    return OrderedParts(
        places=places,
        runs=of_parts(columns.runs, range(first, first + len(gold))),
        # A producer whose clock is fast must not close the windows of other producers.
        times_ms=np.minimum(occurred_ms, processed_ms),
        processed_ms=processed_ms,
        arrived_ms=arrived_ms,
        is_tick=is_tick,
        population=of_parts(columns.population_size, [event.population_size or 0 for event in gold]),
        probability=probability,
        own=own_parts,
        rejected=rejected,
    )


class PartGroup(NamedTuple):
    """Parts that add to the same rows."""

    first: int
    """Number of its first part."""
    size: int
    part: EventPart
    """The first part; all parts have its segments."""


def grouped_parts(
    columns: EventColumns,
    score_columns: ExtractedColumns,
    parts: OrderedParts,
    targets: Targets = (),
    *,
    segments: bool,
) -> tuple[Rows, list[PartGroup]]:
    """Return the group of each part, and the groups in the order of their first parts.

    Args:
        targets: rules on quantiles, whose shares are counted.
        segments: whether segment values have estimates.
    """
    plain = np.ones(len(parts), dtype=bool)
    plain[list(parts.own)] = False
    numbers = np.flatnonzero(plain)
    places = parts.places[numbers]
    alike, examples = combined([code[places] for code in (columns.runs, *columns.groups, *score_columns.present)])
    tags, tagged = combined([columns.segments[places] if segments else np.zeros_like(places)])
    both, firsts = combined([alike, tags])
    group_of = np.empty(len(parts), dtype=np.intp)
    group_of[numbers] = both
    group_of[~plain] = firsts.size + np.arange(len(parts.own))
    _, first_of, sizes = np.unique(group_of, return_index=True, return_counts=True)
    # Few events are decoded: one of each combination of codes, and one of each set of segments.
    example_of = [parts_of(columns.source.event(int(places[number])), targets)[0] for number in examples.tolist()]
    segments_of = [columns.source.segments(int(places[number])) for number in tagged.tolist()]
    examples_of = [
        (example_of[example], segments_of[tag])
        for example, tag in zip(alike[firsts].tolist(), tags[firsts].tolist(), strict=True)
    ]
    order = np.argsort(first_of, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    groups = []
    for group in order.tolist():
        first = int(first_of[group])
        if first in parts.own:
            part = parts.own[first]
        else:
            part, values_of_segments = examples_of[group]
            if part.event.segments != values_of_segments:
                part = part._replace(event=part.event.model_copy(update={"segments": values_of_segments}))
        groups.append(PartGroup(first, int(sizes[group]), part))
    return rank[group_of], groups


_Lines = list[tuple[int, ...]]
"""The rows that one group of parts adds to, each with the bases of the added numbers."""


class BatchBuilder:
    """Builds batches from columns of events.

    All numbers are in one array: the columns one after the other, then the values of parts that are not in columns. The
    index of a part's number is the base of its group plus the place of its event.

    Args:
        lookup: finds the rows, and takes the declarations.
        clusters: of the state; None without clusters.
    """

    def __init__(self, columns: EventColumns, lookup: RowLookup, clusters: ClusterRows | None) -> None:
        self._columns, self._lookup, self._clusters = columns, lookup, clusters
        self._extracted = extracted(columns, lookup.targets)
        self._parts = ordered(columns, self._extracted.out_of_range, LATEST_MS, lookup.targets)
        self._groups, groups = grouped_parts(
            columns, self._extracted, self._parts, lookup.targets, segments=lookup.segments
        )
        self._source = PartSource(columns)
        self._own = list[float]()
        self._probabilities = [1.0]
        scopes = dict[int, Scope]()
        values, absent, pairs, ruled = list[_Lines](), list[_Lines](), list[_Lines](), list[_Lines]()
        for group in groups:
            part = lookup.admitted(group.part, int(self.times_ms[group.first]), group.size)
            scopes.setdefault(int(self._parts.runs[group.first]), (part.event.pipeline, part.event.run))
            mapping = lookup.mapping(part)
            of_values, of_pairs = (self._own_lines if group.first in self._parts.own else self._lines)(group, mapping)
            values.append(of_values)
            absent.append([(row,) for row in mapping.absent])
            ruled.append([(row,) for row in mapping.ruled])
            pairs.append(of_pairs)
        self._values, self._absent, self._pairs = GroupTable(values, 2), GroupTable(absent, 1), GroupTable(pairs, 4)
        self._ruled = GroupTable(ruled, 1)
        self._numbers = self._extracted.values.ravel()
        if self._own:
            self._numbers = np.concatenate([self._numbers, self._own])
        # The end of each part's values among all values.
        self._ends = np.cumsum(self._values.sizes[self._groups])
        self._scopes = list(dict.fromkeys(scopes.values()))
        self._scope_of = self._numbered(scopes)
        self._newest_ms = self._newest_times()
        self._codes = self._cluster_codes()
        self._unfinished = self._unfinished_parts()
        self._declare()

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def times_ms(self) -> Times:
        """Event time of each part, in order."""
        return self._parts.times_ms

    @property
    def rejected(self) -> list[RejectedEvent]:
        """Events that cannot be added, with the reasons."""
        return self._parts.rejected

    def _lines(self, group: PartGroup, mapping: RowMapping) -> tuple[_Lines, _Lines]:
        names, size = self._extracted.names, len(self._columns)
        extract = group.part.extracted
        bases = [names[name] * size for name in extract.names] * mapping.scopes
        bases += [names[name] * size for name in (LATENCY, COST)]
        missing = names[MISSING_SCORE]
        metrics = [pair.metric for pair in extract.pairs]
        pairs = [(names[GOLD + metric] * size, names.get(metric, missing) * size, 0) for metric in metrics]
        return self._with_rows(mapping, bases, pairs)

    def _own_lines(self, group: PartGroup, mapping: RowMapping) -> tuple[_Lines, _Lines]:
        extract = group.part.extracted
        base = self._extracted.values.size + len(self._own) - int(self._parts.places[group.first])
        n_values, n_pairs = len(extract.values), len(extract.pairs)
        usage = usage_of(group.part)
        self._own += [*extract.values, *usage]
        self._own += [score for pair in extract.pairs for score in (pair.reference, pair.proxy)]
        bases = [base + number for number in range(n_values)] * mapping.scopes + [
            base + n_values + number for number in range(len(usage))
        ]
        base, first = base + n_values + len(usage), len(self._probabilities)
        self._probabilities += [pair.probability for pair in extract.pairs]
        pairs = [(base + 2 * number, base + 2 * number + 1, first + number) for number in range(n_pairs)]
        return self._with_rows(mapping, bases, pairs)

    @staticmethod
    def _with_rows(mapping: RowMapping, bases: list[int], pairs: list[tuple[int, int, int]]) -> tuple[_Lines, _Lines]:
        # The last bases are time and cost of labeling; a part may count none or some of them.
        in_scopes = [pair for pair in pairs for _ in range(mapping.scopes)]
        return (
            list(zip(mapping.rows, bases, strict=False)),
            [(row, *pair) for row, pair in zip(mapping.pairs, in_scopes, strict=True)],
        )

    def _numbered(self, scopes: dict[int, Scope]) -> Rows:
        numbers = {scope: number for number, scope in enumerate(self._scopes)}
        number_of = np.zeros(max(scopes, default=0) + 1, dtype=np.intp)
        for run, scope in scopes.items():
            number_of[run] = numbers[scope]
        return number_of[self._parts.runs]

    def _newest_times(self) -> Times:
        # Gold scores that come later and ticks are no interactions: no interaction is late because of them.
        times_ms, newest_ms, rows = self._parts.times_ms, self._parts.times_ms.copy(), self._lookup.rows
        is_tick = self._parts.is_tick
        follows = is_tick | (self._parts.places >= len(self._columns))
        for number, scope in enumerate(self._scopes):
            mine = np.flatnonzero(self._scope_of == number)
            following, mine, first_ms = mine[follows[mine]], mine[~follows[mine]], rows.newest_ms(*scope)
            if mine.size:
                newest_ms[mine] = rows.follow(*scope, times_ms[mine])
            if following.size:
                known_ms = np.concatenate([[-1 if first_ms is None else first_ms], newest_ms[mine]])
                known_ms[1:] = np.maximum(known_ms[1:], times_ms[mine])
                known_ms = known_ms[np.searchsorted(mine, following)]
                # Of a pipeline without an interaction so far a tick ends nothing, and both keep their own time.
                first = following[(known_ms < 0) & ~is_tick[following]]
                if first.size:
                    newest_ms[first] = rows.follow(*scope, times_ms[first])
                following, known_ms = following[known_ms >= 0], known_ms[known_ms >= 0]
                newest_ms[following] = known_ms
                times_ms[following] = np.where(is_tick[following], known_ms, np.minimum(times_ms[following], known_ms))
        return newest_ms

    def _cluster_codes(self) -> Codes | None:
        clusters = self._clusters
        if clusters is None:
            return None
        by = clusters.options.by
        later = cluster_codes(cluster_name(part.event, by) for _, part in self._columns.gold)
        codes = np.concatenate([self._columns.source.clusters(by), later])[self._parts.places]
        codes[self._parts.is_tick] = BY_ITSELF
        return codes if clusters.scopes or codes.any() else None

    def _unfinished_parts(self) -> NDArray[np.bool_]:
        places, size = self._parts.places, len(self._columns)
        unfinished = np.asarray(np.diff(places, append=-1) == 0)
        gold = [part for _, part in self._columns.gold]
        followed = [
            after.beside
            and (before.event.pipeline, before.event.interaction_id)
            == (after.event.pipeline, after.event.interaction_id)
            for before, after in pairwise(gold)
        ]
        later = places >= size
        unfinished[later] = np.array([*followed, False])[places[later] - size]
        return unfinished

    def until_clusters_change(self, start: int, stop: int) -> int:
        """Return the first of some parts before which clusters are to be prepared; `stop` if there is none.

        It is due before the first cluster of a pipeline and run, and when the length of its blocks is to be measured.
        """
        clusters = self._clusters
        if clusters is None or self._codes is None:
            return stop
        # A tick belongs to no cluster.
        scope_of = np.where(self._parts.is_tick[start:stop], -1, self._scope_of[start:stop])
        codes = self._codes[start:stop]
        first = stop - start
        for number, scope in enumerate(self._scopes):
            of_scope = clusters.scopes.get(scope)
            if of_scope is None:
                due = np.flatnonzero((codes != BY_ITSELF) & (scope_of == number))
            elif clusters.options.measures_blocks:
                due = np.flatnonzero(scope_of == number)[of_scope.events_until_measured :]
            else:
                continue
            first = min(first, int(due[0]) if due.size else first)
        return start + first

    def scope(self, place: int) -> Scope:
        """Return the pipeline and run of a part."""
        return self._scopes[int(self._scope_of[place])]

    def _declare(self) -> None:
        counted = np.ones(len(self._columns), dtype=bool)
        counted[[event.place for event in self.rejected]] = False
        # An evaluator declares after its event, and before the next event.
        events = {
            (int(self._parts.places[number]), number): part.event
            for number, part in self._parts.own.items()
            if part.beside and part.event.declared
        }
        declaring = np.flatnonzero((self._columns.declarations > 0) & counted)[::-1]
        if declaring.size:
            _, last = combined([self._columns.declarations[declaring], self._columns.runs[declaring]])
            events |= {(place, -1): self._columns.source.event(place) for place in declaring[last].tolist()}
        for key in sorted(events):
            self._lookup.declare(events[key])

    def stop(self, start: int, most: int) -> int:
        """Return the end of a batch of about `most` values that starts with a part; it has at least one part."""
        before = int(self._ends[start - 1]) if start else 0
        return max(int(np.searchsorted(self._ends, before + most, side="right")), start + 1)

    def batch(self, start: int, stop: int) -> EventBatch:
        """Return the parts from `start` up to `stop` (exclusive) as a batch."""
        inside = slice(start, stop)
        parts, groups = self._parts, self._groups[inside]
        places = parts.places[inside]
        part_of, (rows, bases) = self._values.expanded(groups)
        absent_of, (absent,) = self._absent.expanded(groups)
        ruled_of, (ruled,) = self._ruled.expanded(groups)
        pairs_of, (pairs, reference, proxy, probability) = self._pairs.expanded(groups)
        pair_places, kept = places[pairs_of], parts.probability[inside]
        weighing = np.where(self._lookup.rows.in_range[rows], kept[part_of], 1.0) if (kept < 1).any() else None
        return EventBatch(
            source=self._source,
            places=places,
            rows=rows,
            values=self._numbers[bases + places[part_of]],
            part_of=part_of,
            absent=absent,
            absent_of=absent_of,
            pairs=pairs,
            scores=np.stack(
                [
                    self._numbers[reference + pair_places],
                    self._numbers[proxy + pair_places],
                    # The probability of being chosen is conditional on that of being kept from the traffic.
                    np.array(self._probabilities)[probability] * kept[pairs_of],
                ]
            ),
            pairs_of=pairs_of,
            times_ms=parts.times_ms[inside],
            processed_ms=parts.processed_ms[inside],
            arrived_ms=parts.arrived_ms[inside],
            is_tick=parts.is_tick[inside],
            newest_ms=self._newest_ms[inside],
            population=parts.population[inside],
            later=places >= len(self._columns),
            unfinished=self._unfinished[inside],
            probability=weighing,
            clusters=None if self._codes is None else self._codes[inside],
            scope_of=self._scope_of[inside],
            scopes=self._scopes,
            ruled=ruled,
            ruled_of=ruled_of,
        )
