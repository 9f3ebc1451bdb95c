"""How the cost of a look grows with the values so far: ragtide's intervals, beside RapidFire AI's, in turn."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ragtide import RunningIntervals

SIZES = [1_000, 10_000, 100_000, 1_000_000]
BATCH = 100
RUNS = 1_000


def cost(sizes: list[int], batch: int) -> dict[int, float]:
    """Return the microseconds of processor time of adding a batch of 10 metrics and looking, by the values so far."""
    rng, seen, found = np.random.default_rng(1), RunningIntervals("running", keys=10), {}
    keys = np.repeat(np.arange(10), batch)
    for number in range(1, max(sizes) // batch + 1):
        values = (rng.random((10, batch)) < 0.9).astype(float).ravel()
        begun = time.process_time()
        seen.update(keys, values)
        if any(0 <= size - number * batch < 20 * batch for size in sizes):
            seen.intervals()
        if number * batch in sizes:
            found[number * batch] = 1e6 * (time.process_time() - begun)
    return found


def missed(runs: int, batch: int, looks: int) -> float:
    """Return the share of runs in which the interval missed the mean at one look at least."""
    rng, seen = np.random.default_rng(2), RunningIntervals("running", keys=runs)
    missing = np.zeros(runs, dtype=bool)
    for _ in range(looks):
        seen.update(np.repeat(np.arange(runs), batch), (rng.random(runs * batch) < 0.9).astype(float))
        found = seen.intervals()
        missing |= (found.lower > 0.9) | (found.upper < 0.9)
    return float(missing.mean())


def growth_table(python: Path | None) -> list[str]:
    """Return the lines of the section; `python` is that of RapidFire AI's environment, None if it has none."""
    ours = {"cost": cost(SIZES, BATCH), "missed": missed(RUNS, BATCH, 100)}
    lines = [
        f"Processor time of adding a batch of {BATCH} values to each of 10 metrics and looking at the intervals, after",
        f"n values; and the share of {RUNS:,} runs of 10,000 yes-or-no values (mean 0.9, 100 looks) in which the 95%",
        "interval missed the mean at one look at least.",
        "",
        "| | " + " | ".join(f"n = {size:,}" for size in SIZES) + " | missed | computes |",
        "|---|" + "---|" * (len(SIZES) + 2),
        _row("ragtide, `running`", ours, "intervals that hold at every look; a key's state has a fixed size"),
    ]
    if python is None:
        return [*lines, "", "RapidFire AI 0.16.2 needs Python 3.12 or newer, and was not run: this machine has none."]
    script = Path(__file__).parent / "runners" / "rapidfireai_run.py"
    done = subprocess.run(
        [str(python), str(script), json.dumps([SIZES, BATCH, RUNS])], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    theirs = {"cost": {int(size): us for size, us in found["cost"].items()}, "missed": found["missed"]}
    computes = "intervals for one look at a fixed n; keeps and reduces the metrics of all batches"
    return [*lines, _row("RapidFire AI 0.16.2, `normal`", theirs, computes)]


def _row(name: str, found: Mapping[str, Any], computes: str) -> str:
    costs = " | ".join(f"{found['cost'][size]:,.0f} us" for size in SIZES)
    return f"| {name} | {costs} | {found['missed']:.1%} | {computes} |"
