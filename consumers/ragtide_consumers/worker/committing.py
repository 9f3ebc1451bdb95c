"""The loop that commits finished results, many in one round trip, and tries again until Redis answers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from redis import RedisError

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_schemas import Reason

from .entries import StreamEntry
from .result_export import ResultExport
from .results import CommitOutcome, LabeledEntry, RejectedEntry, Result, ResultCommitter
from .telemetry import WorkerTelemetry

MOST: Final = 200
"""Most results in one round trip."""

FAILED: Final = "failed"
"""Outcome of a try in which the labeler failed, besides the outcomes of entries."""

log = structlog.get_logger("ragtide.worker")

Finished = tuple[StreamEntry, Result]
"""An entry and its result."""


class CommitLoop:
    """Commits results in the order in which they were added.

    Args:
        committer: of the partition.
        release: called with each entry when its result has been committed.
        attempt: logs an outage of Redis once.
        telemetry: of the workers of the process.
        labeler: its name, for the counters.
        heartbeat: of the loop.
        export: sends results as spans; None for not at all.
    """

    def __init__(
        self,
        committer: ResultCommitter,
        *,
        release: Callable[[StreamEntry], None],
        attempt: Attempt,
        telemetry: WorkerTelemetry,
        labeler: str,
        heartbeat: Heartbeat,
        export: ResultExport | None = None,
    ) -> None:
        self._committer = committer
        self._release = release
        self._attempt = attempt
        self._telemetry = telemetry
        self._outcomes = telemetry.outcomes(labeler, [*CommitOutcome, FAILED])
        self._heartbeat = heartbeat
        self._export = export
        self._log_limit = LogLimit()
        self._backoff = Backoff()
        self._queue: asyncio.Queue[Finished] = asyncio.Queue()
        self.counts: Counter[str] = Counter()
        """Number of results by outcome."""

    def add(self, entry: StreamEntry, result: Result) -> None:
        """Add the result of an entry to be committed."""
        self._queue.put_nowait((entry, result))

    async def wait_empty(self) -> None:
        """Wait until every result that was added has been committed."""
        await self._queue.join()

    def labeling_failed(self) -> None:
        """Count a try in which the labeler failed."""
        self._outcomes[FAILED].inc()

    async def run(self) -> None:
        """Commit results until cancelled."""
        while True:
            with self._heartbeat.idle("waiting for results"):
                batch = [await self._queue.get()]
            while len(batch) < MOST and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                duplicates = await self._commit(batch)
                if duplicates:
                    await self._commit(duplicates)
            finally:
                for entry, _ in batch:
                    self._release(entry)
                    self._queue.task_done()

    async def _commit(self, batch: Sequence[Finished]) -> list[Finished]:
        """Commit results and return the duplicates among them, as rejected entries that are still to be committed."""
        while True:
            try:
                outcomes = await self._committer.commit([result for _, result in batch])
            except RedisError as error:
                # Safe to repeat: an entry that was acknowledged the first time is not emitted again.
                self._heartbeat.failed(f"committing results fails: {error}")
                self._attempt.failed(error, results=len(batch))
                await asyncio.sleep(self._backoff.pause_s())
                continue
            self._backoff.succeeded()
            self._attempt.succeeded()
            break
        duplicates: list[Finished] = []
        for (entry, result), outcome in zip(batch, outcomes, strict=True):
            self._count(result, outcome)
            if outcome is CommitOutcome.EMITTED and isinstance(result, LabeledEntry) and self._export is not None:
                self._export.emit(result.event, result.target)
            if outcome is CommitOutcome.DUPLICATE and isinstance(result, LabeledEntry):
                duplicates.append((entry, self._duplicate(entry, result)))
            elif outcome is CommitOutcome.REJECTED and isinstance(result, RejectedEntry):
                self._log_rejected(result)
        return duplicates

    def _duplicate(self, entry: StreamEntry, result: LabeledEntry) -> RejectedEntry:
        detail = (
            f"another entry of pipeline {result.event.pipeline} already has interaction_id "
            f"{result.event.interaction_id}: give every interaction an id of its own"
        )
        return self._committer.rejected(entry, Reason.DUPLICATE, detail, result.event.interaction_id)

    def _log_rejected(self, result: RejectedEntry) -> None:
        self._log_limit.warning(
            log,
            result.dead_letter.reason,
            "entry rejected: it is a dead letter now, see ragtide dead-letters",
            entry_id=result.entry_id,
            interaction_id=result.interaction_id,
            reason=result.dead_letter.reason,
            detail=result.dead_letter.detail,
        )

    def _count(self, result: Result, outcome: CommitOutcome) -> None:
        self.counts[outcome] += 1
        reason = result.dead_letter.reason if isinstance(result, RejectedEntry) else None
        if outcome is CommitOutcome.REJECTED:
            self._telemetry.dead_letters.labels(str(reason)).inc()
        # A duplicate is committed twice, the second time as a dead letter, and counted once.
        if reason is not Reason.DUPLICATE:
            self._outcomes[outcome].inc()
