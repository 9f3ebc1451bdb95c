"""Columns of metric events become batches: rows are looked up once for all events that are alike. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from ragtide_schemas import InvalidEntryError, MetricEvent, to_milliseconds

from ..events.batch import Gathered, Queue, Stamp, Times, merged
from ..events.columns import EventColumns, Patterns, Refused, beyond_bounds, combined, milliseconds, table
from ..events.keys import COST, GOLD, LATENCY
from ..events.values import EventPart, Kind, parts_of
from ..statistics.batches import Rows
from .rows import LATEST_MS, KeyRows
from .table import Kept


class Replay:
    """Columns of events on their way into a state.

    Attributes:
        refused: events that cannot be added, and why.
        times_ms: event times of the others, in order.
    """

    def __init__(self, columns: EventColumns, processed_ms: Times | None, *, segments: bool) -> None:
        self._columns = columns
        self._table = table(columns)
        processed = milliseconds(columns.labeled_us) if processed_ms is None else np.minimum(processed_ms, LATEST_MS)
        occurred = milliseconds(columns.occurred_us)
        self.refused: list[Refused] = []
        # What columns cannot say, and what is wrong, is looked at as an event: it knows why.
        self._parts: dict[int, list[EventPart]] = {}
        for place in np.flatnonzero(columns.alone | beyond_bounds(columns) | self._table.wrong).tolist():
            try:
                event = columns.origins.event(place)
                self._parts[place] = parts_of(event)
            except InvalidEntryError as error:
                self.refused.append(Refused(place, error))
                continue
            occurred[place] = to_milliseconds(event.occurred_at)
            if processed_ms is None:
                processed[place] = to_milliseconds(event.labeled_at)
        fine = np.ones(len(columns), dtype=bool)
        fine[[one.place for one in self.refused]] = False
        self._places = np.flatnonzero(fine)
        self._processed_ms = processed[self._places]
        self.times_ms = np.minimum(occurred[self._places], self._processed_ms)
        self._newest_ms = self.times_ms.copy()
        self._population = columns.population_size[self._places]
        # Kinds of events, and an example of each; -1 for those that are taken by themselves.
        fine[list(self._parts)] = False
        plain = np.flatnonzero(fine)
        codes = tuple(code[plain] for code in (columns.sources, *columns.alike, *self._table.present))
        alike, examples = combined(codes)
        segmented, self._tagged = combined((columns.segments[plain] if segments else np.zeros_like(plain),))
        kinds, firsts = combined((alike, segmented))
        kind_of = np.full(len(columns), -1, dtype=np.intp)
        kind_of[plain] = kinds
        self._kinds, self._examples, self._tagged = kind_of[self._places], plain[examples], plain[self._tagged]
        self._made_of = list(zip(alike[firsts].tolist(), segmented[firsts].tolist(), strict=True))
        # Place of the first event of each kind.
        self._firsts = plain[firsts]
        # Pipeline and run in which the events of each source count.
        self._counts_in: dict[int, tuple[str, str | None]] = {}
        self._values = self._absent = self._pairs = Patterns(())
        # Where each event's values end, of all values.
        self._ends = np.zeros(0, dtype=np.intp)

    def prepare(self, kept: Kept) -> None:
        """Look up the rows of every kind of event, in the order in which new ones come."""
        names, width = self._table.names, len(self._table.names)
        origins = self._columns.origins
        examples = [parts_of(origins.event(place))[0] for place in self._examples.tolist()]
        segments = [origins.segments(place) for place in self._tagged.tolist()]
        many = np.bincount(self._kinds[self._kinds >= 0], minlength=len(self._made_of)).tolist()
        nothing: tuple[list[int], list[int]] = ([], [])
        values, absent, pairs = ([nothing] * len(self._made_of) for _ in range(3))
        places = [(place, kind) for kind, place in enumerate(self._firsts.tolist())]
        for place, number in sorted(places + [(place, -1) for place in self._parts]):
            if number < 0:
                self._parts[place] = [self._admitted(kept, place, part) for part in self._parts[place]]
                for part in self._parts[place]:
                    kept.plan(part)
                continue
            alike, segmented = self._made_of[number]
            event, found, kind = examples[alike]
            tagged = event.model_copy(update={"segments": segments[segmented]})
            rows = kept.plan(self._admitted(kept, place, (tagged, found, kind), many[number]))
            usage = [names[LATENCY], names[COST]] if rows.usage else [names[LATENCY]]
            values[number] = (rows.rows, [names[name] for name in found.names] * rows.scopes + usage)
            absent[number] = (rows.absent, [0] * len(rows.absent))
            true_and_cheap = [names[GOLD + pair.metric] * width + names[pair.metric] for pair in found.pairs]
            pairs[number] = (rows.pairs, [both for both in true_and_cheap for _ in range(rows.scopes)])
        self._values, self._absent, self._pairs = Patterns(values), Patterns(absent), Patterns(pairs)
        # Those that are taken by themselves are few: it does not matter how wide they are.
        self._ends = np.cumsum(np.append(self._values.widths, 1)[self._kinds])

    def declaring(self) -> list[MetricEvent]:
        """Return the last event of each source with each set of declarations, in the order of the events."""
        declarations = self._columns.declarations[self._places]
        declaring = np.flatnonzero(declarations)[::-1]
        _, last = combined((declarations[declaring], self._columns.sources[self._places[declaring]]))
        return [self._columns.origins.event(int(self._places[number])) for number in np.sort(declaring[last])]

    def _admitted(self, kept: Kept, place: int, part: EventPart, n: int = 1) -> EventPart:
        """Return a part of an event as it counts; the event is the first of `n` that are alike."""
        event, found, kind = part
        admitted = kept.admission.admit(event, segments=kept.options.segments)
        if kind is Kind.SCORED:
            kept.capped.count(admitted, int(self.times_ms[np.searchsorted(self._places, place)]), n)
        placed = admitted.event
        self._counts_in.setdefault(int(self._columns.sources[place]), (placed.pipeline, placed.run))
        return placed, found, kind

    def follow(self, rows: KeyRows) -> None:
        """Let each event know the newest one before it, and the rows know the newest of all; after `prepare`."""
        sources = self._columns.sources[self._places]
        by_scope: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
        for source in np.unique(sources).tolist():
            by_scope[self._counts_in[source]].append(source)
        for (pipeline, run), together in by_scope.items():
            mine = np.flatnonzero(np.isin(sources, together))
            self._newest_ms[mine] = rows.follow(pipeline, run, self.times_ms[mine])

    def stop(self, start: int, most: int) -> int:
        """Return where a batch of about so many values ends that starts with an event; it has at least one event."""
        before = int(self._ends[start - 1]) if start else 0
        return max(int(np.searchsorted(self._ends, before + most, side="right")), start + 1)

    def gathered(self, start: int, stop: int, put: Callable[[Queue, int, EventPart, Stamp], None]) -> Gathered:
        """Return a stretch of the events as one batch.

        Args:
            start: its first event.
            stop: the one after its last.
            put: puts a part of the event at a place, with its stamp, into a queue.
        """
        inside = np.arange(start, stop)
        alone = self._kinds[inside] < 0
        batch = self._columnar(inside[~alone])
        if not alone.any():
            return batch
        queue = Queue()
        for number in inside[alone].tolist():
            place = int(self._places[number])
            said = (self.times_ms, self._processed_ms, self._newest_ms, self._population)
            stamp = Stamp(*(int(column[number]) for column in said))
            for part in self._parts[place]:
                put(queue, place, part, stamp)
        return merged(batch, queue.gathered(self._columns.origins))

    def _columnar(self, inside: Rows) -> Gathered:
        places, kinds = self._places[inside], self._kinds[inside]
        numbers, width = self._table.values, len(self._table.names)
        of, rows, columns = self._values.expanded(kinds)
        absent_of, absent, _ = self._absent.expanded(kinds)
        pairs_of, pairs, both = self._pairs.expanded(kinds)
        true, cheap = numbers[both // width, places[pairs_of]], numbers[both % width, places[pairs_of]]
        return Gathered(
            origins=self._columns.origins,
            places=places,
            rows=rows,
            values=numbers[columns, places[of]],
            part_of=of,
            absent=absent,
            absent_of=absent_of,
            pairs=pairs,
            pairs_of=pairs_of,
            scores=np.stack([true, cheap, np.ones_like(true)]),
            times_ms=self.times_ms[inside],
            processed_ms=self._processed_ms[inside],
            newest_ms=self._newest_ms[inside],
            population=self._population[inside],
        )
