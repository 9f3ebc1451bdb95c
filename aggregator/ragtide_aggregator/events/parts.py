"""Orders the parts of many events, and groups the parts that add to the same rows. No state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import InvalidEntryError, MetricEvent, to_milliseconds

from ..statistics.tables.batches import Floats, Rows
from .batch import Times
from .columns import Codes, EventColumns, ExtractedColumns, RejectedEvent, combined
from .values import PEOPLES_METRICS, EventPart, parts_of


class PartSource:
    """The events of columns and, at the places after them, the events of later gold scores."""

    def __init__(self, columns: EventColumns) -> None:
        self._source, self._size = columns.source, len(columns)
        self._gold = [part.event for _, part in columns.gold]

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        return self._source.event(place) if place < self._size else self._gold[place - self._size]

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        return self._source.interaction_id(place) if place < self._size else self.event(place).interaction_id


@dataclass(frozen=True)
class OrderedParts:
    """The parts of columns of events in order: one part per event, or two if it has scores of a judge.

    Attributes:
        places: place of each part's event in a `PartSource`; each array has one element per part.
        runs: codes of pipeline and run.
        times_ms: event time.
        processed_ms: time of scoring.
        population: size of the run, 0 if unknown.
        probability: probability with which the interaction was kept from the traffic.
        own: by its number each part whose values are not in columns: row-wise fallback, and later gold scores.
        rejected: events that cannot be counted, and have no parts.
    """

    places: Rows
    runs: Codes
    times_ms: Times
    processed_ms: Times
    population: NDArray[np.int64]
    probability: Floats
    own: dict[int, EventPart]
    rejected: list[RejectedEvent]

    def __len__(self) -> int:
        return self.places.size


def ordered(columns: EventColumns, out_of_range: NDArray[np.bool_], latest_ms: int) -> OrderedParts:
    """Return the parts of columns.

    Args:
        columns: of the events.
        out_of_range: whether an event has a score outside its range.
        latest_ms: the latest time that an event can have.
    """
    rejected = []
    row_wise: dict[int, list[EventPart]] = {}
    counts = np.ones(len(columns), dtype=np.intp)
    occurred_ms = columns.occurred_ms.copy()
    from_people = [~np.isnan(scores) for metric, scores in columns.gold_scores.items() if metric in PEOPLES_METRICS]
    for place in np.flatnonzero(np.any([columns.row_wise, out_of_range, *from_people], axis=0)).tolist():
        # The error of the event itself names the score and its range.
        try:
            row_wise[place] = parts_of(columns.source.event(place))
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

    processed_ms = of_parts(columns.processed_ms, [to_milliseconds(one.labeled_at) for one in gold])
    processed_ms = np.minimum(processed_ms, latest_ms)
    occurred_ms = of_parts(occurred_ms, [to_milliseconds(one.occurred_at) for one in gold])
    first = int(columns.runs.max(initial=-1)) + 1
    own = {place: iter(parts) for place, parts in row_wise.items()}
    own |= {len(columns) + number: iter([part]) for number, (_, part) in enumerate(columns.gold)}
    numbers = [number for number, place in enumerate(places.tolist()) if place in own] if own else []
    return OrderedParts(
        places=places,
        runs=of_parts(columns.runs, range(first, first + len(gold))),
        # A producer whose clock is fast must not close the windows of other producers.
        times_ms=np.minimum(occurred_ms, processed_ms),
        processed_ms=processed_ms,
        population=of_parts(columns.population_size, [one.population_size or 0 for one in gold]),
        probability=np.concatenate([columns.probability, [one.sampling_probability for one in gold]])[places],
        own={number: next(own[int(places[number])]) for number in numbers},
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
    columns: EventColumns, found: ExtractedColumns, parts: OrderedParts, *, segments: bool
) -> tuple[Rows, list[PartGroup]]:
    """Return the group of each part, and the groups in the order of their first parts.

    Args:
        columns: of the events.
        found: values of the columns.
        parts: of the events.
        segments: whether segment values have estimates.
    """
    plain = np.ones(len(parts), dtype=bool)
    plain[list(parts.own)] = False
    numbers = np.flatnonzero(plain)
    places = parts.places[numbers]
    alike, examples = combined([code[places] for code in (columns.runs, *columns.groups, *found.present)])
    tags, tagged = combined([columns.segments[places] if segments else np.zeros_like(places)])
    both, firsts = combined([alike, tags])
    group_of = np.empty(len(parts), dtype=np.intp)
    group_of[numbers] = both
    group_of[~plain] = firsts.size + np.arange(len(parts.own))
    _, first_of, sizes = np.unique(group_of, return_index=True, return_counts=True)
    # Few events are decoded: one of each combination of codes, and one of each set of segments.
    example_of = [parts_of(columns.source.event(int(places[number])))[0] for number in examples.tolist()]
    segments_of = [columns.source.segments(int(places[number])) for number in tagged.tolist()]
    made_of = [
        (example_of[one], segments_of[tag])
        for one, tag in zip(alike[firsts].tolist(), tags[firsts].tolist(), strict=True)
    ]
    order = np.argsort(first_of, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    groups = []
    for group in order.tolist():
        first = int(first_of[group])
        part = parts.own[first] if first in parts.own else _tagged(*made_of[group])
        groups.append(PartGroup(first, int(sizes[group]), part))
    return rank[group_of], groups


def _tagged(part: EventPart, segments: dict[str, str]) -> EventPart:
    if part.event.segments == segments:
        return part
    return part._replace(event=part.event.model_copy(update={"segments": segments}))
