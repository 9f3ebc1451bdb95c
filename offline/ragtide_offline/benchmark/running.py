"""Runs a labeler over labeled files, and returns the figures of its scores."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings

from ..score.scored_file import labeling_of
from ..score.scoring import Outcome, score_rows
from .figures import FEWEST, MetricFigures, SubsetScores, metric_figures
from .formats import read_labeled, stored_judges

PROBLEMS_KEPT: Final = 20
"""Most problems of rows that are told one by one."""


@dataclass(slots=True)
class _SubsetRows:
    """Scores of one metric in one subset, row by row."""

    predicted: list[float] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    judges: list[Mapping[str, float]] = field(default_factory=list)

    def arrays(self) -> SubsetScores:
        names = dict.fromkeys(name for row in self.judges for name in row)
        return SubsetScores(
            np.array(self.predicted),
            np.array(self.truth),
            np.array(self.questions),
            {name: np.array([row.get(name, np.nan) for row in self.judges]) for name in names},
        )


@dataclass(slots=True)
class BenchmarkRun:
    """The scores of a labeler on labeled rows so far. Texts are not kept."""

    labeler: str = ""
    """Name and version of the labeler."""
    seconds: float = 0.0
    """Time of labeling."""
    cost_usd: float = 0.0
    tokens: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Rows: `labeled`, those `without_truth`, which are left out, and those with `problems`."""
    problems: list[str] = field(default_factory=list)
    """The first problems of rows: file, row and reason."""
    absent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of rows with a true score of a metric that the labeler gave no score, by metric and reason."""
    _scores: dict[tuple[str, str], _SubsetRows] = field(default_factory=dict)

    async def run(self, settings: Settings, paths: Sequence[Path], *, limit: int | None = None) -> AsyncIterator[None]:
        """Label the rows of the files with the labeler of the settings, and yield after every row.

        Args:
            settings: labeler, profiles and endpoints.
            paths: labeled files.
            limit: most rows of each file; None for all.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or nothing can be labeled now.
        """
        waiting: deque[tuple[Path, Mapping[tuple[str, str], float]]] = deque()
        started = perf_counter()
        async with labeling_of(settings) as (label, labeler, at_once):
            self.labeler = f"{labeler.name} {labeler.version}"
            rows = self._labeled_rows(paths, limit, waiting)
            async with aclosing(score_rows(rows, label, labeler, at_once=at_once)) as outcomes:
                async for outcome in outcomes:
                    path, judges = waiting.popleft()
                    self._take(path, outcome, judges)
                    self.seconds = perf_counter() - started
                    yield

    def _labeled_rows(
        self, paths: Sequence[Path], limit: int | None, taken: deque[tuple[Path, Mapping[tuple[str, str], float]]]
    ) -> Iterator[Row]:
        """Yield the rows of the files with a true score; of each, `taken` gets the file and scores of other judges."""
        for path in paths:
            for row, fields in islice(read_labeled(path), limit):
                if row.interaction is not None and not row.interaction.gold_scores:
                    self.counts["without_truth"] += 1
                    continue
                taken.append((path, stored_judges(fields)))
                yield row

    def _take(self, path: Path, outcome: Outcome, judges: Mapping[tuple[str, str], float]) -> None:
        event, interaction = outcome.event, outcome.row.interaction
        if event is None or interaction is None:
            self.counts["problems"] += 1
            if len(self.problems) < PROBLEMS_KEPT:
                self.problems.append(f"{path}:{outcome.row.line}: {outcome.problem or outcome.row.problem}")
            return
        self.counts["labeled"] += 1
        self.cost_usd += event.cost_usd
        self.tokens += event.prompt_tokens + event.completion_tokens
        subset = interaction.segments.get("dataset", path.stem)
        for metric, truth in (interaction.gold_scores or {}).items():
            if metric not in event.scores:
                self.absent[metric, event.absent.get(metric, "not measured")] += 1
                continue
            found = self._scores.setdefault((metric, subset), _SubsetRows())
            found.predicted.append(event.scores[metric])
            found.truth.append(truth)
            found.questions.append(blake2b(interaction.question.encode(), digest_size=8).hexdigest())
            found.judges.append({judge: score for (judge, of), score in judges.items() if of == metric})

    def figures(self, *, confidence: float = 0.95, seed: int = 0) -> list[MetricFigures]:
        """Return the figures of every metric with enough rows."""
        metrics = dict.fromkeys(metric for metric, _ in self._scores)
        found = []
        for metric in metrics:
            subsets = {name: one.arrays() for (of, name), one in self._scores.items() if of == metric}
            if any(len(one.truth) >= FEWEST for one in subsets.values()):
                found.append(metric_figures(metric, subsets, confidence=confidence, seed=seed))
        return found

    def as_dict(self, figures: Sequence[MetricFigures]) -> dict[str, Any]:
        """Return the run and its figures, for programs."""
        return {
            "labeler": self.labeler,
            "rows": self.counts["labeled"],
            "without_truth": self.counts["without_truth"],
            "problems": self.counts["problems"],
            "seconds": self.seconds,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "absent": {f"{metric}: {reason}": count for (metric, reason), count in sorted(self.absent.items())},
            "metrics": [asdict(one) for one in figures],
        }
