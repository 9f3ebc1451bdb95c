"""Scores a file, or a large input in parts, with a progress bar."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from pydantic import ValidationError

from ragtide_offline.score.scored_file import ScoredFile
from ragtide_producers import FileOptions
from ragtide_producers.files.formats.parquet import is_url
from ragtide_producers.files.large import large_input
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.made_folders import removed_if_empty
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent, describe
from ragtide_schemas.printable import printable_json

from ..printing import err, out, print_json
from ..printing.estimates import estimates_table, reference_table
from .files import Problems
from .gating import write_file
from .progress import Shown, cost_note, interrupted, progress_bar

if TYPE_CHECKING:
    from ragtide_offline.gates.measurements import Gaps
    from ragtide_offline.parts.part_files import PartTotals, ScoringPlan, Show
    from ragtide_offline.parts.relabeling import PartsRelabeling
    from ragtide_offline.replay.plan import ReplayPlan
    from ragtide_offline.score.summary import Summary

SENT_S: Final = 0.1
"""Seconds in which the first calls of a labeler are sent."""


def score_all(scored: ScoredFile, *, as_json: bool) -> bool:
    """Score the file, and return whether it was scored to its end: Ctrl-C stops it."""
    try:
        asyncio.run(_score_rows(scored, as_json=as_json))
    except KeyboardInterrupt:
        return False
    return True


async def _score_rows(scored: ScoredFile, *, as_json: bool) -> None:
    problems, total = Problems(err, scored.source), scored.total()
    loading = asyncio.create_task(_load_summary())
    with progress_bar("scoring", total) as show:
        try:
            async for outcome, line in scored.score():
                if line is None:
                    problems.add(outcome.row.line, outcome.problem or "")
                elif as_json:
                    print_json(line)
                done = scored.counts.total() - scored.counts["sessions"]
                show(done, cost_note(scored.cost_usd, done, total))
        finally:
            problems.sum_up()
            await end(loading)


async def _load_summary() -> None:
    """Import what the summary needs while the first calls are answered: it takes a quarter of a short run."""
    await asyncio.sleep(SENT_S)
    # Without SciPy the summary itself names what to install.
    with suppress(ImportError):
        await asyncio.to_thread(import_module, "ragtide_offline.score.summary")
        await asyncio.to_thread(import_module, "scipy.special")


def kept_results(scored: ScoredFile) -> str:
    """Return the sentence after Ctrl-C."""
    count = scored.counts["scored"] + scored.counts["before"]
    if scored.output is None:
        return (
            f"{count:,} interactions were scored and are not kept: with --output FILE a stopped command can go on "
            "when it is given again."
        )
    return f"{count:,} scored interactions are in {scored.output}: to go on, give the same command again."


def partial_summary(scored: ScoredFile) -> str:
    """Return the sentence about the rows that were scored before Ctrl-C."""
    return f"Partial summary of {scored.source}: {row_counts(scored)}; the other rows were not scored."


def row_counts(scored: ScoredFile) -> str:
    """Return the numbers of rows, and the cost."""
    counts = scored.counts
    before = f", {counts['before']:,} scored before" if counts["before"] else ""
    money = f", ${scored.cost_usd:.4f}" if scored.cost_usd else ""
    sessions = f", {counts['sessions']:,} sessions" if counts["sessions"] else ""
    return f"{counts['scored']:,} scored{before}{sessions}, {counts['problems']:,} problems{money}"


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


def write_summary(path: Path | None, fields: Mapping[str, Any]) -> None:
    """Write the summary and the gate as JSON, if a file is named."""
    if path is not None:
        write_file(path, f"{printable_json(fields)}\n".encode(), "--summary-json")


def repeats_of(events: Sequence[MetricEvent]) -> int:
    """Return how many rows repeat the id of another row."""
    return len(events) - len({(event.pipeline, event.interaction_id) for event in events})


def repeated_rows(repeats: int, about: str = "") -> str:
    """Return a sentence about rows that repeat the id of another row; empty if none does."""
    if not repeats:
        return ""
    return (
        f"{about}{repeats:,} times a row repeats the interaction id of another row of its pipeline: each counts as an "
        "answer of its own, so the intervals are too narrow if they are copies"
    )


def gaps_to_baseline(events: Sequence[MetricEvent], before: Sequence[MetricEvent], confidence: float) -> "Gaps":
    """Return the differences to an earlier output of the same interactions."""
    # Few commands have a baseline, and all would wait for this import.
    from ragtide_offline.gates.sources import baseline_gaps  # noqa: PLC0415

    return baseline_gaps(events, before, confidence=confidence)


def report_summary(summary: "Summary", note: str, reference: str | None, *, small: bool, as_json: bool = False) -> None:
    """Print the summary, on standard error if the lines are on standard output.

    Args:
        small: whether metrics that repeat others have rows.
    """
    console = err if as_json else out
    if summary.estimates:
        folded_by = None if small else "--all shows them"
        console.print(estimates_table(summary.estimates, console.width, recent=False, folded_by=folded_by))
        console.print(note, style="bright_black", highlight=False)
    if summary.drawn is not None:
        console.print(summary.drawn.sentence, markup=False, highlight=False)
    for pipeline, diagnosis in summary.diagnoses:
        console.print(f"{pipeline}: {diagnosis.sentence()}", markup=False, highlight=False)
    for problem in summary.problems:
        err.print(problem, markup=False, highlight=False)
    if reference is not None:
        console.print(reference_table(summary.estimates, reference, console.width))


def shard_numbers(shard: str) -> tuple[int, int]:
    """Return the number of a shard, from 1, and the number of shards.

    Raises:
        typer.BadParameter: it is not written as 3/64.
    """
    first, slash, second = shard.partition("/")
    if not (slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise typer.BadParameter(f"{shard!r} is no shard: write 3/64 for the third of 64", param_hint="--shard")
    return int(first), int(second)


def is_large(files: Sequence[str], processes: int | None, shard: str | None) -> bool:
    """Return whether files are scored in parts: they are several, a folder or a URL, or it is asked for."""
    several = len(files) > 1 or any(is_url(file) or Path(file).is_dir() for file in files)
    return several or processes is not None or shard is not None


@contextmanager
def _with_pyarrow() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ConfigurationError("scoring in parts needs pyarrow: pip install 'ragtide[parquet]'") from None


def _part_files() -> Any:
    with _with_pyarrow():
        from ragtide_offline.parts import part_files  # noqa: PLC0415
    return part_files


def relabeling_in_parts(
    settings: Settings, plan: "ReplayPlan", processes: int, max_cost_usd: float | None
) -> "PartsRelabeling":
    """Return a replay that labels interactions again in processes.

    Raises:
        ConfigurationError: pyarrow is not installed, a rule is wrong, nothing is selected, or only one process can do
            what is asked.
    """
    with _with_pyarrow():
        from ragtide_offline.parts.relabeling import PartsRelabeling  # noqa: PLC0415
    return PartsRelabeling(settings, plan, processes, max_cost_usd=max_cost_usd)


def score_in_parts(
    files: Sequence[str],
    options: FileOptions,
    settings: Settings,
    *,
    processes: int,
    shard: tuple[int, int] | None,
    output: Path | None,
    labels: bool,
    strategy: str,
    confidence: float,
) -> "PartTotals | None":
    """Score an input in parts and merge them; None if only a shard was scored, whose counts are printed.

    Raises:
        typer.BadParameter: a shard has no folder, or several processes.
        typer.Exit: after Ctrl-C.
        RagtideError: the input cannot be read, or no more rows can be labeled now.
    """
    if shard is not None and output is None:
        raise typer.BadParameter("give --output FOLDER for its part", param_hint="--shard")
    if shard is not None and processes > 1:
        raise typer.BadParameter("a shard is scored by one process: start a command for each", param_hint="--processes")
    if output is not None and output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file: give a folder for the parts", param_hint="--output")
    rows_in = large_input(files, options)
    shards = shard[1] if shard is not None else _part_files().shards_of(rows_in.rows)
    plan = _part_files().ScoringPlan(rows_in, settings, shards, labels)
    wanted = range(1, shards + 1) if shard is None else [shard[0]]
    with _folder(output) as folder:
        waiting = _part_files().missing_parts(folder, plan, wanted)
        try:
            _write(folder, plan, wanted, waiting, processes)
        except KeyboardInterrupt:
            kept = "the parts are not kept: with --output FOLDER a stopped command can go on when it is given again"
            if output is not None:
                ready = len(wanted) - len(_part_files().missing_parts(folder, plan, wanted))
                kept = f"{ready:,} of {len(wanted):,} parts are in {folder}: to go on, give the same command again"
            interrupted(f"{kept[0].upper()}{kept[1:]}.")
        if shard is not None:
            part = _part_files().read_part(_part_files().part_path(folder, *shard)).totals
            _print_problems(part.problems, part.counts["problems"])
            counts = f"{part.counts['scored']:,} scored, {part.counts['problems']:,} problems"
            merge = f"when all parts are scored: ragtide score merge {folder}"
            err.print(f"part {shard[0]} of {shard[1]}: {counts}; {merge}", highlight=False)
            return None
        return merged_parts(folder, strategy=strategy, confidence=confidence)


def _write(folder: Path, plan: "ScoringPlan", wanted: Sequence[int], waiting: Sequence[int], processes: int) -> None:
    shards = {number: plan.input.shard(number, plan.shards) for number in wanted}
    rows = {number: stop - start for number, (start, stop) in shards.items()}
    total = sum(rows.values())
    ready = total - sum(rows[number] for number in waiting)
    if ready:
        err.print(f"{len(wanted) - len(waiting):,} of {len(wanted):,} parts are scored already", highlight=False)
    from ragtide_offline.parts.processes import write_parts_together  # noqa: PLC0415 - needs pyarrow

    with progress_bar("scoring", total) as bar:
        write_parts_together(folder, plan, waiting, processes, _shown(bar, ready, total))


def _shown(bar: Shown, ready: int, total: int) -> "Show":
    done, spent = ready, 0.0

    def show(rows: int, cost_usd: float) -> None:
        nonlocal done, spent
        done, spent = done + rows, spent + cost_usd
        bar(done, cost_note(spent, done - ready, total - ready))

    return show


def merged_parts(folder: Path, *, strategy: str, confidence: float) -> "PartTotals":
    """Return the merged parts of a folder, and print the problems of their rows.

    Raises:
        UnusablePartsError: a part is missing, or is of another run.
    """
    with progress_bar("merging", None) as bar:
        merged: PartTotals = _part_files().merge_parts(
            folder, strategy=strategy, confidence=confidence, show=_shown(bar, 0, 0)
        )
    _print_problems(merged.problems, merged.counts["problems"])
    return merged


def _print_problems(problems_kept: Sequence[tuple[str, int, str]], count: int) -> None:
    problems = Problems(err, "rows")
    for file, row, problem in problems_kept:
        problems.add(f"{file}:{row}", problem)
    problems.sum_up()
    if count > len(problems_kept):
        err.print(f"{count:,} rows have problems: the column problem of the parts has them all", highlight=False)


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    if output is not None:
        with removed_if_empty(output):
            yield output
        return
    with tempfile.TemporaryDirectory(prefix="ragtide-parts-") as folder:
        yield Path(folder)
