"""`ragtide criteria`: questions in a user's own words, before and while they are asked."""

from pathlib import Path
from typing import Annotated

import typer

from ..command import command, command_group
from ..console import err, out, print_json
from ..options import JsonOption, given, user_name

criteria = command_group(
    "criteria",
    "Check, try, list and store questions in your own words.",
    no_args_is_help=True,
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
    from ..criteria_views import criteria_of_deployment, show_criteria

    settings = given(context).settings()
    found, unreadable = criteria_of_deployment(settings)
    if as_json:
        print_json([row.as_dict() for row in found])
    else:
        show_criteria(found)
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
    from ..criteria_views import criterion_of_options, store

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
    from ..criteria_views import remove

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

    from ragtide_offline.criteria.checks import criterion_findings
    from ragtide_offline.criteria.files import read_criteria
    from ragtide_offline.criteria.pricing import criteria_prices

    from ..criteria_views import show_checks, typical_interactions

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
                    {"name": each.name, "metric": each.metric, "version": each.version} for each in read.criteria
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

    from ..criteria_trial import rows_of, run_trial, show_verdicts
    from ..criteria_views import criterion_of_options, find_criterion

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
    found = run_trial(settings, criterion, rows, max_cost_usd)
    if as_json:
        print_json(found.result.as_dict())
    else:
        show_verdicts(found)
