"""`ragtide score` and `fit`: scores of files without Redis."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..printing import err, out, print_json, warn
from ..running import (
    AllMetricsOption,
    ConfidenceOption,
    FailIfOption,
    FilesArgument,
    FormatOption,
    GateReports,
    JsonOption,
    MapOption,
    PipelinesOption,
    SinceOption,
    UntilOption,
    given,
)
from . import command, command_group

if TYPE_CHECKING:
    from ragtide_offline.parts.part_files import PartTotals

    from ..running.gating import GateOptions


_USUAL: Final = "normal"
"""The strategy of intervals, unless one is given."""


def in_a_folder(path: Path | None) -> Path | None:
    """Return a path that may be written later: the command may score for hours before it writes the file."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}: create it")
    return path


score = command_group("score")


@command(
    "ragtide score answers.jsonl",
    "ragtide score answers.jsonl --labeler judge --model gpt-5-mini --output scores.jsonl",
    "ragtide score answers.jsonl --fail-if 'trace.adherence < 0.8' --junit gate.xml",
    "ragtide score answers/ --processes 8 --output parts",
    exits="1 if a row could not be scored, or if there is none",
    runs=score,
)
def score_files(
    context: typer.Context,
    files: FilesArgument,
    labeler: Annotated[
        str | None,
        typer.Option(
            help="Name of a labeler, such as local; stored (labels of the file); or your own [RAGTIDE_LABELER]."
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
    model: Annotated[
        str | None,
        typer.Option(
            help="Model of the judge [RAGTIDE_JUDGE_MODEL]; with --labeler model a folder, or owner/name of the "
            "Hugging Face Hub [RAGTIDE_MODELS_SUPPORT]."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Download the model of the Hub without asking.")] = False,
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
    ] = _USUAL,
    confidence: ConfidenceOption = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Published results to show beside the summary: ClapNQ, RAGChecker or RAGBench."),
    ] = None,
    every: AllMetricsOption = False,
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
    from ragtide_offline.score.lines import read_lines
    from ragtide_offline.score.scored_file import ScoredFile
    from ragtide_offline.score.scoring import STORED
    from ragtide_producers import FileOptions
    from ragtide_producers.files.interactions import name_of
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..running.files import columns_lines, columns_of
    from ..running.gating import exit_for, gate_of, with_gate
    from ..running.progress import interrupted
    from ..running.scoring import (
        gaps_to_baseline,
        is_large,
        kept_results,
        partial_summary,
        repeated_rows,
        repeats_of,
        report_summary,
        row_counts,
        score_all,
        score_in_parts,
        shard_numbers,
        with_choices,
        write_summary,
    )

    chosen = {"labeler": labeler, "profile": profile, "claim_profile": claim_profile}
    settings = given(context).settings(**chosen)
    if model is not None and settings.labeler == "model":
        from ..running.model_setup import chosen_model

        support, support_file = chosen_model(settings, model, may_download=yes)
        settings = given(context).settings(**chosen, models={"support": support, "support_file": support_file})
        model = None
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
        single = {"--json": as_json, "--limit": limit, "--baseline": baseline, "--export-ragchecker": export_ragchecker}
        for option, value in single.items():
            if value:
                message = "it is for one file without --processes and --shard: leave it out"
                raise typer.BadParameter(message, param_hint=option)
        merged = score_in_parts(
            files, options, settings, processes=processes or 1, shard=None if shard is None else shard_numbers(shard),
            output=output, labels=labels, strategy=strategy, confidence=level,
        )  # fmt: skip
        if merged is not None:
            _end(merged, gate, strategy, level, reference, summary_json, small=every)
        return
    (file,) = files
    before = None if baseline is None else [event for event, _ in read_lines(baseline)]
    options = replace(options, unnamed=name_of(file))
    gate = gate and gate.foreseeing(file, options, settings, before=before, limit=limit, method=(strategy, level))
    scored = ScoredFile(settings, file, options, output, labels=labels, limit=limit, export=export_ragchecker)
    complete = score_all(scored, as_json=as_json)
    from ragtide_offline.gates.measurements import measure_estimates
    from ragtide_offline.score.summary import summarize

    summary = summarize(scored.events, strategy=strategy, confidence=level)
    if not complete:
        (err if as_json else out).print(partial_summary(scored), style="yellow", highlight=False)
    report_summary(summary, f"intervals: {strategy}, {level:.0%}", reference, small=every, as_json=as_json)
    if not complete:
        write_summary(summary_json, {**scored.totals(), "partial": True, **summary.as_dict()})
        interrupted(kept_results(scored) + (" The gate is not decided." if gate is not None else ""))
    err.print(row_counts(scored), highlight=False)
    warn(*filter(None, [*columns_lines(scored.columns, scored.left_out), repeated_rows(repeats_of(scored.events))]))
    if not scored.counts.total():
        err.print(f"{file} has no interactions to score", style="red", markup=False, highlight=False)
    result = None
    if gate is not None:
        gaps = None if before is None else gaps_to_baseline(scored.events, before, level)
        result = gate.decide(measure_estimates(summary.estimates, gaps), as_json=as_json)
    write_summary(summary_json, with_gate({**scored.totals(), "partial": False, **summary.as_dict()}, result))
    exit_for(result, otherwise=int(bool(not scored.counts.total() or scored.counts["problems"] or summary.problems)))


def _check_summary(strategy: str, reference: str | None) -> None:
    if strategy != _USUAL:
        _check_strategy(strategy)
    if reference is not None:
        from ragtide_offline.score.reference_results import reference_results

        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None


def _check_strategy(strategy: str) -> None:
    # It imports all statistics, which scoring loads while the first calls are answered.
    from ragtide_aggregator.estimates.estimates import STRATEGIES
    from ragtide_schemas.suggestions import unknown

    if strategy not in STRATEGIES:
        raise typer.BadParameter(unknown("strategy", strategy, STRATEGIES), param_hint="--strategy")


@command(
    "ragtide score merge parts",
    "ragtide score merge parts --strategy running --summary-json summary.json",
    exits="1 if a row could not be scored, or if there is none",
    of=score,
)
def merge(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the parts that ragtide score --output has written.")],
    strategy: Annotated[
        str, typer.Option(help="Intervals of the summary: auto, running, normal, wilson, hoeffding, asymptotic.")
    ] = _USUAL,
    confidence: ConfidenceOption = None,
    reference: Annotated[
        str | None,
        typer.Option(help="Published results to show beside the summary: ClapNQ, RAGChecker or RAGBench."),
    ] = None,
    every: AllMetricsOption = False,
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
    from ..running.gating import gate_of
    from ..running.scoring import merged_parts

    settings = given(context).settings()
    _check_summary(strategy, reference)
    gate = gate_of(settings, "score merge", fail_if, reports)
    if gate is not None:
        gate.needs_baseline("ragtide score merge has none: score one file with --baseline FILE")
    level = confidence or settings.confidence
    merged = merged_parts(folder, strategy=strategy, confidence=level)
    _end(merged, gate, strategy, level, reference, summary_json, small=every)


def _end(
    merged: "PartTotals",
    gate: "GateOptions | None",
    strategy: str,
    level: float,
    reference: str | None,
    summary_json: Path | None,
    *,
    small: bool,
) -> None:
    from ragtide_offline.gates.measurements import measure_estimates

    from ..running.files import columns_lines
    from ..running.gating import exit_for, with_gate
    from ..running.scoring import repeated_rows, report_summary, write_summary

    summary = merged.summary
    report_summary(summary, f"intervals: {strategy}, {level:.0%}", reference, small=small)
    money = f", ${merged.cost_usd:.4f}" if merged.cost_usd else ""
    err.print(f"{merged.counts['scored']:,} scored, {merged.counts['problems']:,} problems{money}", highlight=False)
    warn(*filter(None, [*columns_lines(merged.columns, merged.left_out), repeated_rows(merged.repeats, "about ")]))
    if not merged.counts.total():
        err.print("there are no interactions to score", style="red", markup=False, highlight=False)
    result = None if gate is None else gate.decide(measure_estimates(summary.estimates, None), as_json=False)
    counts = {name: merged.counts[name] for name in ("scored", "problems")}
    fields = {**counts, "cost_usd": merged.cost_usd, "partial": False, **summary.as_dict()}
    write_summary(summary_json, with_gate(fields, result))
    exit_for(result, otherwise=int(bool(not merged.counts["scored"] or merged.counts["problems"] or summary.problems)))


@command("ragtide score batch rows.jsonl", "ragtide score batch rows.jsonl --no-wait", of=score)
def batch(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of interactions.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of each file.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the batches.")] = True,
    poll_s: Annotated[float, typer.Option("--poll-s", min=0.01, help="Seconds between two looks at a batch.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Ask the judge in batches, at half the price.

    ragtide score and ragtide trust find the answers in data_dir. A command that was killed goes on when it is given
    again.
    """
    import asyncio

    from ragtide_consumers.labelers.judge.costs import BatchProgress
    from ragtide_offline.benchmark.batching import ask_in_batches
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.laboratory import batch_summary
    from ..running.progress import interruptible

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
        finished = asyncio.run(ask_in_batches(settings, files, limit=limit, wait=wait, poll_s=poll_s, show=show))
    if as_json:
        print_json(finished.as_dict())
    else:
        out.print(batch_summary(finished), markup=False, highlight=False)


DEFAULT: Final = Path("local-model.json")
"""File that is written if none is named."""


@command(
    "ragtide fit --recording recording --dry-run",
    "ragtide fit --kept --reference judge",
    "ragtide fit --recording recording --corruptions --dry-run",
    "ragtide fit answers.jsonl --judged judge.jsonl --output local-model.json",
    "ragtide fit --kept --criterion asks_back",
    exits="4 if no score is better than the shipped labeler's; with --criterion, if the proxy does not beat a constant",
)
def fit(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            help="File of interactions with gold_scores or labels, such as RAGBench rows; or with --judged."
        ),
    ] = None,
    recording: Annotated[
        str | None, typer.Option(help="Folder or URL of a recording with scores of a judge or feedback.")
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Items that the deployment keeps: judged ones and annotated ones.")
    ] = False,
    run: Annotated[
        str | None, typer.Option(help="Only interactions of this run; without another source, of the kept items.")
    ] = None,
    judged: Annotated[
        Path | None, typer.Option(help="With FILE: scores of a judge, the output of ragtide score --labeler judge.")
    ] = None,
    corruptions: Annotated[
        bool,
        typer.Option(
            "--corruptions", help="Also spoil the interactions in known ways and learn to see that; no scores needed."
        ),
    ] = False,
    criterion: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learn the judge's answers to this criterion of the settings or the store, and no other score.",
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Labeler whose scores are learned, such as judge; gold for those of people.")
    ] = None,
    pipeline: PipelinesOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    file_format: FormatOption = None,
    columns: MapOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=f"File to write. Default: {DEFAULT}.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the result, and write nothing.")] = False,
    similarity: Annotated[
        bool, typer.Option("--similarity", help="Also learn from the sentence encoder of models.similarity.")
    ] = False,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Level of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Fit the local labeler to a judge, people or known failures.

    It corrects the shipped model for your interactions, score by score. A score keeps the shipped model unless the fit
    is surely better on questions that it has not seen. With --criterion it learns a cheap proxy of the judge's answers
    to a criterion, and adds it to the file if it surely beats a constant. Workers load the file with the setting
    local.model.
    """
    from ragtide_offline.local_fit.criterion_fit import fit_criterion
    from ragtide_offline.local_fit.examined import TrafficSample
    from ragtide_offline.local_fit.fitting import fit_correction
    from ragtide_offline.local_fit.sources import TRACE_SCORES, answers_to, gather_recorded
    from ragtide_offline.replay.selection import selection
    from ragtide_producers import FileOptions
    from ragtide_producers.files.interactions import name_of
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.recordings import Recording

    from ..running.data_sets import exists_already
    from ..running.files import columns_of
    from ..running.laboratory import (
        check_is_of_answers,
        examined_interactions,
        file_before,
        find_criterion,
        finish_criterion_fit,
        finish_fit,
        judged_of_file,
        judged_of_kept_items,
        similarity_encoder,
        spoilt_pairs,
    )
    from ..running.progress import interruptible

    sources = [name for name, place in (("FILE", file), ("--recording", recording), ("--kept", kept)) if place]
    if len(sources) > 1:
        raise typer.BadParameter(f"{' and '.join(sources)} exclude each other: give one")
    if not sources and run is None:
        raise typer.BadParameter("give a FILE of judged interactions, --recording FOLDER, --kept or --run NAME")
    if file is None and (judged is not None or file_format is not None or columns):
        raise typer.BadParameter("--judged, --format and --map are for a FILE: give one")
    if criterion is not None and corruptions:
        raise typer.BadParameter("--corruptions are not for a criterion: leave it or --criterion out")
    path = None if dry_run else output or DEFAULT
    if criterion is None and path is not None and path.exists() and not force:
        raise ConfigurationError(exists_already(path))
    chosen = selection(since, until, pipeline)
    settings = given(context).settings()
    question = None if criterion is None else find_criterion(settings, criterion)
    if question is not None:
        check_is_of_answers(question, "a proxy scores single answers: ask the judge about every session")
    before = None if question is None else file_before(output or DEFAULT, question, force=force or dry_run)
    wanted = TRACE_SCORES if question is None else answers_to(question)
    traffic = TrafficSample() if corruptions else None
    with interruptible(lambda: "Nothing was written: give the same command again."):
        if file is not None:
            files = FileOptions(None, format=file_format, unnamed=name_of(file), columns=columns_of(columns))
            source, gathered = (
                file,
                judged_of_file(
                    file, files, chosen, judged=judged, run=run, reference=reference, traffic=traffic, wanted=wanted
                ),
            )
        elif recording is not None:
            opened = Recording.open(recording, storage_options=settings.recorder.storage_options)
            source, gathered = (
                recording,
                gather_recorded(opened, chosen, run=run, reference=reference, traffic=traffic, wanted=wanted),
            )
        else:
            source, gathered = (
                "kept items",
                judged_of_kept_items(settings, chosen, run=run, reference=reference, traffic=traffic, wanted=wanted),
            )
        if corruptions and not gathered.traffic:
            raise ConfigurationError(
                f"{source}: no interaction has documents and a response, so nothing can be spoilt: choose others, or "
                "leave out --corruptions"
            )
        with similarity_encoder(settings) if similarity else nullcontext((None, "")) as (similar, encoder_digest):
            if question is not None:
                proxy = fit_criterion(
                    examined_interactions(gathered, similar, question), question, confidence=confidence
                )
                finish_criterion_fit(proxy, gathered, source, path, encoder_digest, before=before, as_json=as_json)
                return
            result = fit_correction(
                examined_interactions(gathered, similar), spoilt_pairs(gathered, similar), confidence=confidence
            )
    finish_fit(result, gathered, source, path, encoder_digest, force=force, as_json=as_json)
