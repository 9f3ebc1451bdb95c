"""`ragtide trust`: what a labeler is worth, on labeled rows."""

from pathlib import Path
from typing import Annotated

import typer

from ..printing import print_json
from ..running import JsonOption, given
from . import command, command_group

trust = command_group("trust", "Measure what a labeler is worth, on labeled rows.")


@command(
    "ragtide trust figures ragbench.jsonl.gz",
    "ragtide trust figures test.jsonl --labeler judge --limit 200 --json",
    "ragtide trust figures --corruptions ragbench.jsonl.gz --only 'negation,wrong documents'",
    of=trust,
    name="figures",
)
def measure_labeler(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Labeled files: RAGBench, ClapNQ, ExpertQA, HaluBench, RAGTruth (response.jsonl), RAGChecker's "
            "preferences, or gold_scores."
        ),
    ],
    labeler: Annotated[
        str | None, typer.Option(help="Labeler, such as local or judge; default: that of the settings.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of each file.")] = None,
    reorder: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the rows that are labeled again with their documents reversed."),
    ] = 0.0,
    corruptions: Annotated[
        bool,
        typer.Option(
            "--corruptions",
            help="Spoil each row in known ways, and show which failures the scores follow; no true scores are needed.",
        ),
    ] = False,
    only: Annotated[
        str | None, typer.Option(help="With --corruptions: only these, separated by commas, such as 'negation,HTML'.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap, and of corruptions.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, tokens and dollars of the judge, and label nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure a labeler on labeled data.

    It shows AUROC, calibration, error, rank correlation, F1 of unsupported spans, cost and speed, as means over subsets
    with intervals, beside constants and beside the judges whose scores the rows have. It needs no Redis. A judge's
    answers are kept in data_dir and paid for once.
    """
    import asyncio

    from ragtide_offline.benchmark.corruptions import SpoiltRows
    from ragtide_offline.benchmark.running import Benchmark
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.laboratory import show_figures, show_plan
    from ..running.files import interruptible
    from ..running.laboratory import finish_run, label_rows, measure_corruptions, names_in

    settings = given(context).settings(**({} if labeler is None else {"labeler": labeler}))
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if corruptions:
        if reorder:
            raise ConfigurationError("--reorder goes without --corruptions, which has reversed documents: leave it out")
        spoiling = SpoiltRows(settings, files, only=names_in(only), limit=limit, seed=seed)
        if dry_run:
            show_plan(asyncio.run(spoiling.plan()), as_json=as_json)
        else:
            measure_corruptions(spoiling, confidence=confidence, as_json=as_json)
        return
    if only is not None:
        raise ConfigurationError("--only names corruptions: give --corruptions, too")
    run = Benchmark(settings, files, limit=limit, reorder=reorder, seed=seed)
    if dry_run:
        show_plan(asyncio.run(run.plan()), as_json=as_json)
        return
    with interruptible(lambda: f"{run.result.counts['rows']:,} rows were labeled: give the same command again."):
        label_rows(run)
    finish_run(run, confidence)
    if as_json:
        print_json(run.result.as_dict())
    else:
        show_figures(run)


@command(
    "ragtide trust agreement scores.jsonl --gold rows.jsonl",
    "ragtide trust agreement judge.jsonl --against local.jsonl --metric trace.adherence",
    of=trust,
)
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
    from ragtide_offline.agreement.comparing import compare, plot_agreement
    from ragtide_offline.agreement.predictions import read_predictions, references_of

    from ..printing.laboratory import show_agreement

    if gold is not None and against is not None:
        raise typer.BadParameter("give --gold or --against, not both")
    if by_question and gold is None:
        raise typer.BadParameter("--by-question needs --gold FILE: a file of scores has no questions")
    agreements = [
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
    for number, compared in enumerate(agreements):
        if as_json:
            print_json(compared.as_dict())
        else:
            show_agreement(compared, confidence)
        if plot is not None:
            plot_agreement(compared, plot if not number else plot.with_stem(f"{plot.stem}-{number + 1}"))
