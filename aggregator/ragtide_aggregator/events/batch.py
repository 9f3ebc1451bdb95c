"""A batch of metric events as arrays: values, absent metrics and score pairs with their rows, and clusters of events.

A cluster has the interactions of one session, user or batch, whose scores depend on each other. No state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas import MetricEvent, to_milliseconds
from ragtide_schemas.alert_kinds import SEGMENT_COVARIATE
from ragtide_schemas.limits import TIME_MAX

from ..statistics.tables.batches import Floats, Grouped, Rows, grouped

SEGMENT: Final = "segment:"
"""Prefix of a choice of clusters by segment value: `segment:NAME`."""

BY_ITSELF: Final = 0
"""Code of an event that belongs to no cluster."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "auto": ("cluster", "session_id"),
    "cluster": ("cluster",),
    "session_id": ("session_id",),
    "user_id": ("user_id",),
}
"""Fields of an event that name its cluster, by choice; the first field that is set counts."""

OF_ANSWERS: Final = "session_id"
"""The field that names a cluster of answers, and not of whole sessions."""


def cluster_codes(names: Iterable[tuple[str, str] | None]) -> NDArray[np.int64]:
    """Return one code for each field and name; None is an event by itself."""
    return np.array([BY_ITSELF if name is None else _code(*name) for name in names], dtype=np.int64)


def cluster_name(event: MetricEvent, by: str) -> tuple[str, str] | None:
    """Return the field that names the cluster of an event, with the name; None if the event is by itself.

    A whole session has one score of each metric, so it is not in the cluster of its answers.
    """
    if by == BLOCKS:
        return BLOCKS, ""
    if by.startswith(SEGMENT):
        return segment_cluster(event.segments, by)
    for field in FIELDS[by]:
        name = getattr(event, field)
        if name is not None and not (field == OF_ANSWERS and event.is_session):
            return field, name
    return None


def segment_cluster(segments: Mapping[str, str], by: str) -> tuple[str, str] | None:
    """Return `by` with the value of its segment; None without one."""
    value = segments.get(by.removeprefix(SEGMENT))
    return None if value is None else (by, value)


@lru_cache(maxsize=100_000)
def _code(field: str, name: str) -> int:
    digest = blake2b(f"{field}\0{name}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 | 1


LATEST_MS: Final = to_milliseconds(TIME_MAX)
"""The latest time that an event can have."""

Times = NDArray[np.int64]
"""Milliseconds since 1970."""


Scope = tuple[str, str | None]
"""A pipeline and a run."""


class EventSource(Protocol):
    """The events of values, by their places; only a few events are read."""

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        ...

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        ...

    def covariate(self, name: str) -> NDArray[Any]:
        """Return a covariate of each event: numbers, nan without one; or the values of a segment, None without one.

        Args:
            name: of a covariate, or `segment:NAME`.
        """
        ...


class EventList:
    """An event source in memory."""

    def __init__(self, events: Sequence[MetricEvent]) -> None:
        self._events = events

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        return self._events[place]

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        return self._events[place].interaction_id

    def clusters(self, by: str) -> NDArray[np.int64]:
        """Return the codes of all clusters."""
        if by not in FIELDS:
            return cluster_codes(cluster_name(event, by) for event in self._events)
        codes = np.full(len(self._events), BY_ITSELF, dtype=np.int64)
        # The first field that is set counts, so it comes last.
        for field in reversed(FIELDS[by]):
            for place, name in enumerate(map(attrgetter(field), self._events)):
                if name is not None and not (field == OF_ANSWERS and self._events[place].is_session):
                    codes[place] = _code(field, name)
        return codes

    def segments(self, place: int) -> dict[str, str]:
        """Return the segments of an event."""
        return self._events[place].segments

    def covariate(self, name: str) -> NDArray[Any]:
        """Return a covariate of each event, or the values of a segment."""
        if name.startswith(SEGMENT_COVARIATE):
            segment = name.removeprefix(SEGMENT_COVARIATE)
            return np.array([event.segments.get(segment) for event in self._events], dtype=object)
        return np.array([(event.covariates or {}).get(name, np.nan) for event in self._events], dtype=np.float64)


@dataclass(frozen=True)
class EventBatch:
    """Arrays of the parts of events, and of their values, absent metrics and pairs; each in the order of the events."""

    source: EventSource
    places: Rows
    """Place of each part's event in the source."""
    rows: Rows
    """Row of each value."""
    values: Floats
    part_of: Rows
    """Part of each value, not falling."""
    absent: Rows
    """Row of each absent metric."""
    absent_of: Rows
    """Part of each absent metric, not falling."""
    pairs: Rows
    """Row of each pair, in the order of the parts."""
    scores: Floats
    """Reference score, proxy score and probability of each pair, nan for a score that is missing; shape (3, pairs)."""
    pairs_of: Rows
    """Part of each pair, not falling."""
    ruled: Rows
    """Row of each rule on a covariate that applies to an event (`alerts.own_values`)."""
    ruled_of: Rows
    """Part of each of these, not falling."""
    times_ms: Times
    """Event time of each part. The arrays below have one element per part, too."""
    processed_ms: Times
    """Time of scoring."""
    arrived_ms: Times
    """Time at which it came to the aggregator; of a tick the time before which everything of its pipeline is scored."""
    is_tick: NDArray[np.bool_]
    """Whether it is a tick: it has no values, and closes clusters of its pipeline and run."""
    newest_ms: Times
    """Newest time of the pipeline and run before the part; the part's own time if it is the first."""
    population: NDArray[np.int64]
    """Size of the run, 0 if unknown."""
    later: NDArray[np.bool_]
    """Whether it holds gold scores that came after their event."""
    unfinished: NDArray[np.bool_]
    """Whether the next part is of the same event."""
    probability: Floats | None = None
    """For each value the probability with which its interaction was kept from the traffic and chosen for the evaluator,
    1 for values that have no weight; None if all are 1."""
    clusters: NDArray[np.int64] | None = None
    """Code of its cluster, 0 for a part by itself; None where clusters are not looked for."""
    scope_of: Rows | None = None
    """Place of each part's pipeline and run in `scopes`; None where clusters are not looked for."""
    scopes: Sequence[Scope] = ()

    @cached_property
    def starts(self) -> Rows:
        """Where the values of each part begin, and the end of the last; shape (parts + 1,)."""
        return np.searchsorted(self.part_of, np.arange(self.places.size + 1))

    def between(self, start: int, stop: int) -> "EventBatch":
        """Return the parts from `start` up to `stop` (exclusive) with values and absences, without pairs and rules."""
        first, last = (int(place) for place in np.searchsorted(self.part_of, (start, stop)))
        first_absent, last_absent = (int(place) for place in np.searchsorted(self.absent_of, (start, stop)))
        parts, values, absent = slice(start, stop), slice(first, last), slice(first_absent, last_absent)
        return replace(
            self,
            places=self.places[parts],
            rows=self.rows[values],
            values=self.values[values],
            part_of=self.part_of[values] - start,
            absent=self.absent[absent],
            absent_of=self.absent_of[absent] - start,
            pairs=self.pairs[:0],
            pairs_of=self.pairs_of[:0],
            scores=self.scores[:, :0],
            ruled=self.ruled[:0],
            ruled_of=self.ruled_of[:0],
            times_ms=self.times_ms[parts],
            processed_ms=self.processed_ms[parts],
            arrived_ms=self.arrived_ms[parts],
            is_tick=self.is_tick[parts],
            newest_ms=self.newest_ms[parts],
            population=self.population[parts],
            later=self.later[parts],
            probability=None if self.probability is None else self.probability[values],
            clusters=None if self.clusters is None else self.clusters[parts],
            scope_of=None if self.scope_of is None else self.scope_of[parts],
        )

    @cached_property
    def pair_starts(self) -> Rows:
        """Where the pairs of each part begin, and the end of the last; shape (parts + 1,)."""
        return np.searchsorted(self.pairs_of, np.arange(self.places.size + 1))

    @cached_property
    def grouped(self) -> Grouped:
        """The values sorted by row."""
        return grouped(self.rows)
