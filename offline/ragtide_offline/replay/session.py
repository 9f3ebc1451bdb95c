"""Replays the metric events of a recording, and its feedback: the one road of every replay.

The source is a recording. The store is Redis for a replay into a workspace, or the memory of this process for a test of
rules. Applied entries are committed with the position in the recording, so a replay continues from its last commit.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from time import monotonic
from typing import Any, NamedTuple, Protocol

import structlog

from ragtide_aggregator.checkpoint.commit import Step
from ragtide_aggregator.checkpoint.halving import Halving, StepFailedError
from ragtide_aggregator.checkpoint.loading import Checkpoint
from ragtide_runtime.processes.waiting import sleep_or_stop

from .evidence_curve import EvidenceCurve
from .partition_replay import PartitionReplay
from .recorded_entries import RecordedBatch, RecordedEntries, ReplayPosition
from .selection import EntryCounts
from .speed import ReplayPace

log = structlog.get_logger("ragtide.replay")


class ReplayStore(Protocol):
    """Keeps the checkpoint of one partition of a replay."""

    async def load(self) -> Checkpoint:
        """Return the checkpoint; an empty state at the start of the stream before the first step."""

    async def write(self, step: Step) -> None:
        """Write all of a step, or raise an error."""


class ReplayProgress(NamedTuple):
    """Progress of a replay of metric events."""

    done: int
    total: int
    at: datetime | None = None
    """Time of the last replayed interaction."""
    complete: bool = False
    """Whether all entries were replayed, including feedback after the last event."""


Show = Callable[[ReplayProgress], None]


class ReplaySession:
    """Applies the entries of a source to a state for each partition, and commits each state to its store.

    Args:
        source: reads the recording.
        counted: numbers of its selected metric events, by `SCOPE_FIELDS`.
        feedback_window_s: seconds for which feedback finds its event, and waits for it.
        commit_s: most seconds between two commits.
        speed: pace of the replay.
    """

    def __init__(
        self,
        source: RecordedEntries,
        counted: EntryCounts,
        *,
        feedback_window_s: float,
        commit_s: float,
        speed: float | None,
        curves: Mapping[int, EvidenceCurve] | None = None,
    ) -> None:
        self.source = source
        self._counted = counted
        self._window_ms = int(feedback_window_s * 1000)
        self._commit_s = commit_s
        self._speed = speed
        self._curves = curves or {}
        self._halvings: defaultdict[int, Halving] = defaultdict(Halving)
        self._due = 0.0
        self.parts: dict[int, PartitionReplay] = {}
        """The partitions since the last call of `run`."""
        self.progress = ReplayProgress(0, counted.total)

    async def run(
        self,
        stores: Mapping[int, ReplayStore],
        stop: asyncio.Event,
        show: Show,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Replay from the last commits until the end, or until `stop` is set; then commit what was applied.

        Args:
            stop: set to end.
            show: shows the progress, after each commit.
            check: called often; raises an error once this process may no longer write to the stores.

        Raises:
            UnreadableRecordingError: a file of the recording is missing or damaged.
        """
        while True:
            self.parts = {partition: await self._open(partition, store) for partition, store in stores.items()}
            try:
                complete = await self._replay(stop, show, check)
                await self._commit()
            except StepFailedError as error:
                log.warning("searching for the entry that cannot be counted, from the last commit", reason=str(error))
                continue
            self._set_progress(None, complete=complete)
            return

    def counts(self) -> dict[str, Any]:
        """Return `n`, `population_size`, `complete`, rejected events, and feedback with the reasons for rejection."""
        counts = [part.counts for part in self.parts.values()]
        return {
            "n": self.progress.done,
            "population_size": self.progress.total,
            "complete": self.progress.complete,
            "refused": sum(count.refused for count in counts),
            "feedback": sum(count.feedback for count in counts),
            "feedback_refused": dict(sum((count.feedback_refused for count in counts), Counter())),
        }

    async def _open(self, partition: int, store: ReplayStore) -> PartitionReplay:
        checkpoint = await store.load()
        # In a thread: a pass over the feedback may take longer than a lease, which is renewed meanwhile.
        expected = await asyncio.to_thread(self.source.expected, partition, checkpoint.feedback_position)
        return PartitionReplay(
            store.write,
            checkpoint,
            window_ms=self._window_ms,
            expected=expected,
            size_of=self._counted.population_of,
            halving=self._halvings[partition],
        )

    async def _replay(self, stop: asyncio.Event, show: Show, check: Callable[[], None]) -> bool:
        pace, last = ReplayPace(self._speed), None
        self._due = monotonic() + self._commit_s

        async def turn() -> None:
            check()
            await asyncio.sleep(0)
            if monotonic() >= self._due:
                await self._commit()
                self._set_progress(last)
                show(self.progress)
                self._due = monotonic() + self._commit_s

        for batch in self._batches():
            at, part = batch.at, self.parts[batch.partition]
            last = at or last
            while at and (wait_s := pace.wait_s(at, monotonic())) > 0 and not stop.is_set():
                await sleep_or_stop(stop, min(wait_s, max(self._due - monotonic(), 0.01)))
                await turn()
            if stop.is_set():
                return False
            part.apply(batch)
            curve = self._curves.get(batch.partition)
            events = part.counts.events
            if curve is not None and at is not None and curve.is_due(at, events, after_cut=batch.table is not None):
                await part.commit()
                curve.look(part.state, at, events)
            if part.full:
                await self._commit()
            await turn()
        return True

    def _batches(self) -> Iterator[RecordedBatch]:
        if self._speed is not None or (self._curves and not self.source.in_tables):
            yield from self.source.read_one_by_one(self._positions)
            return
        if self._searching:
            for batch in self.source.read_one_by_one(self._positions):
                yield batch
                if not self._searching:
                    break
        cut = {partition: curve.cut for partition, curve in self._curves.items()}
        yield from self.source.read_after(self._positions, cut=cut)

    @property
    def _positions(self) -> dict[int, ReplayPosition]:
        return {partition: part.at for partition, part in self.parts.items()}

    @property
    def _searching(self) -> bool:
        return any(halving.part is not None for halving in self._halvings.values())

    async def _commit(self) -> None:
        for part in self.parts.values():
            await part.commit()

    def _set_progress(self, at: datetime | None, *, complete: bool = False) -> None:
        done = sum(part.counts.events for part in self.parts.values())
        self.progress = ReplayProgress(done, self._counted.total, at, complete)
