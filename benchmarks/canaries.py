"""Simulated releases: how often a good canary is called worse, and how soon a bad one is found.

    python benchmarks/canaries.py [--canaries 1000] [--bad 300]

Each release is a day of 43,200 answers, of which the canary gets 5%. It has six metrics: adherence as a judge says it,
yes or no, with a mean of 0.88; completeness, context relevance and context utilization as scores between 0 and 1;
latency and cost with long tails. The product compares after every answer, so it looks 43,200 times.

Three kinds of traffic: steady; day and night, where adherence swings by 0.08 and latency by half, and the canary's
share swings with them between 1% and 9%; and another mix, where the canary gets 60% of its answers from a segment value
that has 25% of the rest, and whose adherence is lower by 0.15. Beside it, for contrast, a z-test of adherence at 5% on
the same answers that looks each time 20 answers of the canary have come, as a rollout tool does with a fixed threshold.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Final, NamedTuple

import numpy as np

from ragtide_aggregator.alerts.watched_release import ReleaseOptions, WatchedRelease
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.intervals.intervals import interval

ANSWERS: Final = 43_200
"""Answers of a day: one in two seconds."""

SHARE: Final = 0.05
START_MS: Final = 1_790_000_000_000
ADHERENCE: Final = 0.88
SCORES: Final = ("trace.completeness", "trace.context_relevance", "trace.context_utilization")
Z: Final = 1.645


@dataclass(frozen=True)
class Canary:
    """A kind of release."""

    traffic: str
    fall: float = 0.0
    """Fall of adherence in the canary."""

    @property
    def name(self) -> str:
        """The kind in words."""
        return f"{self.traffic}, " + (f"adherence falls by {self.fall:.2f}" if self.fall else "nothing changed")


class Outcome(NamedTuple):
    """What became of a release."""

    verdict: str
    n: int
    """Answers of the canary at the verdict."""
    tested: int | None
    """Answers of the canary at which the z-test called it worse; None if it never did."""


def key(metric: str, labeler: str = "judge") -> EstimateKey:
    """Return a key without a scope."""
    return EstimateKey("", None, None, metric, "ragbench", labeler, "1")


def answers(canary: Canary, rng: np.random.Generator) -> Iterator[tuple[bool, int, list[tuple[EstimateKey, float]]]]:
    """Yield the answers of a day: whether it is the canary's, its segment value, and its scores."""
    swing = np.sin(2 * pi * np.arange(ANSWERS) / ANSWERS) if canary.traffic == "day and night" else np.zeros(ANSWERS)
    second = rng.random(ANSWERS) < SHARE * (1 + 0.8 * swing)
    other = np.zeros(ANSWERS, dtype=bool)
    if canary.traffic == "another mix":
        other = rng.random(ANSWERS) < np.where(second, 0.6, 0.25)
    mean = ADHERENCE - 0.08 * swing - 0.15 * other - canary.fall * second
    adherent = (rng.random(ANSWERS) < mean).astype(float)
    scores = rng.beta(4, 2, (ANSWERS, len(SCORES)))
    latency = np.minimum(rng.lognormal(0.7, 0.6, ANSWERS) * (1 + 0.5 * swing) / 300, 1)
    cost = np.minimum(rng.lognormal(-6, 0.5, ANSWERS) / 5, 1)
    keys = [key("trace.adherence"), *map(key, SCORES), key("answer.latency_s"), key("answer.cost_usd")]
    columns = [adherent, *scores.T, latency, cost]
    for of_second, stratum, *values in zip(
        second.tolist(), (1 + other).tolist(), *(column.tolist() for column in columns), strict=True
    ):
        yield of_second, stratum, list(zip(keys, values, strict=True))


def released(canary: Canary, seed: int) -> Outcome:
    """Return the outcome of one release."""
    release = WatchedRelease("shop", "v1", "v2", START_MS, ReleaseOptions())
    sums, counts, tested = [0.0, 0.0], [0, 0], None
    for place, (second, stratum, values) in enumerate(answers(canary, np.random.default_rng(seed))):
        time_ms = START_MS + 2_000 * place
        release.count(second=second, time_ms=time_ms)
        release.take(second=second, stratum=stratum, values=values, time_ms=time_ms)
        sums[second] += values[0][1]
        counts[second] += 1
        if tested is None and second and counts[1] >= 20 and counts[1] % 20 == 0 and is_worse(sums, counts):
            tested = counts[1]
        if release.decide(time_ms):
            break
    return Outcome(release.verdict, release.n[1], tested)


def is_worse(sums: Sequence[float], counts: Sequence[int]) -> bool:
    """Return whether a z-test at 5% calls the canary worse."""
    means = [total / n for total, n in zip(sums, counts, strict=True)]
    error = sqrt(sum(max(mean * (1 - mean), 1e-4) / n for mean, n in zip(means, counts, strict=True)))
    return means[1] - means[0] < -Z * error


def row(canary: Canary, outcomes: Sequence[Outcome]) -> str:
    """Return a row of the table."""
    n = len(outcomes)
    worse = [outcome.n for outcome in outcomes if outcome.verdict == "worse"]
    fine = [outcome.n for outcome in outcomes if outcome.verdict == "not_worse"]
    ends = interval("wilson", mean=len(worse) / n, n=n, confidence=0.95)
    median = float(np.median([o.n if o.verdict == "worse" else np.inf for o in outcomes]))
    late = [outcome.n if outcome.verdict == "not_worse" else np.inf for outcome in outcomes]
    ninth = float(np.sort(late)[int(np.ceil(0.9 * n)) - 1])
    tested = sum(outcome.tested is not None for outcome in outcomes)
    cells = (
        canary.name,
        f"{n:,}",
        f"{len(worse) / n:.1%} ({ends.lower:.1%} to {ends.upper:.1%})",
        f"{median:,.0f}" if np.isfinite(median) else "-",
        f"{len(fine) / n:.1%}",
        f"{ninth:,.0f}" if np.isfinite(ninth) else "-",
        f"{tested / n:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Simulate the releases, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=1_000, help="releases of each kind in which nothing changed")
    parser.add_argument("--bad", type=int, default=300, help="releases of each kind with a fall")
    options = parser.parse_args()
    print("# Releases: wrong verdicts, and answers until the right one\n")
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    print("Answers are those of the canary. `make canaries` writes this page.\n")
    columns = (
        "release", "simulated", "called worse", "median answers until worse", "called not worse",
        "answers until 90% are called not worse", "z-test calls it worse",
    )  # fmt: skip
    print(f"| {' | '.join(columns)} |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor() as pool:
        for fall in (0.0, 0.1, 0.05):
            for traffic in ("steady", "day and night", "another mix"):
                canary, number = Canary(traffic, fall), options.bad if fall else options.canaries
                print(row(canary, list(pool.map(partial(released, canary), range(number), chunksize=5))), flush=True)


if __name__ == "__main__":
    main()
