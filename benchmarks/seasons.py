"""Day and night: run lengths and delays with a seasonal baseline, with a suggested min_effect, and without either.

    python benchmarks/seasons.py [--runs 100]

Seeded. Yes-or-no values, 2,000 a day, whose mean is 0.85 plus a sine of one day; also with days that differ, and in
sessions of 5. Learned from 7 or 28 days; then the detector of a fall runs, with A = 10,000. Run lengths without a fall
are cut at 20,000 values. Falls of the mean by 0.1, 0.2 and 0.35 at all hours begin after 500 values, at a random hour
of the day; delays are those of runs without an alarm before, cut at 20,000 values.

- given: the baseline is 0.85, which is right on average;
- suggested min_effect: the same, with the swing measured in 28 days as min_effect;
- seasonal: the limit is the lenient end of the hour of the day (`SeasonTable`), from 7 or 28 days, values as the unit;
- two wobbles: where days differ, the same limit, but at least twice the measured wobble below the hour's mean.
"""

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.seasons import HOUR_MS, SeasonTable
from ragtide_aggregator.statistics.tables.batches import Floats, Rows

MEAN: Final = 0.85
FALLS: Final = (0.1, 0.2, 0.35)
RUN_LENGTH: Final = 10_000
LONGEST: Final = 20_000
BEFORE: Final = 500
CONFIDENCE: Final = 0.95
PER_HOUR: Final = (85, 80, 85)
"""Values of an hour, in turns: 2,000 a day."""

SESSION: Final = 5
"""Values of a session, one after the other."""


class SeasonalTraffic(NamedTuple):
    """How the mean moves in normal operation."""

    swing: float
    """Height of the sine over a day."""
    wobble: float = 0.0
    """Standard deviation of the means of days."""
    correlation: float = 0.0
    """Correlation of two values of a session. The detector then takes sessions as clusters."""


TRAFFIC: Final = (
    SeasonalTraffic(0.0),
    SeasonalTraffic(0.02),
    SeasonalTraffic(0.05),
    SeasonalTraffic(0.05, wobble=0.02),
    SeasonalTraffic(0.05, correlation=0.2),
)

Limits = Callable[[Rows, NDArray[np.int64]], Floats]
"""From runs and event times to the limits of their next hour; 0 if the detector is to wait."""


def hour_of(
    rng: np.random.Generator, number: int, hours: NDArray[np.int64], traffic: SeasonalTraffic, lower: Floats
) -> Floats:
    """Return the values of an hour, shape (runs, values).

    Args:
        rng: source of luck.
        number: of the hour since the start, which says how many values it has.
        hours: hour of the day, one a run.
        traffic: how the mean moves.
        lower: by how much the mean is lower, shape (runs, values) or what broadcasts to it.
    """
    length = PER_HOUR[number % 3]
    phase = (hours[:, None] + (np.arange(length) + 0.5) / length) / 24
    means = np.clip(MEAN + traffic.swing * np.sin(2 * np.pi * phase) - lower, 0.01, 0.99)
    if traffic.correlation:
        strength = 1 / traffic.correlation - 1
        of_session = means[:, ::SESSION]
        drawn = rng.beta(of_session * strength, (1 - of_session) * strength)
        means = np.repeat(drawn, SESSION, axis=1)
    return np.asarray(rng.random(means.shape) < means, dtype=np.float64)


def unlike(rng: np.random.Generator, runs: int, days: int, wobble: float) -> Floats:
    """Return by how much the mean of each day is lower, normal with a standard deviation, cut at 3 of them."""
    return wobble * np.clip(rng.standard_normal((runs, days)), -3, 3)


def learned(rng: np.random.Generator, runs: int, days: int, traffic: SeasonalTraffic) -> SeasonTable:
    """Return what so many days taught, one row a run."""
    table = SeasonTable("day", least_cycles=4)
    rows = np.array([table.add_row() for _ in range(runs)])
    shifts = unlike(rng, runs, days + 1, traffic.wobble)
    # The first hour after the last day closes the last cell.
    for number in range(24 * days + 1):
        values = hour_of(rng, number, np.full(runs, number % 24), traffic, shifts[:, [number // 24]])
        totals = values.sum(axis=1)
        table.add(rows, np.full(runs, number * HOUR_MS), np.full(runs, values.shape[1]), totals, totals)
    return table


def alarms(limits: Limits, traffic: SeasonalTraffic, fall: float, runs: int, before: int) -> NDArray[np.int64]:
    """Return the number of values until the first alarm, one a run; -1 without one within LONGEST after `before`."""
    rng = np.random.default_rng((20261122, int(1000 * traffic.swing), int(1000 * fall)))
    first = rng.integers(24, size=runs)
    shifts = unlike(rng, runs, (before + LONGEST) // sum(PER_HOUR) // 8 + 3, traffic.wobble)
    size = SESSION if traffic.correlation else 1
    table, found = DetectorTable(), np.full(runs, -1, dtype=np.int64)
    for row in range(runs):
        table.add_row()
        table.configure(row, limit=MEAN, direction="fall", run_length=RUN_LENGTH)
    start, number = 0, 0
    while start < before + LONGEST and np.any(found < 0):
        places = start + np.arange(PER_HOUR[number % 3])
        lower = np.where(places >= before, fall, 0.0) + shifts[np.arange(runs), (first + number) // 24, None]
        values = hour_of(rng, number, (first + number) % 24, traffic, lower)
        going = np.flatnonzero(found < 0)
        limit = limits(going, (first[going] + number) * HOUR_MS)
        going, limit = going[limit > 0], limit[limit > 0]
        for row, row_limit in zip(going.tolist(), limit.tolist(), strict=True):
            table.move_limit(row, row_limit)
        means = values[going].reshape(going.size, -1, size).mean(axis=2)
        ends = np.tile(places[size - 1 :: size], going.size)
        raised, _ = table.update(
            np.repeat(going, means.shape[1]), means.ravel(), ends, sizes=np.full(means.size, size, dtype=np.int64)
        )
        for alarm in raised:
            found[alarm.row] = ends[alarm.position] + 1
        start, number = start + places.size, number + 1
    return found


def run_length(limits: Limits, traffic: SeasonalTraffic, runs: int) -> tuple[float, float]:
    """Return the mean number of values until a false alarm, cut at LONGEST, and its standard error."""
    found = alarms(limits, traffic, 0.0, runs, 0)
    lengths = np.where(found < 0, LONGEST, np.minimum(found, LONGEST))
    return float(lengths.mean()), float(lengths.std() / np.sqrt(runs))


def delay(limits: Limits, traffic: SeasonalTraffic, fall: float, runs: int) -> float:
    """Return the mean delay of runs without an alarm before the fall, cut at LONGEST."""
    found = alarms(limits, traffic, fall, runs, BEFORE)
    late = np.where(found < 0, LONGEST, found - BEFORE)
    return float(late[(found < 0) | (found > BEFORE)].mean())


def rules(rng: np.random.Generator, traffic: SeasonalTraffic, runs: int) -> dict[str, tuple[Limits, str]]:
    """Return the limits of each rule, and how they read."""
    tables = {days: learned(rng, runs, days, traffic) for days in (7, 28)}
    everyone = np.arange(runs)
    suggested = tables[28].swings(everyone, direction="fall", confidence=CONFIDENCE).estimate
    wobbles = tables[28].wobble(everyone)
    found: dict[str, tuple[Limits, str]] = {
        "given": (lambda rows, _: np.full(rows.size, MEAN), f"{MEAN:g}"),
        "suggested min_effect": (lambda rows, _: MEAN - suggested[rows], f"{MEAN:g} - {suggested.mean():.3f}"),
    }
    for days, table in tables.items():

        def seasonal(rows: Rows, times: NDArray[np.int64], table: SeasonTable = table) -> Floats:
            return table.limits(rows, times, direction="fall", confidence=CONFIDENCE)

        gap = float(np.mean(table.means(everyone) - table.intervals(everyone, confidence=CONFIDENCE)[0]))
        found[f"seasonal, {days} days"] = seasonal, f"hour's mean - {gap:.3f}"
    if traffic.wobble:

        def lower(rows: Rows, times: NDArray[np.int64]) -> Floats:
            means = tables[28].means(rows)[np.arange(rows.size), tables[28].slot(times)]
            return np.minimum(seasonal(rows, times), means - 2 * wobbles[rows])

        found["seasonal, 28 days, two wobbles"] = lower, f"hour's mean - {max(gap, 2 * float(wobbles.mean())):.3f}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    print("# Day and night\n\nWritten by `make simulations` (`benchmarks/seasons.py`).\n")
    print(
        f"{runs:,} runs each, mean {MEAN} and a sine of 2,000 values; A = {RUN_LENGTH:,}, cut at {LONGEST:,} values.\n"
    )
    header = (
        "swing",
        "wobble",
        "correlation",
        "rule",
        "limit, mean",
        "run length",
        *(f"delay of a fall by {fall:g}" for fall in FALLS),
    )
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for number, traffic in enumerate(TRAFFIC):
        for name, (limits, shown) in rules(np.random.default_rng((20261122, number)), traffic, runs).items():
            length, error = run_length(limits, traffic, runs)
            delays = " | ".join(f"{delay(limits, traffic, fall, runs):,.0f}" for fall in FALLS)
            kind = f"± {traffic.swing:g} | {traffic.wobble:g} | {traffic.correlation:g}"
            print(f"| {kind} | {name} | {shown} | {length:,.0f} ± {error:,.0f} | {delays} |", flush=True)


if __name__ == "__main__":
    main()
