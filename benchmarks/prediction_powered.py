"""The gain of a proxy labeler on everything beside a judge on a sample: coverage and width of intervals.

    python benchmarks/prediction_powered.py [--runs 1000] [--items 10000]

Seeded. Cheap and true scores are uniform on [0, 1] with a given correlation. 5% of the items are judged: at one rate,
or the worse the cheap score the more of them, which the weights undo. Printed are, of the prediction-powered estimate:

- coverage of estimate ± 1.96 standard errors at the end, which is 95% if the standard error is right;
- runs in which the `asymptotic` 95% interval ever missed, looked at every 100 items;
- standard error, and items the judge alone would need for the same, against the plain or weighted mean of the judge.
"""

import argparse
from math import pi, sin
from typing import Final

import numpy as np
from scipy.special import ndtr

from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats

CORRELATIONS: Final = (0.3, 0.6, 0.9)
RATE: Final = 0.05
LOOKS_EVERY: Final = 100
MEAN: Final = 0.5


def scores(rng: np.random.Generator, correlation: float, runs: int, items: int) -> tuple[Floats, Floats]:
    """Return cheap and true scores, uniform on [0, 1] with a correlation (a Gaussian copula); shape (runs, items)."""
    r = 2 * sin(pi * correlation / 6)
    first, second = rng.standard_normal((2, runs, items))
    return ndtr(first), ndtr(r * first + np.sqrt(1 - r * r) * second)


def simulate(correlation: float, runs: int, items: int, *, by_score: bool, seed: int) -> dict[str, float]:
    """Return the intervals at the end of all runs, and how many runs ever missed the mean."""
    rng = np.random.default_rng((20261121, seed))
    cheap, true = scores(rng, correlation, runs, items)
    # From a fifth to nine fifths of the rate; the mean over uniform scores is the rate.
    probability = RATE * (1.8 - 1.6 * cheap) if by_score else np.full(cheap.shape, RATE)
    judged = rng.random(cheap.shape) < probability
    moments, pairs = MomentTable(), PairTable()
    for _ in range(runs):
        moments.add_row()
        pairs.add_row()
    rows = np.arange(runs)
    missed = np.zeros(runs, dtype=bool)
    for start in range(0, items, LOOKS_EVERY):
        part = slice(start, start + LOOKS_EVERY)
        moments.update(np.repeat(rows, cheap[:, part].shape[1]), cheap[:, part].ravel())
        which = judged[:, part]
        index = np.nonzero(which)[0]
        pairs.update(index, true[:, part][which], cheap[:, part][which], probability[:, part][which])
        seen = pairs.read(rows, Everything.scored(moments.read(rows)), confidence=0.95)
        missed |= (seen.lower > MEAN) | (seen.upper < MEAN)
    powered = pairs.read(rows, Everything.scored(moments.read(rows)), confidence=0.95)
    alone = pairs.read(rows, None, confidence=0.95)
    return {
        "coverage": float(np.mean(np.abs(powered.estimate - MEAN) <= 1.96 * powered.standard_error)),
        "alone": float(np.mean(np.abs(alone.estimate - MEAN) <= 1.96 * alone.standard_error)),
        "missed": float(np.mean(missed)),
        "width": float(np.mean((powered.upper - powered.lower) / (alone.upper - alone.lower))),
        "gain": float(np.mean(powered.n_effective / alone.n_effective)),
        "spread": float(np.std(powered.estimate) / np.mean(powered.standard_error)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=10_000)
    arguments = parser.parse_args()
    print("# Prediction-powered estimates\n\nWritten by `make simulations` (`benchmarks/prediction_powered.py`).\n")
    print(f"{arguments.runs:,} runs of {arguments.items:,} items, {RATE:.0%} of them judged.\n")
    header = (
        "judged", "correlation", "coverage of ± 1.96 SE", "the judge alone", "95% interval ever missed",
        "width against the judge alone", "effective judged items", "spread / stated SE",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for by_score in (False, True):
        for number, correlation in enumerate(CORRELATIONS):
            found = simulate(correlation, arguments.runs, arguments.items, by_score=by_score, seed=number)
            cells = [
                "by the cheap score" if by_score else "at one rate",
                f"{correlation:g}",
                f"{found['coverage']:.1%}",
                f"{found['alone']:.1%}",
                f"{found['missed']:.1%}",
                f"{found['width']:.2f}",
                f"{found['gain']:.2f}x",
                f"{found['spread']:.2f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
