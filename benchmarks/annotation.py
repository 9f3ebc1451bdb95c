"""People who annotate a uniform sample, with known mistakes: coverage and width of the prediction-powered interval.

    python benchmarks/annotation.py [--runs 1000] [--items 5000]

Seeded. Responses have one to four sentences. The documents support each with a probability that differs by response. A
labeler scores every response with a probability for each sentence; people see a uniform sample of 6%. They say of each
sentence whether it is supported, and are wrong at a known rate; or they rate the response from 1 to 5, and are one step
off half of the time, upwards as often as downwards. With a known rate e of wrong answers, the mean m of the answers
becomes the share (m - e) / (1 - 2 e) of supported sentences.

Printed are the runs in which the interval holds the true mean of all responses, the width of the interval against that
of the people's scores alone. The last row is a warning: half of the annotated responses are those on which the labeler
and a judge differ most, and they count as if they were sampled. The page Annotate never counts them.
"""

import argparse
from dataclasses import dataclass
from typing import Final

import numpy as np

from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats

PROBABILITY: Final = 0.06
SENTENCES: Final = 4
RUNS_AT_ONCE: Final = 50
STEPS: Final = 4
"""Steps between the ratings 1 and 5."""


@dataclass(frozen=True)
class AnnotationCase:
    """How people annotate."""

    name: str
    wrong: float = 0.0
    """Rate of wrong answers about a sentence."""
    rating: bool = False
    """Whether people rate the response from 1 to 5."""
    disputed: bool = False
    """Whether half of the responses that they see are those that the labeler overrates most; all count as sampled."""


CASES: Final = (
    AnnotationCase("yes or no a sentence, no mistakes"),
    AnnotationCase("yes or no a sentence, 5% wrong", wrong=0.05),
    AnnotationCase("yes or no a sentence, 15% wrong", wrong=0.15),
    AnnotationCase("1 to 5, half of them one step off", rating=True),
    AnnotationCase("no mistakes; half are disputed, as if sampled", disputed=True),
)


def draw(rng: np.random.Generator, case: AnnotationCase, runs: int, items: int) -> tuple[Floats, Floats, Floats]:
    """Return the truth, the answers of people and the labeler's scores, each of shape (runs, items)."""
    there = np.arange(SENTENCES) < rng.integers(1, SENTENCES + 1, (runs, items, 1))
    quality = rng.beta(3, 1, (runs, items, 1))
    supported = rng.random(there.shape) < quality
    labeler = np.clip(0.25 + 0.6 * supported + 0.2 * rng.standard_normal(there.shape), 0, 1)
    number = there.sum(axis=2)
    truth = (supported & there).sum(axis=2) / number
    proxy = (labeler * there).sum(axis=2) / number
    if not case.rating:
        said = supported ^ (rng.random(there.shape) < case.wrong)
        return truth, (said & there).sum(axis=2) / number, proxy
    # The truth falls between two steps at random, with its mean; then half of the inner ratings are a step off.
    truth = np.floor(truth * STEPS + rng.random(truth.shape)) / STEPS
    off = rng.choice([-1.0, 0.0, 0.0, 1.0], truth.shape) / STEPS
    inner = (truth > 0) & (truth < 1)
    return truth, np.where(inner, truth + off, truth), proxy


def simulate(case: AnnotationCase, runs: int, items: int, *, seed: int) -> dict[str, float]:
    """Return shares of runs, and mean widths against the people's scores alone."""
    found: dict[str, list[Floats]] = {}
    for first in range(0, runs, RUNS_AT_ONCE):
        some = min(RUNS_AT_ONCE, runs - first)
        rng = np.random.default_rng((20261123, seed, first))
        truth, said, proxy = draw(rng, case, some, items)
        if case.disputed:
            disputed = proxy - truth  # a judge that knows the truth, and the labeler disagree
            most = np.argsort(np.argsort(-disputed, axis=1), axis=1) < PROBABILITY / 2 * items
            shown = most | (rng.random(truth.shape) < PROBABILITY / 2)
        else:
            shown = rng.random(truth.shape) < PROBABILITY
        moments, pairs = MomentTable(), PairTable()
        for _ in range(some):
            moments.add_row()
            pairs.add_row()
        rows = np.arange(some)
        moments.update(np.repeat(rows, items), proxy.ravel())
        index = np.nonzero(shown)[0]
        pairs.update(index, said[shown], proxy[shown], np.full(index.size, PROBABILITY))
        powered = pairs.read(rows, Everything.scored(moments.read(rows)), confidence=0.95)
        alone = pairs.read(rows, None, confidence=0.95)
        scale = 1 - 2 * case.wrong
        mean = case.wrong + scale * truth.mean(axis=1)  # of the answers that people would give on everything
        each = {
            "covers": (powered.lower <= mean) & (mean <= powered.upper),
            "standard": np.abs(powered.estimate - mean) <= 1.96 * powered.standard_error,
            "alone": np.abs(alone.estimate - mean) <= 1.96 * alone.standard_error,
            "width": (powered.upper - powered.lower) / scale,
            "width_alone": (alone.upper - alone.lower) / scale,
            "people": powered.n,
            "off": (powered.estimate - mean) / scale,
        }
        for name, values in each.items():
            found.setdefault(name, []).append(values)
    means = {name: float(np.mean(np.concatenate(values))) for name, values in found.items()}
    narrower = np.concatenate(found["width"]) < np.concatenate(found["width_alone"])
    return {**means, "narrower": float(np.mean(narrower))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=5_000)
    arguments = parser.parse_args()
    print("# Annotated samples\n\nWritten by `make simulations` (`benchmarks/annotation.py`).\n")
    print(
        f"{arguments.runs:,} runs of {arguments.items:,} responses; people annotate {PROBABILITY:.0%} of them. The "
        "true mean of all responses is known. Wrong answers at a known rate e are undone by (m - e) / (1 - 2 e).\n"
    )
    header = (
        "people say", "annotated", "95% interval covers", "± 1.96 SE covers", "± 1.96 SE of people alone covers",
        "half width", "of people alone", "narrower in", "mean error",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for number, case in enumerate(CASES):
        found = simulate(case, arguments.runs, arguments.items, seed=number)
        cells = [
            case.name,
            f"{found['people']:.0f}",
            f"{found['covers']:.1%}",
            f"{found['standard']:.1%}",
            f"{found['alone']:.1%}",
            f"{found['width'] / 2:.3f}",
            f"{found['width_alone'] / 2:.3f}",
            f"{found['narrower']:.1%}",
            f"{found['off']:+.4f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
