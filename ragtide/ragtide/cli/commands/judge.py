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

    from ragtide_offline.benchmark.corruptions import SpoiltRows
    from ragtide_offline.benchmark.running import Benchmark
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..benchmark_tables import show_figures
    from ..corruption_tables import measure_corruptions
    from ..labeler_runs import finish_run, label_rows, names_in, show_plan
    from ..progress import interruptible

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


judge = command_group("judge", "Find out how far your judge can be trusted.", no_args_is_help=True)


@command(
    "ragtide judge check answers.jsonl --rows 40 --max-cost-usd 0.5",
    "ragtide judge check answers.jsonl --criterion asks_back --dry-run",
    "ragtide judge check answers.jsonl --corruptions --only 'negation,wrong documents'",
    of=judge,
    name="check",
)
def judge_check(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Files of interactions; no true scores are needed.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows that are drawn, evenly from the files and subsets.")] = 40,
    limit: Annotated[int | None, typer.Option(min=1, help="Draw from the first rows of each file only.")] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Ask this criterion; may be repeated. Default: those of the settings."),
    ] = None,
    max_cost_usd: Annotated[
        float, typer.Option("--max-cost-usd", min=0, help="Most US dollars; a check that may cost more does not begin.")
    ] = 1.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show calls, tokens and dollars of the judge, and ask nothing.")
    ] = False,
    corruptions: Annotated[
        bool, typer.Option("--corruptions", help="Spoil each row in known ways instead, and show what the judge sees.")
    ] = False,
    only: Annotated[
        str | None, typer.Option(help="With --corruptions: only these, separated by commas, such as 'negation,HTML'.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the drawn rows, of corruptions and of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Check the judge on your own items: self-consistency, position, order and length bias, refusals, faults, cost.

    Each item is asked about four times, with criteria five: as it is, again, with its documents and its criteria in
    reverse order, and with its answer twice. The cost is stated before the first call. No answer comes from a cache.
    """
    import asyncio

    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..labeler_runs import names_in, refuse_cost, show_plan

    settings = given(context).settings(labeler="judge")
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if corruptions or only is not None:
        if criterion:
            raise ConfigurationError("--criterion goes without --corruptions, which ask no criterion: leave one out")
        if not corruptions:
            warn("--only without --corruptions is deprecated: give --corruptions, too")
        from ragtide_offline.benchmark.corruptions import SpoiltRows

        from ..corruption_tables import measure_corruptions

        paths = [Path(file) for file in files]
        run = SpoiltRows(settings, paths, only=names_in(only), limit=limit, sample=rows, seed=seed)
        plan = asyncio.run(run.plan())
        if dry_run:
            show_plan(plan, as_json=as_json)
            return
        refuse_cost(plan, max_cost_usd, "check", "fewer --rows, some corruptions with --only")
        measure_corruptions(run, confidence=confidence, max_cost_usd=max_cost_usd, as_json=as_json)
        return
    from ragtide_offline.judge_check.running import JudgeCheck, settings_of_check

    from ..criteria_views import check_is_of_answers, find_criterion
    from ..judge_check import run_check

    named = [find_criterion(settings, name) for name in criterion or ()]
    for each in named:
        check_is_of_answers(each, "a check asks about single answers: leave it out")
    asked = named or [each for each in settings.judge.criteria if not each.is_of_session]
    check = JudgeCheck(settings_of_check(settings, asked), files, limit=limit, sample=rows, seed=seed)
    if not check.result.counts["rows"]:
        warn(*check.result.problems)
        raise ConfigurationError(
            f"{', '.join(files)} has no item for the judge: give items with documents and a response"
        )
    plan = asyncio.run(check.plan())
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    refuse_cost(plan, max_cost_usd, "check", "fewer --rows")
    run_check(check, confidence=confidence, max_cost_usd=max_cost_usd, as_json=as_json)


@command("ragtide judge sentinels recording sentinels.jsonl", of=judge, name="sentinels")
def judge_sentinels(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Folder or URL of a recording, or a file of interactions.")],
    output: Annotated[Path, typer.Argument(help="File to write, for judge.sentinels.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of sentinels.")] = 40,
    pipeline: Annotated[str | None, typer.Option(help="Only interactions of this pipeline.")] = None,
) -> None:
    """Choose sentinels from a recording or a file: items about which the judge is asked again on a schedule.

    A hash of the texts draws them. The file has questions, documents and answers, as the recording has them.
    """
    from ..judge_sentinels import write_sentinels

    written = write_sentinels(given(context).settings(), source, output, limit=limit, pipeline=pipeline)
    err.print(f"{written:,} sentinels are in {output}: set judge.sentinels to this file", markup=False, highlight=False)


@command("ragtide judge baseline", of=judge, name="baseline")
def judge_baseline(context: typer.Context) -> None:
    """Forget the earlier answers to sentinels, so that the judge's next answers are the baseline.

    Give it when an alert of kind sentinel is right, and you accept the judge as it is now.
    """
    from ragtide_consumers.sentinels.service import forget_sentinels

    from ..with_redis import with_redis

    settings = given(context).settings()
    count = with_redis(settings, lambda redis, _: forget_sentinels(redis, settings.layout))
    if not count:
        err.print("no sentinel has an answer yet, so nothing was forgotten", markup=False, highlight=False)
        return
    out.print(
        f"the earlier answers to {count:,} sentinels are forgotten: the next 9 answers to each are the baseline",
        markup=False,
        highlight=False,
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
