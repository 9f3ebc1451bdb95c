"""The figures of a benchmark and of an agreement as tables and sentences."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_offline.benchmark.batching import BatchRun
from ragtide_offline.benchmark.figures import FEWEST, MetricFigures
from ragtide_offline.benchmark.preferences import PreferenceFigures
from ragtide_offline.benchmark.running import Benchmark
from ragtide_offline.benchmark.spans import SpanFigures
from ragtide_schemas.fitness import fitness_of, sees_of

from .agreement_table import interval_text, value_text
from .console import out
from .fitting import Column, Notes, fitted, heading


def figures_table(found: MetricFigures, width: int) -> RenderableType:
    """Return the figures of a metric: means over subsets, and the other judges on their rows."""
    rows = [(figure.name, figure.mean, "") for figure in found.figures]
    for judge in found.judges:
        beside = f"ours on the same rows {value_text(judge.ours)} ({interval_text(judge.ours)})"
        rows.append((f"  {judge.judge}, {judge.n:,} rows", judge.theirs, beside))
    rows += [(bias.name, bias.mean, "") for bias in found.biases]
    low = "" if found.n_low is None else f"{found.n_low:,} low"
    columns = [
        Column("figure", [name for name, _, _ in rows]),
        Column("mean", [value_text(measured) for _, measured, _ in rows], right=True),
        Column("interval", [interval_text(measured) for _, measured, _ in rows]),
        Column("", [Text(beside, style="bright_black") for _, _, beside in rows], yields=1, stacks=True),
    ]
    title = heading([part for part in (found.metric, f"n {found.n:,}", low) if part], width)
    return fitted(columns, width, Notes({0: [title]}))


def subsets_table(figures: Sequence[MetricFigures], width: int) -> RenderableType:
    """Return the first figure of each metric for every subset."""
    wanted = [(row.metric, figure) for row in figures for figure in row.figures[:1]]
    names = sorted({name for _, figure in wanted for name in figure.subsets})
    columns = [
        Column("subset", names, shortest=8),
        *(
            Column(
                f"{metric.partition('.')[2].removeprefix('context_')}: {figure.name}",
                ["" if name not in figure.subsets else f"{figure.subsets[name]:.3f}" for name in names],
                right=True,
                yields=1,
                stacks=True,
            )
            for metric, figure in wanted
        ),
    ]
    return fitted(columns, width, Notes({0: [heading(["by subset"], width)]}))


def spans_table(found: SpanFigures, width: int) -> RenderableType:
    """Return F1, precision and recall of unsupported spans: means over subsets, and F1 of every subset."""
    rows = [(figure.name, figure.mean) for figure in found.figures]
    rows += [(f"  F1 of {name}", Measured(value)) for name, value in found.figures[0].subsets.items()]
    columns = [
        Column("figure", [name for name, _ in rows], shortest=12),
        Column("mean", [value_text(measured) for _, measured in rows], right=True),
        Column("interval", [interval_text(measured) for _, measured in rows]),
    ]
    title = heading(["unsupported spans", f"n {found.n:,}", f"{found.n_marked:,} with spans"], width)
    return fitted(columns, width, Notes({0: [title]}))


def preferences_table(found: Sequence[PreferenceFigures], width: int) -> RenderableType:
    """Return the rank correlations of each metric with people's preferences between two answers."""
    rows = [
        (row.metric if place == 0 else "", f"{row.n:,}" if place == 0 else "", figure)
        for row in found
        for place, figure in enumerate(row.figures)
    ]
    columns = [
        Column("metric", [metric for metric, _, _ in rows], shortest=8),
        Column("pairs", [n for _, n, _ in rows], right=True),
        Column("opinion on", [figure.name for _, _, figure in rows]),
        Column("Spearman", [value_text(figure.mean) for _, _, figure in rows], right=True),
        Column("interval", [interval_text(figure.mean) for _, _, figure in rows]),
    ]
    title = heading(["people's preferences"], width)
    return fitted(columns, width, Notes({0: [title]}))


def notes(run: Benchmark) -> list[str]:
    """Return sentences about the labeler, rows, speed and cost."""
    result = run.result
    rows, by = result.counts["rows"], result.labeler
    speed = f" in {result.seconds:,.1f} s ({rows / result.seconds:,.0f} a second)" if result.seconds and rows else ""
    found = [f"{by.name} {by.version}: {rows:,} rows{speed}, {result.tokens:,} tokens, ${result.cost_usd:,.4f}."]
    if result.counts["without_truth"]:
        found.append(f"{result.counts['without_truth']:,} rows have no true score, and were left out.")
    if result.counts["problems"]:
        found.append(f"{result.counts['problems']:,} rows could not be used.")
    for (metric, reason), count in sorted(run.absent.items()):
        found.append(f"{metric} has no score in {count:,} rows: {reason}.")
    undecided, unusable = run.compared_spans.undecided, run.compared_spans.unusable
    if undecided:
        found.append(f"The labeler did not decide about the sentences of {undecided:,} responses with spans.")
    if unusable:
        found.append(f"The spans of {unusable:,} rows could not be read, and were left out.")
    if run.spans is not None:
        found.append("Spans are compared by characters. A labeler without spans marks whole sentences.")
    if run.figures:
        found.append(
            "Means over subsets; intervals: bootstrap of questions within subsets. A constant is the subset's mean."
        )
        words = fitness_of(by.name, [figure.metric for figure in run.figures], run.settings.fit_for)
        found += [] if words is None else [f"{by.name}: {words}."]
        found += [f"{figure.metric} {sees}." for figure in run.figures if (sees := sees_of(by.name, figure.metric))]
    if run.preferences:
        found.append(
            "A metric prefers the answer with the higher score. Its document is the right answer. Intervals: bootstrap "
            "of questions."
        )
    if not run.figures and not run.preferences:
        found.append(f"No metric has {FEWEST} rows of a subset with a true score and a score.")
    return found


def show_figures(run: Benchmark) -> None:
    """Print the figures of a benchmark."""
    for figure in run.figures:
        out.print(figures_table(figure, out.width))
    if run.figures:
        out.print(subsets_table(run.figures, out.width))
    if run.spans is not None:
        out.print(spans_table(run.spans, out.width))
    if run.preferences:
        out.print(preferences_table(run.preferences, out.width))
    for sentence in notes(run):
        out.print(sentence, style="bright_black", markup=False, highlight=False)


def batch_summary(found: BatchRun) -> str:
    """Return the outcome of batches in sentences."""
    lines = [f"{found.stored:,} answers stored, ${found.cost_usd:,.4f}."]
    if found.waiting is not None:
        lines.append(f"Batch {found.waiting.id} has not ended ({found.waiting.status}): give the same command again.")
    elif found.failed:
        reason = max(found.failed.values(), key=[*found.failed.values()].count)
        lines.append(f"{len(found.failed):,} requests stay for ordinary calls, most often because of: {reason}")
    if found.waiting is None:
        lines.append("Now ragtide score or ragtide benchmark with --labeler judge uses the stored answers.")
    return "\n".join(lines)
