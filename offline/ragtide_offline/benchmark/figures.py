"""Figures of a benchmark: of every subset, and their mean, with bootstrap intervals. Arrays in, numbers out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.comparisons.agreement import auroc, rmse, slope, spearman
from ragtide_aggregator.statistics.comparisons.bootstrap import DEFINED_SHARE, Measured, resamples
from ragtide_schemas.slopes import Slope

Floats = NDArray[np.float64]

FEWEST: Final = 20
"""Fewest rows of a subset, and of a judge, for figures."""

BINS: Final = 10
"""Bins of the calibration error."""


@dataclass(frozen=True, slots=True)
class SubsetScores:
    """Predicted and true scores of one metric in one subset, n values each."""

    predicted: Floats
    truth: Floats
    questions: NDArray[np.str_]
    judges: Mapping[str, Floats]
    """Scores of other judges by name, NaN where they have none."""
    lengths: Floats | None = None
    """Characters of each response."""
    reordered: Floats | None = None
    """Scores with the documents in another order, NaN where they were not asked for."""

    def part(self, chosen: NDArray[np.bool_]) -> "SubsetScores":
        """Return the chosen rows, without the scores of other judges."""
        return SubsetScores(self.predicted[chosen], self.truth[chosen], self.questions[chosen], {})


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the mean over subsets, and the value of each subset where it is defined."""

    name: str
    mean: Measured
    subsets: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgeFigure:
    """A figure of another judge on the rows that it has, and the labeler's on the same rows."""

    judge: str
    figure: str
    n: int
    theirs: Measured
    ours: Measured


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """The figures of one metric."""

    metric: str
    n: int
    n_low: int | None
    """Number of rows with a true score of 0, of a metric that is 0 or 1; None of other metrics."""
    figures: Sequence[Figure]
    judges: Sequence[JudgeFigure]
    biases: Sequence[Figure]
    """How far scores move with the order of the documents, and errors with the length of the response."""


Statistic = Callable[[Floats, Floats], float]


def question_digest(question: str) -> str:
    """Return a digest that distinguishes questions, because texts are not kept and intervals draw questions."""
    return blake2b(question.encode(), digest_size=8).hexdigest()


def calibration_error(predicted: Floats, truth: Floats) -> float:
    """Return the expected calibration error over bins with equally many rows.

    Source: Naeini et al., AAAI 2015, with equal-mass bins (Nixon et al., arXiv:1904.01685).
    """
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(BINS, len(predicted)))
    gaps = [len(part) * abs(float(predicted[part].mean() - truth[part].mean())) for part in parts]
    return sum(gaps) / len(predicted)


SLOPE: Final = "slope"
"""Name of the figure."""

BINARY: Final[Mapping[str, Statistic]] = {
    "AUROC of low": lambda predicted, truth: auroc(-predicted, truth < 0.5),
    "Brier score": lambda predicted, truth: rmse(predicted, truth) ** 2,
    "Brier score of a constant": lambda _, truth: float(np.var(truth)),
    "calibration error": calibration_error,
    SLOPE: slope,
}
"""Figures of metrics that are 0 or 1. A constant is the mean of the subset."""

SHARES: Final[Mapping[str, Statistic]] = {
    "RMSE": rmse,
    "RMSE of a constant": lambda _, truth: float(np.std(truth)),
    "Spearman": spearman,
    SLOPE: slope,
}
"""Figures of other metrics."""


ORDER: Final = "change by another order of documents"
"""Mean absolute difference of the scores of the same response."""

LENGTH: Final = "error with length of response, Spearman"
"""Above 0 if long responses get too high scores, compared with short ones."""


def _biases(subsets: Mapping[str, SubsetScores], confidence: float, seed: int) -> list[Figure]:
    biases = []
    moved = {}
    for name, scores in subsets.items():
        there = np.isfinite(scores.reordered) if scores.reordered is not None else np.zeros(len(scores.truth), np.bool_)
        if scores.reordered is not None and there.any():
            change = np.abs(scores.reordered - scores.predicted)[there]
            moved[name] = SubsetScores(change, change, scores.questions[there], {})
    if moved:
        biases.append(figure_of(ORDER, lambda change, _: float(change.mean()), moved, confidence, seed))
    by_length = {
        name: SubsetScores(scores.predicted - scores.truth, scores.lengths, scores.questions, {})
        for name, scores in subsets.items()
        if scores.lengths is not None
    }
    if by_length:
        biases.append(figure_of(LENGTH, spearman, by_length, confidence, seed))
    return biases


def metric_figures(
    metric: str, subsets: Mapping[str, SubsetScores], *, confidence: float = 0.95, seed: int = 0
) -> MetricFigures:
    """Return the figures of a metric.

    Args:
        metric: its name.
        subsets: scores by subset.
        confidence: level of the intervals.
        seed: of the bootstrap, which draws questions within subsets.
    """
    binary = all(np.isin(scores.truth, (0.0, 1.0)).all() for scores in subsets.values())
    statistics = BINARY if binary else SHARES
    figures = figures_of(statistics, subsets, confidence, seed)
    first = next(iter(statistics))
    judges = []
    for judge in dict.fromkeys(name for scores in subsets.values() for name in scores.judges):
        theirs, ours = {}, {}
        for name, scores in subsets.items():
            there = ~np.isnan(scores.judges[judge]) if judge in scores.judges else np.zeros(0, np.bool_)
            if there.sum() >= FEWEST:
                ours[name] = scores.part(there)
                theirs[name] = replace(ours[name], predicted=scores.judges[judge][there])
        if theirs:
            judges.append(
                JudgeFigure(
                    judge,
                    first,
                    sum(len(scores.truth) for scores in theirs.values()),
                    figure_of(first, statistics[first], theirs, confidence, seed).mean,
                    figure_of(first, statistics[first], ours, confidence, seed).mean,
                )
            )
    return MetricFigures(
        metric,
        sum(len(scores.truth) for scores in subsets.values()),
        int(sum((scores.truth == 0).sum() for scores in subsets.values())) if binary else None,
        figures,
        judges,
        _biases(subsets, confidence, seed),
    )


def figure_of(
    name: str, statistic: Statistic, subsets: Mapping[str, SubsetScores], confidence: float, seed: int
) -> Figure:
    """Return a figure: of each subset with at least `FEWEST` rows, and their mean with its interval.

    Args:
        subsets: scores by subset.
        confidence: level of the interval.
        seed: of the bootstrap, which draws questions within subsets.
    """
    return figures_of({name: statistic}, subsets, confidence, seed)[0]


def figures_of(
    statistics: Mapping[str, Statistic], subsets: Mapping[str, SubsetScores], confidence: float, seed: int
) -> list[Figure]:
    """Return several figures by their names from the same samples, as `figure_of` returns one."""
    values: dict[str, dict[str, float]] = {name: {} for name in statistics}
    drawn: dict[str, list[list[float]]] = {name: [] for name in statistics}
    for number, (subset, scores) in enumerate(subsets.items()):
        if len(scores.truth) < FEWEST:
            continue
        exact = {name: statistic(scores.predicted, scores.truth) for name, statistic in statistics.items()}
        defined = [name for name, value in exact.items() if not np.isnan(value)]
        samples = resamples(len(scores.truth), scores.questions, seed=seed + number) if defined else []
        resampled = [(scores.predicted[sample], scores.truth[sample]) for sample in samples]
        for name in defined:
            values[name][subset] = exact[name]
            drawn[name].append([statistics[name](*pair) for pair in resampled])
    return [_figure(name, values[name], drawn[name], confidence) for name in statistics]


def _figure(name: str, values: Mapping[str, float], drawn: Sequence[Sequence[float]], confidence: float) -> Figure:
    if not values:
        return Figure(name, Measured(None), {})
    means = np.mean(drawn, axis=0)
    defined = means[~np.isnan(means)]
    mean = float(np.mean([*values.values()]))
    if len(defined) < DEFINED_SHARE * len(means):
        return Figure(name, Measured(mean), values)
    lower, upper = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Figure(name, Measured(mean, float(lower), float(upper)), values)


def measured_slope(failure: str, figure: Figure, rows: int) -> Slope | None:
    """Return a slope: the mean over subsets, between the lowest and the highest of them; None if it is not defined.

    Args:
        failure: its name.
        figure: the slopes of the subsets; with a single one its bootstrap interval counts.
        rows: number of rows that were compared.
    """
    mean, values = figure.mean, figure.subsets.values()
    lower, upper = (min(values), max(values)) if len(values) > 1 else (mean.lower, mean.upper)
    if mean.value is None or lower is None or upper is None:
        return None
    return Slope(failure, mean.value, lower, upper, rows)
