"""Labels rows, many at once, or takes the labels in the file; yields metric events in the order of the rows."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from ragtide_consumers.labelers.event import labeling_failed, metric_event
from ragtide_consumers.labelers.protocol import LabelerId, LabelerUnavailable, Labeling
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, OverBudget
from ragtide_consumers.metrics.ragchecker import RAGCHECKER, ragchecker_metrics
from ragtide_consumers.metrics.trace import SENTENCES, TRACE, trace_metrics
from ragtide_producers import Row
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.user_code import error_text
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import InvalidEntryError, MetricEvent, RagInteraction, Reason, SentenceLabels, utc_now
from ragtide_schemas.limits import ENTRY_MAX_BYTES

FAILURES_IN_A_ROW: Final = 20
"""Scoring stops after this number of failed interactions in a row."""

STARTED_TOGETHER: Final = 16
"""Rows that are prepared before the calls of those before them are sent."""

Label = Callable[[Row], Awaitable[Labeling]]
"""Labels the interaction of a row."""

STORED: Final = "stored"
"""Name of the labeler in metric events whose labels are from the file."""


class ScoringStopped(RagtideError):  # noqa: N818  # reads as the state it names
    """Scoring ended before the end of the file, because no more rows can be labeled now."""


class CostLimitReached(ScoringStopped):
    """The next call would exceed the limit of cost of this run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one row: an event, or a problem."""

    row: Row
    event: MetricEvent | None = None
    labeling: Labeling | None = None
    problem: str | None = None


async def score_rows(
    rows: Iterable[Row], label: Label, labeler: LabelerId, *, at_once: int, worker: Settings | None = None
) -> AsyncGenerator[Outcome]:
    """Yield the outcome of every row, in order.

    A row that cannot be labeled has a problem, and the next rows are still labeled. A refused key or a reached spend
    limit stops scoring, because every further row would fail in the same way. The rows in flight are finished and
    yielded first, because their labels are paid for.

    Args:
        rows: rows of a file; rows with problems are passed on.
        label: labels one row.
        labeler: id of the labeler, for the events.
        at_once: rows in flight.
        worker: settings of the label worker in whose place the rows are scored, so that no row ends in another way than
            there: a row whose labeler fails is labeled again, up to `max_deliveries` times, and is then a dead letter,
            however many follow each other. A row that a worker refuses to read is one, too; scoring stops if the
            labeler is unavailable. The problem of a row begins with its reason as a code.

    Raises:
        CostLimitReached: the limit of cost of the run is reached.
        ScoringStopped: no more rows can be labeled now.
    """
    waiting: deque[asyncio.Task[Outcome]] = deque()
    iterator = iter(rows)
    failed = 0
    try:
        while True:
            while len(waiting) < at_once and (row := next(iterator, None)) is not None:
                waiting.append(asyncio.create_task(_score(row, label, labeler, worker)))
                if len(waiting) % STARTED_TOGETHER == 0:
                    await asyncio.sleep(0)
            if not waiting:
                return
            try:
                outcome = await waiting[0]
            except ScoringStopped:
                async for finished in _in_order(waiting):
                    yield finished
                raise
            waiting.popleft()
            failed = failed + 1 if outcome.problem is not None and outcome.row.interaction is not None else 0
            yield outcome
            if failed >= FAILURES_IN_A_ROW and worker is None:
                async for finished in _in_order(waiting):
                    yield finished
                raise ScoringStopped(
                    f"{failed} interactions in a row could not be labeled. The last problem: {outcome.problem}. Remove "
                    "the cause, then run the same command again"
                )
    finally:
        for task in waiting:
            await end(task)


async def _in_order(waiting: deque[asyncio.Task[Outcome]]) -> AsyncIterator[Outcome]:
    while waiting:
        try:
            outcome = await waiting[0]
        except ScoringStopped:
            outcome = None
        waiting.popleft()
        if outcome is not None and outcome.event is not None:
            yield outcome


async def _score(row: Row, label: Label, labeler: LabelerId, worker: Settings | None) -> Outcome:
    interaction = row.interaction
    if interaction is None:
        return Outcome(row, problem=row.problem)
    if worker is not None and (refusal := _refusal(interaction)):
        return Outcome(row, problem=refusal)
    problem = ""
    for _ in range(1 if worker is None else worker.max_deliveries):
        started = perf_counter()
        try:
            labeling = await label(row)
            latency_s = perf_counter() - started
            covariates = () if worker is None else worker.computed_covariates
            event = metric_event(
                interaction, labeler, labeling, labeled_at=utc_now(), latency_s=latency_s, covariates=covariates
            )
        except ScoringStopped:
            raise
        except (EndpointMisconfigured, OverBudget) as error:
            raise ScoringStopped(f"{error}; then run the same command again") from None
        except LabelerUnavailable as error:
            if worker is not None:
                raise ScoringStopped(f"{error}; then run the same command again") from None
            return Outcome(row, problem=str(error))
        except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: a bad row must not stop the file
            problem = error_text(error)
        else:
            return Outcome(row, event, labeling)
    if worker is not None:
        failed = labeling_failed(labeler.name, worker.max_deliveries, problem)
        return Outcome(row, problem=f"{Reason.LABELING_FAILED}: {failed}")
    return Outcome(row, problem=f"labeling failed with {problem}")


def _refusal(interaction: RagInteraction) -> str:
    payload = interaction.encode()
    if len(payload) <= ENTRY_MAX_BYTES:
        return ""
    try:
        RagInteraction.decode(payload)
    except InvalidEntryError as error:
        return f"{error.reason}: {error.detail}"
    return ""


def stored_labeling(row: Row, *, profile: str, claim_profile: str) -> Labeling:
    """Return the scores of a row, computed from its own labels.

    Raises:
        ValueError: the row has no labels.
    """
    if not row.labels:
        raise ValueError("the row has no labels: use another labeler, or give RAGBench rows or RAGChecker's outputs")
    scores: dict[str, float] = {}
    absent: dict[str, str] = {}
    profiles: list[str] = []
    for labels in row.labels:
        if isinstance(labels, SentenceLabels):
            metrics, family, used = trace_metrics(labels, profile=profile), TRACE, profile
        else:
            metrics, family, used = ragchecker_metrics(labels, profile=claim_profile), RAGCHECKER, claim_profile
        by_name, missing = metrics.by_qualified_name(family)
        scores |= by_name | {SENTENCES + name: count for name, count in metrics.counts.items()}
        absent |= missing
        profiles.append(used)
    return Labeling(scores, absent, labels=row.labels, by=LabelerId(STORED, "1", "+".join(profiles)))
