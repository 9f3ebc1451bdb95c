"""A table of agreement figures with bootstrap intervals: the mean over subsets, and every subset."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Figure = Callable[..., float]

SAMPLES = 2000
SEED = 20_261_121


def auroc(scores: Floats, positive: Floats) -> float:
    """Return the probability that a positive scores above a negative, ties counted half; NaN without both."""
    ranks = rankdata(scores)
    n, m = positive.sum(), (1 - positive).sum()
    return float((ranks[positive == 1].sum() - n * (n + 1) / 2) / (n * m)) if n and m else float("nan")


def error(guess: Floats, truth: Floats, weights: Floats) -> float:
    """Return the weighted root of the mean squared error."""
    return float(np.sqrt(weights @ (guess - truth) ** 2 / weights.sum()))


def calibration(guess: Floats, truth: Floats, weights: Floats) -> float:
    """Return the weighted mean squared error of probabilities: the Brier score."""
    return error(guess, truth, weights) ** 2


def rank_correlation(guess: Floats, truth: Floats) -> float:
    """Return Spearman's rank correlation; NaN where one side is constant."""
    first, second = rankdata(guess), rankdata(truth)
    if first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


class Table:
    """Prints one line per figure. The same samples of rows are drawn for every line."""

    def __init__(self, subsets: NDArray[np.str_]) -> None:
        self._rows = {str(name): np.flatnonzero(subsets == name) for name in np.unique(subsets)}

    def header(self) -> None:
        """Print the names of the columns."""
        print(f"{'':<34}{'mean':>7}  {'95%':<14}" + "".join(f"{name:>10}" for name in self._rows))

    def line(self, title: str, figure: Figure, *columns: Floats) -> None:
        """Print a figure of columns that have one value per row; rows with a missing value do not count."""
        kept = ~np.any([np.isnan(column) for column in columns], axis=0)
        self._print(title, figure, columns, {name: rows[kept[rows]] for name, rows in self._rows.items()})

    def judge(self, title: str, figure: Figure, guess: Floats, *columns: Floats, ours: Floats) -> None:
        """Print a figure of another judge on the rows it has, and ours on the same rows, unless it has hardly any."""
        missing = np.isnan(guess)
        if (~missing).sum() < 20:
            print(f"{title:<34}{(~missing).sum():>4} rows have it")
            return
        self.line(f"{title} ({(~missing).sum()})", figure, guess, *columns)
        self.line("    ours on the same rows", figure, np.where(missing, np.nan, ours), *columns)

    def constant(self, title: str, figure: Figure, truth: Floats, weights: Floats) -> None:
        """Print a figure of always guessing the subset's weighted mean."""

        def always(values: Floats, weight: Floats) -> float:
            mean = values @ weight / weight.sum()
            return figure(np.full(len(values), mean), values, weight)

        self.line(title, always, truth, weights)

    def groups(self, title: str, scores: Sequence[Floats], truths: Sequence[Floats]) -> None:
        """Print the AUROC over sentences that come in groups; whole groups are drawn."""

        def pooled(numbers: Floats) -> float:
            chosen = numbers.astype(int)
            return auroc(np.concatenate([scores[i] for i in chosen]), np.concatenate([truths[i] for i in chosen]))

        self.line(title, pooled, np.arange(len(scores), dtype=np.float64))

    def _print(self, title: str, figure: Figure, columns: Sequence[Floats], rows: dict[str, NDArray[np.intp]]) -> None:
        rows = {name: chosen for name, chosen in rows.items() if len(chosen)}
        values = {name: figure(*(column[chosen] for column in columns)) for name, chosen in rows.items()}
        rng = np.random.default_rng(SEED)
        samples = []
        for _ in range(SAMPLES):
            drawn = [rng.choice(chosen, len(chosen)) for chosen in rows.values()]
            samples.append(np.mean([figure(*(column[rows_] for column in columns)) for rows_ in drawn]))
        lower, upper = np.nanpercentile(samples, [2.5, 97.5])
        cells = "".join(f"{values.get(name, float('nan')):>10.3f}" for name in self._rows)
        # nanmean: a subset in which the figure is undefined does not count.
        print(f"{title:<34}{np.nanmean(list(values.values())):>7.3f}  {lower:.3f}-{upper:.3f}   {cells}", flush=True)
