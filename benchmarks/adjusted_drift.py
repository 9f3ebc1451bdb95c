"""Drift within segments: run lengths when only the mix of segments moves, and delays of real falls.

    python benchmarks/adjusted_drift.py [--runs 200]

Seeded. Yes-or-no scores in three segment values with shares 0.15, 0.65, 0.2 and means 0.5, 0.92, 0.9; the mean of all
is 0.853. All detectors have a run length of 10,000 and no smallest effect. One knows the mean of all scores; the
adjusted one the mean of each segment value. Learned: the same means are learned from the first 2,000 scores, as alert
rules do: the lower end of the 95% interval, for each segment value with its share of the 5%.

A campaign brings more of the segment value with the lowest mean, and the detectors begin with it. Scores fall after
1,000 scores without a change, and delays count from the fall, in runs without an alarm before it. Runs are cut at
20,000 scores; the figure is the number of scores over the number of alarms.
"""

import argparse
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.drift.adjusted_drift import CommonScale
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.tables.batches import Floats

SHARES: Final = np.array([0.15, 0.65, 0.2])
MEANS: Final = np.array([0.5, 0.92, 0.9])
BEFORE, CUT, LEARNED = 1_000, 20_000, 2_000
RUN_LENGTH: Final = 10_000.0

CHANGES: Final[dict[str, tuple[Floats, Floats]]] = {
    "nothing": (SHARES, MEANS),
    "campaign: 15% to 25%": (np.array([0.25, 0.57, 0.18]), MEANS),
    "campaign: 15% to 40%": (np.array([0.4, 0.46, 0.14]), MEANS),
    "campaign: 15% to 70%": (np.array([0.7, 0.23, 0.07]), MEANS),
    "all segments fall by 0.05": (SHARES, MEANS - 0.05),
    "all segments fall by 0.1": (SHARES, MEANS - 0.1),
    "all segments fall by 0.2": (SHARES, MEANS - 0.2),
    "the largest falls by 0.15": (SHARES, MEANS - np.array([0, 0.15, 0])),
    "the smallest falls by 0.4": (SHARES, MEANS - np.array([0.4, 0, 0])),
    "campaign to 40%, all fall by 0.1": (np.array([0.4, 0.46, 0.14]), MEANS - 0.1),
}
"""By name the shares and the means after the change."""


def items(
    rng: np.random.Generator, runs: int, n: int, shares: Floats, means: Floats
) -> tuple[Floats, NDArray[np.intp]]:
    """Return scores and segments, shape (runs, n)."""
    segments = rng.choice(shares.size, (runs, n), p=shares)
    return (rng.random((runs, n)) < means[segments]).astype(np.float64), np.asarray(segments, dtype=np.intp)


def first_alarms(values: Floats, limits: Floats) -> NDArray[np.intp]:
    """Return the place of each run's first alarm; the number of its values without one.

    Args:
        values: shape (runs, n).
        limits: of each run.
    """
    runs, n = values.shape
    table = DetectorTable()
    for limit in limits.tolist():
        table.configure(table.add_row(), limit=limit, direction="fall", run_length=RUN_LENGTH)
    found = np.full(runs, n)
    going = np.arange(runs)
    for start in range(0, n, 1_000):
        part = values[going, start : start + 1_000]
        rows, tags = np.repeat(going, part.shape[1]), np.zeros(part.size, dtype=np.int64)
        alarms, _ = table.update(rows, part.ravel(), tags)
        for alarm in alarms:
            found[alarm.row] = start + alarm.position % part.shape[1]
        going = going[found[going] == n]
        if not going.size:
            break
    return found


def ends(scores: Floats, alpha: float) -> Floats:
    """Return the lower end of the interval for the mean of each row; nan values do not count."""
    n = np.maximum(np.isfinite(scores).sum(axis=-1), 1)
    mean = np.nansum(scores, axis=-1) / n
    v = np.nansum((scores - mean[:, None]) ** 2, axis=-1) * (1 + np.log(n) / n) + 0.25
    return np.asarray(np.clip(running_interval(mean, n, v, confidence=1 - alpha)[0], 0.01, 0.99))


def limits_of(rng: np.random.Generator, runs: int, *, learned: bool) -> tuple[Floats, Floats]:
    """Return the limits of all scores, shape (runs,), and of each segment, shape (runs, segments)."""
    if not learned:
        return np.full(runs, float(SHARES @ MEANS)), np.tile(MEANS, (runs, 1))
    scores, segments = items(rng, runs, LEARNED, SHARES, MEANS)
    each = [ends(np.where(segments == number, scores, np.nan), 0.05 / MEANS.size) for number in range(MEANS.size)]
    return ends(scores, 0.05), np.stack(each, axis=1)


class Found(NamedTuple):
    """Runs of one detector."""

    lengths: NDArray[np.intp]
    """Scores until the alarm, or until the end of the run."""
    alarmed: NDArray[np.bool_]

    def __str__(self) -> str:
        alarms = int(self.alarmed.sum())
        if not alarms:
            return f"over {self.lengths.sum():,.0f}"
        mean = float(self.lengths.sum()) / alarms
        error = float(self.lengths[self.alarmed].std()) if alarms == self.alarmed.size else mean
        return f"{mean:,.0f} ({error / alarms**0.5:,.0f})"


def delays(rng: np.random.Generator, runs: int, change: str, *, learned: bool) -> tuple[Found, Found]:
    """Return the runs of the plain and of the adjusted detector after a change, without those that alarmed before."""
    shares, means = CHANGES[change]
    before = 0 if np.array_equal(means, MEANS) else BEFORE
    parts = [items(rng, runs, before, SHARES, MEANS), items(rng, runs, CUT, shares, means)]
    scores, segments = (np.concatenate([part[place] for part in parts], axis=1) for place in (0, 1))
    whole, each = limits_of(rng, runs, learned=learned)
    scales = [CommonScale.of(limits.min(), limits.max()) for limits in each]
    adjusted = np.stack(
        [scale.values(x, limits[s]) for scale, x, limits, s in zip(scales, scores, each, segments, strict=True)]
    )
    plain = first_alarms(scores, whole)
    within = first_alarms(adjusted, np.array([scale.limit for scale in scales]))
    plain, within = (alarms[alarms >= before] - before for alarms in (plain, within))
    return Found(np.minimum(plain + 1, CUT), plain < CUT), Found(np.minimum(within + 1, CUT), within < CUT)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="runs of each row")
    runs = parser.parse_args().runs
    print("# Drift within segments: run lengths and delays\n")
    print(
        "Written by `make adjusted` (`benchmarks/adjusted_drift.py`). Mean number of scores until an alarm; in brackets"
    )
    print(f"the standard error. {runs} runs, each cut at {CUT:,} scores.")
    for learned in (False, True):
        print(f"\n## Means {'learned from 2,000 scores' if learned else 'known'}\n")
        print("| change | mean of all | adjusted by segment |\n|---|---|---|")
        for place, change in enumerate(CHANGES):
            found = delays(np.random.default_rng((20261122, 14, learned, place)), runs, change, learned=learned)
            print(f"| {change} | {found[0]} | {found[1]} |", flush=True)


if __name__ == "__main__":
    main()
