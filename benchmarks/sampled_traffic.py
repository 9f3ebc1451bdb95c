"""How often weighted intervals ever miss the mean of traffic of which interactions are kept with some probability.

    python benchmarks/sampled_traffic.py [--runs 1000] [--items 20000]

Seeded. Scores are yes or no unless the table says otherwise; the probability of being kept depends on the score, on a
class of customers, or on chance. In sessions all answers are alike, and the session is kept or left out as a whole.
Printed are, of 95% intervals looked at every 100 interactions of the traffic:

- the plain mean of the kept values minus the mean of the traffic, and the same for the weighted mean;
- runs in which mean ± 1.96 standard errors misses the mean at the end (a fixed n);
- runs in which the interval ever missed it;
- the interval's width at the end, and the standard deviation of the estimates divided by their mean standard error.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import MomentTable, with_weights
from ragtide_aggregator.statistics.means.sampling_weights import SamplingWeights
from ragtide_aggregator.statistics.tables.batches import Floats, Rows

CHUNK: Final = 100
"""Interactions of the traffic between two looks."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], tuple[Floats, Floats]]
"""Returns scores and the probabilities of being kept, of this shape."""


@dataclass(frozen=True)
class SampledTraffic:
    """Traffic of which a part is kept."""

    name: str
    mean: float
    draw: Draw
    session: int = 1
    """Answers of a session, all alike."""


def by_score(mean: float, good: float, bad: float) -> Draw:
    """Keep good answers with one probability, and bad answers with another."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        values = (rng.random(shape) < mean).astype(np.float64)
        return values, np.where(values > 0, good, bad)

    return draw


def by_chance(mean: float, probabilities: tuple[float, ...], shares: tuple[float, ...]) -> Draw:
    """Keep answers with probabilities that do not depend on them."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        return (rng.random(shape) < mean).astype(np.float64), rng.choice(probabilities, shape, p=shares)

    return draw


def by_customer(share: float, means: tuple[float, float], probabilities: tuple[float, float]) -> Draw:
    """Keep the answers to a share of the customers with one probability, and all others with another."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        first = rng.random(shape) < share
        values = rng.random(shape) < np.where(first, *means)
        return values.astype(np.float64), np.where(first, *probabilities)

    return draw


def the_worse_the_surer(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Draw continuous scores, and keep each with probability 1 minus the score, at least 0.02."""
    values = rng.beta(6, 2, shape)
    return values, np.clip(1 - values, 0.02, 1.0)


TRAFFIC: Final = (
    SampledTraffic("bad answers all, good ones 10%", 0.85, by_score(0.85, 0.1, 1.0)),
    SampledTraffic("bad answers all, good ones 2%", 0.85, by_score(0.85, 0.02, 1.0)),
    SampledTraffic("good answers all, bad ones 10%", 0.85, by_score(0.85, 1.0, 0.1)),
    SampledTraffic("good answers all, bad ones 2%", 0.85, by_score(0.85, 1.0, 0.02)),
    SampledTraffic("100%, 50%, 10% by chance", 0.85, by_chance(0.85, (1.0, 0.5, 0.1), (0.2, 0.3, 0.5))),
    SampledTraffic("90% of traffic all, 10% of it 5%; mean 0.97", 0.97, by_chance(0.97, (1.0, 0.05), (0.9, 0.1))),
    SampledTraffic("2% customers all (mean 0.3), others 5% (0.9)", 0.888, by_customer(0.02, (0.3, 0.9), (1.0, 0.05))),
    SampledTraffic("scores from 0 to 1, kept with 1 - score", 0.75, the_worse_the_surer),
    SampledTraffic("sessions of 4: bad all, good ones 25%", 0.8, by_score(0.8, 0.25, 1.0), session=4),
    SampledTraffic("sessions of 4: all or 10% by chance", 0.8, by_chance(0.8, (1.0, 0.1), (0.5, 0.5)), session=4),
)


@dataclass(frozen=True)
class Missed:
    """The result of many runs."""

    plain_bias: float
    bias: float
    fixed: float
    ever: float
    width: float
    spread: float


class Runs:
    """The tables of all runs, one row each."""

    def __init__(self, runs: int, session: int) -> None:
        self.rows = np.arange(runs)
        self._session = session
        self._moments, self._weights, self._clusters = MomentTable(), SamplingWeights(), ClusterTable()
        for _ in range(runs):
            self._moments.add_row()
            self._clusters.add_row()

    def add(self, values: Floats, probability: Floats, kept: NDArray[np.bool_]) -> None:
        """Add the kept interactions, or sessions, of all runs; shape (runs, n)."""
        runs = np.nonzero(kept)[0]
        x, p = values[kept], probability[kept]
        if self._session > 1:
            self._add_sessions(runs, x, p)
        rows = np.repeat(runs, self._session)
        x, p = np.repeat(x, self._session), np.repeat(p, self._session)
        self._moments.update(rows, x)
        sampled = p < 1
        if sampled.any():
            self._weights.update(rows[sampled], x[sampled], p[sampled])

    def _add_sessions(self, runs: Rows, x: Floats, p: Floats) -> None:
        sizes = np.full(runs.size, self._session)
        self._clusters.update(runs, sizes, self._session * x)
        sampled = p < 1
        if sampled.any():
            weights, sums = self._session / p[sampled], self._session * x[sampled]
            self._weights.update_clusters(runs[sampled], weights, sums / p[sampled], sizes[sampled], sums)

    def read(self, confidence: float = 0.95) -> Powered:
        """Return the weighted means with their intervals."""
        moments = self._moments.read(self.rows)
        if self._session > 1:
            moments = replace(moments, clusters=self._clusters.read(self.rows))
        weighted = with_weights(moments, self._weights.read(self.rows)).weighted
        if weighted is None:
            raise ValueError("nothing was sampled")
        return weighted.intervals(confidence=confidence)

    def plain(self) -> Floats:
        """Return the plain means of the kept values."""
        return self._moments.read(self.rows).mean


def missed(traffic: SampledTraffic, runs: int, items: int, seed: int = 20261123) -> Missed:
    """Return how often the intervals of many runs missed the mean of the traffic."""
    rng = np.random.default_rng(seed)
    tables = Runs(runs, traffic.session)
    ever = np.zeros(runs, dtype=bool)
    found = None
    for _ in range(items // CHUNK):
        values, probability = traffic.draw(rng, (runs, CHUNK // traffic.session))
        tables.add(values, probability, rng.random(values.shape) < probability)
        found = tables.read()
        ever |= (found.lower > traffic.mean) | (found.upper < traffic.mean)
    if found is None:
        raise ValueError(f"items is {items}: give at least {CHUNK}")
    off = found.estimate - traffic.mean
    return Missed(
        plain_bias=float(np.mean(tables.plain()) - traffic.mean),
        bias=float(np.mean(off)),
        fixed=float(np.mean(np.abs(off) > 1.96 * found.standard_error)),
        ever=float(np.mean(ever)),
        width=float(np.mean(found.upper - found.lower)),
        spread=float(np.std(off) / np.mean(found.standard_error)),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--items", type=int, default=20_000)
    given = parser.parse_args()
    print("# Weighted means of sampled traffic\n")
    print("Written by `make simulations` (`benchmarks/sampled_traffic.py`).\n")
    print(f"{given.runs:,} runs of {given.items:,} interactions of traffic, 95% intervals looked at every {CHUNK}.\n")
    print(
        "| kept | plain mean is off by | weighted mean is off by | ± 1.96 standard errors miss | interval ever missed "
        "| width at the end | spread / stated SE |"
    )
    print("|---|---|---|---|---|---|---|")
    for traffic in TRAFFIC:
        one = missed(traffic, given.runs, given.items)
        print(
            f"| {traffic.name} | {one.plain_bias:+.3f} | {one.bias:+.4f} | {one.fixed:.1%} | {one.ever:.1%} "
            f"| {one.width:.3f} | {one.spread:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
