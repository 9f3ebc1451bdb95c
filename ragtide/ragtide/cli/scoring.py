"""Scores a file with a progress bar, and prints the summary with its tables."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.gates.measurements import Gaps
from ragtide_offline.score.reference_results import reference_results
from ragtide_offline.score.scored_file import ScoredFile
from ragtide_offline.score.summary import Summary, compare
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, MetricEvent, describe
from ragtide_schemas.printable import printable_json

from .console import err, out, print_json
from .file_rows import Problems
from .fitting import Column, fitted
from .gates import write_file
from .progress import cost_note, progress_bar
from .tables import estimates_table


def score_all(scored: ScoredFile, *, as_json: bool) -> bool:
    """Score the file, and return whether it was scored to its end: Ctrl-C stops it."""
    try:
        asyncio.run(_score_rows(scored, as_json=as_json))
    except KeyboardInterrupt:
        return False
    return True


async def _score_rows(scored: ScoredFile, *, as_json: bool) -> None:
    """Score the file with a progress bar; print its problems, and the lines if `as_json` is set."""
    problems, total = Problems(err, scored.options.source), scored.total()
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


def kept_results(scored: ScoredFile) -> str:
    """Return the sentence after Ctrl-C."""
    count = scored.counts["scored"] + scored.counts["before"]
    if scored.options.output is None:
        return (
            f"{count:,} interactions were scored and are not kept: with --output FILE a stopped command can go on "
            "when it is given again."
        )
    return f"{count:,} scored interactions are in {scored.options.output}: to go on, give the same command again."


def partial_summary(scored: ScoredFile) -> str:
    """Return the sentence about the rows that were scored before Ctrl-C."""
    return f"Partial summary of {scored.options.source}: {row_counts(scored)}; the other rows were not scored."


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


def gaps_to_baseline(events: Sequence[MetricEvent], before: Sequence[MetricEvent], confidence: float) -> Gaps:
    """Return the differences to an earlier output of the same interactions."""
    # Few commands have a baseline, and all would wait for this import.
    from ragtide_offline.gates.sources import baseline_gaps  # noqa: PLC0415

    return baseline_gaps(events, before, confidence=confidence)


def report_summary(summary: Summary, note: str, reference: str | None, *, as_json: bool) -> None:
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


def summary_table(summary: Summary, width: int) -> RenderableType:
    """Return the estimates of a scored file as a table."""
    return estimates_table(summary.estimates, width, recent=False)


def reference_table(found: Sequence[Estimate], dataset: str, width: int) -> RenderableType:
    """Return our means beside published means, with differences in percentage points.

    Raises:
        ValueError: there are no published results of that data set.
    """
    published = reference_results(dataset)
    rows = [
        (metric if result is published[0] else "", result.name, gap)
        for metric in published[0].means
        for result in published
        for gap in compare(found, result)
        if gap.metric == metric
    ]
    columns = [
        Column("metric", [metric for metric, _, _ in rows], yields=2, shortest=16),
        Column("system", [name for _, name, _ in rows], yields=1, shortest=12),
        Column("published %", [f"{gap.theirs_percent:.1f}" for _, _, gap in rows], right=True),
        Column("ours %", [f"{gap.ours_percent:.1f}" for _, _, gap in rows], right=True),
        Column("points", [f"{gap.points:+.1f}" for _, _, gap in rows], right=True),
    ]
    title = Text(f"{published[0].title}: published means, and ours beside them", style="bold")
    return Group(title, fitted(columns, width))
