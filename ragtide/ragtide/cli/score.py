"""`ragtide score`: a file of interactions scored without Redis, with progress, resumable."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragtide_aggregator.estimates.estimates import STRATEGIES
from ragtide_consumers.labelers.event import identity
from ragtide_consumers.labelers.protocol import Identity, Labeling
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_offline.score.lines import ScoreFile, line_of
from ragtide_offline.score.ragchecker_json import write_ragchecker_json
from ragtide_offline.score.scoring import Outcome, ScoringStopped, score_rows
from ragtide_offline.score.stored_labels import STORED, stored_labeling
from ragtide_offline.score.summary import summarize
from ragtide_producers import FORMATS, FileOptions, Row, count_rows, read_rows
from ragtide_runtime.settings.judge import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import ClaimLabels, MetricEvent, RagInteraction, describe
from ragtide_schemas.reference_results import reference_results

from .common import JsonOption, err, given, out, print_json
from .problems import Problems
from .score_tables import reference_table, summary_table

AT_ONCE_LOCAL = 1
"""Rows in flight for a labeler that computes; more would only wait for each other."""


@dataclass(slots=True)
class Scoring:
    """The progress of a run."""

    events: list[MetricEvent] = field(default_factory=list)
    claims: list[tuple[RagInteraction, ClaimLabels]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """The input of a scoring run and its outputs."""

    source: str | Path
    file: FileOptions
    output: Path | None = None
    as_json: bool = False
    labels: bool = False
    limit: int | None = None
    export: Path | None = None


def run_score(
    settings: Settings, options: ScoreOptions, *, emit: Callable[[dict[str, Any]], None], console: Console
) -> Scoring:
    """Score a file and return the scores, with those of an earlier run that it continues.

    Args:
        settings: name the labeler and hold its settings.
        options: input and outputs.
        emit: takes each line, if lines are asked for.
        console: standard error.

    Raises:
        RagtideError: the file cannot be read, the output cannot be gone on with, or nothing can be labeled now.
    """
    return asyncio.run(_score(settings, options, emit, console))


async def _score(
    settings: Settings, options: ScoreOptions, emit: Callable[[dict[str, Any]], None], console: Console
) -> Scoring:
    if settings.labeler == STORED:

        async def label_stored(row: Row) -> Labeling:
            return stored_labeling(row, profile=settings.profile, claim_profile=settings.claim_profile)

        return await _with_labeler(
            Identity(STORED, "1", ""), label_stored, options, emit, console, at_once=AT_ONCE_LOCAL
        )
    async with labeler_of(settings, None, patient=False) as labeler:

        async def label(row: Row) -> Labeling:
            assert row.interaction is not None  # noqa: S101 - for the type checker: only such rows are labeled
            return await labeler.label(row.interaction)

        return await _with_labeler(identity(labeler), label, options, emit, console, at_once=_at_once(settings))


def _at_once(settings: Settings) -> int:
    """Return how many interactions are labeled at once: enough that each endpoint has its most calls in flight."""
    if settings.labelers == ("local",):
        return AT_ONCE_LOCAL
    return 4 * max(settings.services.get(name, settings.judge).max_in_flight for name in settings.labelers)


async def _with_labeler(
    asked: Identity,
    label: Callable[[Row], Awaitable[Labeling]],
    options: ScoreOptions,
    emit: Callable[[dict[str, Any]], None],
    console: Console,
    *,
    at_once: int,
) -> Scoring:
    scoring = Scoring()
    total = options.limit if options.limit is not None else count_rows(options.source, options.file)
    who = None if asked.name in {STORED, "cascade"} else f"{asked.name} {asked.version}"
    output = ScoreFile(options.output, labeler=who) if options.output is not None else None
    done = {} if output is None else output.done
    columns = (
        TextColumn("scoring"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[money]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("scoring", total=total, rate="", money="")
        problems = Problems(console, options.source)
        rows = _new_rows(read_rows(options.source, options.file), done, options.limit, scoring)
        try:
            async for outcome in score_rows(rows, label, asked, at_once=at_once):
                _take(outcome, options, scoring, problems)
                if outcome.event is not None:
                    line = line_of(outcome.event, outcome.labeling if options.labels else None)
                    if output is not None:
                        output.add(line)
                    if options.as_json:
                        emit(line)
                finished = scoring.counts["scored"] + scoring.counts["before"] + scoring.counts["problems"]
                speed = progress.tasks[0].speed
                progress.update(
                    task,
                    completed=finished,
                    rate=f"{speed:,.0f}/s" if speed else "",
                    money=f"${scoring.cost_usd:.4f}" if scoring.cost_usd else "",
                )
        finally:
            problems.sum_up()
            if output is not None:
                output.close()
    if options.export is not None:
        _export(options, scoring)
    return scoring


def _new_rows(
    rows: Iterable[Row], done: Mapping[tuple[str, str], deque[MetricEvent]], limit: int | None, scoring: Scoring
) -> Iterator[Row]:
    """Yield the rows that are not scored yet."""
    for row in islice(rows, limit):
        interaction = row.interaction
        before = done.get((interaction.pipeline, interaction.interaction_id)) if interaction is not None else None
        if before:
            scoring.events.append(before.popleft())
            scoring.counts["before"] += 1
        else:
            yield row


def _take(outcome: Outcome, options: ScoreOptions, scoring: Scoring, problems: Problems) -> None:
    if outcome.event is None:
        scoring.counts["problems"] += 1
        problems.add(outcome.row.line, outcome.problem or "")
        return
    scoring.counts["scored"] += 1
    scoring.events.append(outcome.event)
    scoring.cost_usd += outcome.event.cost_usd
    if options.export is not None and outcome.labeling is not None and outcome.row.interaction is not None:
        for labels in outcome.labeling.labels:
            if isinstance(labels, ClaimLabels):
                scoring.claims.append((outcome.row.interaction, labels))


def _export(options: ScoreOptions, scoring: Scoring) -> None:
    assert options.export is not None  # noqa: S101 - for the type checker
    if scoring.counts["before"]:
        raise ScoringStopped(
            f"{scoring.counts['before']} interactions were scored in an earlier run, whose labels are not here: "
            "export from one run, with a new --output"
        )
    write_ragchecker_json(options.export, scoring.claims)


def with_choices(settings: Settings, *, model: str | None, base_url: str | None, families: str | None) -> Settings:
    """Return settings with the judge's options from the command line.

    Raises:
        typer.BadParameter: the judge's settings would not fit together.
    """
    said = {"model": model, "base_url": base_url, "families": families.split(",") if families else None}
    changed = {name: value for name, value in said.items() if value is not None}
    if not changed:
        return settings
    now = {name: getattr(settings.judge, name) for name in JudgeSettings.model_fields}
    try:
        return settings.model_copy(update={"judge": JudgeSettings(**{**now, **changed})})
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None


def score(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="Interactions: JSON Lines, CSV, Parquet; RAGBench rows; RAGChecker's JSON; hf:owner/name?split=test."
        ),
    ],
    labeler: Annotated[
        str | None,
        typer.Option(
            help="local, judge, nli, cascade, one of your own; or stored, for the labels in the file [RAGTIDE_LABELER]."
        ),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Variant of TRACe for a judge's or stored labels.")] = None,
    claim_profile: Annotated[str | None, typer.Option(help="Variant of RAGChecker for them.")] = None,
    model: Annotated[str | None, typer.Option(help="Model of the judge [RAGTIDE_JUDGE_MODEL].")] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of the judge [RAGTIDE_JUDGE_BASE_URL].")] = None,
    families: Annotated[
        str | None, typer.Option(help="Metrics asked of the judge: trace, ragchecker, or trace,ragchecker.")
    ] = None,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of rows that name none.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}; by default by the file's name.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a line per interaction here; run again to go on.")
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Put the labels into the lines too.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows.")] = None,
    strategy: Annotated[str, typer.Option(help=f"Intervals of the summary: {', '.join(STRATEGIES)}.")] = "normal",
    confidence: Annotated[float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Show published results of this data set beside the summary, such as ClapNQ.")
    ] = None,
    export_ragchecker: Annotated[
        Path | None, typer.Option(help="Write claims, labels and scores as RAGChecker's JSON here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a file without Redis: a line per interaction as JSON, or a summary with intervals."""
    chosen = {"labeler": labeler, "profile": profile, "claim_profile": claim_profile}
    settings = given(context).settings(**{name: value for name, value in chosen.items() if value is not None})
    settings = with_choices(settings, model=model, base_url=base_url, families=families)
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if strategy not in STRATEGIES:
        raise typer.BadParameter(
            f"{strategy!r} is unknown: use one of {', '.join(STRATEGIES)}", param_hint="--strategy"
        )
    if reference is not None:
        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None
    options = ScoreOptions(
        file, FileOptions(pipeline, format=file_format), output, as_json, labels, limit, export_ragchecker
    )
    scoring = run_score(settings, options, emit=print_json, console=err)
    _report(scoring, strategy, confidence or settings.confidence, reference, as_json=as_json)
    if not scoring.counts.total():
        err.print(f"{file} holds no interactions: nothing was scored", style="red", markup=False, highlight=False)
        raise typer.Exit(1)
    if scoring.counts["problems"]:
        raise typer.Exit(1)


def _report(scoring: Scoring, strategy: str, confidence: float, reference: str | None, *, as_json: bool) -> None:
    """Print the summary where it does not disturb: on standard error if the lines go to standard output."""
    console = err if as_json else out
    summary = summarize(scoring.events, strategy=strategy, confidence=confidence)
    if summary.estimates:
        console.print(summary_table(summary))
        console.print(f"intervals: {strategy}, {confidence:.0%}", style="bright_black", highlight=False)
    for pipeline, diagnosis in summary.diagnoses:
        console.print(f"{pipeline}: {diagnosis.sentence()}", markup=False, highlight=False)
    for problem in summary.problems:
        err.print(problem, markup=False, highlight=False)
    if reference is not None:
        console.print(reference_table(summary.estimates, reference))
    counts = scoring.counts
    before = f", {counts['before']:,} were before" if counts["before"] else ""
    money = f", ${scoring.cost_usd:.4f}" if scoring.cost_usd else ""
    err.print(f"{counts['scored']:,} scored{before}, {counts['problems']:,} problems{money}", highlight=False)
