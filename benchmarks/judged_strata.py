"""A judge's mean where the proxy cannot score a part of the traffic, or the judge cannot tell: coverage of intervals.

    python benchmarks/judged_strata.py [--runs 600] [--items 4000]

Seeded. Answers are yes or no. A share of them has no proxy score, and yes is as frequent among these as among the
others, or rare. The proxy score of an answer is its truth with noise. The judge scores a sample; it cannot tell of a
share of the yes and of a share of the no. True is the mean over the answers that it can tell. Printed are, of 95%
intervals looked at every 100 answers, for the weighted and the prediction-powered mean:

- the mean distance from the truth at the end, and runs in which estimate ± 1.96 standard errors holds it;
- runs in which the interval ever missed it, and its width at the end;
- the estimated share of the answers that can be told, and the true share.
"""

import argparse
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from traffic.luck import beta_luck

from ragtide_aggregator.statistics.intervals.pair_estimates import Powered
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable
from ragtide_aggregator.statistics.tables.batches import Floats

LOOKS_EVERY: Final = 100
CORRELATION: Final = 0.2
"""Of the answers of a session."""


@dataclass(frozen=True)
class Strata:
    """What the answers are like; the numbers are shares."""

    absent: float
    """Answers without a proxy score."""
    yes: tuple[float, float] = (0.74, 0.13)
    """Yes among the answers with a proxy score, and among those without."""
    cannot_tell: tuple[float, float] = (0.0, 0.0)
    """Of the yes, and of the no."""
    rates: tuple[float, float] = (0.2, 0.2)
    """Judged among the answers with a proxy score, and among those without."""
    sessions: int = 1
    """Answers of a session; all of them have a proxy score, or none."""

    @property
    def truth(self) -> tuple[float, float]:
        """The mean over the answers that can be told, and their share."""
        share = np.array([1 - self.absent, self.absent])
        yes = np.array(self.yes)
        tells = yes * (1 - self.cannot_tell[0])
        told = tells + (1 - yes) * (1 - self.cannot_tell[1])
        return float(share @ tells / (share @ told)), float(share @ told)

    @property
    def words(self) -> list[str]:
        """The cells that describe it."""
        return [
            f"{self.absent:.0%}",
            f"{self.yes[0]:.0%} / {self.yes[1]:.0%}",
            f"{self.cannot_tell[0]:.0%} / {self.cannot_tell[1]:.0%}",
            f"{self.rates[0]:.0%} / {self.rates[1]:.0%}",
            "" if self.sessions == 1 else f"of {self.sessions}",
        ]


ALIKE: Final = (0.74, 0.74)
KINDS: Final = (
    *(Strata(absent, yes) for absent in (0.05, 0.2, 0.35, 0.6) for yes in (ALIKE, (0.74, 0.13))),
    *(Strata(0.0, (0.2, 0.2), cannot) for cannot in ((0.3, 0.05), (0.6, 0.05), (0.2, 0.2))),
    *(Strata(0.35, cannot_tell=cannot) for cannot in ((0.3, 0.05), (0.6, 0.05), (0.2, 0.2))),
    Strata(0.35, rates=(0.4, 0.04)),
    Strata(0.35, (0.9, 0.03), rates=(0.4, 0.02)),
    Strata(0.35, rates=(0.2, 0.0)),
    *(
        Strata(absent, cannot_tell=cannot, sessions=5)
        for absent in (0.05, 0.35)
        for cannot in ((0.0, 0.0), (0.3, 0.05))
    ),
)


class Found(NamedTuple):
    """The estimates at the end of all runs, and which runs ever missed the truth."""

    end: Powered
    missed: NDArray[np.bool_]


class _Tables:
    """The sums of all runs, one row each."""

    def __init__(self, runs: int, *, clustered: bool) -> None:
        self.rows, self._absent, self._clustered = np.arange(runs), np.zeros(runs), clustered
        self._moments, self._clusters = MomentTable(), ClusterTable()
        self._single, self._pairs = PairTable(), ClusteredPairs()
        for table in (self._moments, self._clusters, self._single, self._pairs):
            for _ in range(runs):
                table.add_row()

    def add(self, truth: Floats, proxy: Floats, probability: Floats, judged: NDArray[np.bool_]) -> None:
        """Add answers, nan for a score that is missing; shape (runs, sessions, size)."""
        scored = ~np.isnan(proxy)
        self._absent += (~scored).sum(axis=(1, 2))
        self._moments.update(np.nonzero(scored)[0], proxy[scored])
        runs, sessions, _ = np.nonzero(judged)
        scores = np.stack([part[judged] for part in (truth, proxy, probability)])
        if not self._clustered:
            self._single.update(runs, *scores)
            return
        each = truth.shape[1]
        sizes, totals = scored.sum(axis=2).ravel(), np.nansum(proxy, axis=2).ravel()
        some = sizes > 0
        self._clusters.update(np.repeat(self.rows, each)[some], sizes[some], np.minimum(totals, sizes)[some])
        places, of = np.unique(runs * each + sessions, return_inverse=True)
        late = np.zeros(runs.size, dtype=bool)
        self._pairs.update(PairsOfClusters(runs, scores, late, of, places // each, sizes[places], totals[places]))

    def read(self, *, powered: bool) -> Powered:
        """Return the estimates of all runs."""
        moments = self._moments.read(self.rows)
        if not self._clustered:
            everything = Everything(moments, self._absent)
            return self._single.read(self.rows, everything, confidence=0.95, powered=powered)
        everything = Everything(replace(moments, clusters=self._clusters.read(self.rows)), self._absent)
        return self._pairs.read(self.rows, everything, confidence=0.95, powered=powered)


def simulate(kind: Strata, runs: int, items: int, *, seed: int) -> dict[str, Found]:
    """Return what the two estimators find in many runs."""
    rng = np.random.default_rng((20261129, seed))
    tables, (mean, _) = _Tables(runs, clustered=kind.sessions > 1), kind.truth
    missed = {name: np.zeros(runs, dtype=bool) for name in ("weighted", "prediction_powered")}
    shape = (runs, LOOKS_EVERY // kind.sessions, kind.sessions)
    for _ in range(items // LOOKS_EVERY):
        absent = np.broadcast_to(rng.random((*shape[:2], 1)) < kind.absent, shape)
        means = np.where(absent[..., 0], kind.yes[1], kind.yes[0])
        luck = means if kind.sessions == 1 else beta_luck(rng, means, CORRELATION)
        truth = (rng.random(shape) < luck[..., None]).astype(np.float64)
        proxy = np.clip(0.5 + 0.3 * (truth - 0.5) + 0.25 * rng.standard_normal(shape), 0, 1)
        probability = np.where(absent, kind.rates[1], kind.rates[0])
        judged = rng.random(shape) < probability
        cannot = rng.random(shape) < np.where(truth > 0, *kind.cannot_tell)
        scores = np.where(cannot, np.nan, truth), np.where(absent, np.nan, proxy)
        tables.add(*scores, np.maximum(probability, 1e-9), judged)
        for name in missed:
            seen = tables.read(powered=name == "prediction_powered")
            missed[name] |= (seen.lower > mean) | (seen.upper < mean)
    return {name: Found(tables.read(powered=name == "prediction_powered"), ever) for name, ever in missed.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--items", type=int, default=4_000)
    arguments = parser.parse_args()
    print("# Answers that the proxy cannot score, and answers that the judge cannot tell\n")
    print("Written by `make simulations` (`benchmarks/judged_strata.py`).\n")
    print(f"{arguments.runs:,} runs of {arguments.items:,} answers, 95% intervals looked at every {LOOKS_EVERY}.\n")
    header = (
        "without a proxy score", "yes with / without", "cannot tell yes / no", "judged with / without", "sessions",
        "estimator", "off by", "± 1.96 SE covers", "interval ever missed", "width", "can be told", "truly",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for seed, kind in enumerate(KINDS):
        mean, share = kind.truth
        for name, (end, missed) in simulate(kind, arguments.runs, arguments.items, seed=seed).items():
            cells = [
                *kind.words,
                f"`{name}`",
                f"{float(np.mean(end.estimate)) - mean:+.4f}",
                f"{float(np.mean(np.abs(end.estimate - mean) <= 1.96 * end.standard_error)):.1%}",
                f"{float(np.mean(missed)):.1%}",
                f"{float(np.mean(end.upper - end.lower)):.3f}",
                f"{float(np.mean(end.coverage)):.1%}",
                f"{share:.1%}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
