"""The pictures of docs/understand/statistics.md, docs/understand/drift.md and docs/understand/clusters.md.

    python benchmarks/figures.py docs/assets

Drawn from seeded simulations, and those of real traffic from the pages that `make realtraffic` and `make simulations`
have written into benchmarks/measured.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from traffic.advised import Pair, delays, run_lengths
from traffic.closings import closings
from traffic.stream import Traffic

from ragtide import confidence_sequence
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.intervals.intervals import fixed_interval
from ragtide_aggregator.statistics.tables.batches import Floats

INK, SAFE, WRONG, OTHER = "#333333", "#1f77b4", "#d62728", "#9a9a9a"
MEASURED = Path(__file__).parent / "measured"
NARROW = 5.2
"""Width in inches of pictures that a telephone shows at two thirds of their size."""
BAR = 0.29
"""Height of a bar, where the rows have the distance 1."""
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
"""Behind a text that a line may cross."""


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


def _bars(axes: Axes, pairs: Sequence[Pair], other: str, setting: str, *, named: bool = True) -> None:
    """Draw two bars for each pair, below its name, and their figures at their ends."""
    for place, pair in enumerate(pairs):
        for row, (value, color, label) in enumerate(((pair.other, OTHER, other), (pair.setting, SAFE, setting))):
            y = place + (row - 0.5) * BAR
            axes.barh(y, value, height=BAR, color=color, label=label if place == 0 else None)
            axes.annotate(
                f"{value:,.0f}", (value, y), (3, 0), textcoords="offset points", va="center", color=INK, fontsize=10,
                bbox=PAPER, zorder=4,
            )  # fmt: skip
        if named:
            name = axes.annotate(
                pair.name, (0, place - BAR), (0, 4), textcoords="offset points", color=INK, fontsize=11, bbox=PAPER,
                zorder=4,
            )  # fmt: skip
            # A long name may reach into the panel beside it.
            name.set_in_layout(False)
    axes.set(ylim=(len(pairs) - 0.6, -0.7), yticks=[])
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.patch.set_visible(False)
    axes.tick_params(labelsize=10)


def traffic_run_lengths(folder: Path) -> None:
    """The run length of a rule on each kind of traffic: each answer by itself, and with the setting for it."""
    figure, axes = plt.subplots(figsize=(NARROW, 5.6), layout="constrained")
    _bars(axes, run_lengths(MEASURED), "each answer by itself", "with the setting")
    axes.axvline(10_000, color=WRONG, linestyle="--", linewidth=1, label="stated: 10,000", zorder=3)
    axes.set(xlim=(0, 21_500), xticks=[0, 5_000, 10_000, 15_000, 20_000])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("answers until a false alarm (runs cut at 20,000)", fontsize=11)
    figure.suptitle("Answers between false alarms", fontsize=12)
    figure.legend(loc="outside lower center", frameon=False, fontsize=10, ncols=3, columnspacing=1, handlelength=1.4)
    _save(folder, "traffic_run_lengths.svg")


def traffic_delays(folder: Path) -> None:
    """The delay of two falls on each kind of traffic: of the best tuned peer, and with the setting."""
    figure, panels = plt.subplots(1, 2, figsize=(NARROW, 4.6), layout="constrained", sharex=True)
    for axes, after in zip(panels, ("0.75", "0.65"), strict=True):
        pairs = delays(MEASURED, after)
        _bars(axes, pairs, "best of the tuned peers", "ragtide with the setting", named=after == "0.75")
        axes.set_title(f"0.85 to {after}", fontsize=11)
        axes.set_xlim(0, 720)
    figure.suptitle("Answers from a fall to its alarm", fontsize=12)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=10, ncols=2, handlelength=1.4)
    _save(folder, "traffic_delays.svg")


CLOSED_BY = (
    ("size = 5: closed by the fifth answer", (0.0, 2.0, 5.0, 8.0, 11.0), 5, 600),
    ("quiet_s = 600: closed 10 minutes after the last answer", (0.0, 1.5, 8.0), 5, 600),
    ("quiet_s = 120, too short: cut into two clusters", (0.0, 1.5, 8.0), 5, 120),
)
"""Setting, minutes of the answers of a session, `size` and `quiet_s`."""


def closed_at(minutes: Sequence[float], size: int, quiet_s: int) -> tuple[list[int], list[float]]:
    """Return the sizes of the clusters of a session and when they close, in minutes.

    Other interactions of the pipeline come every ten seconds, for an hour.
    """
    others = np.arange(0, 3_600, 10)
    times = np.concatenate([60 * np.array(minutes), others])
    mine = np.arange(times.size) < len(minutes)
    order = np.argsort(times, kind="stable")
    time_s, values = times[None, order], mine[None, order].astype(np.float64)
    session = np.where(mine, 0, np.arange(times.size))[None, order]
    traffic = Traffic(time_s, time_s, values, values, values, session, session, session, session, {})
    found = closings(traffic, "session", size=size, quiet_s=quiet_s)
    chosen = found.total > 0
    return found.size[chosen].tolist(), (time_s[0, found.column[chosen]] / 60).tolist()


def closing(folder: Path) -> None:
    """When the clusters of a session close: by their size, by a quiet time, and by one that is too short."""
    figure, axes = plt.subplots(figsize=(NARROW, 3.2), layout="constrained")
    for place, (name, minutes, size, quiet_s) in enumerate(CLOSED_BY):
        first = 0
        for count, end in zip(*closed_at(minutes, size, quiet_s), strict=True):
            axes.plot([minutes[first], end], [place, place], color=SAFE, alpha=0.35, linewidth=6, solid_capstyle="butt")
            axes.plot([end], [place], "|", color=WRONG, markersize=16, markeredgewidth=2.5)
            first += count
        axes.plot(minutes, [place] * len(minutes), "o", color=SAFE, markersize=6)
        axes.annotate(name, (0, place), (-3, 12), textcoords="offset points", color=INK, fontsize=11)
    axes.plot([], [], "o", color=SAFE, label="answer")
    axes.plot([], [], color=SAFE, alpha=0.35, linewidth=6, label="open cluster")
    axes.plot([], [], "|", color=WRONG, markersize=12, markeredgewidth=2.5, label="closed: it counts")
    axes.set(xlim=(-1, 21), ylim=(2.4, -0.65), yticks=[])
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.set_xlabel("minutes since the first answer of the session", fontsize=11)
    figure.suptitle("When a cluster counts", fontsize=12)
    figure.legend(loc="outside lower center", frameon=False, fontsize=10, ncols=3, handlelength=1.4)
    _save(folder, "closing.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    # The same bytes from the same numbers.
    mpl.rcParams["svg.hashsalt"] = "ragtide"
    mpl.rcParams["path.simplify_threshold"] = 1.0
    looking(folder)
    drift(folder)
    traffic_run_lengths(folder)
    traffic_delays(folder)
    closing(folder)


if __name__ == "__main__":
    main()
