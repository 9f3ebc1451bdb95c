"""Measures a labeler on the bundled rows before it scores traffic: its rate, and the slopes of its numbers.

The rows with labels show the fall with unsupported claims; a sample of all rows, spoilt in known ways, that with each
corruption that does harm.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.slopes import UNSUPPORTED, Slope

from ..corruptions.interactions import CORRUPTIONS
from .corruptions import SpoiltRows
from .figures import SLOPE, measured_slope
from .running import Benchmark

ROWS: Final = 40
"""Rows that are spoilt in every way that applies: enough for an interval of about +-.15 of a slope."""

ADHERENCE: Final = "trace.adherence"

BUNDLED: Final = ("data", "demo_interactions.jsonl")
"""Place of the bundled rows in the package."""

HARMFUL: Final = tuple(name for name, corruption in CORRUPTIONS.items() if not corruption.harmless)
"""Names of the corruptions that do harm."""


class BundledSlopes:
    """The measurement of a labeler on the bundled rows.

    Args:
        settings: labeler and models.
        rows: number of rows that are spoilt.
    """

    def __init__(self, settings: Settings, *, rows: int = ROWS) -> None:
        self._settings = settings
        self._rows = rows
        self.labeler = LabelerId("", "", "")
        """The labeler, once its first row is labeled."""
        self.labeled = 0
        """Number of answers that are labeled so far."""
        self.rate: float | None = None
        """Answers per second, of those as they come; None before they are labeled."""
        self.slopes: dict[str, tuple[Slope, ...]] = {}
        """By metric; empty before the end."""
        self.problems: list[str] = []
        """The first problems of rows."""

    async def run(self) -> AsyncGenerator[int | None]:
        """Label the rows, and yield after every one how many follow; None while that is not known.

        Raises:
            RagtideError: the labeler cannot be used.
        """
        async with AsyncExitStack() as stack:
            path = Path(stack.enter_context(as_file(files("ragtide_offline").joinpath(*BUNDLED))))
            labeled = Benchmark(self._settings, [path])
            async for left in self._label(labeled, None):
                yield left
            self.labeler = labeled.result.labeler
            self.rate = labeled.result.counts["labeled"] / max(labeled.result.seconds, 1e-9)
            spoilt = SpoiltRows(self._settings, [path], only=HARMFUL, sample=self._rows)
            async for left in self._label(spoilt, sum(1 for _ in spoilt.asked())):
                yield left
        for _ in labeled.finish():
            pass
        self.problems = [*labeled.result.problems, *spoilt.result.problems]
        self.slopes = spoilt.slopes()
        for figures in labeled.figures:
            (figure,) = (figure for figure in figures.figures if figure.name == SLOPE)
            slope = measured_slope(UNSUPPORTED, figure, figures.n)
            if figures.metric == ADHERENCE and slope is not None:
                self.slopes[ADHERENCE] = (*self.slopes.get(ADHERENCE, ()), slope)

    async def _label(self, run: Benchmark | SpoiltRows, total: int | None) -> AsyncGenerator[int | None]:
        done = 0
        async with aclosing(run.run()) as steps:
            async for _ in steps:
                done += 1
                self.labeled += 1
                yield None if total is None else total - done
