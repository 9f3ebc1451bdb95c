"""Runs a labeler over labeled files, and returns the figures of its scores."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from ragtide_consumers.labelers.judge.costs import PlannedCalls
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.file_cache import NAME as ANSWERS
from ragtide_producers import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from ..score.scored_file import labeling_of
from ..score.scoring import Outcome, score_rows
from .figures import FEWEST, MetricFigures, SubsetScores, metric_figures, question_digest
from .formats import read_labeled, stored_judges
from .preferences import PreferenceFigures, PreferencePairs, is_pair
from .spans import ComparedSpans, SpanFigures

PROBLEMS_KEPT: Final = 20
"""Most problems of rows that are reported one by one."""


@dataclass(slots=True)
class _SubsetRows:
    """Scores of one metric in one subset, row by row."""

    predicted: list[float] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    judges: list[Mapping[str, float]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    reordered: list[float] = field(default_factory=list)

    def arrays(self) -> SubsetScores:
        names = dict.fromkeys(name for row in self.judges for name in row)
        return SubsetScores(
            np.array(self.predicted),
            np.array(self.truth),
            np.array(self.questions),
            {name: np.array([row.get(name, np.nan) for row in self.judges]) for name in names},
            np.array(self.lengths, np.float64),
            np.array(self.reordered),
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A row that the labeler is asked for."""

    path: Path
    fields: Mapping[str, Any]
    """Fields of the row, or of the pair."""
    again: bool = False
    """Whether it is the row before, with its documents in another order."""
    place: int | None = None
    """Place of an answer in its pair, 1 or 2."""


def _is_in_share(row: Row, share: float) -> bool:
    name = row.interaction.interaction_id if row.interaction is not None else ""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") < share * 2**32


FREE: Final = ("local", "model")
"""Labelers that make no calls."""


@dataclass(frozen=True, slots=True)
class CostPlan:
    """The calls that a run would make, by estimate."""

    labeler: str
    rows: int
    calls: PlannedCalls
    has_price: bool
    """Whether the price is known; without one the dollars are 0."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan, for programs."""
        return {
            "labeler": self.labeler,
            "rows": self.rows,
            **asdict(self.calls),
            "cost_usd": self.calls.cost_usd if self.has_price else None,
        }


async def planned_cost(settings: Settings, rows: Iterable[Row], *, keeps_answers: bool = True) -> CostPlan:
    """Return the cost of labeling rows with the labeler of the settings, and label nothing.

    Args:
        settings: labeler and endpoints.
        rows: of files; rows with problems are passed over.
        keeps_answers: whether the labeler finds the answers of earlier runs in the data directory.

    Raises:
        ConfigurationError: the labeler's calls cannot be foreseen, or a setting is missing.
    """
    if settings.one_labeler not in ("judge", *FREE):
        raise ConfigurationError(
            f"--dry-run cannot foresee the calls of {settings.labeler}: it knows those of judge, and that "
            f"{' and '.join(FREE)} make none"
        )
    # Metrics of users make no calls that are known here.
    plain = settings.model_copy(update={"metrics": ()})
    answers = settings.data_dir / ANSWERS if keeps_answers else None
    async with labeler_of(plain, None, patient=False, answers=answers) as labeler:
        judge: Any = labeler if settings.labeler == "judge" else None
        count, calls = 0, PlannedCalls()
        for row in rows:
            if row.interaction is not None:
                count += 1
                calls += PlannedCalls() if judge is None else await judge.planned_calls(row.interaction)
        has_price = judge is None or judge.has_price
        return CostPlan(f"{labeler.name} {labeler.version}", count, calls, has_price)


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
    """Rows: `labeled`, those labeled again `reordered`, those `without_truth`, and those with `problems`."""
    problems: list[str] = field(default_factory=list)
    """The first problems of rows: file, row and reason."""
    absent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of rows with a true score of a metric that the labeler gave no score, by metric and reason."""
    preferences: PreferencePairs = field(default_factory=PreferencePairs)
    """Scores of pairs of answers between which people chose."""
    spans: ComparedSpans = field(default_factory=ComparedSpans)
    """Unsupported parts of responses, by the labeler and by the data."""
    _latest: list[tuple[str, _SubsetRows]] = field(default_factory=list)
    _scores: dict[tuple[str, str], _SubsetRows] = field(default_factory=dict)

    async def run(
        self, settings: Settings, paths: Sequence[Path], *, limit: int | None = None, reorder: float = 0.0
    ) -> AsyncIterator[None]:
        """Label the rows of the files with the labeler of the settings, and yield after every row.

        Args:
            settings: labeler, profiles and endpoints.
            paths: labeled files.
            limit: most rows of each file; None for all.
            reorder: share of the rows, chosen by a hash, that are labeled again with their documents in reverse order.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or nothing can be labeled now.
        """
        waiting: deque[_Asked] = deque()
        started = perf_counter()
        async with labeling_of(settings, keep_answers=True) as (label, labeler, at_once):
            self.labeler = f"{labeler.name} {labeler.version}"
            rows = self._labeled_rows(paths, limit, waiting, reorder)
            async with aclosing(score_rows(rows, label, labeler, at_once=at_once)) as outcomes:
                async for outcome in outcomes:
                    asked = waiting.popleft()
                    if asked.again:
                        self._take_again(outcome)
                    else:
                        self._take(asked, outcome)
                    self.seconds = perf_counter() - started
                    yield

    async def plan(
        self, settings: Settings, paths: Sequence[Path], *, limit: int | None = None, reorder: float = 0.0
    ) -> CostPlan:
        """Return the cost of a run, and label nothing; arguments are those of `run`.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or the labeler's calls cannot be foreseen.
        """
        return await planned_cost(settings, self._labeled_rows(paths, limit, deque(), reorder))

    def _labeled_rows(
        self, paths: Sequence[Path], limit: int | None, asked: deque[_Asked], reorder: float
    ) -> Iterator[Row]:
        """Yield the rows of the files with a true score, some of them again; `asked` gets the facts of each."""
        for path in paths:
            place = 2
            for row, fields in islice(read_labeled(path), limit):
                if is_pair(fields):
                    place = 3 - place
                    asked.append(_Asked(path, fields, place=place))
                    yield row
                    continue
                if row.interaction is not None and not row.interaction.gold_scores:
                    self.counts["without_truth"] += 1
                    continue
                asked.append(_Asked(path, fields))
                yield row
                if row.interaction is not None and len(row.interaction.documents) > 1 and _is_in_share(row, reorder):
                    documents = row.interaction.documents[::-1]
                    asked.append(_Asked(path, fields, again=True))
                    yield replace(
                        row, interaction=row.interaction.model_copy(update={"documents": documents, "steps": None})
                    )

    def _take(self, asked: _Asked, outcome: Outcome) -> None:
        event, interaction = outcome.event, outcome.row.interaction
        self._latest = []
        if asked.place is not None:
            self.preferences.take(asked.place, None if event is None else event.scores, asked.fields)
        if event is None or interaction is None:
            self.counts["problems"] += 1
            if len(self.problems) < PROBLEMS_KEPT:
                self.problems.append(f"{asked.path}:{outcome.row.line}: {outcome.problem or outcome.row.problem}")
            return
        self.counts["labeled"] += 1
        self.cost_usd += event.cost_usd
        self.tokens += event.prompt_tokens + event.completion_tokens
        subset = interaction.segments.get("dataset", asked.path.stem)
        if asked.place is None and outcome.labeling is not None:
            self.spans.take(subset, interaction, asked.fields, outcome.labeling.labels)
        judges = stored_judges(asked.fields)
        for metric, truth in (interaction.gold_scores or {}).items():
            if metric not in event.scores:
                self.absent[metric, event.absent.get(metric, "not measured")] += 1
                continue
            found = self._scores.setdefault((metric, subset), _SubsetRows())
            found.predicted.append(event.scores[metric])
            found.truth.append(truth)
            found.questions.append(question_digest(interaction.question))
            found.judges.append({judge: score for (judge, of), score in judges.items() if of == metric})
            found.lengths.append(len(interaction.response))
            found.reordered.append(float("nan"))
            self._latest.append((metric, found))

    def _take_again(self, outcome: Outcome) -> None:
        """Take the scores of the latest row with its documents in another order."""
        if outcome.event is None:
            return
        self.counts["reordered"] += 1
        self.cost_usd += outcome.event.cost_usd
        self.tokens += outcome.event.prompt_tokens + outcome.event.completion_tokens
        for metric, found in self._latest:
            found.reordered[-1] = outcome.event.scores.get(metric, float("nan"))

    def figures(self, *, confidence: float = 0.95, seed: int = 0) -> list[MetricFigures]:
        """Return the figures of every metric with enough rows."""
        metrics = dict.fromkeys(metric for metric, _ in self._scores)
        found = []
        for metric in metrics:
            subsets = {name: scores.arrays() for (of, name), scores in self._scores.items() if of == metric}
            if any(len(subset.truth) >= FEWEST for subset in subsets.values()):
                found.append(metric_figures(metric, subsets, confidence=confidence, seed=seed))
        return found

    def as_dict(
        self,
        figures: Sequence[MetricFigures],
        preferences: Sequence[PreferenceFigures],
        spans: SpanFigures | None,
    ) -> dict[str, Any]:
        """Return the run and its figures, for programs."""
        return {
            "labeler": self.labeler,
            "rows": self.counts["labeled"],
            "reordered": self.counts["reordered"],
            "without_truth": self.counts["without_truth"],
            "problems": self.counts["problems"],
            "seconds": self.seconds,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "absent": {f"{metric}: {reason}": count for (metric, reason), count in sorted(self.absent.items())},
            "metrics": [asdict(figure) for figure in figures],
            "preferences": [asdict(preference) for preference in preferences],
            "unsupported_spans": None if spans is None else asdict(spans),
        }
