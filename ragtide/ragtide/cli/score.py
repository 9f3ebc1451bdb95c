"""`ragtide score`: scores a file of interactions without Redis."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from ragtide_aggregator.estimates.estimates import STRATEGIES
from ragtide_consumers.labelers.profiles import check_profiles
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_offline.gates.deciding import UndecidedPolicy
from ragtide_offline.gates.measurements import Gaps, of_estimates
from ragtide_offline.score.lines import read_lines
from ragtide_offline.score.reference_results import reference_results
from ragtide_offline.score.scored_file import ScoredFile, ScoreOptions
from ragtide_offline.score.stored_labels import STORED
from ragtide_offline.score.summary import Summary, summarize
from ragtide_producers import FORMATS, FileOptions
from ragtide_producers.files.interactions import name_of
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import MetricEvent, describe
from ragtide_schemas.printable import printable_json
from ragtide_schemas.suggestions import unknown

from .columns_option import MapOption, columns_line, columns_of
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .gate_options import (
    FailIfOption,
    JunitOption,
    SummaryOption,
    UndecidedOption,
    exit_for,
    gate_of,
    with_gate,
    write_file,
)
from .problems import Problems
from .progress import cost_note, interrupted, progress_bar
from .score_tables import reference_table, summary_table


def _scores_all(scored: ScoredFile, *, as_json: bool) -> bool:
    """Score the file, and return whether it was scored to its end: Ctrl-C stops it."""
    try:
        asyncio.run(_score(scored, as_json=as_json))
    except KeyboardInterrupt:
        return False
    return True


async def _score(scored: ScoredFile, *, as_json: bool) -> None:
    """Score the file with a progress bar; print its problems, and the lines if `as_json` is set."""
    problems, total = Problems(err, scored.options.source), scored.total()
    with progress_bar("scoring", total) as show:
        try:
            async for outcome, line in scored.score():
                if line is None:
                    problems.add(outcome.row.line, outcome.problem or "")
                elif as_json:
                    print_json(line)
                done = scored.counts.total()
                show(done, cost_note(scored.cost_usd, done, total))
        finally:
            problems.sum_up()


def _kept(scored: ScoredFile) -> str:
    """Return the sentence after Ctrl-C."""
    count = scored.counts["scored"] + scored.counts["before"]
    if scored.options.output is None:
        return (
            f"{count:,} interactions were scored and are not kept: with --output FILE a stopped command can go on "
            "when it is given again."
        )
    return f"{count:,} scored interactions are in {scored.options.output}: to go on, give the same command again."


def _partial(scored: ScoredFile) -> str:
    return f"Partial summary of {scored.options.source}: {_counted(scored)}; the other rows were not scored."


def _counted(scored: ScoredFile) -> str:
    """Return the numbers of rows, and the cost."""
    counts = scored.counts
    before = f", {counts['before']:,} scored before" if counts["before"] else ""
    money = f", ${scored.cost_usd:.4f}" if scored.cost_usd else ""
    return f"{counts['scored']:,} scored{before}, {counts['problems']:,} problems{money}"


def with_choices(settings: Settings, *, model: str | None, base_url: str | None, families: str | None) -> Settings:
    """Return settings with the judge's options from the command line.

    Raises:
        typer.BadParameter: the judge's settings contradict each other.
    """
    options = {"model": model, "base_url": base_url, "families": families.split(",") if families else None}
    changed = {name: value for name, value in options.items() if value is not None}
    if not changed:
        return settings
    now = {name: getattr(settings.judge, name) for name in JudgeSettings.model_fields}
    try:
        return settings.model_copy(update={"judge": JudgeSettings(**{**now, **changed})})
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None


def in_a_folder(path: Path | None) -> Path | None:
    """Return a path that may be written later: the command may score for hours before it writes the file."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: create it")
    return path


def score(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help=(
                "File of interactions: JSON Lines, CSV, Parquet, RAGBench rows or RAGChecker's JSON; or a data set of "
                "Hugging Face, as hf:owner/name?split=test."
            )
        ),
    ],
    labeler: Annotated[
        str | None,
        typer.Option(
            help="local, judge, nli, model, cascade, stored (labels of the file), or your own [RAGTIDE_LABELER]."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Variant of the TRACe formulas: ragbench, ragbench_raw, capstone [RAGTIDE_PROFILE]."),
    ] = None,
    claim_profile: Annotated[
        str | None,
        typer.Option(help="Variant of the RAGChecker formulas: ragchecker_strict, ragchecker [RAGTIDE_CLAIM_PROFILE]."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model of the judge [RAGTIDE_JUDGE_MODEL].")] = None,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of the judge [RAGTIDE_JUDGE_BASE_URL].")] = None,
    families: Annotated[
        str | None,
        typer.Option(
            help="Metric families of the judge: trace, ragchecker, or trace,ragchecker [RAGTIDE_JUDGE_FAMILIES]."
        ),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Pipeline of rows that name none; default: the name of the file.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help=f"Format of the file: {', '.join(FORMATS)}; default: by its name.")
    ] = None,
    columns: MapOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for a line per interaction; a file that exists is continued."),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Add the labels of every sentence to the lines.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Score only this many rows, from the first on.")] = None,
    strategy: Annotated[str, typer.Option(help=f"Intervals of the summary: {', '.join(STRATEGIES)}.")] = "normal",
    confidence: Annotated[
        float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level [RAGTIDE_CONFIDENCE].")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Show published results of this data set beside the summary, such as ClapNQ.")
    ] = None,
    export_ragchecker: Annotated[
        Path | None, typer.Option(help="File for claims, labels and scores, as JSON of RAGChecker.")
    ] = None,
    fail_if: FailIfOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Earlier output of ragtide score on the same interactions, for conditions on METRIC.difference."
        ),
    ] = None,
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    summary_json: Annotated[
        Path | None, typer.Option(callback=in_a_folder, help="File for the summary and the gate, as JSON.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a file of interactions. It needs no Redis.

    It prints a summary with intervals. With --json a line per interaction is on standard output and nothing else, and
    the summary on standard error. For live traffic, use ragtide estimates.
    """
    chosen = {"labeler": labeler, "profile": profile, "claim_profile": claim_profile}
    settings = given(context).settings(**{name: value for name, value in chosen.items() if value is not None})
    if (profile or claim_profile) and settings.labeler in (*BUILT_IN, STORED):
        check_profiles(settings)
    settings = with_choices(settings, model=model, base_url=base_url, families=families)
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    if strategy not in STRATEGIES:
        raise typer.BadParameter(unknown("strategy", strategy, STRATEGIES), param_hint="--strategy")
    if reference is not None:
        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None
    files = FileOptions(pipeline, format=file_format, unnamed=name_of(file), columns=columns_of(columns))
    gate = gate_of(settings, "score", fail_if, undecided=undecided, junit=junit, summary=summary)
    if baseline is not None and gate is None:
        raise typer.BadParameter("give --fail-if 'trace.adherence.difference < 0', too", param_hint="--baseline")
    if baseline is None and gate is not None:
        gate.needs_baseline("give --baseline FILE, an earlier output of ragtide score")
    before = None if baseline is None else [event for event, _ in read_lines(baseline)]
    scored = ScoredFile(settings, ScoreOptions(file, files, output, labels, limit, export_ragchecker))
    complete = _scores_all(scored, as_json=as_json)
    level = confidence or settings.confidence
    found = summarize(scored.events, strategy=strategy, confidence=level)
    if not complete:
        (err if as_json else out).print(_partial(scored), style="yellow", highlight=False)
    _report(scored, found, f"intervals: {strategy}, {level:.0%}", reference, as_json=as_json)
    if not complete:
        _write_summary(summary_json, {**scored.totals(), "partial": True, **found.as_dict()})
        interrupted(_kept(scored) + (" The gate is not decided." if gate is not None else ""))
    err.print(_counted(scored), highlight=False)
    warn(*filter(None, [columns_line(scored.columns), _repeats(scored.events)]))
    if not scored.counts.total():
        err.print(f"{file} has no interactions to score", style="red", markup=False, highlight=False)
    result = None
    if gate is not None:
        gaps = None if before is None else _gaps(scored.events, before, level)
        result = gate.decide(of_estimates(found.estimates, gaps), as_json=as_json)
    _write_summary(summary_json, with_gate({**scored.totals(), "partial": False, **found.as_dict()}, result))
    exit_for(result, otherwise=int(bool(not scored.counts.total() or scored.counts["problems"] or found.problems)))


def _write_summary(path: Path | None, fields: Mapping[str, Any]) -> None:
    if path is not None:
        write_file(path, f"{printable_json(fields)}\n".encode(), "--summary-json")


def _repeats(events: Sequence[MetricEvent]) -> str:
    """Return a sentence about rows that repeat the id of another row; empty if none does."""
    repeats = len(events) - len({(event.pipeline, event.interaction_id) for event in events})
    if not repeats:
        return ""
    return (
        f"{repeats:,} times a row repeats the interaction id of another row of its pipeline: each counts as an answer "
        "of its own, so the intervals are too narrow if they are copies"
    )


def _gaps(events: Sequence[MetricEvent], before: Sequence[MetricEvent], confidence: float) -> Gaps:
    # Few commands have a baseline, and all would wait for this import.
    from ragtide_offline.gates.baselines import baseline_gaps  # noqa: PLC0415

    return baseline_gaps(events, before, confidence=confidence)


def _report(scored: ScoredFile, summary: Summary, note: str, reference: str | None, *, as_json: bool) -> None:
    """Print the summary, on standard error if the lines are on standard output."""
    console = err if as_json else out
    if summary.estimates:
        console.print(summary_table(summary, console.width))
        console.print(note, style="bright_black", highlight=False)
    for pipeline, diagnosis in summary.diagnoses:
        console.print(f"{pipeline}: {diagnosis.sentence()}", markup=False, highlight=False)
    for problem in summary.problems:
        err.print(problem, markup=False, highlight=False)
    if reference is not None:
        console.print(reference_table(summary.estimates, reference, console.width))
