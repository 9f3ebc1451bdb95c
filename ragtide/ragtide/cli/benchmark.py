"""`ragtide benchmark`: measures a labeler on labeled data."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from ragtide_offline.benchmark.corruptions import CorruptionRun
from ragtide_offline.benchmark.figures import MetricFigures
from ragtide_offline.benchmark.preferences import PreferenceFigures
from ragtide_offline.benchmark.running import BenchmarkRun, CostPlan
from ragtide_offline.benchmark.spans import SpanFigures
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas.fitness import Stated

from .benchmark_tables import figures_table, notes, planned, preferences_table, spans_table, subsets_table
from .common import JsonOption, given
from .console import out, print_json, warn
from .corruption_tables import measure_corruptions, names_in
from .progress import Shown, interruptible, progress_bar


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
        asyncio.run(_run(run.run(settings, files, limit=limit, reorder=reorder), advance))
    warn(*run.problems)
    figures = run.figures(confidence=confidence, seed=seed)
    preferences = run.preferences.figures(confidence=confidence, seed=seed)
    spans = run.spans.figures(confidence=confidence, seed=seed)
    if as_json:
        print_json(run.as_dict(figures, preferences, spans))
        return
    _show(run, figures, preferences, spans, settings.fit_for)


def show_plan(plan: CostPlan, *, as_json: bool = False) -> None:
    """Print the cost of a run."""
    if as_json:
        print_json(plan.as_dict())
    else:
        out.print(planned(plan), markup=False, highlight=False)


async def _run(steps: AsyncIterator[None], advance: Shown) -> None:
    async for _ in steps:
        advance(1)


def _show(
    run: BenchmarkRun,
    figures: list[MetricFigures],
    preferences: list[PreferenceFigures],
    spans: SpanFigures | None,
    fit_for: Stated,
) -> None:
    for one in figures:
        out.print(figures_table(one, out.width))
    if figures:
        out.print(subsets_table(figures, out.width))
    if spans is not None:
        out.print(spans_table(spans, out.width))
    if preferences:
        out.print(preferences_table(preferences, out.width))
    for sentence in notes(run, figures, preferences, spans, fit_for):
        out.print(sentence, style="bright_black", markup=False, highlight=False)
