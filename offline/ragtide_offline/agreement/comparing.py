"""Compares predicted scores with reference scores, over the interactions that both have, and draws them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragtide_aggregator.statistics.comparisons.agreement import Agreement, FamilyAgreement, agreement, family_agreement
from ragtide_aggregator.statistics.comparisons.bootstrap import Floats, Measured
from ragtide_aggregator.statistics.intervals.intervals import interval
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import suggestion

from .predictions import Key, Predictions, ReferenceScores, UnusablePredictionsError

BINS: Final = 5
"""Number of groups of predictions in the panel of a metric that is only high or low."""

_BLUE: Final = "#0072b2"

_ORANGE: Final = "#d55e00"


@dataclass(frozen=True, slots=True)
class PredictionAgreement:
    """The agreement of predictions with a reference, by metric and by family."""

    predictions: Predictions
    reference: str
    metrics: Mapping[str, Agreement]
    families: Mapping[str, FamilyAgreement]
    pairs: Mapping[str, tuple[Floats, Floats]]
    """Predicted and reference values by metric, for plots."""
    counts: Counter[str]
    """Interactions `matched`, `without_reference` and `without_prediction`; for each metric the `absent` scores."""

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can hold."""
        return {
            "labeler": self.predictions.labeler.name,
            "labeler_version": self.predictions.labeler.version,
            "profile": self.predictions.labeler.profile,
            "reference": self.reference,
            **{name: self.counts[name] for name in ("matched", "without_reference", "without_prediction")},
            "metrics": {
                metric: {**asdict(measures), "absent": self.counts[f"absent {metric}"]}
                for metric, measures in self.metrics.items()
            },
            "families": {family: asdict(measures) for family, measures in self.families.items()},
        }


def compare(
    predictions: Predictions,
    reference: ReferenceScores,
    *,
    metrics: Sequence[str] = (),
    threshold: float = 0.5,
    confidence: float = 0.95,
    clustered: bool = False,
    seed: int = 0,
) -> PredictionAgreement:
    """Return the agreement of predictions with a reference, over the interactions that both have.

    Raises:
        UnusablePredictionsError: they have no interaction or no metric in common.
    """
    reference = _with_pipelines(reference, predictions)
    keys = [key for key in predictions.scores if key in reference.scores]
    counts: Counter[str] = Counter(
        matched=len(keys),
        without_reference=len(predictions.scores) - len(keys),
        without_prediction=len(reference.scores) - len(keys),
    )
    known = {metric for key in keys for metric in reference.scores[key]}
    for metric in metrics:
        if metric not in known:
            raise UnusablePredictionsError(
                f"there is no metric {shortened(metric)!r} in {reference.name}{suggestion(metric, known)}"
            )
    clusters = np.array([reference.clusters.get(key, key[1]) for key in keys]) if clustered else None
    agreements: dict[str, Agreement] = {}
    pairs: dict[str, tuple[Floats, Floats]] = {}
    errors: dict[str, dict[str, Floats]] = {}
    for metric in metrics or sorted(known):
        lowest, highest = predictions.value_range(metric)
        predicted, true = _column(predictions.scores, keys, metric), _column(reference.scores, keys, metric)
        there = ~np.isnan(predicted) & ~np.isnan(true)
        counts[f"absent {metric}"] = int((~np.isnan(true) & ~there).sum())
        pairs[metric] = predicted[there], true[there]
        agreements[metric] = agreement(
            *pairs[metric],
            threshold=lowest + threshold * (highest - lowest),
            confidence=confidence,
            clusters=None if clusters is None else clusters[there],
            seed=seed,
        )
        if there.any():
            family = metric.rpartition(".")[0]
            errors.setdefault(family, {})[metric] = (predicted - true) / (highest - lowest)
    if not errors:
        raise UnusablePredictionsError(
            f"{predictions.name} and {reference.name} have no scores in common: they must name the same "
            "interaction_id, pipeline and metric"
        )
    families = {
        family: family_agreement(by_metric, confidence=confidence, clusters=clusters, seed=seed)
        for family, by_metric in errors.items()
    }
    return PredictionAgreement(predictions, reference.name, agreements, families, pairs, counts)


def _with_pipelines(reference: ReferenceScores, predictions: Predictions) -> ReferenceScores:
    if all(pipeline for pipeline, _ in reference.scores):
        return reference
    by_id: dict[str, list[Key]] = {}
    for key in predictions.scores:
        by_id.setdefault(key[1], []).append(key)

    def whole(key: Key) -> Key:
        candidates = by_id.get(key[1], [])
        return candidates[0] if not key[0] and len(candidates) == 1 else key

    return ReferenceScores(
        reference.name,
        {whole(key): scores for key, scores in reference.scores.items()},
        {whole(key): cluster for key, cluster in reference.clusters.items()},
    )


def _column(scores: Mapping[Key, Mapping[str, float]], keys: list[Key], metric: str) -> Floats:
    return np.array([scores[key].get(metric, np.nan) for key in keys], dtype=np.float64)


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
    metrics = [metric for metric, measures in compared.metrics.items() if measures.n]
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
    (predicted, true), measures = compared.pairs[metric], compared.metrics[metric]
    lowest, highest = compared.predictions.value_range(metric)
    axis.plot([lowest, highest], [lowest, highest], color="0.6", linewidth=1, linestyle="--")
    if set(np.unique(true)) <= {lowest, highest}:
        _calibration(axis, (predicted - lowest) / (highest - lowest), (true - lowest) / (highest - lowest))
        axis.set_ylabel("share that is truly high")
        measure = f"AUROC {_text_of(measures.auroc)}"
    else:
        axis.scatter(predicted, true, s=10, alpha=0.5, color=_BLUE, linewidths=0)
        axis.set_ylabel("reference")
        measure = f"Spearman {_text_of(measures.spearman)}"
    axis.set_xlabel("predicted")
    axis.set_xlim(lowest - 0.03 * (highest - lowest), highest + 0.03 * (highest - lowest))
    axis.set_ylim(lowest - 0.03 * (highest - lowest), highest + 0.03 * (highest - lowest))
    constant = "" if measures.constant_rmse is None else f", constant {measures.constant_rmse:.3f}"
    axis.set_title(f"{metric}  (n = {measures.n})\nRMSE {_text_of(measures.rmse)}{constant}\n{measure}", fontsize=8)


def _calibration(axis: Any, predicted: Floats, true: Floats) -> None:
    order = np.argsort(predicted, kind="stable")
    for group in np.array_split(order, min(BINS, len(order))):
        share = float(true[group].mean())
        wilson = interval("wilson", mean=share, n=len(group), confidence=0.95)
        x = float(predicted[group].mean())
        axis.plot([x, x], [wilson.lower, wilson.upper], color=_ORANGE, linewidth=1.5)
        axis.plot([x], [share], marker="o", markersize=5, color=_ORANGE)
    counts, edges = np.histogram(predicted, bins=20, range=(0.0, 1.0))
    axis.bar(edges[:-1], 0.15 * counts / max(counts.max(), 1), width=0.05, align="edge", color=_BLUE, alpha=0.25)


def _text_of(measured: Measured) -> str:
    if measured.value is None:
        return "undefined"
    if measured.lower is None:
        return f"{measured.value:.3f}"
    return f"{measured.value:.3f} ({measured.lower:.3f} to {measured.upper:.3f})"
