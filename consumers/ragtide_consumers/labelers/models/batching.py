"""Makes batches of the inputs of all interactions in work, and runs the model in a thread of its own."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.labelers import ModelsSettings

from .session import Logits, ModelSession
from .tokens import ModelInput

BATCH_WAIT_S: Final = 0.005
"""Seconds for which a batch that is not full waits for other interactions: less than one input takes."""

ROUND: Final = 8
"""Batches for which inputs are sorted together: inputs of similar length make batches with little padding."""


class _Job:
    """The inputs of one interaction, and their results."""

    def __init__(self, inputs: Sequence[ModelInput]) -> None:
        self.inputs = inputs
        self.taken = 0
        self.logits: dict[int, Logits] = {}
        self.result: asyncio.Future[list[Logits]] = asyncio.get_running_loop().create_future()

    def finish(self, place: int, logits: Logits) -> None:
        """Take the result of one input."""
        self.logits[place] = logits
        if len(self.logits) == len(self.inputs) and not self.result.done():
            self.result.set_result([self.logits[number] for number in range(len(self.inputs))])

    def fail(self, error: Exception) -> None:
        """Fail for all inputs."""
        if not self.result.done():
            self.result.set_exception(error)


class Batcher:
    """Runs the inputs of several callers in common batches. All calls must be in one event loop.

    A batch is made at once if there are inputs enough; otherwise it waits `BATCH_WAIT_S`. Callers take turns, so that
    an interaction with many inputs does not delay the others until it is done.
    """

    def __init__(self, session: ModelSession, settings: ModelsSettings) -> None:
        self._session = session
        self._settings = settings
        self._jobs: deque[_Job] = deque()
        """Jobs with inputs that are in no batch yet."""
        self._unfinished: set[_Job] = set()
        self._closed = False
        self._waiting = 0
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "ragtide-model")
        self.batches = 0
        """Number of batches so far."""

    async def run(self, inputs: Sequence[ModelInput]) -> list[Logits]:
        """Return the model's numbers for each input.

        Raises:
            Exception: the model failed on one of the inputs.
            RuntimeError: the batcher was closed before the call.
            CancelledError: the batcher was closed during the call.
        """
        if self._closed:
            raise RuntimeError("the model is closed: its labeler has ended")
        if not inputs:
            return []
        job = _Job(inputs)
        self._jobs.append(job)
        self._unfinished.add(job)
        self._waiting += len(inputs)
        if self._waiting >= self._settings.batch:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        try:
            return await job.result
        finally:
            self._unfinished.discard(job)

    async def aclose(self) -> None:
        """End the work; callers that wait are cancelled. The thread finishes its batch and the result is discarded."""
        self._closed = True
        if self._task is not None:
            await end(self._task)
        for job in tuple(self._unfinished):
            job.result.cancel()
        self._jobs.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        try:
            while self._jobs:
                if self._waiting < self._settings.batch:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._full.wait(), BATCH_WAIT_S)
                for batch in self._next_round():
                    await self._run(batch)
        except Exception as error:  # noqa: BLE001 - a bug here: no caller may wait for a batch that is never made
            self._jobs.clear()
            self._waiting = 0
            for job in tuple(self._unfinished):
                job.fail(error)

    def _next_round(self) -> list[list[tuple[_Job, int]]]:
        size = self._settings.batch
        taken: list[tuple[_Job, int]] = []
        while self._jobs and len(taken) < ROUND * size:
            job = self._jobs.popleft()
            if job.result.done():  # its caller was cancelled, or another batch of it failed
                self._waiting -= len(job.inputs) - job.taken
                continue
            places = range(job.taken, min(job.taken + size, len(job.inputs)))
            taken += [(job, place) for place in places]
            job.taken = places.stop
            self._waiting -= len(places)
            if job.taken < len(job.inputs):
                self._jobs.append(job)
        if self._waiting < size:
            self._full.clear()
        taken.sort(key=lambda place: place[0].inputs[place[1]].n_tokens)
        return list(_cut_batches(taken, size, self._settings.batch_tokens))

    async def _run(self, batch: Sequence[tuple[_Job, int]]) -> None:
        batch = [(job, place) for job, place in batch if not job.result.done()]
        if not batch:
            return
        inputs = [job.inputs[place] for job, place in batch]
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._session.run, inputs)
            self.batches += 1
            for (job, place), model_input, logits in zip(batch, inputs, results, strict=True):
                # A copy, because a view would keep the whole batch in memory.
                job.finish(place, logits[: model_input.n_tokens].copy() if logits.ndim > 1 else logits.copy())
        except Exception as error:  # noqa: BLE001 - the library raises exceptions of its own; callers get them
            if len(batch) == 1:
                batch[0][0].fail(error)
                return
            # One input may be the cause, and the other interactions must not fail with it.
            for single in batch:
                await self._run([single])


def _cut_batches(taken: Sequence[tuple[_Job, int]], most: int, most_tokens: int) -> Iterator[list[tuple[_Job, int]]]:
    batch: list[tuple[_Job, int]] = []
    for job, place in taken:
        # The input is the longest so far, so it decides the length of the batch.
        tokens = job.inputs[place].n_tokens * (len(batch) + 1)
        if batch and (len(batch) == most or tokens > most_tokens):
            yield batch
            batch = []
        batch.append((job, place))
    if batch:
        yield batch
