"""How often intervals ever miss the truth when looked at after every item, and how wide they are.

    python benchmarks/coverage.py [--runs 1000] [--length 10000]

Seeded. The anytime-valid strategies are looked at from the first item on, `normal`, `wilson` and `hoeffding` from the
30th. Without replacement every run is another order of the same 10,000 values, all of which are seen at the end. A mean
that moves starts at 0.9, falls to 0.6 halfway and is 0.8 in the last quarter; the truth is then the average of what it
has been, which only `running` claims to hold.

`betting` is asked whether it keeps the true mean, which it may rule out only if its interval misses it.
"""

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.intervals.asymptotic import asymptotic_interval
from ragtide_aggregator.statistics.intervals.bernstein import BernsteinTable
from ragtide_aggregator.statistics.intervals.betting import BettingTable
from ragtide_aggregator.statistics.intervals.intervals import fixed_interval, normal_half_width
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.tables.batches import Floats

Generator = np.random.Generator
ANYTIME: Final = ("running", "empirical_bernstein", "betting", "asymptotic")
FIXED: Final = ("normal", "wilson", "hoeffding")
FIRST_LOOK: Final = 30
WIDTHS_AT: Final = (50, 400, 1_000, 10_000)
WIDTH_RUNS: Final = 20


class Case(NamedTuple):
    """A distribution: how to draw runs, and its true mean at every item."""

    name: str
    draw: Callable[[Generator, int, int], Floats]
    means: Callable[[int], Floats]
    variance: float


def _bernoulli(p: float) -> Case:
    return Case(
        f"Bernoulli {p:g}",
        lambda rng, runs, length: (rng.random((runs, length)) < p).astype(np.float64),
        lambda length: np.full(length, p),
        p * (1 - p),
    )


def _beta(a: float, b: float) -> Case:
    return Case(
        f"Beta({a:g},{b:g})",
        lambda rng, runs, length: rng.beta(a, b, (runs, length)),
        lambda length: np.full(length, a / (a + b)),
        a * b / ((a + b) ** 2 * (a + b + 1)),
    )


def _moving(length: int) -> Floats:
    at = np.arange(length) / length
    return np.where(at < 0.5, 0.9, np.where(at < 0.75, 0.6, 0.8))


TWO_POINT = Case(
    "two-point",
    lambda rng, runs, length: np.where(rng.random((runs, length)) < 0.7, 0.2, 0.9),
    lambda length: np.full(length, 0.7 * 0.2 + 0.3 * 0.9),
    0.7 * 0.3 * 0.7**2,
)
MOVING = Case(
    "a mean that moves",
    lambda rng, runs, length: (rng.random((runs, length)) < _moving(length)).astype(np.float64),
    _moving,
    float("nan"),
)
CASES: Final = (
    *(_bernoulli(p) for p in (0.01, 0.1, 0.5, 0.9, 0.99)),
    _beta(4, 2),
    _beta(0.5, 0.5),
    TWO_POINT,
    MOVING,
)


class Paths(NamedTuple):
    """Running means of many runs, and the other inputs of their intervals; shape (runs, length)."""

    n: NDArray[np.int64]
    mean: Floats
    v: Floats
    variance: Floats


def paths(values: Floats) -> Paths:
    """Return the running means of runs, one a row."""
    n = np.arange(1, values.shape[1] + 1)
    mean = np.cumsum(values, axis=1) / n
    before = np.concatenate([np.full((len(values), 1), 0.5), mean[:, :-1]], axis=1)
    v = np.cumsum((values - before) ** 2, axis=1)
    variance = np.maximum(np.cumsum(values**2, axis=1) / n - mean**2, 0.0) * n / np.maximum(n - 1, 1)
    return Paths(n, mean, v, variance)


def ever_missed(values: Floats, means: Floats, confidence: float, *, replaced: bool = True) -> dict[str, float]:
    """Return for each strategy the share of runs in which its interval ever misses the truth.

    Args:
        values: runs, one a row.
        means: true mean at every item.
        confidence: level of the intervals.
        replaced: False if every run is an order of the same finite population.
    """
    length = values.shape[1]
    path = paths(values)
    # Of a finite population the truth is the mean of all of it.
    truth = np.cumsum(means) / path.n if replaced else np.full(length, values[0].mean())
    found = {"running": _running_missed(path, truth, confidence)}
    found["asymptotic"] = _outside(asymptotic_interval(path.mean, path.n, path.variance, confidence=confidence), truth)
    population = None if replaced else length
    for strategy in FIXED:
        ends = fixed_interval(
            strategy, path.mean, path.n, confidence=confidence, variance=path.variance, population=population
        )
        found[strategy] = _outside(ends, truth, first=FIRST_LOOK)
    found |= _betting_missed(values, truth, confidence, population)
    return found


def _outside(ends: tuple[Floats, Floats], truth: Floats, *, first: int = 1) -> float:
    hair = 1e-9
    missed = (ends[0] > truth + hair) | (ends[1] < truth - hair)
    return float(np.mean(np.any(missed[:, first - 1 :], axis=1)))


def _running_missed(path: Paths, truth: Floats, confidence: float) -> float:
    # The boundary is above sqrt(2 V log(1 / alpha_side)), so only where the sum is beyond that can it be crossed.
    sums = np.abs(path.mean - truth) * path.n
    runs, at = np.nonzero(sums**2 > 2 * path.v * np.log(2 / (1 - confidence)))
    lower, upper = running_interval(path.mean[runs, at], path.n[at], path.v[runs, at], confidence=confidence)
    missed = (lower > truth[at]) | (upper < truth[at])
    return len(set(runs[missed].tolist())) / len(path.mean)


def _betting_missed(values: Floats, truth: Floats, confidence: float, population: int | None) -> dict[str, float]:
    rows = np.arange(len(values))
    bernstein = BernsteinTable(confidence)
    betting = BettingTable(confidence, grid=truth[-1:])
    for _ in rows:
        bernstein.add_row()
        betting.add_row(population)
    missed = {"empirical_bernstein": np.zeros(rows.size, dtype=bool), "betting": np.zeros(rows.size, dtype=bool)}
    for at, column in enumerate(values.T):
        bernstein.update(rows, column)
        betting.update(rows, column)
        lower, upper = bernstein.interval(rows)
        missed["empirical_bernstein"] |= (lower > truth[at] + 1e-9) | (upper < truth[at] - 1e-9)
        # When all of a population is seen the mean is known, and the grid's one mean may be off by rounding.
        if population is None or at + 1 < population:
            missed["betting"] |= ~betting.kept(rows)[:, 0]
    return {name: float(np.mean(which)) for name, which in missed.items()}


def widths(values: Floats, variance: float, confidence: float, population: int | None = None) -> dict[str, list[float]]:
    """Return each strategy's median width at some n, relative to the fixed-n normal with the true variance."""
    path = paths(values)
    rows = np.arange(len(values))
    bernstein, betting = BernsteinTable(confidence), BettingTable(confidence)
    for _ in rows:
        bernstein.add_row()
        betting.add_row(population)
    found: dict[str, list[float]] = {name: [] for name in (*ANYTIME, *FIXED)}
    for at, column in enumerate(values.T):
        bernstein.update(rows, column)
        betting.update(rows, column)
        n = at + 1
        if n not in WIDTHS_AT:
            continue
        ideal = 2 * float(normal_half_width(variance, n, confidence=confidence, population=population))
        mean, v, spread = path.mean[:, at], path.v[:, at], path.variance[:, at]
        ends = {
            "running": running_interval(mean, np.full(rows.size, n), v, confidence=confidence),
            "empirical_bernstein": bernstein.interval(rows),
            "betting": betting.interval(rows),
            "asymptotic": asymptotic_interval(mean, np.full(rows.size, n), spread, confidence=confidence),
        }
        for name in FIXED:
            ends[name] = fixed_interval(
                name, mean, np.full(rows.size, n), confidence=confidence, variance=spread, population=population
            )
        for name, (lower, upper) in ends.items():
            found[name].append(float(np.median(upper - lower)) / ideal)
    return found


def _table(title: str, header: tuple[str, ...], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _coverage(runs: int, length: int, confidence: float) -> None:
    names = (*ANYTIME, *FIXED)
    rows = []
    for number, case in enumerate(CASES):
        values = case.draw(np.random.default_rng((20261121, number)), runs, length)
        found = ever_missed(values, case.means(length), confidence)
        rows.append([case.name, *(f"{found[name]:.1%}" for name in names)])
    title = (
        f"Runs in which a {confidence:.0%} interval ever missed, of {runs:,} with a look after each of {length:,} items"
    )
    _table(title, ("distribution", *names), rows)
    rows = []
    for number, case in enumerate(CASES[:-1]):
        rng = np.random.default_rng((20261122, number))
        population = case.draw(rng, 1, length)[0]
        values = rng.permuted(np.tile(population, (runs, 1)), axis=1)
        found = ever_missed(values, case.means(length), confidence, replaced=False)
        rows.append([case.name, *(f"{found[name]:.1%}" for name in names)])
    _table(f"The same without replacement, N = {length:,}", ("distribution", *names), rows)


def _widths(confidence: float) -> None:
    for population in (None, 20_000):
        rows = []
        for number, case in enumerate(CASES[:-1]):
            rng = np.random.default_rng((20261123, number))
            values = case.draw(rng, WIDTH_RUNS, population or max(WIDTHS_AT))
            found = widths(values[:, : max(WIDTHS_AT)], case.variance, confidence, population)
            rows += [[case.name, name, *(f"{ratio:.2f}" for ratio in found[name])] for name in (*ANYTIME, *FIXED)]
        how = "" if population is None else f", without replacement, N = {population:,}"
        fpc = "" if population is None else " with its finite-population correction"
        _table(
            f"Median width over {WIDTH_RUNS} runs, relative to the fixed-n normal with the true variance{fpc}{how}",
            ("distribution", "strategy", *(f"n = {n:,}" for n in WIDTHS_AT)),
            rows,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--confidence", type=float, default=0.95)
    arguments = parser.parse_args()
    print("# Coverage and width of the intervals\n\nWritten by `make simulations` (`benchmarks/coverage.py`).")
    _coverage(arguments.runs, arguments.length, arguments.confidence)
    _widths(arguments.confidence)


if __name__ == "__main__":
    main()
