"""The agreement of scores with gold scores or other scores, as a table."""

from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.statistics.comparisons.bootstrap import RESAMPLES, Measured
from ragtide_offline.agreement.comparing import PredictionAgreement

from .console import out
from .fitting import Column, Notes, fitted, heading


def show_agreement(compared: PredictionAgreement, confidence: float) -> None:
    """Print the agreement of scores with a reference."""
    counts = compared.counts
    out.print(f"{compared.predictions.name} against {compared.reference}", style="bold", highlight=False)
    out.print(agreement_table(compared, out.width))
    for family, found in compared.families.items():
        out.print(
            f"{family}: aggregated RMSE {value_text(found.rmse)} ({interval_text(found.rmse)}), consistency score "
            f"{value_text(found.consistency)} ({interval_text(found.consistency)})",
            highlight=False,
        )
    out.print(
        f"{counts['matched']:,} interactions in both; {counts['without_reference']:,} without a reference, "
        f"{counts['without_prediction']:,} without a prediction. Intervals: {confidence:.0%}, bootstrap of "
        f"{RESAMPLES:,}.",
        style="bright_black",
        highlight=False,
    )


def agreement_table(compared: PredictionAgreement, width: int) -> RenderableType:
    """Return the agreement of every metric as a table, with a heading for each metric."""
    rows: list[tuple[str, Measured, str]] = []
    above: dict[int, list[Text]] = {}
    for metric, found in compared.metrics.items():
        absent = compared.counts[f"absent {metric}"]
        missing = [f"absent in {absent:,} predictions"] if absent else []
        above.setdefault(len(rows), []).append(heading([metric, f"n {found.n:,}", *missing], width))
        measures = (
            ("RMSE", found.rmse, _beside("always the mean", found.constant_rmse)),
            ("mean error", found.bias, ""),
            ("Spearman", found.spearman, ""),
            ("AUROC", found.auroc, "chance 0.500"),
            ("F1 of the low", found.f1, ""),
            ("kappa", found.kappa, ""),
            ("accuracy", found.accuracy, _beside("always the majority", found.majority)),
        )
        rows += measures if found.n else ()
    columns = [
        Column("measure", [f"  {name}" for name, _, _ in rows]),
        Column("value", [value_text(measured) for _, measured, _ in rows], right=True),
        Column("interval", [interval_text(measured) for _, measured, _ in rows]),
        Column("compare with", [beside for _, _, beside in rows], yields=1, stacks=True),
    ]
    return fitted(columns, width, Notes(above))


def _beside(name: str, number: float | None) -> str:
    return "" if number is None else f"{name} {number:.3f}"


def value_text(measured: Measured) -> str:
    """Return a figure with three digits, or that it is undefined."""
    return "undefined" if measured.value is None else f"{measured.value:.3f}"


def interval_text(measured: Measured) -> str:
    """Return the ends of the interval of a figure; nothing without one."""
    return "" if measured.lower is None else f"{measured.lower:.3f} to {measured.upper:.3f}"
