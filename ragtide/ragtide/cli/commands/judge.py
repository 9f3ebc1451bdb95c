"""`ragtide batch`, `benchmark`, `judge` and `agreement`: what a labeler is worth, and what it costs."""

from pathlib import Path
from typing import Annotated

import typer

from ..command import command, command_group
from ..console import err, out, print_json, warn
from ..options import JsonOption, given


@command("ragtide batch rows.jsonl", "ragtide batch rows.jsonl --no-wait")
def batch(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of interactions.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of each file.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the batches.")] = True,
    poll_s: Annotated[float, typer.Option("--poll-s", min=0.01, help="Seconds between two looks at a batch.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Ask the judge in batches, at half the price.

    ragtide score and ragtide benchmark find the answers in data_dir. A command that was killed goes on when it is given
    again.
    """
    import asyncio

    from ragtide_consumers.labelers.judge.costs import BatchProgress
    from ragtide_offline.benchmark.batching import ask_in_batches
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..benchmark_tables import batch_summary
    from ..progress import interruptible

    settings = given(context).settings()
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    last: BatchProgress | None = None

    def show(progress: BatchProgress) -> None:
        nonlocal last
        if progress != last:
            err.print(
                f"batch {progress.id}: {progress.status}, {progress.done:,} of {progress.total:,} requests",
                markup=False,
                highlight=False,
            )
        last = progress

    with interruptible(lambda: "The batch goes on at the endpoint: give the same command again."):
        found = asyncio.run(ask_in_batches(settings, files, limit=limit, wait=wait, poll_s=poll_s, show=show))
    if as_json:
        print_json(found.as_dict())
    else:
        out.print(batch_summary(found), markup=False, highlight=False)


@command(
    "ragtide benchmark ragbench.jsonl.gz",
    "ragtide benchmark test.jsonl --labeler judge --limit 200 --json",
    "ragtide benchmark --corruptions ragbench.jsonl.gz --only 'negation,wrong documents'",
)
def benchmark(
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

    from ragtide_offline.benchmark.corruptions import CorruptionRun
    from ragtide_offline.benchmark.running import BenchmarkRun
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..benchmark_tables import label_rows, show_figures, show_plan
    from ..corruption_tables import measure_corruptions, names_in
    from ..progress import interruptible, progress_bar

    settings = given(context).settings(**({} if labeler is None else {"labeler": labeler}))
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if corruptions:
        if reorder:
            raise ConfigurationError("--reorder goes without --corruptions, which has reversed documents: leave it out")
        spoiling = CorruptionRun(names_in(only), seed)
        if dry_run:
            show_plan(asyncio.run(spoiling.plan(settings, files, limit=limit)), as_json=as_json)
        else:
            measure_corruptions(spoiling, settings, files, limit=limit, confidence=confidence, as_json=as_json)
        return
    if only is not None:
        raise ConfigurationError("--only names corruptions: give --corruptions, too")
    run = BenchmarkRun()
    if dry_run:
        show_plan(asyncio.run(run.plan(settings, files, limit=limit, reorder=reorder)), as_json=as_json)
        return
    with (
        interruptible(lambda: f"{run.counts['labeled']:,} rows were labeled: give the same command again."),
        progress_bar("labeling", None) as advance,
    ):
        asyncio.run(label_rows(run.run(settings, files, limit=limit, reorder=reorder), advance))
    warn(*run.problems)
    figures = run.figures(confidence=confidence, seed=seed)
    preferences = run.preferences.figures(confidence=confidence, seed=seed)
    spans = run.spans.figures(confidence=confidence, seed=seed)
    if as_json:
        print_json(run.as_dict(figures, preferences, spans))
        return
    show_figures(run, figures, preferences, spans, settings.fit_for)


judge = command_group("judge", "Show what your judge sees, for a stated cost.", no_args_is_help=True)


@command("ragtide judge check answers.jsonl --rows 20 --max-cost-usd 0.5", of=judge, name="check")
def judge_check(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of interactions; no true scores are needed.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows that are drawn, evenly from the subsets.")] = 40,
    max_cost_usd: Annotated[
        float, typer.Option("--max-cost-usd", min=0, help="Most US dollars; a check that may cost more does not begin.")
    ] = 1.0,
    only: Annotated[
        str | None, typer.Option(help="Only these corruptions, separated by commas, such as 'negation,HTML'.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the drawn rows, of corruptions and of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show which failures your judge sees: rows are spoilt in known ways and judged before and after.

    It is ragtide benchmark --corruptions with the judge, on a sample. The cost is stated before the first call. Answers
    are kept in data_dir and paid for once.
    """
    import asyncio

    from ragtide_offline.benchmark.corruptions import CorruptionRun
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..benchmark_tables import planned
    from ..corruption_tables import measure_corruptions, names_in

    settings = given(context).settings(labeler="judge")
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    run = CorruptionRun(names_in(only), seed)
    plan = asyncio.run(run.plan(settings, files, sample=rows))
    err.print(planned(plan), markup=False, highlight=False)
    if plan.calls.calls and not plan.has_price:
        raise ConfigurationError(
            "the price of the model is not known, so --max-cost-usd cannot be kept: set it under judge.prices, for a "
            "model of your own with input = 0 and output = 0"
        )
    if plan.calls.cost_usd > max_cost_usd:
        raise ConfigurationError(
            f"the check would cost about ${plan.calls.cost_usd:,.2f}, and --max-cost-usd is {max_cost_usd:g}: give "
            "fewer --rows, some corruptions with --only, or a higher --max-cost-usd"
        )
    measure_corruptions(
        run, settings, files, sample=rows, confidence=confidence, max_cost_usd=max_cost_usd, as_json=as_json
    )


@command(
    "ragtide agreement scores.jsonl --gold rows.jsonl",
    "ragtide agreement judge.jsonl --against local.jsonl --metric trace.adherence",
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

    from ..agreement_table import show_agreement

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
            show_agreement(compared, confidence)
        if plot is not None:
            plot_agreement(compared, plot if not number else plot.with_stem(f"{plot.stem}-{number + 1}"))
