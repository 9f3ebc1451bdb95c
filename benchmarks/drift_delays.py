"""How soon drift detectors find a fall, all tuned to the same false-alarm rate, in the same simulation.

    python benchmarks/drift_delays.py [--runs 400] [--run-length 10000]

Seeded. Yes-or-no values with mean 0.85 fall to 0.8, 0.75, 0.65 or 0.5 after 500 items. Delays are counted from there,
of runs without an alarm before. A run that finds nothing within 20,000 items counts with those.

- e-detector: ragtide's; its average run length (ARL) under no change is guaranteed, so it is not tuned. Also with the
  level lowered until its ARL is what was asked for, as the others are.
- Page-Hinkley and ADWIN: river's, with the threshold or confidence set so that their ARL is about the same.
- sliding mean: alarms when the mean of the last 100 is below a limit set in the same way.
- Lorden's bound: log(ARL) / KL, what no detector can beat by much in the worst case, for large ARL.

Tuning and measuring use different seeds. The ARL of the table is measured on the second; runs without an alarm
within ten times the asked ARL count with that length.
"""

import argparse
from collections.abc import Callable
from math import log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from river import drift

from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.tables.batches import Floats

MEAN: Final = 0.85
FALLS: Final = (0.8, 0.75, 0.65, 0.5)
BEFORE: Final = 500
LONGEST: Final = 20_000
WINDOW: Final = 100

FirstAlarm = Callable[[Floats], NDArray[np.int64]]
"""From runs, one a row, to the place of each one's first alarm; -1 without one."""


def e_detector(run_length: float) -> FirstAlarm:
    """Return ragtide's detector."""

    def first(values: Floats) -> NDArray[np.int64]:
        table = DetectorTable()
        rows = np.array([table.add_row() for _ in values])
        for row in rows.tolist():
            table.configure(row, limit=MEAN, direction="fall", run_length=run_length)
        found = np.full(rows.size, -1, dtype=np.int64)
        step = 200
        for start in range(0, values.shape[1], step):
            going = np.flatnonzero(found < 0)
            part = values[going, start : start + step]
            places = np.tile(np.arange(start, start + part.shape[1]), going.size)
            alarms, _ = table.update(np.repeat(rows[going], part.shape[1]), part.ravel(), places)
            for alarm in alarms:
                found[alarm.row] = places[alarm.position]
        return found

    return first


def sliding_mean(limit: float) -> FirstAlarm:
    """Return a detector that alarms when the mean of the last 100 is below a limit."""

    def first(values: Floats) -> NDArray[np.int64]:
        sums = np.cumsum(values, axis=1)
        sums[:, WINDOW:] -= sums[:, :-WINDOW].copy()
        below = sums[:, WINDOW - 1 :] / WINDOW < limit - 1e-9
        return np.where(np.any(below, axis=1), np.argmax(below, axis=1) + WINDOW - 1, -1)

    return first


def peer(make: Callable[[], Any]) -> FirstAlarm:
    """Return a detector of river, run by run."""

    def first(values: Floats) -> NDArray[np.int64]:
        found = []
        for run in values:
            detector = make()
            at = -1
            for place, value in enumerate(run.tolist()):
                before = getattr(detector, "estimation", 1.0)
                detector.update(value)
                # ADWIN also finds rises; only a fall counts here.
                if detector.drift_detected and getattr(detector, "estimation", 0.0) < before:
                    at = place
                    break
            found.append(at)
        return np.array(found)

    return first


def page_hinkley(threshold: float) -> FirstAlarm:
    """Return river's Page-Hinkley test for falls."""
    return peer(lambda: drift.PageHinkley(threshold=threshold, mode="down", min_instances=30))


def adwin(delta: float) -> FirstAlarm:
    """Return river's ADWIN."""
    kind: Any = drift.ADWIN
    return peer(lambda: kind(delta=delta))


def draw(rng: np.random.Generator, runs: int, length: int, after: float = MEAN, before: int = 0) -> Floats:
    """Return runs of yes-or-no values with one mean, then another."""
    means = np.where(np.arange(length) < before, MEAN, after)
    return (rng.random((runs, length)) < means).astype(np.float64)


def run_length_of(first: FirstAlarm, seed: int, runs: int, asked: float) -> tuple[float, float]:
    """Return the mean number of items until the first false alarm, and its standard error."""
    lengths = []
    rng = np.random.default_rng((20261121, seed))
    longest = int(10 * asked)
    for start in range(0, runs, 25):
        found = first(draw(rng, min(25, runs - start), longest))
        lengths += np.where(found < 0, longest, found + 1).tolist()
    return float(np.mean(lengths)), float(np.std(lengths) / np.sqrt(len(lengths)))


def tuned(make: Callable[[float], FirstAlarm], settings: list[float], runs: int, asked: float) -> float:
    """Return the first setting, from lenient to strict, whose run length is at least the one asked for."""
    for setting in settings:
        if run_length_of(make(setting), 1, runs, asked)[0] >= asked:
            return setting
    return settings[-1]


def delay(first: FirstAlarm, after: float, runs: int) -> tuple[float, float]:
    """Return the mean delay of runs without a false alarm before the fall, and its standard error."""
    rng = np.random.default_rng((20261122, int(1000 * after)))
    delays: list[int] = []
    for start in range(0, runs, 50):
        values = draw(rng, min(50, runs - start), BEFORE + LONGEST, after, BEFORE)
        found = first(values)
        late = np.where(found < 0, BEFORE + LONGEST, found + 1)
        delays += [int(place) - BEFORE for place in late[(found < 0) | (found >= BEFORE)]]
    return float(np.mean(delays)), float(np.std(delays) / np.sqrt(len(delays)))


def lorden(after: float, run_length: float) -> float:
    """Return log(ARL) / KL of the two Bernoulli distributions."""
    divergence = after * log(after / MEAN) + (1 - after) * log((1 - after) / (1 - MEAN))
    return log(run_length) / divergence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--run-length", type=float, default=10_000)
    arguments = parser.parse_args()
    asked, runs = arguments.run_length, arguments.runs
    levels = [asked * share for share in (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0)]
    limits = [(limit + 0.5) / WINDOW for limit in range(76, 60, -1)]
    thresholds = [float(threshold) for threshold in np.arange(6, 60, 1.5)]
    deltas = [
        0.99,
        0.9,
        0.8,
        0.7,
        0.6,
        0.5,
        0.4,
        0.3,
        0.2,
        0.1,
        0.05,
        0.02,
        0.01,
        0.005,
        0.002,
        0.001,
        0.0005,
        0.0002,
        0.0001,
    ]
    chosen: list[tuple[str, str, FirstAlarm]] = [("e-detector", f"A = {asked:,.0f}", e_detector(asked))]
    tuning: list[tuple[str, str, Callable[[float], FirstAlarm], list[float]]] = [
        ("e-detector, tuned", "A = {:,.0f}", e_detector, levels),
        ("Page-Hinkley", "threshold {:g}", page_hinkley, thresholds),
        ("ADWIN", "delta {:g}", adwin, deltas),
        (f"mean of the last {WINDOW}", "limit {:.3f}", sliding_mean, limits),
    ]
    for name, shown, make, settings in tuning:
        setting = tuned(make, settings, max(runs // 4, 50), asked)
        chosen.append((name, shown.format(setting), make(setting)))
    print("# Delays of drift detectors\n\nWritten by `make simulations` (`benchmarks/drift_delays.py`).\n")
    print(f"Mean delay in items, {runs:,} runs each, of a fall from {MEAN} to:\n")
    print(f"| detector | setting | ARL without a change | {' | '.join(map(str, FALLS))} |")
    print(f"|---|---|---|{'---|' * len(FALLS)}")
    for name, shown, first in chosen:
        length, error = run_length_of(first, 2, runs, asked)
        cells = ["{:,.0f} ± {:,.0f}".format(*delay(first, after, runs)) for after in FALLS]
        print(f"| {name} | {shown} | {length:,.0f} ± {error:,.0f} | {' | '.join(cells)} |", flush=True)
    cells = [f"{lorden(after, asked):,.0f}" for after in FALLS]
    print(f"| Lorden's bound | | {asked:,.0f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
