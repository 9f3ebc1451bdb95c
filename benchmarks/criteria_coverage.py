"""Coverage of prediction-powered intervals of criteria: yes or no, and 1 to 5, with cheap scores of all qualities.

    python benchmarks/criteria_coverage.py [--runs 1000] [--items 20000]

Seeded. Each run is a stream of interactions. A judge answers a criterion about a share of them, drawn by chance, and a
cheap labeler scores all of them. The table of pairs is the one of the live estimates; the mean of the cheap scores is a
plain one, which is the same but for the last bits. After every 100 interactions the 95% interval is compared with the
mean of all interactions so far; a run that misses once counts as a miss.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ragtide_aggregator.statistics.means.moments import Moments
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats

LOOK_EVERY: Final = 100
CONFIDENCE: Final = 0.95
CORRELATION: Final = 0.8
"""Correlation of the normal variables behind the judge's answers and the good cheap scores."""

FIVE: Final = {"mostly 5": (0.01, 0.02, 0.05, 0.22, 0.70), "even": (0.2, 0.2, 0.2, 0.2, 0.2)}
"""Shares of the answers 1 to 5."""

Proxy = Callable[[np.random.Generator, Floats, Floats], Floats]
"""Returns cheap scores from the answers in [0, 1], and from normal variables that are correlated with them."""


def _good(_: np.random.Generator, __: Floats, hint: Floats) -> Floats:
    return np.asarray(ndtr(hint), dtype=np.float64)


def _inflated(_: np.random.Generator, __: Floats, hint: Floats) -> Floats:
    return np.asarray(0.6 + 0.4 * ndtr(hint) ** 3)


def _reversed(_: np.random.Generator, __: Floats, hint: Floats) -> Floats:
    return np.asarray(1 - ndtr(hint))


def _useless(rng: np.random.Generator, answers: Floats, _: Floats) -> Floats:
    return rng.random(answers.shape)


def _nearly_perfect(rng: np.random.Generator, answers: Floats, _: Floats) -> Floats:
    return np.where(rng.random(answers.shape) < 0.002, 1 - answers, answers)


PROXIES: Final[dict[str, Proxy]] = {
    "good": _good,
    "too high": _inflated,
    "reversed": _reversed,
    "useless": _useless,
    "wrong in 0.2%": _nearly_perfect,
}


@dataclass(frozen=True, slots=True)
class CriterionStream:
    """A criterion in a stream of interactions."""

    scale: str
    """`yes` with the share of yes, or one of `FIVE`."""
    judged: float
    """Probability that the judge answers it about an interaction."""
    proxy: str
    drifts: bool = False
    """Whether the share of yes goes up and down between 0.5 and 1.5 times its mean, twice in the stream."""

    @property
    def cumulated(self) -> tuple[Floats, Floats]:
        """Values in [0, 1], and the probability of an answer up to each of them."""
        if self.scale in FIVE:
            return np.linspace(0, 1, 5), np.cumsum(FIVE[self.scale])
        return np.array([0.0, 1.0]), np.array([1 - float(self.scale.removeprefix("yes ")), 1.0])


def draw(
    rng: np.random.Generator, stream: CriterionStream, runs: int, places: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_], Floats]:
    """Return answers in [0, 1], cheap scores, whether the judge answered, and the true mean at each place.

    Args:
        rng: of the stream.
        stream: what to draw.
        runs: number of streams.
        places: of the interactions in their stream, from 0 to 1.
    """
    values, cumulated = stream.cumulated
    hint, noise = rng.standard_normal((2, runs, len(places)))
    latent = CORRELATION * hint + np.sqrt(1 - CORRELATION**2) * noise
    above = np.tile(1 - cumulated[:-1], (len(places), 1))
    if stream.drifts:
        above = above * (1 + 0.5 * np.sin(4 * np.pi * places))[:, None]
    steps = np.diff(values)
    limits = ndtri(1 - np.minimum(above, 1 - 1e-9))
    answers = values[0] + sum(step * (latent > limits[:, number]) for number, step in enumerate(steps))
    judged = rng.random(answers.shape) < stream.judged
    return answers, PROXIES[stream.proxy](rng, answers, hint), judged, values[0] + above @ steps


def simulate(stream: CriterionStream, runs: int, items: int, seed: int) -> dict[str, float]:
    """Return how many streams ever missed, and the widths at the end."""
    rng = np.random.default_rng((20261127, seed))
    pairs, sums = PairTable(), np.zeros(runs)
    for _ in range(runs):
        pairs.add_row()
    rows = np.arange(runs)
    missed, total = np.zeros(runs, bool), 0.0
    first = np.full(runs, np.nan)
    for start in range(0, items, LOOK_EVERY):
        places = np.arange(start, start + LOOK_EVERY) / items
        answers, cheap, judged, means = draw(rng, stream, runs, places)
        total += float(means.sum())
        sums += cheap.sum(axis=1)
        moments = _moments(sums, start + LOOK_EVERY)
        index = np.nonzero(judged)[0]
        pairs.update(index, answers[judged], cheap[judged], np.full(index.shape, stream.judged))
        seen = pairs.read(rows, Everything.scored(moments), confidence=CONFIDENCE)
        truth = total / (start + LOOK_EVERY)
        missed |= (seen.lower > truth) | (seen.upper < truth)
        shown = (seen.upper - seen.lower < 1) & np.isnan(first)
        first[shown] = seen.n[shown]
    alone = pairs.read(rows, None, confidence=CONFIDENCE)
    powered, plain = seen.upper - seen.lower, alone.upper - alone.lower
    both = (powered < 1) & (plain < 1)
    return {
        "missed": float(missed.mean()),
        "normal": float(np.mean(np.abs(seen.estimate - truth) <= 1.96 * seen.standard_error)),
        "shown": float(np.mean(~np.isnan(first))),
        "first": float(np.nanmedian(first)) if not np.isnan(first).all() else np.nan,
        "judged": float(np.mean(seen.n)),
        "half": float(np.mean(powered[both]) / 2) if both.any() else np.nan,
        "width": float(np.mean(powered[both] / plain[both])) if both.any() else np.nan,
        "worth": float(np.mean(seen.n_effective[both] / alone.n_effective[both])) if both.any() else np.nan,
    }


def _moments(sums: Floats, n: int) -> Moments:
    zeros = np.zeros_like(sums)
    return Moments(np.full(sums.shape, n), sums / n, zeros, zeros, zeros, zeros, zeros)


def streams() -> list[CriterionStream]:
    """Return the cases of the table."""
    found = [
        CriterionStream(scale, judged, proxy)
        for scale in ("yes 0.05", "yes 0.2", *FIVE)
        for judged in (0.05, 0.2)
        for proxy in ("good", "too high", "useless", "wrong in 0.2%")
        if proxy != "wrong in 0.2%" or scale not in FIVE
    ]
    found += [CriterionStream("yes 0.2", judged, "reversed") for judged in (0.05, 0.2)]
    found += [
        CriterionStream(scale, judged, "good", drifts=True)
        for scale in ("yes 0.05", "yes 0.2")
        for judged in (0.05, 0.2)
    ]
    return found + [CriterionStream("yes 0.2", 0.01, proxy) for proxy in ("good", "wrong in 0.2%")]


HEADER: Final = (
    "answers", "judged", "cheap scores", "95% interval ever missed", "streams with an interval", "judged at the first",
    "judged at the end", "± 1.96 SE cover", "half width", "width beside the judged alone", "worth of a judged item",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=15_000)
    arguments = parser.parse_args()
    print("# Intervals of criteria\n\nWritten by `make simulations` (`benchmarks/criteria_coverage.py`).\n")
    print(
        f"{arguments.runs:,} streams of {arguments.items:,} interactions in each line. A judge answers the criterion "
        "about the share *judged* of\nthem, which is the rate of the sample times the rate of the criterion. The "
        f"prediction-powered interval is looked at after\nevery {LOOK_EVERY} interactions, and *ever missed* is the "
        "share of streams in which it ever missed the mean of all interactions so\nfar: at most 5%. It is the whole "
        "range, as the pages show it, until the judged answers are worth 30 of each kind.\n"
    )
    print(
        "- **Answers:** `yes 0.05` is yes to 5%; `mostly 5` and `even` are answers from 1 to 5. They count as numbers "
        "from 0 to 1,\n  and so does the half width. With `drifts` the share of yes goes up and down by half, twice.\n"
        "- **Cheap scores:** `good` follow the answers (correlation 0.8 of the normal variables behind both), `too "
        "high` are the\n  same on a wrong scale, `reversed` fall where the answers rise, `useless` are noise.\n"
        "- **Width:** of the interval over that of the judged sample alone, at the end. A judged item is *worth* so "
        "many judged\n  items without cheap scores.\n"
    )
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for number, stream in enumerate(streams()):
        found = simulate(stream, arguments.runs, arguments.items, number)
        cells = [
            f"{stream.scale}{', drifts' if stream.drifts else ''}",
            f"{stream.judged:.0%}",
            stream.proxy,
            f"{found['missed']:.1%}",
            f"{found['shown']:.1%}",
            _number(found["first"], ".0f"),
            _number(found["judged"], ".0f"),
            f"{found['normal']:.1%}",
            _number(found["half"], ".4f"),
            _number(found["width"], ".2f"),
            _number(found["worth"], ".2f", "x"),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _number(value: float, form: str, unit: str = "") -> str:
    return "" if np.isnan(value) else f"{value:{form}}{unit}"


if __name__ == "__main__":
    main()
