"""Runs a labeler over labeled files, and returns the figures of its scores."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings

from ..runs import LabelerRun
from ..score.scoring import Outcome
from .figures import FEWEST, MetricFigures, SubsetScores, metric_figures, question_digest
from .formats import read_labeled, stored_judges
from .preferences import PreferenceFigures, PreferencePairs, is_pair
from .spans import ComparedSpans, SpanFigures

Part = Literal["row", "again", "first answer", "second answer"]
"""What a row of a file is asked for: itself, itself with its documents in another order, or an answer of its pair."""

Asked = tuple[Path, Mapping[str, Any], Part]
"""File and fields of a row that the labeler is asked for, and its part."""

_Scored = tuple[float, float, str, Mapping[str, float], int]
"""Predicted and true score, digest of the question, scores of other judges, and characters of the response."""


class Benchmark(LabelerRun[Asked]):
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
        self._latest: list[tuple[str, str]] = []
        self._scores: defaultdict[tuple[str, str], list[_Scored]] = defaultdict(list)
        """By metric and subset."""
        self._reordered: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        """Scores with the documents in another order, by the place of the row in `_scores`."""

    def asked(self) -> Iterator[tuple[Asked, Row]]:
        """Yield the rows of the files with a true score, some of them again."""
        for path in self._paths:
            answer: Part = "second answer"
            for row, fields in islice(read_labeled(path), self._limit):
                if is_pair(fields):
                    answer = "first answer" if answer == "second answer" else "second answer"
                    yield (path, fields, answer), row
                    continue
                interaction = row.interaction
                if interaction is not None and not interaction.gold_scores:
                    self.result.counts["without_truth"] += 1
                    continue
                yield (path, fields, "row"), row
                if interaction is None or len(interaction.documents) < 2:
                    continue
                digest = blake2b(interaction.interaction_id.encode(), digest_size=4).digest()
                if int.from_bytes(digest, "big") < self._reorder * 2**32:
                    turned = {"documents": interaction.documents[::-1], "steps": None, "steps_left_out": None}
                    yield (path, fields, "again"), replace(row, interaction=interaction.model_copy(update=turned))

    def take(self, asked: Asked, outcome: Outcome) -> None:
        """Take the scores of a row beside its true ones."""
        path, fields, part = asked
        event, interaction = outcome.event, outcome.row.interaction
        if part == "again":
            if event is not None:
                self.result.counts["reordered"] += 1
                for place in self._latest:
                    self._reordered[place][len(self._scores[place]) - 1] = event.scores.get(place[0], float("nan"))
            return
        self._latest = []
        if part != "row":
            self._pairs.take(1 if part == "first answer" else 2, None if event is None else event.scores, fields)
        if not self.result.take(outcome, f"{path}:{outcome.row.line}") or event is None or interaction is None:
            return
        self.result.counts["rows"] += 1
        subset = interaction.segments.get("dataset", path.stem)
        if part == "row" and outcome.labeling is not None:
            self.compared_spans.take(subset, interaction, fields, outcome.labeling.labels)
        judges = stored_judges(fields)
        for metric, truth in (interaction.gold_scores or {}).items():
            if metric not in event.scores:
                self.absent[metric, event.absent.get(metric, "not measured")] += 1
                continue
            of_metric = {judge: score for (judge, of), score in judges.items() if of == metric}
            question = question_digest(interaction.question)
            self._scores[metric, subset].append(
                (event.scores[metric], truth, question, of_metric, len(interaction.response))
            )
            self._latest.append((metric, subset))

    def _arrays(self, metric: str, subset: str) -> SubsetScores:
        predicted, truth, questions, judges, lengths = zip(*self._scores[metric, subset], strict=True)
        names = dict.fromkeys(name for row in judges for name in row)
        reordered = self._reordered[metric, subset]
        return SubsetScores(
            np.array(predicted),
            np.array(truth),
            np.array(questions),
            {name: np.array([row.get(name, np.nan) for row in judges]) for name in names},
            np.array(lengths, np.float64),
            np.array([reordered.get(place, np.nan) for place in range(len(predicted))]),
        )

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Compute the figures, and yield after those of every metric with enough rows."""
        seed = self.result.seed
        for metric in dict.fromkeys(metric for metric, _ in self._scores):
            subsets = {name: self._arrays(of, name) for of, name in self._scores if of == metric}
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
