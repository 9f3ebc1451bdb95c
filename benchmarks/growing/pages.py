"""The page benchmarks/measured/capacity.md, with its picture."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from ragtide_offline.capacity.planning import UTILIZATION, Capacity, PlannedTraffic
from ragtide_offline.capacity.unit_costs import TextCost, UnitCosts

from .axes import Axis
from .fleet import FleetRun

PICTURE = "capacity.svg"


def draw(axes: Sequence[Axis], file: Path) -> None:
    """Draw every axis into one picture, with logarithmic scales, so that a straight slope is a power."""
    mpl.rcParams["svg.hashsalt"] = "ragtide"
    mpl.rcParams["svg.fonttype"] = "none"
    rows = math.ceil(len(axes) / 2)
    figure, panels = plt.subplots(rows, 2, figsize=(7.2, 2.5 * rows), layout="constrained", squeeze=False)
    for panel, axis in zip(panels.flat, axes, strict=False):
        sizes = [row[0] for row in axis.rows]
        first = 2 if axis.columns[1] == "documents" else 1
        for column in range(first, 1 + axis.drawn):
            values = [row[column] for row in axis.rows]
            panel.plot(sizes, values, marker="o", markersize=3, linewidth=1.2, label=axis.columns[column])
        panel.set_xscale("symlog", linthresh=1)
        panel.set_yscale("log")
        panel.set_title(axis.title, fontsize=10)
        panel.set_xlabel(axis.columns[0], fontsize=8)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(fontsize=6.5, frameon=False)
    for panel in panels.flat[len(axes) :]:
        panel.set_visible(False)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def page(
    axes: Sequence[Axis],
    costs: UnitCosts,
    errors: Mapping[str, float],
    paper: tuple[PlannedTraffic, Capacity],
    run: FleetRun | None,
    *,
    short: bool,
) -> Iterator[str]:
    """Yield the lines of the page."""
    form = ' ARGS="--short"' if short else ""
    yield "# How costs grow\n"
    yield (
        f"Written by `make capacity{form}` (`benchmarks/capacity.py`) on {costs.measured_on}: {costs.machine}; "
        f"{costs.versions}. All costs are processor time, in microseconds of an interaction unless a column says "
        "otherwise, each measured once; other work on the machine changes them by a tenth or two. The command also "
        "writes the unit costs of `ragtide capacity`.\n"
    )
    yield f"![Costs by each size, with logarithmic scales]({PICTURE})"
    for axis in axes:
        yield from section(axis)
    yield from _unit_costs(costs, errors)
    yield from _fleet(*paper, run)


def section(axis: Axis) -> Iterator[str]:
    """Yield the lines of the section of an axis; the last row of its table has the ratios last / first."""
    yield f"\n## {axis.title}\n"
    if axis.note:
        yield f"{axis.note}\n"
    yield "| " + " | ".join(axis.columns) + " |"
    yield "|" + "---|" * len(axis.columns)
    for row in axis.rows:
        yield "| " + " | ".join(number(value) for value in row) + " |"
    low, high = axis.rows[0], axis.rows[-1]
    grown = ["**last / first**"]
    for name, first, last in zip(axis.columns[1:], low[1:], high[1:], strict=True):
        grown.append("" if name == "documents" or first <= 0 else f"{last / first:,.2g}")
    yield f"| {' | '.join(grown)} |"


def _unit_costs(costs: UnitCosts, errors: Mapping[str, float]) -> Iterator[str]:
    yield "\n## Unit costs\n"
    yield (
        "The sums that fit the points best, without negative parts. Processor time of an interaction with d documents "
        "of together t KiB is each + document x d + KiB x t.\n"
    )
    yield "| microseconds | each | document | KiB |\n|---|---|---|---|"
    stages: dict[str, TextCost] = {
        "producer: publish": costs.publish.processor_us,
        "Redis: publish": costs.publish.redis_us,
        "worker: read and finish": costs.finish.processor_us,
        "Redis: read and finish": costs.finish.redis_us,
        **{f"worker: labeler {name}": cost for name, cost in costs.labelers_us.items()},
        "worker: a specimen": costs.specimen.processor_us,
        "Redis: a specimen": costs.specimen.redis_us,
    }
    for name, cost in stages.items():
        yield f"| {name} | {number(cost.each)} | {number(cost.document)} | {number(cost.kib)} |"
    yield "\n| microseconds | event | turn of a pipeline | read | commit | changed key | partition and second |"
    yield "|---|---|---|---|---|---|---|"
    for name, of in (("aggregator", costs.aggregate.processor_us), ("Redis", costs.aggregate.redis_us)):
        parts = (of.event, of.turn, of.read, of.step, of.key, of.idle)
        yield f"| {name} | " + " | ".join(map(number, parts)) + " |"
    yield (
        "\nLargest difference between a point and its sum: "
        + ", ".join(f"{stage} {error:.0%}" for stage, error in errors.items())
        + "."
    )
    stored = costs.stored
    yield (
        f"\nMemory of Redis: {number(stored.event)} bytes of a metric event, {number(stored.key)} of a key in a "
        f"checkpoint. A pipeline without segments has {number(costs.keys)} keys."
    )


def _fleet(traffic: PlannedTraffic, needs: Capacity, run: FleetRun | None) -> Iterator[str]:
    yield "\n## A fleet on paper\n"
    yield (
        f"{traffic.pipelines:,} pipelines, {traffic.rate:,.0f} interactions a second with {traffic.documents:g} "
        f"documents of {traffic.document_kib:g} KiB, labeled by `local`, in {needs.partitions} partitions over 16 "
        f"masters. From the unit costs, each process at {UTILIZATION:.0%} of a processor:\n"
    )
    yield "| role | work | processors |\n|---|---|---|"
    for part in needs.work:
        yield f"| {part.role} | {part.work} | {part.processors:,.2f} |"
    roles = ", ".join(f"{needs.processes(role):,} of {role}" for role in ("producer", "worker", "aggregator", "redis"))
    yield (
        f"\nProcesses: {roles}. Memory of all masters: {needs.memory_bytes / 2**30:,.0f} GiB of data. Network: "
        f"{needs.received_bytes / 2**20:,.0f} MiB/s to Redis, {needs.sent_bytes / 2**20:,.0f} MiB/s from it. The "
        f"aggregators and masters need at least {needs.partitions_needed} partitions."
    )
    if run is None:
        return
    yield "\n## A fleet on a local cluster\n"
    yield (
        f"A Redis Cluster of {run.masters} masters, {run.partitions} partitions, {run.traffic.pipelines:,} pipelines, "
        f"{run.traffic.rate:,.0f} interactions a second for {run.seconds:.0f} s: one worker with the labeler "
        "`local`, one aggregator. Predictions are from unit costs, settings and rate. "
        "On a machine that is busy otherwise an aggregator commits less often:\n"
    )
    yield "| | predicted | measured | ratio |\n|---|---|---|---|"
    for name, predicted, measured in run.rows():
        yield f"| {name} | {number(predicted)} | {number(measured)} | {measured / predicted:.2f} |"


def number(value: float) -> str:
    """Return a number with three digits, or all of its whole digits."""
    if value == round(value):
        return f"{value:,.0f}"
    digits = max(2 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{digits}f}"
