"""`ragtide agreement`: measures the agreement of scores with gold scores, or with another labeler's scores."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.statistics.comparisons.bootstrap import RESAMPLES, Measured
from ragtide_offline.agreement.comparing import PredictionAgreement, compare
from ragtide_offline.agreement.plot import plot_agreement
from ragtide_offline.agreement.predictions import read_predictions, references_of

from .common import JsonOption
from .console import out, print_json
from .fitting import Column, Notes, fitted, heading


def agreement(
    predictions: Annotated[Path, typer.Argument(help="File of scores: the output of ragtide score FILE --json.")],
    gold: Annotated[
        Path | None,
        typer.Option(help="File with gold scores: interactions or data set rows. Default: gold scores in the lines."),
    ] = None,
    against: Annotated[Path | None, typer.Option(help="File with scores of another labeler, to compare with.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Scores from this share of a metric's range count as high.")
    ] = 0.5,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence level.")] = 0.95,
    by_question: Annotated[
        bool,
        typer.Option(
            "--by-question", help="Intervals for questions that repeat: resample whole questions. Needs --gold."
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture into this file: svg, png or pdf.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure how well scores agree with gold or other scores. It needs no Redis.

    It shows error, rank correlation, AUROC, F1 and kappa. To compare live pipelines, use ragtide compare.
    """
    if gold is not None and against is not None:
        raise typer.BadParameter("give --gold or --against, not both")
    if by_question and gold is None:
        raise typer.BadParameter("--by-question needs --gold FILE: a file of scores has no questions")
    found = [
        compare(
            group,
            reference,
            metrics=metric or (),
            threshold=threshold,
            confidence=confidence,
            clustered=by_question,
            seed=seed,
        )
        for group in read_predictions(predictions)
        for reference in references_of(group, gold, against)
    ]
    for number, compared in enumerate(found):
        if as_json:
            print_json(compared.as_dict())
        else:
            _show(compared, confidence)
        if plot is not None:
            plot_agreement(compared, plot if not number else plot.with_stem(f"{plot.stem}-{number + 1}"))


def _show(compared: PredictionAgreement, confidence: float) -> None:
    counts = compared.counts
    out.print(f"{compared.predictions.name} against {compared.reference}", style="bold", highlight=False)
    out.print(agreement_table(compared, out.width))
    for family, found in compared.families.items():
        out.print(
            f"{family}: aggregated RMSE {_value(found.rmse)} ({_interval(found.rmse)}), consistency score "
            f"{_value(found.consistency)} ({_interval(found.consistency)})",
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
        Column("value", [_value(measured) for _, measured, _ in rows], right=True),
        Column("interval", [_interval(measured) for _, measured, _ in rows]),
        Column("compare with", [beside for _, _, beside in rows], yields=1, stacks=True),
    ]
    return fitted(columns, width, Notes(above))


def _beside(name: str, number: float | None) -> str:
    return "" if number is None else f"{name} {number:.3f}"


def _value(measured: Measured) -> str:
    return "undefined" if measured.value is None else f"{measured.value:.3f}"


def _interval(measured: Measured) -> str:
    return "" if measured.lower is None else f"{measured.lower:.3f} to {measured.upper:.3f}"
