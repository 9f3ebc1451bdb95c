"""The gain of a fitted local labeler (`ragtide fit`) on prediction-powered intervals: their width and their coverage.

    python benchmarks/fitted_proxy.py RAGBENCH.jsonl[.gz] [--seeds 20] [--streams 50] [--reused 1000]

Needs lightgbm. Seeded. About 6 minutes on a slow core, of which the fits of shipped labelers take 1.5. One subset of
RAGBench at a time is the deployment, and its stored labels are the judge. The shipped labeler is fitted to the other
subsets, so it has seen nothing of the deployment.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from labeled_rows import Labeled, labeled, read
from local_labeler_model import fit
from numpy.typing import NDArray

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_consumers.labelers.local.correction import CORRECTED, columns_of, scores_of, summary_of
from ragtide_consumers.labelers.local.model import LocalModel
from ragtide_offline.local_fit import regression
from ragtide_offline.local_fit.examined import ExaminedInteraction, ExaminedInteractions
from ragtide_offline.local_fit.fitting import fit_correction
from ragtide_offline.local_fit.regression import Floats

RATE: Final = 0.05
"""Share of the interactions that the judge labels."""

PASTS: Final = (50, 100)
"""Judged interactions of the past: 5% of 1,000 and of 2,000."""

ITEMS: Final = 10_000
"""Interactions of a stream of the present."""

Z: Final = 1.96

PENALTIES: Final = (8.0, 32.0, 128.0, 512.0)
SIZES: Final = (25, 50, 100, 200, 500)
"""Judged interactions of the table of penalties."""

TEXT: Final = """# Fitted proxies

Written by `make fittedproxy ROWS=FILE` (`benchmarks/fitted_proxy.py`), {seeds} seeds.

Each subset of RAGBench is a deployment, and its stored labels (GPT-4) are its judge. The shipped labeler is fitted to
the other subsets, so it has seen nothing of the deployment; the labeler in the package has seen these rows, which
would flatter it. Half of the subset's questions, drawn at random, are the past. `ragtide fit` learns from 50 or 100
judged interactions of the past, as if the judge had labeled 5% of 1,000 or 2,000. Streams of {items:,} interactions
are drawn with replacement from the other half, the present, and the judge labels 5% of them. So nothing of the present
was fitted. The penalty of the fit was chosen on these rows, so the figures are a little too good.

- **used**: share of the seeds in which the fit was surely better, so that `ragtide fit` corrected this score.
- **width**: width of the prediction-powered interval (estimate ± 1.96 standard errors) with the fitted labeler over
  that with the shipped one: mean over the seeds (smallest to largest). Where the fit is not used it is 1.
- **anyway**: the mean of the same, if every fit were used, whether it is surely better or not.
- **RMSE**: root mean squared error of the score in the present, fitted over shipped, where the fit is used.
- **coverage**: share of {streams:,} streams in which that interval has the mean of the present; with the shipped
  labeler, and with the fit used anyway. Two standard errors of the simulation are {error:.1%}.
"""

REUSED: Final = """
## The warning: fitted to the interactions that the interval uses

Here the whole subset is one stream, the judge labels 5% of it, and the fit (used anyway) has seen these very judged
interactions. Shown is the coverage of the same interval in {count:,} samples (two standard errors of the simulation are
{error:.1%}), for subsets with at least 20 judged interactions.
"""

PENALTY: Final = """
## The penalty

Every fit is used. Shown are the standard deviation of what the fitted score does not explain of the judge's, and the
root mean squared error, both over those of the shipped score, in the present; means over the scores, the subsets that
are large enough and {seeds} seeds. The last line chooses a penalty by cross-validation.
"""


@dataclass(frozen=True, slots=True)
class ScoreArrays:
    """One score of many interactions."""

    x: Floats
    y: Floats
    shipped: Floats
    questions: Sequence[str]

    @classmethod
    def of(cls, rows: Sequence[ExaminedInteraction], score: str) -> "ScoreArrays":
        """Return the score of all rows."""
        shipped = np.array([row.shipped[score] for row in rows])
        x = columns_of([row.summary for row in rows], shipped.tolist())
        return cls(x, np.array([row.judged[score] for row in rows]), shipped, [row.question for row in rows])

    def fitted_anyway(self, penalty: float = regression.FEATURE_PENALTY) -> regression.Regression:
        """Return the fit to all of them."""
        return regression.fit(self.x, self.y, np.ones(len(self.y)), feature_penalty=penalty)

    def cross_validated(self) -> float:
        """Return the penalty with the least squared error in a cross-validation."""

        def error(penalty: float) -> float:
            weights = np.ones(len(self.y))
            predicted = regression.cross_fit(self.x, self.y, weights, self.questions, feature_penalty=penalty)
            return float(np.mean((predicted - self.y) ** 2))

        return min(PENALTIES, key=error)

    def unexplained(self, f: Floats) -> float:
        """Return the variance of the judge's score that a linear function of another score does not explain."""
        return float(np.var(self.y) - np.cov(self.y, f, ddof=0)[0, 1] ** 2 / max(float(np.var(f)), 1e-12))

    def predicted(self, by: regression.Regression | None) -> Floats:
        """Return the scores of a fit; the shipped ones without a fit."""
        return self.shipped if by is None else by.predict(self.x)


@dataclass(slots=True)
class ProxyResult:
    """The results of one score of one subset, one element a seed."""

    used: list[float] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    anyway: list[float] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    covered_shipped: list[float] = field(default_factory=list)
    covered_fitted: list[float] = field(default_factory=list)


def examined(row: Labeled, model: LocalModel) -> ExaminedInteraction:
    """Return the inputs of a fit from a row, with its labels as those of the judge."""
    probabilities = model.predict(row.clean.features)
    return ExaminedInteraction(
        question=row.row["question"].strip().casefold(),
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        weight=1.0,
        summary=summary_of(row.clean.features, probabilities),
        probabilities=probabilities,
        shipped=scores_of(probabilities),
        judged={
            "context_relevance": float(row.clean.labels["relevant"].mean()),
            "context_utilization": float(row.clean.labels["utilized"].mean()),
            "adherence": float(row.clean.labels["supported"].all()),
            "supported_fraction": float(row.clean.labels["supported"].mean()),
        },
    )


def deployments(path: Path) -> Iterator[tuple[str, list[ExaminedInteraction]]]:
    """Yield each subset with its interactions, as a labeler sees them that was fitted to the other subsets."""
    rows = [
        row
        for row in labeled(read(path))
        if row.clean.features.documents.shape[1] and row.clean.features.response.shape[1]
    ]
    for subset in sorted({row.subset for row in rows}):
        model = LocalModel.read(fit([row for row in rows if row.subset != subset]))
        found = [examined(row, model) for row in rows if row.subset == subset]
        yield subset, [_with_fraction(interaction) for interaction in found]


def _with_fraction(one: ExaminedInteraction) -> ExaminedInteraction:
    supported = one.probabilities.supported
    return replace(one, shipped={**one.shipped, "supported_fraction": sum(supported) / len(supported)})


def powered(y: Floats, f: Floats, judged: NDArray[np.bool_]) -> Powered:
    """Return the prediction-powered estimates of streams, one line a stream; y is read only where it is judged."""
    moments, pairs = MomentTable(), PairTable()
    for _ in y:
        moments.add_row()
        pairs.add_row()
    rows = np.arange(len(y))
    moments.update(np.repeat(rows, y.shape[1]), f.ravel())
    pairs.update(np.nonzero(judged)[0], y[judged], f[judged], np.full(int(judged.sum()), RATE))
    return pairs.read(rows, Everything.scored(moments.read(rows)), confidence=0.95)


def covered(found: Powered, mean: float) -> float:
    """Return the share of estimates within 1.96 standard errors of a mean."""
    return float(np.mean(np.abs(found.estimate - mean) <= Z * found.standard_error))


def divided(
    rows: Sequence[ExaminedInteraction], past: int, rng: np.random.Generator
) -> tuple[list[ExaminedInteraction], list[ExaminedInteraction]]:
    """Return so many interactions of one half of the questions, and all of the other half."""
    names = sorted({row.question for row in rows})
    first = {names[number] for number in rng.permutation(len(names))[: len(names) // 2]}
    before = [row for row in rows if row.question in first]
    return [before[number] for number in rng.permutation(len(before))[:past]], [
        row for row in rows if row.question not in first
    ]


def simulate(rows: Sequence[ExaminedInteraction], past: int, seeds: int, streams: int) -> dict[str, ProxyResult]:
    """Return widths and coverages of every score, for fits to so many judged interactions of the past."""
    results = {score: ProxyResult() for score in CORRECTED}
    for seed in range(seeds):
        rng = np.random.default_rng((20261123, past, seed))
        before, present = divided(rows, past, rng)
        fitted = fit_correction(ExaminedInteractions(before, {})).fitted
        drawn = rng.integers(0, len(present), (streams, ITEMS))
        judged = rng.random((streams, ITEMS)) < RATE
        for score, result in results.items():
            arrays, now = (ScoreArrays.of(some, score) for some in (before, present))
            mean = float(now.y.mean())
            used, anyway = now.predicted(fitted.get(score)), now.predicted(arrays.fitted_anyway())
            shipped, with_used, with_any = (
                powered(now.y[drawn], f[drawn], judged) for f in (now.shipped, used, anyway)
            )
            result.used.append(float(score in fitted))
            result.width.append(float(np.mean(with_used.standard_error / shipped.standard_error)))
            result.anyway.append(float(np.mean(with_any.standard_error / shipped.standard_error)))
            if score in fitted:
                errors = [float(np.mean((f - now.y) ** 2)) for f in (used, now.shipped)]
                result.rmse.append((errors[0] / errors[1]) ** 0.5)
            result.covered_shipped.append(covered(shipped, mean))
            result.covered_fitted.append(covered(with_any, mean))
    return results


def penalties(found: Mapping[str, Sequence[ExaminedInteraction]], size: int, seeds: int) -> dict[str, Floats]:
    """Return for each penalty the unexplained deviation and the error over those of the shipped score."""
    ratios: dict[str, list[tuple[float, float]]] = {}
    for rows in (rows for rows in found.values() if len(rows) >= 1.8 * size):
        for seed in range(seeds):
            before, present = divided(rows, size, np.random.default_rng((20261123, size, seed)))
            for score in CORRECTED:
                arrays, now = (ScoreArrays.of(some, score) for some in (before, present))
                choices = {f"{strength:g}": strength for strength in PENALTIES} | {
                    "cross-validated": arrays.cross_validated()
                }
                for name, penalty in choices.items():
                    f = now.predicted(arrays.fitted_anyway(penalty))
                    error, shipped = (float(np.mean((prediction - now.y) ** 2)) for prediction in (f, now.shipped))
                    width = now.unexplained(f) / now.unexplained(now.shipped)
                    ratios.setdefault(name, []).append((width**0.5, (error / shipped) ** 0.5))
    return {name: np.mean(values, axis=0) for name, values in ratios.items()}


def reused(rows: Sequence[ExaminedInteraction], count: int) -> dict[str, tuple[float, float]]:
    """Return the coverage with the shipped labeler, and with one that was fitted to the judged interactions."""
    rng = np.random.default_rng((20261123, 7))
    samples = [rng.permutation(len(rows))[: round(RATE * len(rows))] for _ in range(count)]
    found = {}
    for score in CORRECTED:
        every = ScoreArrays.of(rows, score)
        mean = float(every.y.mean())
        hits = np.zeros(2)
        for sample in samples:
            some = ScoreArrays.of([rows[number] for number in sample], score)
            judged = np.zeros((1, len(rows)), dtype=bool)
            judged[0, sample] = True
            for number, f in enumerate((every.shipped, every.predicted(some.fitted_anyway()))):
                hits[number] += covered(powered(every.y[None], f[None], judged), mean)
        found[score] = (float(hits[0]) / count, float(hits[1]) / count)
    return found


def line(*cells: object) -> None:
    """Print a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    line(*cells)
    print(f"|{'---|' * len(cells)}")


def error_of(count: int) -> float:
    """Return two standard errors of a simulated coverage of 95%."""
    return float(2 * (0.95 * 0.05 / count) ** 0.5)


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows with sentence labels")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--streams", type=int, default=50, help="streams of each seed")
    parser.add_argument("--reused", type=int, default=1_000, help="samples of the warning's table")
    arguments = parser.parse_args()
    total = arguments.seeds * arguments.streams
    print(TEXT.format(seeds=arguments.seeds, items=ITEMS, streams=total, error=error_of(total)))
    head(
        "subset", "score", "judged", "used", "width: mean (range)", "anyway", "RMSE", "coverage, shipped",
        "coverage, fitted",
    )  # fmt: skip
    found = dict(deployments(arguments.ragbench))
    means: dict[tuple[str, int], list[list[float]]] = {}
    for subset, rows in found.items():
        for past in PASTS:
            for score, result in simulate(rows, past, arguments.seeds, arguments.streams).items():
                line(
                    subset, score, past, f"{np.mean(result.used):.0%}",
                    f"{np.mean(result.width):.3f} ({min(result.width):.3f} to {max(result.width):.3f})",
                    f"{np.mean(result.anyway):.3f}", f"{np.mean(result.rmse):.3f}" if result.rmse else "",
                    f"{np.mean(result.covered_shipped):.1%}", f"{np.mean(result.covered_fitted):.1%}",
                )  # fmt: skip
                means.setdefault((score, past), []).append(
                    [float(np.mean(figures)) for figures in (result.used, result.width, result.anyway)]
                )
    print("\nMeans over the subsets:\n")
    head("score", "judged", "used", "width", "anyway")
    for (score, past), values in sorted(means.items()):
        used, width, anyway = np.mean(values, axis=0)
        line(score, past, f"{used:.0%}", f"{width:.3f}", f"{anyway:.3f}")
    print(REUSED.format(count=arguments.reused, error=error_of(arguments.reused)))
    head("subset", "score", "judged", "coverage, shipped", "coverage, fitted to the same")
    for subset, rows in found.items():
        if RATE * len(rows) >= 20:
            for score, (shipped, again) in reused(rows, arguments.reused).items():
                line(subset, score, round(RATE * len(rows)), f"{shipped:.1%}", f"{again:.1%}")
    print(PENALTY.format(seeds=arguments.seeds))
    head("penalty", *(f"{size} judged: unexplained, RMSE" for size in SIZES))
    tables = [penalties(found, size, arguments.seeds) for size in SIZES]
    for name in tables[0]:
        line(name, *(f"{table[name][0]:.3f}, {table[name][1]:.3f}" for table in tables))


if __name__ == "__main__":
    main()
