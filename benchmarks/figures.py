"""The pictures of docs/statistics.md and docs/drift.md, drawn from seeded simulations.

python benchmarks/figures.py docs/measured
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ragtide import confidence_sequence
from ragtide_aggregator.statistics.batches import Floats
from ragtide_aggregator.statistics.drift import DetectorTable
from ragtide_aggregator.statistics.intervals import fixed_interval

INK, SAFE, WRONG = "#333333", "#1f77b4", "#d62728"


def _axes(title: str, xlabel: str, ylabel: str) -> Axes:
    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    del figure
    return axes


def _save(folder: Path, name: str) -> None:
    plt.savefig(folder / name, metadata={"Date": None})
    plt.close()


def looking(folder: Path) -> None:
    """A yes-or-no metric whose true mean is 0.9, and two 95% intervals after every item."""
    n = np.arange(1, 2001)
    for seed in range(100):
        values = (np.random.default_rng(seed).random(n.size) < 0.9).astype(np.float64)
        mean = np.cumsum(values) / n
        spread = mean * (1 - mean) * n / np.maximum(n - 1, 1)
        lower, upper = fixed_interval("normal", mean, n, confidence=0.95, variance=spread)
        missed = ((lower > 0.9) | (upper < 0.9)) & (n >= 100)
        if missed.sum() > 100:
            break
    running = confidence_sequence("running", values)
    axes = _axes("One run, looked at after every item", "interactions", "mean")
    axes.fill_between(
        n[::4], running[::4, 0], running[::4, 1], color=SAFE, alpha=0.2, label="running: holds at every look"
    )
    axes.plot(n[::4], lower[::4], color=WRONG, linewidth=1, label="normal: holds at one look")
    axes.plot(n[::4], upper[::4], color=WRONG, linewidth=1)
    axes.plot(n[::4], mean[::4], color=INK, linewidth=1.2, label="mean so far")
    axes.axhline(0.9, color=INK, linestyle=":", linewidth=1)
    axes.fill_between(n, 0.7, 1.0, where=missed.tolist(), color=WRONG, alpha=0.15, label="normal misses the truth")
    axes.set(xlim=(30, 2000), ylim=(0.78, 1.0))
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    _save(folder, "looking.svg")


def evidence(values: Floats, run_length: float) -> tuple[Floats, int]:
    """Return the log evidence after every value until the alarm, and where that is."""
    table = DetectorTable()
    row = np.array([table.add_row()])
    table.configure(0, limit=0.85, direction="fall", run_length=run_length)
    found: list[float] = []
    for place, value in enumerate(values):
        alarms, _ = table.update(row, np.array([value]), np.zeros(1, dtype=np.int64))
        if alarms:
            return np.array([*found, alarms[0].log_evidence]), place
        found.append(table.log_evidence(0))
    return np.array(found), -1


def drift(folder: Path) -> None:
    """A fall from 0.85 to 0.65, and the evidence of the detector for it."""
    rng = np.random.default_rng(5)
    values = (rng.random(700) < np.where(np.arange(700) < 400, 0.85, 0.65)).astype(np.float64)
    path, alarm = evidence(values, 10_000)
    axes = _axes("A fall from 0.85 to 0.65 at interaction 400", "interactions", "evidence M")
    axes.semilogy(np.exp(path), color=SAFE, linewidth=1.2, label="evidence against “still at least 0.85”")
    axes.axhline(10_000, color=WRONG, linestyle="--", linewidth=1, label="alarm at run_length = 10,000")
    axes.axvline(400, color=INK, linestyle=":", linewidth=1, label="the fall")
    axes.plot([alarm], [np.exp(path[-1])], "o", color=WRONG)
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    _save(folder, "drift.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    # The same bytes from the same numbers.
    mpl.rcParams["svg.hashsalt"] = "ragtide"
    mpl.rcParams["path.simplify_threshold"] = 1.0
    looking(folder)
    drift(folder)


if __name__ == "__main__":
    main()
