"""`ragtide judge` and `criteria`: what a judge is worth, and questions of your own."""

from pathlib import Path
from typing import Annotated

import typer

from ..printing import err, out, print_json, warn
from ..running import JsonOption, given, user_name
from . import command, command_group

judge = command_group("judge", "Set a judge up, check it on your items, choose its sentinels.")


@command(
    "ragtide judge setup",
    "ragtide judge setup --rate 0.1 --yes",
    "ragtide judge setup --model qwen3:8b --json",
    of=judge,
    name="setup",
)
def judge_setup(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Model; default: that of the settings, or of the endpoint.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.0001, max=1, help="Share of the answers that is judged [RAGTIDE_CASCADE_RATE]."),
    ] = None,
    per_day_usd: Annotated[
        float | None,
        typer.Option(
            "--per-day-usd",
            min=0.01,
            help="Spend limit of a day; default: twice the price a day, or 5 without traffic.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="INPUT/OUTPUT", help="Dollars per million tokens, if the model has no list price."),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(
            min=0.05,
            max=1,
            help="Agreement of the judge with people; default: as ragtide trust --store measured, or 0.6.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write the settings without a question.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a judge score a sample: find its endpoint, ask one test item, show prices, and write the settings.

    The endpoint is that of the settings, of OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT, or Ollama, vLLM
    or LiteLLM on this machine. Keys stay in their variables. Without a terminal and --yes nothing is written.
    """
    import sys

    from ragtide_roles.judge_setup.setting_up import write_setup
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.laboratory import setup_sentence, show_setup
    from ..running.judge_setup import planned_setup

    settings = given(context).settings_to_write()
    configure_logging("error")
    setup = planned_setup(settings, model=model, rate=rate, kappa=kappa, spend_per_day_usd=per_day_usd, price=price)
    if not as_json:
        show_setup(setup)
    asks = not yes and not as_json and sys.stdin.isatty()
    if yes or (asks and typer.confirm(f"Write this into {setup.file}?", err=True)):
        setup = write_setup(setup)
    if as_json:
        print_json(setup.as_dict())
        return
    err.print(setup_sentence(setup), markup=False, highlight=False, soft_wrap=True)
    if setup.written:
        err.print("Roles that run with this file take it within seconds.", highlight=False)
    elif not asks:
        err.print("Nothing was written: give --yes.", highlight=False)


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

    from ..printing.laboratory import show_plan
    from ..running.laboratory import names_in, refuse_cost

    settings = given(context).settings(labeler="judge")
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if corruptions or only is not None:
        if criterion:
            raise ConfigurationError("--criterion goes without --corruptions, which ask no criterion: leave one out")
        if not corruptions:
            warn("--only without --corruptions is deprecated: give --corruptions, too")
        from ragtide_offline.benchmark.corruptions import SpoiltRows

        from ..running.laboratory import measure_corruptions

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

    from ..running.laboratory import check_is_of_answers, find_criterion, run_check

    named = [find_criterion(settings, name) for name in criterion or ()]
    for question in named:
        check_is_of_answers(question, "a check asks about single answers: leave it out")
    questions = named or [question for question in settings.judge.criteria if not question.is_of_session]
    check = JudgeCheck(settings_of_check(settings, questions), files, limit=limit, sample=rows, seed=seed)
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
    from ..running.laboratory import write_sentinels

    written = write_sentinels(given(context).settings(), source, output, limit=limit, pipeline=pipeline)
    err.print(f"{written:,} sentinels are in {output}: set judge.sentinels to this file", markup=False, highlight=False)


@command("ragtide judge baseline", of=judge, name="baseline")
def judge_baseline(context: typer.Context) -> None:
    """Forget the earlier answers to sentinels, so that the judge's next answers are the baseline.

    Give it when an alert of kind sentinel is right, and you accept the judge as it is now.
    """
    from ragtide_consumers.sentinels.service import forget_sentinels

    from ..running.redis import with_redis

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


criteria = command_group(
    "criteria",
    "Check, try, list and store questions in your own words.",
)


Question = Annotated[str | None, typer.Option(help="The question that the judge answers.")]


Scale = Annotated[str | None, typer.Option(help="Possible answers: yes_no or 1-5.")]


Values = Annotated[str | None, typer.Option(help="Own answers with values, such as 'good=1, partly=0.5, bad=0'.")]


Needs = Annotated[list[str] | None, typer.Option("--need", help="Text that the judge needs and sees; may be repeated.")]


Unit = Annotated[str | None, typer.Option(help="What the question is about: answer, or a whole session.")]


Better = Annotated[str | None, typer.Option("--direction", help="Direction in which it is better: higher or lower.")]


@command("ragtide criteria list", of=criteria, name="list")
def list_criteria(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the criteria of the settings and those that operators stored, with their present numbers."""
    from ..printing.laboratory import show_criteria
    from ..running.laboratory import criteria_of_deployment

    settings = given(context).settings()
    rows, unreadable = criteria_of_deployment(settings)
    if as_json:
        fields = ({"name": row.criterion.name, **row.model_dump(mode="json")} for row in rows)
        print_json([{**line, "at": row.at and row.at.isoformat()} for line, row in zip(fields, rows, strict=True)])
    else:
        show_criteria(rows)
    for name in unreadable:
        err.print(f"the stored criterion {name} cannot be read by this release, so it is not asked", style="yellow")


@command(
    "ragtide criteria add asks_back --question 'Does the response ask back?' --scale yes_no --rate 0.2",
    "ragtide criteria add tone --criteria criteria.toml",
    of=criteria,
    name="add",
)
def add_criterion(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the criterion.")],
    question: Question = None,
    scale: Scale = None,
    values: Values = None,
    need: Needs = None,
    direction: Better = None,
    unit: Unit = None,
    pipeline: Annotated[list[str] | None, typer.Option(help="Pattern of pipelines; may be repeated.")] = None,
    segment: Annotated[list[str] | None, typer.Option(help="Segment value such as lang=de; may be repeated.")] = None,
    rate: Annotated[float | None, typer.Option(help="Share of the answers that are asked about.")] = None,
    file: Annotated[
        Path | None, typer.Option("--criteria", help="TOML file with [[judge.criteria]] that has the criterion.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a stored criterion of this name.")] = False,
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
) -> None:
    """Store a criterion. Workers that run ask it within seconds; a restart is not needed."""
    from ..running.laboratory import criterion_of_options, store

    settings = given(context).settings()
    fields = {
        "question": question, "scale": scale, "values": values, "needs": need, "direction": direction,
        "pipelines": pipeline, "segments": segment, "rate": rate, "unit": unit,
    }  # fmt: skip
    criterion = criterion_of_options(name, fields, file)
    done = store(settings, criterion, by or user_name(), replace=replace)
    out.print(criterion.metric, highlight=False)
    err.print(done, markup=False, highlight=False)


@command("ragtide criteria remove asks_back", of=criteria, name="remove")
def remove_criteria(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of stored criteria.")],
) -> None:
    """Remove stored criteria: they are not asked any longer. Their numbers stay."""
    from ..running.laboratory import remove

    remove(given(context).settings(), names)


@command(
    "ragtide criteria check ragtide.toml",
    "ragtide criteria check criteria.toml --file answers.jsonl",
    exits="1 if a criterion cannot be asked",
    of=criteria,
    name="check",
)
def check_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file with [[judge.criteria]]: the settings too.")],
    answers: Annotated[
        str | None,
        typer.Option("--file", help="File of interactions, for the tokens of your texts. Default: bundled ones."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check criteria before they are asked: their words, overlaps, and the price of 1,000 answers. It makes no call.

    Hints are about words: a double question, a missing scale, texts that the judge would not see. They are no errors.
    """
    import asyncio

    from ragtide_roles.criteria.checks import criterion_findings
    from ragtide_roles.criteria.files import read_criteria
    from ragtide_roles.criteria.pricing import criteria_prices

    from ..printing.laboratory import show_checks
    from ..running.laboratory import typical_interactions

    settings = given(context).settings()
    read = read_criteria(file)
    findings = [*read.findings, *criterion_findings(read.criteria)]
    is_askable = not any(finding.level == "error" for finding in findings)
    prices = None
    if is_askable:
        prices = asyncio.run(criteria_prices(settings, read.criteria, typical_interactions(answers)))
    if as_json:
        print_json(
            {
                "criteria": [
                    {"name": criterion.name, "metric": criterion.metric, "version": criterion.version}
                    for criterion in read.criteria
                ],
                "findings": [finding.as_dict() for finding in findings],
                "prices": None if prices is None else prices.as_dict(),
            }
        )
    else:
        show_checks(read.criteria, findings, prices, settings.judge.reasons)
    if not is_askable:
        raise typer.Exit(1)


@command(
    "ragtide criteria try asks_back --file answers.jsonl --limit 20",
    "ragtide criteria try short --question 'Is the response short?' --scale yes_no --file answers.jsonl",
    of=criteria,
    name="try",
)
def try_criterion(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a criterion of a file, of the settings or of the store.")],
    file: Annotated[str, typer.Option("--file", help="File of interactions.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Interactions or sessions that are judged.")] = 20,
    sample: Annotated[bool, typer.Option("--sample", help="Draw them at random instead of the first.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    criteria_file: Annotated[
        Path | None, typer.Option("--criteria", help="TOML file with [[judge.criteria]] that has the criterion.")
    ] = None,
    question: Question = None,
    scale: Scale = None,
    values: Values = None,
    need: Needs = None,
    unit: Unit = None,
    max_cost_usd: Annotated[
        float, typer.Option("--max-cost-usd", min=0, help="Most US dollars; a trial that may cost more does not begin.")
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Ask the judge a criterion about a few interactions, and show its verdicts beside its reasons.

    It stores nothing. The price is stated before the first call.
    """
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.laboratory import show_verdicts
    from ..running.laboratory import criterion_of_options, find_criterion, rows_of, run_trial

    settings = given(context).settings()
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    fields = {"question": question, "scale": scale, "values": values, "needs": need, "unit": unit}
    inline = criteria_file is not None or any(value for value in fields.values())
    criterion = (
        criterion_of_options(name, fields, criteria_file)
        if inline
        else find_criterion(settings, name, "give --question and --scale")
    )
    rows = rows_of(file, limit, seed if sample else None, criterion, settings.clusters.quiet_s)
    trial = run_trial(settings, criterion, rows, max_cost_usd)
    if as_json:
        print_json(trial.result.as_dict())
    else:
        show_verdicts(trial)
