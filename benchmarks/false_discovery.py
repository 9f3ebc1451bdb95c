"""The share of false alarms among all alarms of many watches, and how soon changes are found.

    python benchmarks/false_discovery.py [--runs 40] [--steps 2500]

Seeded; `live_false_discovery.py` measures alert rules. 50 pipelines have 4 yes-or-no metrics, each watched as a whole
and in 4 segments. An item has one value a metric; the metrics of an item depend on each other (a shared luck with
correlation 0.7), and an item counts for its segment and for the whole. So watches share items. Every mean is 0.85,
which is the limit of every watch: the worst case. A quarter into the period the mean of some (segment, metric) falls to
0.7, and with it that of the whole to 0.8125: two changed watches.

Compared, over one period, after a first one of the same traffic:

- budget: at most so many false alarms a period on average (`Budget`), whatever else alarms;
- false discovery rate: the level falls with each alarm of the period (`AlarmLevel`), as alert rules do it;
- the same, all watches: after each item all watches may alarm together, not only those that took it (`rejected`).

Printed are the mean of the largest share of false alarms among all alarms at any moment of the period, the number of
false alarms, the share of changed watches found by the end, and their delay in values of the watch.
"""

import argparse
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ragtide_aggregator.statistics.drift.budget import Budget
from ragtide_aggregator.statistics.drift.evidence import BETS, LARGEST_BET, SMALLEST_BET
from ragtide_aggregator.statistics.drift.false_discovery import AlarmLevel, rejected
from ragtide_aggregator.statistics.tables.batches import Floats

PIPELINES, SEGMENTS, METRICS = 50, 4, 4
WATCHES: Final = PIPELINES * (SEGMENTS + 1) * METRICS
MEAN, FALLEN = 0.85, 0.7
LUCK: Final = 0.7
RATE: Final = 0.1
PERIOD_MS: Final = 1000
CONTROLLED, TOGETHER = "false discovery rate", "the same, all watches"
BEGINS: Final = 0.25
"""Part of the period after which means fall."""
LOSSES: Final = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)
"""Gain or loss of each bet of a watch from a value, per (limit - value) / (1 - limit)."""


@dataclass
class Outcome:
    """The alarms of all runs of one procedure."""

    worst_share: Floats
    """Largest share of false alarms among all alarms at any moment; one a run."""
    false: Floats
    """Number of false alarms; one a run."""
    delays: Floats
    """Values of the watch from its change to its alarm; infinite if it has none; over all runs."""


def cost_of(values: int, procedure: str) -> float:
    """Return the cost of a value in the second of two periods with as many values."""
    kept: Budget | AlarmLevel
    if procedure in (CONTROLLED, TOGETHER):
        kept = AlarmLevel(RATE, PERIOD_MS)
        kept.begin(0, 0.0)
        kept.spend(values)
        kept.begin(PERIOD_MS, 0.0)
    else:
        kept = Budget(float(procedure.split()[1]), PERIOD_MS)
        kept.begin(0)
        kept.spend(values)
        kept.begin(PERIOD_MS)
    # The forecast is right, so that all values cost the same.
    return float(kept.spend(1)[0])


def changes(rng: np.random.Generator, runs: int, changed: int) -> NDArray[np.bool_]:
    """Return which (pipeline, segment, metric) fall: half as many as watches change, on metrics of their own."""
    found = np.zeros((runs, PIPELINES, SEGMENTS, METRICS), dtype=bool)
    for run in found:
        for pair in rng.choice(PIPELINES * METRICS, changed // 2, replace=False).tolist():
            run[pair // METRICS, rng.integers(SEGMENTS), pair % METRICS] = True
    return found


def simulate(procedure: str, changed: int, runs: int, steps: int, seed: int = 0) -> Outcome:
    """Return the alarms of a period with so many changed watches."""
    rng = np.random.default_rng((20261122, changed, seed))
    falls = changes(rng, runs, changed)
    # Watches of a pipeline: its segments, then the whole.
    truly = np.concatenate([falls, falls.any(axis=2, keepdims=True)], axis=2)
    cost = cost_of(steps * PIPELINES * METRICS * 2, procedure)
    controlled = procedure in (CONTROLLED, TOGETHER)
    m = np.zeros((runs, PIPELINES, SEGMENTS + 1, METRICS, BETS))
    seen = np.zeros(m.shape[:-1])
    raised, false = np.zeros(runs, dtype=int), np.zeros(runs)
    worst = np.zeros(runs)
    delay = np.full(truly.shape, np.inf)
    run, pipeline = np.ogrid[:runs, :PIPELINES]
    for step in range(steps):
        after = step >= BEGINS * steps
        segment = rng.integers(SEGMENTS, size=(runs, PIPELINES))
        luck = rng.standard_normal((runs, PIPELINES, 1))
        own = rng.standard_normal((runs, PIPELINES, METRICS))
        mean = np.where(falls[run, pipeline, segment] & after, FALLEN, MEAN)
        x = np.sqrt(LUCK) * luck + np.sqrt(1 - LUCK) * own < ndtri(mean)
        pays = 1 + ((MEAN - x) / (1 - MEAN))[..., None] * LOSSES
        m[:, :, SEGMENTS] = (m[:, :, SEGMENTS] + cost) * pays
        m[run, pipeline, segment] = (m[run, pipeline, segment] + cost) * pays
        if after:
            seen[:, :, SEGMENTS] += 1
            seen[run, pipeline, segment] += 1
        evidence = m.mean(axis=-1)
        # The k-th largest is at most 1 / k of the sum, so below this no k watches alarm.
        least = 1 / (raised + 1) if controlled else 1 / WATCHES
        for number in np.flatnonzero(evidence.sum(axis=(1, 2, 3)) >= least).tolist():
            if procedure == TOGETHER:
                flat = evidence[number].ravel()
                alarms = rejected(flat, int(raised[number])).reshape(truly.shape[1:])
            elif controlled:
                alarms = one_by_one(evidence[number], segment[number], int(raised[number]))
            else:
                alarms = evidence[number] >= 1
            if not alarms.any():
                continue
            raised[number] += int(alarms.sum())
            right = alarms & truly[number] & after
            false[number] += int((alarms & ~right).sum())
            worst[number] = max(worst[number], false[number] / raised[number])
            delay[number][right] = np.minimum(delay[number], seen[number])[right]
            m[number][alarms] = 0
    return Outcome(worst, false, delay[truly])


def one_by_one(evidence: Floats, segment: NDArray[np.int64], raised: int) -> NDArray[np.bool_]:
    """Return which watches alarm when those with a value are looked at one after the other; of one run."""
    pipelines = np.arange(PIPELINES)
    looks = np.stack([evidence[:, SEGMENTS], evidence[pipelines, segment]], axis=1).ravel()
    found, start = np.zeros(looks.size, dtype=bool), 0
    while (reached := np.flatnonzero(looks[start:] * (raised + 1) >= 1)).size:
        start += int(reached[0]) + 1
        found[start - 1] = True
        raised += 1
    alarms = np.zeros(evidence.shape, dtype=bool)
    alarms[:, SEGMENTS], alarms[pipelines, segment] = found.reshape(PIPELINES, 2, METRICS).transpose(1, 0, 2)
    return alarms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=2_500)
    arguments = parser.parse_args()
    print("# Share of false alarms\n\nWritten by `make simulations` (`benchmarks/false_discovery.py`).\n")
    print(
        f"{arguments.runs:,} periods of {arguments.steps:,} items in each of {PIPELINES} pipelines, {WATCHES:,} "
        f"watches, means of {MEAN} of which some fall to {FALLEN}. The rate is {RATE:g}.\n"
    )
    header = (
        "changed watches", "procedure", "largest share of false alarms, mean", "false alarms a period",
        "changes found", "median delay of all changes",
    )  # fmt: skip
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for changed in (0, 10, 50, 200):
        for procedure in (CONTROLLED, TOGETHER, f"budget {RATE:g}", "budget 1"):
            found = simulate(procedure, changed, arguments.runs, arguments.steps)
            error = found.worst_share.std() / np.sqrt(arguments.runs)
            power = ["", ""]
            if changed:
                power = [f"{np.isfinite(found.delays).mean():.1%}", f"{np.median(found.delays):,.0f}"]
            cells = [
                f"{changed}",
                procedure,
                f"{found.worst_share.mean():.3f} ± {error:.3f}",
                f"{found.false.mean():.2f}",
                *power,
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
