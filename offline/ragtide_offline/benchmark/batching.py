"""Asks the judge about files through batches, round by round, until every answer that can be known is stored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ragtide_consumers.labelers.judge.costs import BatchProgress, BatchRequest, ShowBatch
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.file_cache import NAME as ANSWERS
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from .formats import read_labeled

TRIES: Final = 3
"""Batches that a request may be in before it is left to ordinary calls."""


@dataclass(slots=True)
class BatchRun:
    """The result of all batches of a run."""

    stored: int = 0
    """Answers that were stored."""
    cost_usd: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    """Reason by key of each request that stays without an answer."""
    waiting: BatchProgress | None = None
    """The batch that has not ended; None if everything is done."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result, for programs."""
        waiting = self.waiting
        return {
            "stored": self.stored,
            "cost_usd": self.cost_usd,
            "failed": len(self.failed),
            "reasons": dict(Counter(self.failed.values()).most_common(5)),
            "waiting": None if waiting is None else {"batch": waiting.id, "status": waiting.status},
        }


async def ask_in_batches(
    settings: Settings, paths: Sequence[Path], *, limit: int | None, wait: bool, poll_s: float, show: ShowBatch
) -> BatchRun:
    """Ask the judge about all rows of files whose answers are not stored, and store the answers.

    Args:
        paths: files of interactions.
        limit: most rows of each file; None for all.
        wait: whether to wait until the batches end.
        poll_s: seconds between two looks.
        show: called with the progress of a batch.

    Raises:
        RagtideError: a file or a setting is wrong, the endpoint has no batches, or a batch failed.
    """
    # The client takes longer to import than most commands run.
    from ragtide_consumers.labelers.judge.batches import JudgeBatches  # noqa: PLC0415

    if settings.judge.cache_ttl_s <= 0:
        raise ConfigurationError("judge.cache_ttl_s is 0, so no answer would be stored: set it to some days in seconds")
    plain = settings.with_labeler("judge").model_copy(update={"metrics": ()})
    run, tries = BatchRun(), Counter[str]()
    async with labeler_of(plain, None, patient=False, answers=settings.data_dir / ANSWERS) as labeler:
        judge: Any = labeler
        batches = JudgeBatches(judge.client, settings.data_dir, poll_s=poll_s)
        try:
            with batches.alone():
                while True:
                    result = await batches.finish(wait=wait, show=show)
                    run.stored += result.stored
                    run.cost_usd += result.cost_usd
                    run.failed |= result.failed
                    run.waiting = result.waiting
                    if run.waiting is not None:
                        return run
                    missing = await _missing(judge, paths, limit)
                    for key in missing:
                        if tries[key] >= TRIES:
                            run.failed.setdefault(key, f"{TRIES} batches ended without an answer")
                    wanted = [request for key, request in missing.items() if key not in run.failed]
                    if not wanted:
                        return run
                    count = await batches.begin(wanted)
                    tries.update(request.key for request in wanted[:count])
        finally:
            await batches.aclose()


async def _missing(judge: Any, paths: Sequence[Path], limit: int | None) -> dict[str, BatchRequest]:
    requests: dict[str, BatchRequest] = {}
    for path in paths:
        for number, (row, _) in enumerate(read_labeled(path)):
            if limit is not None and number >= limit:
                break
            if row.interaction is not None:
                requests |= {request.key: request for request in await judge.uncached_requests(row.interaction)}
    return requests
