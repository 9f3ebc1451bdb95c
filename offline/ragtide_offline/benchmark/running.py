"""Runs a labeler over labeled files, and returns the figures of its scores."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent, RagInteraction

from ..runs import LabelerRun
from ..score.scoring import Outcome
from .figures import FEWEST, MetricFigures, SubsetScores, metric_figures, question_digest
from .formats import read_labeled, stored_judges
from .preferences import PreferenceFigures, PreferencePairs, is_pair
from .spans import ComparedSpans, SpanFigures


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


class Benchmark(LabelerRun[_Asked]):
    """A run over labeled rows, whose scores are compared with the true ones. Texts are not kept.

    Args:
        settings: labeler, profiles and endpoints.
        paths: labeled files.
        limit: most rows of each file; None for all.
        reorder: share of the rows, chosen by a hash, that are labeled again with their documents in reverse order.
    """

    def __init__(
        self,
        settings: Settings,
        paths: Sequence[Path],
        *,
        limit: int | None = None,
        reorder: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(settings, seed)
        self._paths = paths
        self._limit = limit
        self._reorder = reorder
        self.result.counts.update(rows=0, reordered=0, without_truth=0)
        self.absent: Counter[tuple[str, str]] = Counter()
        """Number of rows with a true score of a metric that the labeler gave no score, by metric and reason."""
        self.compared_spans = ComparedSpans()
        """Unsupported parts of responses, by the labeler and by the data."""
        self.figures: list[MetricFigures] = []
        """Of every metric with enough rows."""
        self.preferences: list[PreferenceFigures] = []
        self.spans: SpanFigures | None = None
        self._pairs = PreferencePairs()
        self._latest: list[tuple[str, _SubsetRows]] = []
        self._scores: dict[tuple[str, str], _SubsetRows] = {}

    def asked(self) -> Iterator[tuple[_Asked, Row]]:
        """Yield the rows of the files with a true score, some of them again."""
        for path in self._paths:
            place = 2
            for row, fields in islice(read_labeled(path), self._limit):
                if is_pair(fields):
                    place = 3 - place
                    yield _Asked(path, fields, place=place), row
                    continue
                interaction = row.interaction
                if interaction is not None and not interaction.gold_scores:
                    self.result.counts["without_truth"] += 1
                    continue
                yield _Asked(path, fields), row
                if interaction is not None and len(interaction.documents) > 1 and self._is_asked_again(interaction):
                    turned = {"documents": interaction.documents[::-1], "steps": None}
                    yield (
                        _Asked(path, fields, again=True),
                        replace(row, interaction=interaction.model_copy(update=turned)),
                    )

    def _is_asked_again(self, interaction: RagInteraction) -> bool:
        digest = blake2b(interaction.interaction_id.encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") < self._reorder * 2**32

    def take(self, asked: _Asked, outcome: Outcome) -> None:
        """Take the scores of a row beside its true ones."""
        event, interaction = outcome.event, outcome.row.interaction
        if asked.again:
            self._take_again(event)
            return
        self._latest = []
        if asked.place is not None:
            self._pairs.take(asked.place, None if event is None else event.scores, asked.fields)
        if not self.result.take(outcome, f"{asked.path}:{outcome.row.line}") or event is None or interaction is None:
            return
        self.result.counts["rows"] += 1
        subset = interaction.segments.get("dataset", asked.path.stem)
        if asked.place is None and outcome.labeling is not None:
            self.compared_spans.take(subset, interaction, asked.fields, outcome.labeling.labels)
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

    def _take_again(self, event: MetricEvent | None) -> None:
        if event is None:
            return
        self.result.counts["reordered"] += 1
        for metric, found in self._latest:
            found.reordered[-1] = event.scores.get(metric, float("nan"))

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Compute the figures, and yield after those of every metric with enough rows."""
        seed = self.result.seed
        for metric in dict.fromkeys(metric for metric, _ in self._scores):
            subsets = {name: scores.arrays() for (of, name), scores in self._scores.items() if of == metric}
            if any(len(subset.truth) >= FEWEST for subset in subsets.values()):
                self.figures.append(metric_figures(metric, subsets, confidence=confidence, seed=seed))
                yield
        self.preferences = self._pairs.figures(confidence=confidence, seed=seed)
        self.spans = self.compared_spans.figures(confidence=confidence, seed=seed)
        absent = sorted(self.absent.items())
        self.result.facts = {"absent": {f"{metric}: {reason}": count for (metric, reason), count in absent}}
        self.result.tables = {
            "metrics": self.figures,
            "preferences": self.preferences,
            "unsupported_spans": self.spans,
        }
