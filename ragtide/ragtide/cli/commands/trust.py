"""`ragtide trust`: what a labeler is worth, on labeled rows."""

from pathlib import Path
from typing import Annotated

import typer

from ..printing import err, out, print_json, warn
from ..running import JsonOption, MapOption, given
from . import command, command_group

trust = command_group("trust")


@command(
    "ragtide trust labeled.jsonl",
    "ragtide trust labeled.csv --map gold_scores.trace.adherence=supported --traffic 2000",
    "ragtide trust labeled.jsonl --labeler local --labeler judge --rows 100 --max-cost-usd 0.5 --json",
    runs=trust,
)
def try_labelers(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of rows with labels of people or of a strong judge; 50 rows are enough."),
    ],
    labeler: Annotated[
        list[str] | None,
        typer.Option(help="Labeler to measure; may be repeated. Default: local, and those of the settings."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="Scores of another labeler for these rows: output of ragtide score --json; may be repeated."),
    ] = None,
    columns: MapOption = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows that are drawn, evenly from the subsets.")] = None,
    traffic: Annotated[
        float | None, typer.Option(min=1, max=1e12, help="Answers a day; default: those of a running deployment.")
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Pipeline whose traffic counts; default: that with the most.")
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(min=0.0001, max=1, help="Share of the answers that a judge scores; may be repeated."),
    ] = None,
    max_cost_usd: Annotated[
        float, typer.Option("--max-cost-usd", min=0, help="Most US dollars; a trial that may cost more does not begin.")
    ] = 1.0,
    store: Annotated[
        bool, typer.Option("--store", help="Store the slopes for the deployment, which shows what each labeler sees.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, tokens and dollars of the judge, and label nothing.")
    ] = False,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the drawn rows and of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure what each labeler is worth on your labeled rows.

    For every metric with labels it shows the slope of the labeler's mean, kappa and AUROC with intervals; after how
    many answers a fall of the true mean is found; and the price. It needs no Redis. A judge is asked if the settings
    or --labeler name it, and its answers are kept in data_dir and paid for once.
    """
    from ragtide_offline.trust.running import LabeledRows, is_score_file
    from ragtide_offline.trust.worth import RATES
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.laboratory import show_plan
    from ..printing.trust import trust_view
    from ..running.files import columns_of
    from ..running.trust import (
        ask_labelers,
        labelers_to_try,
        plan_trial,
        read_trial,
        store_worths,
        traffic_of,
        trust_record,
    )

    settings = given(context).settings()
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    of_scores = [path for path in files if is_score_file(path)]
    if of_scores and len(of_scores) < len(files):
        raise ConfigurationError(f"{of_scores[0]} has scores and no texts: give it with --scores, beside the rows")
    labeled = None if of_scores else LabeledRows(files, columns=columns_of(columns), sample=rows, seed=seed)
    names = [] if labeled is None else labelers_to_try(settings, labeler or ())
    if dry_run:
        for plan in {} if labeled is None else plan_trial(settings, labeled, names).values():
            show_plan(plan, as_json=as_json)
        return
    trial, n = read_trial(files, labeled, scores or ())
    runs = [] if labeled is None else ask_labelers(settings, labeled, trial, names, max_cost_usd)
    for result in (*([] if labeled is None else [labeled.result]), *(run.result for run in runs)):
        warn(*result.problems)
    trial.check(metric or ())
    now = traffic_of(settings, traffic, pipeline)
    worths = list(
        trial.worth(
            metrics=metric or (),
            rates=rate or RATES,
            traffic=None if now is None else now.answers_a_day,
            confidence=confidence,
            seed=seed,
        )
    )
    if as_json:
        record = trust_record(runs, n, labeled, now, confidence=confidence, seed=seed)
        print_json({**record, "worth": [worth.as_dict() for worth in worths]})
    else:
        out.print(trust_view(worths, n, now, out.width, confidence))
    if store:
        count = store_worths(settings, worths)
        err.print(f"{count:,} slopes are stored for the deployment", markup=False, highlight=False)


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
    from ..running.laboratory import finish_run, label_rows, measure_corruptions, names_in
    from ..running.progress import interruptible

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
