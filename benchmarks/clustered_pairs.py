"""How often the weighted and prediction-powered intervals ever miss the mean, with clusters and without.

    python benchmarks/clustered_pairs.py [--runs 400] [--items 10000]

Seeded. True scores are yes or no with mean 0.85; those of a cluster go well or badly together (beta-binomial, with a
given intraclass correlation). A part of the items is judged at random, and the proxy score of each item is the mean of
its true score and a noise, uniform on [0, 1]: of the item, or of the whole cluster. Late pairs come a number of items
after their clusters were closed, as gold scores of people do. Printed are, of 95% intervals looked at every 50 items:

- runs in which they ever missed the mean, while each item counts by itself, and over clusters;
- width over clusters at the end, and how many times wider that is than by item;
- the mean design effect at the end;
- the spread of the estimates over the runs, divided by their mean standard error: 1 if that is right.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from traffic.luck import beta_luck

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats

MEAN: Final = 0.85
CHUNK: Final = 50
"""Items between two looks; a multiple of each cluster's size."""


@dataclass(frozen=True)
class Traffic:
    """Items in clusters of one size, a part of them judged."""

    name: str
    size: int
    icc: float
    rate: float
    """Part of the items that are judged."""
    shared_noise: bool = False
    """Whether the proxy's noise is that of the whole cluster."""
    late: int = 0
    """Chunks of items after which the judged scores come; 0 for at once."""
    leave: float = 0.0
    """Probability that a user leaves the session after a bad answer."""
    by_score: bool = False
    """Whether items are judged the more often the lower their proxy score is."""


TRAFFIC: Final = (
    Traffic("independent", 1, 0.0, 0.2),
    Traffic("sessions of 5, 0.2", 5, 0.2, 0.05),
    Traffic("sessions of 5, 0.2", 5, 0.2, 0.2),
    Traffic("sessions of 5, 0.2", 5, 0.2, 1.0),
    Traffic("the same, judged by the proxy score", 5, 0.2, 0.2, by_score=True),
    Traffic("the same, the proxy's noise by session", 5, 0.2, 1.0, shared_noise=True),
    Traffic("the same, users leave after bad answers", 5, 0.2, 1.0, leave=0.5),
    Traffic("the same, judged late", 5, 0.2, 0.05, late=10),
    Traffic("the same, judged late", 5, 0.2, 0.2, late=10),
    Traffic("the same, judged late", 5, 0.2, 1.0, late=10),
    Traffic("sessions of 5, 0.5", 5, 0.5, 1.0),
    Traffic("batches of 50, 0.1", 50, 0.1, 0.2),
    Traffic("batches of 50, 0.1", 50, 0.1, 1.0),
)


@dataclass(frozen=True)
class Chunk:
    """Clusters of all runs between two looks; shape (runs, clusters, size)."""

    true: Floats
    proxy: Floats
    probability: Floats
    there: NDArray[np.bool_]
    """False for an item that was not asked any more."""
    judged: NDArray[np.bool_]


def chunks(traffic: Traffic, runs: int, items: int, rng: np.random.Generator) -> Iterator[Chunk]:
    """Yield the items of all runs, chunk by chunk."""
    shape = (runs, CHUNK // traffic.size, traffic.size)
    for _ in range(items // CHUNK):
        luck = beta_luck(rng, np.full(shape[:2], MEAN), traffic.icc)
        true = (rng.random(shape) < luck[..., None]).astype(np.float64)
        noise = rng.random((*shape[:2], 1 if traffic.shared_noise else traffic.size))
        proxy = (true + noise) / 2
        leaves = (true == 0) & (rng.random(shape) < traffic.leave)
        there = np.cumsum(leaves, axis=2) - leaves == 0
        probability = np.full(shape, traffic.rate)
        if traffic.by_score:
            probability *= 2 - proxy
        yield Chunk(true, proxy, probability, there, there & (rng.random(shape) < probability))


def true_mean(traffic: Traffic) -> float:
    """Return the mean over interactions, from many sessions where users leave."""
    if not traffic.leave:
        return MEAN
    many = list(chunks(traffic, 20_000, 20 * CHUNK, np.random.default_rng(20261122)))
    total = sum(float(chunk.true[chunk.there].sum()) for chunk in many)
    return total / sum(int(chunk.there.sum()) for chunk in many)


class Looks:
    """The tables of all runs, and which runs have missed the mean.

    Args:
        traffic: kind of traffic.
        runs: number of runs, one row each.
    """

    def __init__(self, traffic: Traffic, runs: int) -> None:
        self._traffic, self._runs = traffic, runs
        self.rows = np.arange(runs)
        self._single, self._clustered = PairTable(), ClusteredPairs()
        self._moments, self._clusters = MomentTable(), ClusterTable()
        for table in (self._single, self._clustered, self._moments, self._clusters):
            for _ in range(runs):
                table.add_row()
        self._truth = true_mean(traffic)
        self.missed = np.zeros((2, 2, runs), dtype=bool)

    def add(self, chunk: Chunk) -> None:
        """Add the proxy scores of a chunk."""
        self._moments.update(np.nonzero(chunk.there)[0], chunk.proxy[chunk.there])
        sizes = chunk.there.sum(axis=2)
        totals = np.minimum((chunk.proxy * chunk.there).sum(axis=2), sizes)
        self._clusters.update(np.repeat(self.rows, sizes.shape[1]), sizes.ravel(), totals.ravel())

    def judge(self, chunk: Chunk) -> None:
        """Add the judged scores of a chunk."""
        runs, clusters, _ = np.nonzero(chunk.judged)
        count, each = runs.size, chunk.true.shape[1]
        scores = np.stack([part[chunk.judged] for part in (chunk.true, chunk.proxy, chunk.probability)])
        self._single.update(runs, *scores)
        places, of = np.unique(runs * each + clusters, return_inverse=True)
        late = self._traffic.late > 0
        # A late pair does not know the proxy scores of its cluster.
        known = chunk.there & (not late)
        sizes, totals = known.sum(axis=2).ravel()[places], (chunk.proxy * known).sum(axis=2).ravel()[places]
        self._clustered.update(PairsOfClusters(runs, scores, np.full(count, late), of, places // each, sizes, totals))

    def read(self, everything: bool) -> tuple[Powered, Powered]:
        """Return the estimates by item and over clusters."""
        known = None
        if everything:
            moments = replace(self._moments.read(self.rows), clusters=self._clusters.read(self.rows))
            known = Everything.scored(moments)
        return (
            self._single.read(self.rows, known, confidence=0.95),
            self._clustered.read(self.rows, known, confidence=0.95),
        )

    def look(self) -> None:
        """Take note of the runs whose intervals miss the mean now."""
        for estimator in range(2):
            for way, found in enumerate(self.read(estimator == 1)):
                self.missed[estimator, way] |= (found.lower > self._truth) | (found.upper < self._truth)


def simulate(traffic: Traffic, runs: int, items: int, *, seed: int) -> Looks:
    """Return the tables at the end of all runs, with the runs that ever missed."""
    looks = Looks(traffic, runs)
    waiting: list[Chunk] = []
    for chunk in chunks(traffic, runs, items, np.random.default_rng((20261122, seed))):
        looks.add(chunk)
        waiting.append(chunk)
        if len(waiting) > traffic.late:
            looks.judge(waiting.pop(0))
            looks.look()
    return looks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--items", type=int, default=10_000)
    arguments = parser.parse_args()
    print("# Weighted and prediction-powered estimates over clusters\n")
    print("Written by `make simulations` (`benchmarks/clustered_pairs.py`).\n")
    print(f"{arguments.runs:,} runs of {arguments.items:,} items, 95% intervals looked at every {CHUNK} items.\n")
    header = (
        "traffic", "judged", "estimate", "ever missed, by item", "ever missed, over clusters", "width at the end",
        "times that by item", "design effect", "spread / stated SE",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for seed, traffic in enumerate(TRAFFIC):
        looks = simulate(traffic, arguments.runs, arguments.items, seed=seed)
        for place, estimator in enumerate(("weighted", "prediction_powered")):
            single, clustered = looks.read(place == 1)
            width = float(np.mean(clustered.upper - clustered.lower))
            cells = [
                traffic.name,
                f"{traffic.rate:.0%}",
                f"`{estimator}`",
                *(f"{share:.1%}" for share in looks.missed[place].mean(axis=1).tolist()),
                f"{width:.3f}",
                f"{width / float(np.mean(single.upper - single.lower)):.2f}",
                f"{float(np.mean(clustered.design_effect)):.2f}",
                f"{float(np.std(clustered.estimate) / np.mean(clustered.standard_error)):.2f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
