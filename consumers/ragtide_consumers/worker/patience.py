"""Calls a labeler again and again while it is unavailable, so that interactions wait for it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from ragtide_schemas import RagInteraction

from ..labelers.outage import LabelerOutage
from ..labelers.protocol import LONGEST_WAIT_S, Labeler, LabelerUnavailable, Labeling, SampleUnavailable


@dataclass(frozen=True, slots=True)
class TimedLabeling:
    """A labeling, and the seconds that its labeler took for it, without waiting."""

    labeling: Labeling
    latency_s: float


class Patience:
    """Calls the labeler of all workers of a process, and waits while it is unavailable.

    Args:
        labeler: of the workers.
    """

    def __init__(self, labeler: Labeler) -> None:
        self.labeler = labeler
        self.outage = LabelerOutage(labeler.name, "interactions wait and none is lost")
        self._random = random.Random()  # noqa: S311  # jitter is no secret

    async def label(
        self, interaction: RagInteraction, *, before_waiting: Callable[[], Awaitable[None]] | None = None
    ) -> TimedLabeling:
        """Return the labeler's labels; wait for them as long as the labeler is unavailable.

        Args:
            interaction: to label.
            before_waiting: awaited once, before the first wait.

        Raises:
            SampleUnavailable: the interaction is of a sample whose labeler is unavailable: it must not hold up others.
        """
        waited = False
        while True:
            started = perf_counter()
            try:
                labeling = await self.labeler.label(interaction)
            except SampleUnavailable:
                self.outage.available()
                raise
            except LabelerUnavailable as error:
                self.outage.unavailable(error)
                if not waited and before_waiting is not None:
                    await before_waiting()
                waited = True
                await asyncio.sleep(self.wait_s(error))
            else:
                self.outage.available()
                return TimedLabeling(labeling, perf_counter() - started)

    def wait_s(self, error: LabelerUnavailable) -> float:
        """Return the seconds until the next call of a labeler that is unavailable."""
        # Waits differ a little, so that waiting interactions are not sent all at once.
        return max(min(error.resume_in_s, LONGEST_WAIT_S) * self._random.uniform(1.0, 1.25), 0.05)
