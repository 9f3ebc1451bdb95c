"""Draws predictions against reference scores, in one panel for each metric."""

from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragtide_aggregator.statistics.comparisons.bootstrap import Floats, Measured
from ragtide_aggregator.statistics.intervals.intervals import interval
from ragtide_runtime.errors import ConfigurationError

from .comparing import PredictionAgreement

BINS: Final = 5
"""Number of groups of predictions in the panel of a metric that is only high or low."""

_BLUE: Final = "#0072b2"
_ORANGE: Final = "#d55e00"


def plot_agreement(compared: PredictionAgreement, path: Path) -> None:
    """Draw the agreement into a file whose ending is svg, png or pdf.

    If the reference scores of a metric are only high or low, its panel shows the share of high ones for groups of
    similar predictions, with 95% Wilson intervals. Other panels show every prediction against its reference.

    Raises:
        ConfigurationError: matplotlib is not installed, or cannot write this format.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, imported only for a plot
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError("--plot needs matplotlib: pip install 'ragtide[plot]'") from None
    metrics = [metric for metric, found in compared.metrics.items() if found.n]
    columns = min(len(metrics), 3)
    rows = ceil(len(metrics) / columns)
    # A fixed salt and no date: the same agreement gives the same file.
    with mpl.rc_context({"svg.hashsalt": "ragtide", "font.size": 9}):
        figure = Figure(figsize=(3.6 * columns, 3.9 * rows), layout="constrained")
        figure.suptitle(f"{compared.predictions.name} against {Path(compared.reference).name}", fontsize=10)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, metric in zip(axes, metrics, strict=False):
            _panel(axis, metric, compared)
        for axis in axes[len(metrics) :]:
            axis.set_axis_off()
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
        except (ValueError, OSError) as error:
            raise ConfigurationError(f"--plot {path}: {error}; give a path that ends in svg, png or pdf") from None


def _panel(axis: Any, metric: str, compared: PredictionAgreement) -> None:
    (predicted, true), found = compared.pairs[metric], compared.metrics[metric]
    lowest, highest = compared.predictions.value_range(metric)
    axis.plot([lowest, highest], [lowest, highest], color="0.6", linewidth=1, linestyle="--")
    if set(np.unique(true)) <= {lowest, highest}:
        _calibration(axis, (predicted - lowest) / (highest - lowest), (true - lowest) / (highest - lowest))
        axis.set_ylabel("share that is truly high")
        measure = f"AUROC {_shown(found.auroc)}"
    else:
        axis.scatter(predicted, true, s=10, alpha=0.5, color=_BLUE, linewidths=0)
        axis.set_ylabel("reference")
        measure = f"Spearman {_shown(found.spearman)}"
    axis.set_xlabel("predicted")
    axis.set_xlim(lowest - 0.03 * (highest - lowest), highest + 0.03 * (highest - lowest))
    axis.set_ylim(lowest - 0.03 * (highest - lowest), highest + 0.03 * (highest - lowest))
    constant = "" if found.constant_rmse is None else f", constant {found.constant_rmse:.3f}"
    axis.set_title(f"{metric}  (n = {found.n})\nRMSE {_shown(found.rmse)}{constant}\n{measure}", fontsize=8)


def _calibration(axis: Any, predicted: Floats, true: Floats) -> None:
    order = np.argsort(predicted, kind="stable")
    for group in np.array_split(order, min(BINS, len(order))):
        share = float(true[group].mean())
        seen = interval("wilson", mean=share, n=len(group), confidence=0.95)
        x = float(predicted[group].mean())
        axis.plot([x, x], [seen.lower, seen.upper], color=_ORANGE, linewidth=1.5)
        axis.plot([x], [share], marker="o", markersize=5, color=_ORANGE)
    counts, edges = np.histogram(predicted, bins=20, range=(0.0, 1.0))
    axis.bar(edges[:-1], 0.15 * counts / max(counts.max(), 1), width=0.05, align="edge", color=_BLUE, alpha=0.25)


def _shown(measured: Measured) -> str:
    if measured.value is None:
        return "undefined"
    if measured.lower is None:
        return f"{measured.value:.3f}"
    return f"{measured.value:.3f} ({measured.lower:.3f} to {measured.upper:.3f})"
