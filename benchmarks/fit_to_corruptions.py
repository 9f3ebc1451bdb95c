"""What `ragtide fit --corruptions` adds on left-out subsets of RAGBench.

    python benchmarks/fit_to_corruptions.py RAGBENCH.jsonl[.gz] [--subsets covidqa emanual] [--seeds 3]

Needs lightgbm. Seeded. One subset at a time is the deployment. The shipped labeler is fitted to the other subsets. Half
of the questions, drawn at random, are the past: their interactions are spoilt, and judged by the stored labels of GPT-4
where the level is "judged". Every figure is of the other half, the present.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from fitted_proxy import head, line
from labeled_rows import labeled, read
from local_labeler_model import fit

from ragtide_aggregator.statistics.comparisons.agreement import auroc
from ragtide_consumers.labelers.local.correction import columns_of
from ragtide_consumers.labelers.local.model import LocalModel
from ragtide_consumers.metrics.trace import TRACE
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.local_fit.examined import (
    SENSED,
    ExaminedInteraction,
    ExaminedInteractions,
    ExaminedPair,
    InteractionExaminer,
    examine_pairs,
)
from ragtide_offline.local_fit.fitting import fit_correction
from ragtide_offline.local_fit.regression import Floats, Regression
from ragtide_schemas import RagInteraction

TEXT: Final = """# Fitted to corruptions

Written by `python benchmarks/fit_to_corruptions.py RAGBENCH.jsonl.gz` (`ragbench_train.jsonl.gz`), {seeds} seeds.

Each subset of RAGBench is a deployment. The shipped labeler is fitted to the other subsets, so it has seen nothing of
the deployment; the labeler in the package has seen these rows, which would flatter it. Half of the subset's questions,
drawn at random, are the past: {past} interactions of it are spoilt (`ragtide fit --corruptions`). The level is
"shipped" without judged interactions. With the level "judged" the same {past} are judged by the stored labels of GPT-4.
All figures but the first are of the other half, the present, shipped and then fitted; means over the seeds. A score
that is not fitted stays as shipped. The share of the pairs in the loss was chosen on covidqa, emanual and hagrid.

- **used**: share of the seeds in which `ragtide fit` corrected the score.
- **corruptions**: AUROC of clean against spoilt interactions, the mean over corruptions that the score should follow.
- **RMSE**: root mean squared error against GPT-4's labels, which no level "shipped" has seen.
- **low labels**: AUROC of finding interactions whose label is low (below the median; adherence 0).
- **bias**: mean score minus mean label.
"""

PAST: Final = 100
"""Interactions of the past that are spoilt, and of those that are judged where some are."""

PRESENT: Final = 100
"""Interactions of the present that are spoilt."""


def scores_of(rows: Sequence[ExaminedInteraction], score: str, by: Regression | None) -> Floats:
    """Return the scores of a fit; the shipped ones without a fit."""
    shipped = np.array([row.shipped[score] for row in rows])
    return shipped if by is None else by.predict(columns_of([row.summary for row in rows], shipped.tolist()))


def follows(pairs: Sequence[ExaminedPair], score: str, by: Regression | None) -> float:
    """Return the AUROC of clean against spoilt interactions: the mean over corruptions with at least 20 of them."""
    found = []
    for name, sensed in SENSED.items():
        some = [
            pair
            for pair in pairs
            if pair.corruption == name
            and score in sensed
            and score in pair.clean.shipped
            and score in pair.spoilt.shipped
        ]
        if len(some) >= 20:
            both = [
                scores_of(side, score, by) for side in zip(*((pair.clean, pair.spoilt) for pair in some), strict=True)
            ]
            found.append(auroc(np.concatenate(both), np.arange(2 * len(some)) < len(some)))
    return float(np.mean(found))


def simulate(rows: Sequence[RagInteraction], model: LocalModel, subset: str, seeds: int) -> None:
    """Print the lines of one subset."""
    names = sorted({row.question for row in rows})
    results: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng((20261125, seed))
        past = {names[number] for number in rng.permutation(len(names))[: len(names) // 2]}
        order = [rows[number] for number in rng.permutation(len(rows))]
        before, now = ([row for row in order if (row.question in past) == is_past] for is_past in (True, False))
        pairs = examine_pairs(before[:PAST], model=model, seed=seed)
        new_pairs = examine_pairs(now[:PRESENT], model=model, seed=seed)
        judged, present = (judged_rows(some, model) for some in (before[:PAST], now))
        for level, some in (("shipped", []), ("judged", judged)):
            found = fit_correction(ExaminedInteractions(some, {}), pairs)
            for result in found.scores:
                score, by = result.score, found.fitted.get(result.score)
                y = np.array([row.judged[score] for row in present if score in row.shipped])
                kept = [row for row in present if score in row.shipped]
                values = [float(by is not None)]
                for regression in (None, by):
                    f = scores_of(kept, score, regression)
                    low = y < (0.5 if score == "adherence" else np.median(y))
                    values += [
                        follows(new_pairs, score, regression),
                        float(np.mean((f - y) ** 2)) ** 0.5,
                        auroc(-f, low),
                        float(f.mean() - y.mean()),
                    ]
                results.setdefault((score, level), []).append(values)
    for (score, level), figures in results.items():
        used, *values = np.mean(figures, axis=0)
        cells = [f"{value:.3f} to {two:.3f}" for value, two in zip(values[:4], values[4:], strict=True)]
        line(subset, score, level, f"{used:.0%}", *cells)


def judged_rows(rows: Sequence[RagInteraction], model: LocalModel) -> list[ExaminedInteraction]:
    """Return the inputs of a fit from rows with stored labels."""
    examiner = InteractionExaminer(model=model)
    found = [
        examiner.examine(row, {name.removeprefix(TRACE): score for name, score in row.gold_scores.items()})
        for row in rows
    ]
    return [row for row in found if not isinstance(row, str)]


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows with sentence labels")
    parser.add_argument(
        "--subsets",
        nargs="+",
        default=["covidqa", "emanual", "expertqa", "hagrid", "hotpotqa"],
        help="left-out subsets",
    )
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows = [row for row in labeled(read(arguments.ragbench)) if row.clean.features.documents.shape[1]]
    print(TEXT.format(seeds=arguments.seeds, past=PAST))
    head("subset", "score", "level", "used", "corruptions", "RMSE", "low labels", "bias")
    for subset in arguments.subsets:
        model = LocalModel.read(fit([row for row in rows if row.subset != subset]))
        some = [
            row.interaction
            for row, fields in read_labeled(arguments.ragbench)
            if row.interaction is not None and fields["subset"] == subset
        ]
        simulate(some, model, subset, arguments.seeds)


if __name__ == "__main__":
    main()
