"""Runs labelers over labeled rows, and gathers their scores beside the labels. Texts are not kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_producers import FileOptions, Row
from ragtide_producers.files.columns import Mapped
from ragtide_producers.files.interactions import read_records
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricDeclaration, RagInteraction
from ragtide_schemas.declared import definition_of
from ragtide_schemas.suggestions import unknown

from ..agreement.predictions import Predictions, read_predictions
from ..benchmark.figures import question_digest
from ..benchmark.formats import read_labeled, stored_judges
from ..runs import LabelerRun, RunResult, drawn_places
from ..score.scoring import Outcome
from .worth import RATES, LabeledScores, LabelerWorth, is_free, worth_of

LABELS: Final = "give a number such as 0 or 1, or a word such as true and false, or pass and fail"

_Pair = tuple[float, float, str]
"""Score, label, and digest of the question."""


class LabelerTrial:
    """The scores of several labelers beside the labels of the same rows."""

    def __init__(self) -> None:
        self.declared: dict[str, MetricDeclaration] = {}
        """Declarations of metrics that are not ragtide's own."""
        self.prices: dict[LabelerId, float] = {}
        """US dollars for one row by estimate, of labelers none of whose rows was paid for now."""
        self._pairs: defaultdict[tuple[str, LabelerId], list[_Pair]] = defaultdict(list)
        self._absent: Counter[tuple[str, LabelerId]] = Counter()
        self._costs: defaultdict[LabelerId, list[float]] = defaultdict(list)

    def take(
        self,
        labeler: LabelerId,
        labels: Mapping[str, float],
        scores: Mapping[str, float],
        question: str,
        *,
        cost_usd: float | None = None,
    ) -> None:
        """Take the scores of a row.

        Args:
            labeler: that gave them.
            labels: of the row, by metric.
            scores: by metric; a label without a score counts as absent.
            question: of the row.
            cost_usd: US dollars that were paid for them; None if nothing was paid, or the price is not known.
        """
        if cost_usd is not None:
            self._costs[labeler].append(cost_usd)
        digest = question_digest(question)
        for metric, label in labels.items():
            if metric in scores:
                self._pairs[metric, labeler].append((scores[metric], label, digest))
            else:
                self._absent[metric, labeler] += 1

    def take_predictions(self, predictions: Predictions, rows: Iterable[RagInteraction]) -> int:
        """Take the scores of a file for rows with labels, and return for how many rows it has any.

        A row is found by pipeline and id, or by its id alone if that is not ambiguous.
        """
        self.declared |= predictions.declared
        by_id: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for key in predictions.scores:
            by_id[key[1]].append(key)
        count = 0
        for row in rows:
            key = (row.pipeline, row.interaction_id)
            keys = [key] if key in predictions.scores else by_id[row.interaction_id]
            if len(keys) == 1:
                count += 1
                scores, cost = predictions.scores[keys[0]], predictions.costs.get(keys[0])
                self.take(predictions.labeler, row.gold_scores or {}, scores, row.question, cost_usd=cost)
        return count

    @property
    def metrics(self) -> list[str]:
        """The metrics with labels and scores, in the order in which they came."""
        return [*dict.fromkeys(metric for metric, _ in self._pairs)]

    def check(self, metrics: Sequence[str] = ()) -> None:
        """Check that there is something to compare.

        Args:
            metrics: that are wanted; all unless given.

        Raises:
            ConfigurationError: no labeler gave a score of any metric with a label, or of one that is wanted.
        """
        labeled = dict.fromkeys([*self.metrics, *(metric for metric, _ in self._absent)])
        for metric in metrics:
            if metric not in labeled:
                raise ConfigurationError(f"--metric: {unknown('metric with labels', metric, labeled)}")
        missing = [metric for metric in metrics or labeled if metric not in self.metrics]
        if missing and (metrics or not self.metrics):
            raise ConfigurationError(
                f"the rows have labels of {', '.join(missing)}, and no labeler has a score of it: "
                "name a labeler that gives it with --labeler, or another metric with --map gold_scores.METRIC=COLUMN"
            )

    def scores(self) -> Iterator[LabeledScores]:
        """Yield the scores of every metric and labeler, metric by metric."""
        # Those that score every answer come first.
        ordered = sorted(self._pairs.items(), key=lambda item: not is_free(item[0][1].name))
        for metric in self.metrics:
            for (name, labeler), pairs in ordered:
                if name == metric:
                    predicted, truth, questions = zip(*pairs, strict=True)
                    costs = self._costs.get(labeler)
                    yield LabeledScores(
                        metric=metric,
                        labeler=labeler,
                        predicted=np.array(predicted, np.float64),
                        truth=np.array(truth, np.float64),
                        questions=np.array(questions, np.str_),
                        absent=self._absent[metric, labeler],
                        cost_usd=float(np.mean(costs)) if costs else self.prices.get(labeler),
                    )

    def worth(
        self,
        *,
        metrics: Sequence[str] = (),
        rates: Sequence[float] = RATES,
        traffic: float | None = None,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> Iterator[LabelerWorth]:
        """Yield what the numbers of every metric and labeler are worth; see `worth_of`.

        Args:
            metrics: only these; all unless given.
        """
        for scores in self.scores():
            if not metrics or scores.metric in metrics:
                definition = definition_of(scores.metric, self.declared)
                yield worth_of(scores, definition, rates=rates, traffic=traffic, confidence=confidence, seed=seed)


class LabeledRows:
    """The rows of files that have labels.

    Args:
        paths: of labeled files, as `ragtide trust figures` reads them.
        columns: columns of fields, as the user named them.
        sample: number of rows that are drawn, evenly from their subsets; None for all.
        seed: of the drawn rows.

    Raises:
        UnreadableFileError: a file cannot be read.
        ConfigurationError: no row has a label.
    """

    def __init__(
        self, paths: Sequence[Path], *, columns: Mapped | None = None, sample: int | None = None, seed: int = 0
    ) -> None:
        self.result = RunResult(seed)
        """Rows without labels, and problems of rows."""
        rows: list[tuple[Row, Mapping[tuple[str, str], float]]] = []
        names: list[tuple[str, str]] = []
        for path in paths:
            for row, fields in read_labeled(path, columns):
                item = row.interaction
                if item is None:
                    self.result.note(f"{path}:{row.line}: {row.problem}")
                elif not item.gold_scores:
                    unusable = next((name for name in row.left_out if name.partition(".")[0] == "gold_scores"), None)
                    if unusable is None:
                        self.result.counts["without_labels"] += 1
                    else:
                        self.result.note(f"{path}:{row.line}: {unusable} is no value of the metric: {LABELS}")
                else:
                    rows.append((row, stored_judges(fields)))
                    names.append((item.interaction_id, item.segments.get("dataset", path.stem)))
        if not rows:
            self._refuse(paths)
        self.rows = rows if sample is None else [rows[place] for place in drawn_places(names, sample, seed)]
        """Each with the scores of other judges in it, by judge and metric."""

    def _refuse(self, paths: Sequence[Path]) -> None:
        counts, files = self.result.counts, ", ".join(map(str, paths))
        if counts["problems"] and not counts["without_labels"]:
            raise ConfigurationError(f"no row of {files} can be read ({self.result.problems[0]}): correct the file")
        raise ConfigurationError(
            f'no row of {files} has a label: give gold_scores, such as {{"trace.adherence": 0}}, or name the column '
            "of the labels with --map gold_scores.trace.adherence=COLUMN"
        )

    def take_judges(self, trial: LabelerTrial) -> None:
        """Give a trial the scores of other judges that the rows have."""
        for row, judges in self.rows:
            item = row.interaction
            for judge in dict.fromkeys(judge for judge, _ in judges):
                scores = {metric: score for (of, metric), score in judges.items() if of == judge}
                labels = item.gold_scores if item is not None and item.gold_scores else {}
                known = {metric: label for metric, label in labels.items() if metric in scores}
                trial.take(LabelerId(judge, "", ""), known, scores, "" if item is None else item.question)


class TrialRun(LabelerRun[int]):
    """A run of one labeler over labeled rows, whose scores a trial takes.

    Args:
        settings: with the labeler.
        rows: with labels.
        trial: that takes the scores.
    """

    def __init__(self, settings: Settings, rows: LabeledRows, trial: LabelerTrial) -> None:
        super().__init__(settings, rows.result.seed)
        self._rows = rows.rows
        self._trial = trial
        self.result.counts["rows"] = len(self._rows)

    def asked(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows with labels."""
        yield from enumerate(row for row, _ in self._rows)

    def take(self, asked: int, outcome: Outcome) -> None:
        """Take the scores of a row beside its labels."""
        item, labeling = outcome.row.interaction, outcome.labeling
        where = f"row {outcome.row.line}" if item is None else item.interaction_id
        if not self.result.take(outcome, where) or outcome.event is None or item is None or labeling is None:
            return
        self._trial.declared |= labeling.declared
        paid = labeling.cost_usd if labeling.cost_usd and not labeling.counters.get("cache_hits") else None
        self._trial.take(
            self.result.labeler, item.gold_scores or {}, outcome.event.scores, item.question, cost_usd=paid
        )

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Leave the figures to the trial, which compares the labelers."""
        del confidence
        return iter(())


SCORE_LINE: Final = frozenset({"interaction_id", "labeler", "scores"})
"""Fields of a line that `ragtide score --json` has written."""


def is_score_file(path: Path) -> bool:
    """Return whether a file has scores and no texts, as `ragtide score --json` writes it.

    Raises:
        UnreadableFileError: the file cannot be read.
    """
    first: Mapping[str, Any] | None = next(
        (record.fields for record in islice(read_records(path, FileOptions()), 1)), None
    )
    return first is not None and first.keys() >= SCORE_LINE and "question" not in first


def take_score_file(path: Path, trial: LabelerTrial) -> int:
    """Give a trial the scores of a file, beside the gold scores in its lines; return the number of rows with both.

    Raises:
        UnusablePredictionsError: the file cannot be read, or a line is not a score.
        ConfigurationError: no line has gold scores.
    """
    count = 0
    for predictions in read_predictions(path):
        trial.declared |= predictions.declared
        for key, labels in predictions.gold.items():
            count += 1
            scores, cost = predictions.scores[key], predictions.costs.get(key)
            trial.take(predictions.labeler, labels, scores, key[1], cost_usd=cost)
    if not count:
        raise ConfigurationError(
            f"no line of {path} has gold_scores: give the rows with labels, and this file with --scores"
        )
    return count
