"""`ragtide score`: scores a file of interactions without Redis; `ragtide merge`: merges the parts of a large one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..command import command
from ..console import err, out, warn
from ..options import (
    ConfidenceOption,
    FailIfOption,
    FilesArgument,
    FormatOption,
    GateReports,
    JsonOption,
    MapOption,
    given,
)

if TYPE_CHECKING:
    from ragtide_offline.parts.part_files import MergedParts

    from ..gates import GateOptions


def in_a_folder(path: Path | None) -> Path | None:
    """Return a path that may be written later: the command may score for hours before it writes the file."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: create it")
    return path


@command(
    "ragtide score answers.jsonl",
    "ragtide score answers.jsonl --labeler judge --model gpt-5-mini --output scores.jsonl",
    "ragtide score answers.jsonl --fail-if 'trace.adherence < 0.8' --junit gate.xml",
    "ragtide score answers/ --processes 8 --output parts",
    exits="1 if a row could not be scored, or if there is none",
)
def score(
    context: typer.Context,
    files: FilesArgument,
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
    file_format: FormatOption = None,
    columns: MapOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for a line per interaction, or folder for parts; it is continued."),
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Add the labels of every sentence to the lines.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Score only this many rows, from the first on.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Score in parts, on this many processes; without --output none is kept.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="3/64", help="Score only this part of the rows, into the folder --output.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Intervals of the summary: auto, running, normal, wilson, hoeffding, asymptotic.")
    ] = "normal",
    confidence: ConfidenceOption = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Published results to show beside the summary: ClapNQ, RAGChecker or RAGBench."),
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
    reports: GateReports = GateReports(),
    summary_json: Annotated[
        Path | None, typer.Option(callback=in_a_folder, help="File for the summary and the gate, as JSON.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a file of interactions. It needs no Redis.

    It prints a summary with intervals. With --json a line per interaction is on standard output and nothing else, and
    the summary on standard error. For live traffic, use ragtide estimates.
    """
    from ragtide_consumers.labelers.profiles import check_profiles
    from ragtide_consumers.labelers.registry import BUILT_IN
    from ragtide_offline.gates.measurements import of_estimates
    from ragtide_offline.score.lines import read_lines
    from ragtide_offline.score.scored_file import ScoredFile, ScoreOptions
    from ragtide_offline.score.scoring import STORED
    from ragtide_offline.score.summary import summarize
    from ragtide_producers import FileOptions
    from ragtide_producers.files.interactions import name_of
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..file_rows import columns_lines, columns_of
    from ..gates import exit_for, gate_of, with_gate
    from ..part_scoring import LargeScoring, is_large, score_in_parts
    from ..progress import interrupted
    from ..scoring import (
        gaps_to_baseline,
        kept_results,
        partial_summary,
        repeated_rows,
        repeats_of,
        report_summary,
        row_counts,
        score_all,
        with_choices,
        write_summary,
    )

    chosen = {"labeler": labeler, "profile": profile, "claim_profile": claim_profile}
    settings = given(context).settings(**{name: value for name, value in chosen.items() if value is not None})
    if (profile or claim_profile) and settings.labeler in (*BUILT_IN, STORED):
        check_profiles(settings)
    settings = with_choices(settings, model=model, base_url=base_url, families=families)
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    _check_summary(strategy, reference)
    options = FileOptions(pipeline, format=file_format, columns=columns_of(columns))
    gate = gate_of(settings, "score", fail_if, reports)
    settings = settings if gate is None else gate.asking(settings)
    if baseline is not None and gate is None:
        raise typer.BadParameter("give --fail-if 'trace.adherence.difference < 0', too", param_hint="--baseline")
    if baseline is None and gate is not None:
        gate.needs_baseline("give --baseline FILE, an earlier output of ragtide score")
    level = confidence or settings.confidence
    if is_large(files, processes, shard):
        _refuse_in_parts(
            {"--json": as_json, "--limit": limit, "--baseline": baseline, "--export-ragchecker": export_ragchecker}
        )
        merged = score_in_parts(
            LargeScoring(files, options, processes or 1, shard, output, labels), settings, strategy, level
        )
        if merged is not None:
            _end(merged, gate, strategy, level, reference, summary_json)
        return
    (file,) = files
    before = None if baseline is None else [event for event, _ in read_lines(baseline)]
    options = replace(options, unnamed=name_of(file))
    scored = ScoredFile(settings, ScoreOptions(file, options, output, labels, limit, export_ragchecker))
    complete = score_all(scored, as_json=as_json)
    found = summarize(scored.events, strategy=strategy, confidence=level)
    if not complete:
        (err if as_json else out).print(partial_summary(scored), style="yellow", highlight=False)
    report_summary(found, f"intervals: {strategy}, {level:.0%}", reference, as_json=as_json)
    if not complete:
        write_summary(summary_json, {**scored.totals(), "partial": True, **found.as_dict()})
        interrupted(kept_results(scored) + (" The gate is not decided." if gate is not None else ""))
    err.print(row_counts(scored), highlight=False)
    warn(*filter(None, [*columns_lines(scored.columns, scored.left_out), repeated_rows(repeats_of(scored.events))]))
    if not scored.counts.total():
        err.print(f"{file} has no interactions to score", style="red", markup=False, highlight=False)
    result = None
    if gate is not None:
        gaps = None if before is None else gaps_to_baseline(scored.events, before, level)
        result = gate.decide(of_estimates(found.estimates, gaps), as_json=as_json)
    write_summary(summary_json, with_gate({**scored.totals(), "partial": False, **found.as_dict()}, result))
    exit_for(result, otherwise=int(bool(not scored.counts.total() or scored.counts["problems"] or found.problems)))


def _check_summary(strategy: str, reference: str | None) -> None:
    """Refuse intervals and published results that do not exist."""
    from ragtide_aggregator.estimates.estimates import STRATEGIES
    from ragtide_offline.score.reference_results import reference_results
    from ragtide_schemas.suggestions import unknown

    if strategy not in STRATEGIES:
        raise typer.BadParameter(unknown("strategy", strategy, STRATEGIES), param_hint="--strategy")
    if reference is not None:
        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None


def _refuse_in_parts(given_options: Mapping[str, Any]) -> None:
    for name, value in given_options.items():
        if value:
            raise typer.BadParameter(
                "it is for one file without --processes and --shard: leave it out", param_hint=name
            )


@command(
    "ragtide merge parts",
    "ragtide merge parts --strategy running --summary-json summary.json",
    exits="1 if a row could not be scored, or if there is none",
)
def merge(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the parts that ragtide score --output has written.")],
    strategy: Annotated[
        str, typer.Option(help="Intervals of the summary: auto, running, normal, wilson, hoeffding, asymptotic.")
    ] = "normal",
    confidence: ConfidenceOption = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Published results to show beside the summary: ClapNQ, RAGChecker or RAGBench."),
    ] = None,
    fail_if: FailIfOption = None,
    reports: GateReports = GateReports(),
    summary_json: Annotated[
        Path | None, typer.Option(callback=in_a_folder, help="File for the summary and the gate, as JSON.")
    ] = None,
) -> None:
    """Merge the scored parts of a large input.

    The summary has the bits of that of one process. The intervals auto and running depend on the order of the rows, so
    they are computed from all scores again.
    """
    from ..gates import gate_of
    from ..part_scoring import merged_parts

    settings = given(context).settings()
    _check_summary(strategy, reference)
    gate = gate_of(settings, "merge", fail_if, reports)
    if gate is not None:
        gate.needs_baseline("ragtide merge has none: score one file with --baseline FILE")
    level = confidence or settings.confidence
    _end(merged_parts(folder, strategy=strategy, confidence=level), gate, strategy, level, reference, summary_json)


def _end(
    merged: "MergedParts",
    gate: "GateOptions | None",
    strategy: str,
    level: float,
    reference: str | None,
    summary_json: Path | None,
) -> None:
    """Print the summary of parts, decide the gate, write the summary, and end the command."""
    from ragtide_offline.gates.measurements import of_estimates

    from ..file_rows import columns_lines
    from ..gates import exit_for, with_gate
    from ..scoring import repeated_rows, report_summary, write_summary

    found = merged.summary
    report_summary(found, f"intervals: {strategy}, {level:.0%}", reference, as_json=False)
    money = f", ${merged.cost_usd:.4f}" if merged.cost_usd else ""
    err.print(f"{merged.counts['scored']:,} scored, {merged.counts['problems']:,} problems{money}", highlight=False)
    warn(*filter(None, [*columns_lines(merged.columns, merged.left_out), repeated_rows(merged.repeats, "about ")]))
    if not merged.counts.total():
        err.print("there are no interactions to score", style="red", markup=False, highlight=False)
    result = None if gate is None else gate.decide(of_estimates(found.estimates, None), as_json=False)
    counts = {name: merged.counts[name] for name in ("scored", "problems")}
    fields = {**counts, "cost_usd": merged.cost_usd, "partial": False, **found.as_dict()}
    write_summary(summary_json, with_gate(fields, result))
    exit_for(result, otherwise=int(bool(not merged.counts["scored"] or merged.counts["problems"] or found.problems)))
