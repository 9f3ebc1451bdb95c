"""Results of the offline evals as tables and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from ragtide_aggregator.statistics.comparisons.bootstrap import RESAMPLES, Measured
from ragtide_offline.benchmark.figures import FEWEST
from ragtide_offline.experiments.drafts import value_text
from ragtide_offline.experiments.verdict import stop_text
from ragtide_offline.judge_check.rows import SMALL, TOLERATED
from ragtide_roles.doctor.finding import count_of
from ragtide_schemas.experiments import RACE
from ragtide_schemas.metric_definitions import OUTCOMES
from ragtide_schemas.printable import printable
from ragtide_schemas.step_metrics import TOOL_FAMILY

from . import Column, err, fitted, heading, in_sections, out, print_json, shortened
from .estimates import interval_bar, interval_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtide_offline.agreement.comparing import PredictionAgreement
    from ragtide_offline.benchmark.batching import BatchRun
    from ragtide_offline.benchmark.corruptions import CorruptionFigures, SpoiltRows
    from ragtide_offline.benchmark.figures import Figure, MetricFigures
    from ragtide_offline.benchmark.preferences import PreferenceFigures
    from ragtide_offline.benchmark.running import Benchmark
    from ragtide_offline.benchmark.spans import SpanFigures
    from ragtide_offline.capacity.judged_sample import SamplePlan
    from ragtide_offline.capacity.judging import JudgeBill
    from ragtide_offline.capacity.planning import Capacity, PlannedTraffic, WorkPart
    from ragtide_offline.capacity.unit_costs import UnitCosts
    from ragtide_offline.criterion_trial import CriterionTrial
    from ragtide_offline.experiments.board import Board, BoardRow
    from ragtide_offline.judge_check.rows import CheckRow
    from ragtide_offline.local_fit.criterion_fit import CriterionFit
    from ragtide_offline.local_fit.fitting import FitResult, ScoreResult
    from ragtide_offline.local_fit.sources import GatheredInteractions
    from ragtide_offline.runs import CostPlan, RunResult
    from ragtide_roles.criteria.checks import CriterionFinding
    from ragtide_roles.criteria.pricing import CriteriaPrices, CriterionPrice
    from ragtide_roles.judge_setup.setting_up import JudgeSetup
    from ragtide_schemas import MetricDefinition
    from ragtide_schemas.criterion import Criterion, CriterionNumber, ListedCriterion


def show_agreement(compared: PredictionAgreement, confidence: float) -> None:
    """Print the agreement of scores with a reference."""
    counts = compared.counts
    out.print(f"{compared.predictions.name} against {compared.reference}", style="bold", highlight=False)
    out.print(agreement_table(compared, out.width))
    for family, measures in compared.families.items():
        out.print(
            f"{family}: aggregated RMSE {measured_text(measures.rmse)} ({measured_interval(measures.rmse)}), "
            f"consistency score {measured_text(measures.consistency)} ({measured_interval(measures.consistency)})",
            highlight=False,
        )
    out.print(
        f"{counts['matched']:,} interactions in both; {counts['without_reference']:,} without a reference, "
        f"{counts['without_prediction']:,} without a prediction. Intervals: {confidence:.0%}, bootstrap of "
        f"{RESAMPLES:,}.",
        style="bright_black",
        highlight=False,
    )


def agreement_table(compared: PredictionAgreement, width: int) -> RenderableType:
    """Return the agreement of every metric as a table, with a heading for each metric."""
    sections = []
    for metric, agreement in compared.metrics.items():
        absent = compared.counts[f"absent {metric}"]
        missing = [f"absent in {absent:,} predictions"] if absent else []
        measures = (
            ("  RMSE", agreement.rmse, _beside("always the mean", agreement.constant_rmse)),
            ("  mean error", agreement.bias, ""),
            ("  slope", agreement.slope, "right 1.000, blind 0.000"),
            ("  Spearman", agreement.spearman, ""),
            ("  AUROC", agreement.auroc, "chance 0.500"),
            ("  F1 of the low", agreement.f1, ""),
            ("  kappa", agreement.kappa, ""),
            ("  accuracy", agreement.accuracy, _beside("always the majority", agreement.majority)),
        )
        sections.append(
            ([heading([metric, f"n {agreement.n:,}", *missing], width)], measures if agreement.n else (), ())
        )
    rows, above = in_sections(sections)
    columns = _measured_columns("measure", "value", Column("compare with", itemgetter(2), yields=1, stacks=True))
    return fitted(columns, rows, width, above)


_MeasuredRow = tuple[str, Measured, str]
"""Name, figure, and what to compare it with."""


def _measured_columns(
    name: str, value: str, *more: Column[_MeasuredRow], shortest: int | None = None
) -> Sequence[Column[_MeasuredRow]]:
    return (
        Column(name, itemgetter(0), shortest=shortest),
        Column(value, lambda row: measured_text(row[1]), right=True),
        Column("interval", lambda row: measured_interval(row[1])),
        *more,
    )


def _beside(name: str, number: float | None) -> str:
    return "" if number is None else f"{name} {number:.3f}"


def measured_text(measured: Measured) -> str:
    """Return a figure with three digits, or that it is undefined."""
    return "undefined" if measured.value is None else f"{measured.value:.3f}"


def measured_interval(measured: Measured) -> str:
    """Return the ends of the interval of a figure; nothing without one."""
    return "" if measured.lower is None else f"{measured.lower:.3f} to {measured.upper:.3f}"


def figures_table(figures: MetricFigures, width: int) -> RenderableType:
    """Return the figures of a metric: means over subsets, and the other judges on their rows."""
    rows = [(figure.name, figure.mean, "") for figure in figures.figures]
    for judge in figures.judges:
        beside = f"ours on the same rows {measured_text(judge.ours)} ({measured_interval(judge.ours)})"
        rows.append((f"  {judge.judge}, {judge.n:,} rows", judge.theirs, beside))
    rows += [(bias.name, bias.mean, "") for bias in figures.biases]
    low = "" if figures.n_low is None else f"{figures.n_low:,} low"
    others: Column[_MeasuredRow] = Column("", lambda row: Text(row[2], style="bright_black"), yields=1, stacks=True)
    title = heading([part for part in (figures.metric, f"n {figures.n:,}", low) if part], width)
    return fitted(_measured_columns("figure", "mean", others), rows, width, {0: [title]})


def subsets_table(figures: Sequence[MetricFigures], width: int) -> RenderableType:
    """Return the first figure of each metric for every subset."""
    wanted = [(row.metric, figure) for row in figures for figure in row.figures[:1]]

    def cell(means: Mapping[str, float], name: str) -> str:
        return f"{means[name]:.3f}" if name in means else ""

    columns: list[Column[str]] = [
        Column("subset", str, shortest=8),
        *(
            Column(
                f"{metric.partition('.')[2].removeprefix('context_')}: {figure.name}",
                partial(cell, figure.subsets),
                right=True,
                yields=1,
                stacks=True,
            )
            for metric, figure in wanted
        ),
    ]
    names = sorted({name for _, figure in wanted for name in figure.subsets})
    return fitted(columns, names, width, {0: [heading(["by subset"], width)]})


def spans_table(spans: SpanFigures, width: int) -> RenderableType:
    """Return F1, precision and recall of unsupported spans: means over subsets, and F1 of every subset."""
    rows = [(figure.name, figure.mean, "") for figure in spans.figures]
    rows += [(f"  F1 of {name}", Measured(value), "") for name, value in spans.figures[0].subsets.items()]
    title = heading(["unsupported spans", f"n {spans.n:,}", f"{spans.n_marked:,} with spans"], width)
    return fitted(_measured_columns("figure", "mean", shortest=12), rows, width, {0: [title]})


def preferences_table(preferences: Sequence[PreferenceFigures], width: int) -> RenderableType:
    """Return the rank correlations of each metric with people's preferences between two answers."""
    rows = [
        (row.metric if place == 0 else "", f"{row.n:,}" if place == 0 else "", figure)
        for row in preferences
        for place, figure in enumerate(row.figures)
    ]
    columns: list[Column[tuple[str, str, Figure]]] = [
        Column("metric", itemgetter(0), shortest=8),
        Column("pairs", itemgetter(1), right=True),
        Column("opinion on", lambda row: row[2].name),
        Column("Spearman", lambda row: measured_text(row[2].mean), right=True),
        Column("interval", lambda row: measured_interval(row[2].mean)),
    ]
    return fitted(columns, rows, width, {0: [heading(["people's preferences"], width)]})


def notes(run: Benchmark) -> list[str]:
    """Return sentences about the labeler, rows, speed and cost."""
    result = run.result
    rows, by = result.counts["rows"], result.labeler
    speed = f" in {result.seconds:,.1f} s ({rows / result.seconds:,.0f} a second)" if result.seconds and rows else ""
    sentences = [f"{by.name} {by.version}: {rows:,} rows{speed}, {result.tokens:,} tokens, ${result.cost_usd:,.4f}."]
    if result.counts["without_truth"]:
        sentences.append(f"{result.counts['without_truth']:,} rows have no true score, and were left out.")
    if result.counts["problems"]:
        sentences.append(f"{result.counts['problems']:,} rows could not be used.")
    for (metric, reason), count in sorted(run.absent.items()):
        sentences.append(f"{metric} has no score in {count:,} rows: {reason}.")
    undecided, unusable = run.compared_spans.undecided, run.compared_spans.unusable
    if undecided:
        sentences.append(f"The labeler did not decide about the sentences of {undecided:,} responses with spans.")
    if unusable:
        sentences.append(f"The spans of {unusable:,} rows could not be read, and were left out.")
    if run.spans is not None:
        sentences.append("Spans are compared by characters. A labeler without spans marks whole sentences.")
    if run.figures:
        sentences.append(
            "Means over subsets; intervals: bootstrap of questions within subsets. A constant is the subset's mean."
        )
    if run.preferences:
        sentences.append(
            "A metric prefers the answer with the higher score. Its document is the right answer. Intervals: bootstrap "
            "of questions."
        )
    if not run.figures and not run.preferences:
        sentences.append(f"No metric has {FEWEST} rows of a subset with a true score and a score.")
    return sentences


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


def batch_summary(run: BatchRun) -> str:
    """Return the outcome of batches in sentences."""
    lines = [f"{run.stored:,} answers stored, ${run.cost_usd:,.4f}."]
    if run.waiting is not None:
        lines.append(f"Batch {run.waiting.id} has not ended ({run.waiting.status}): give the same command again.")
    elif run.failed:
        reason = max(run.failed.values(), key=[*run.failed.values()].count)
        lines.append(f"{len(run.failed):,} requests stay for ordinary calls, most often because of: {reason}")
    if run.waiting is None:
        lines.append("Now ragtide score or ragtide trust figures with --labeler judge uses the stored answers.")
    return "\n".join(lines)


def planned(plan: CostPlan) -> str:
    """Return the cost of a run in sentences."""
    calls = plan.calls
    sentences = [f"{plan.labeler}: {plan.rows:,} rows, {calls.calls:,} calls, {calls.cached:,} answers from the cache."]
    if calls.calls:
        sentences.append(f"About {calls.prompt_tokens:,} tokens sent, {calls.completion_tokens:,} answered.")
        digits = 2 if calls.cost_usd >= 0.01 else 4
        sentences.append(
            f"About ${calls.cost_usd:,.{digits}f}, without answers that are asked for again because of a fault."
            if plan.has_price
            else "The price of the model is not known: set it under judge.prices."
        )
    return "\n".join(sentences)


def show_plan(plan: CostPlan, *, as_json: bool = False) -> None:
    """Print the cost of a run."""
    if as_json:
        print_json(plan.as_dict())
    else:
        out.print(planned(plan), markup=False, highlight=False)


SECTIONS: Final = {"worse": "should get worse", None: "may do either", "same": "should stay the same"}
"""Headings of the parts of a table, by what the metric should do."""


def corruptions_table(figures: Sequence[CorruptionFigures], width: int) -> RenderableType:
    """Return the figures of one metric: a row for each corruption, in parts by what the metric should do."""
    parts = {expected: [figure for figure in figures if figure.expected == expected] for expected in SECTIONS}
    title = heading([figures[0].metric, f"up to {max(figure.n for figure in figures):,} rows"], width)
    rows, above = in_sections(
        [
            ([title], [], ()),
            *(([Text(SECTIONS[name], style="italic")], part, ()) for name, part in parts.items() if part),
        ]
    )
    return fitted(CORRUPTION_COLUMNS, rows, width, above)


def delay_text(figure: CorruptionFigures) -> str:
    """Return the number of interactions until an alert."""
    if figure.delay is None:
        return "few rows"
    return f"over {figure.delay.within:,}" if figure.delay.median is None else f"{figure.delay.median:,}"


def _mean_text(mean: float | None) -> str:
    return "" if mean is None else f"{mean:.3f}"


def _slope_ends(figure: CorruptionFigures) -> str:
    slope = figure.slope
    return "" if slope is None else f"{slope.lower:.2f} to {slope.upper:.2f}"


CORRUPTION_COLUMNS: Final[Sequence[Column[CorruptionFigures]]] = (
    Column("corruption", lambda figure: figure.corruption, shortest=14),
    Column("AUROC", lambda figure: measured_text(figure.auroc) if figure.n else "absent", right=True),
    Column("interval", lambda figure: measured_interval(figure.auroc), yields=3),
    Column("before", lambda figure: _mean_text(figure.before), right=True, yields=4),
    Column("after", lambda figure: _mean_text(figure.after), right=True, yields=5),
    Column("alert after", delay_text, right=True),
    Column("slope", lambda figure: "" if figure.slope is None else f"{figure.slope.slope:.2f}", right=True),
    Column("of data sets", _slope_ends, yields=1),
    Column("applied", lambda figure: f"{figure.applied:.0%}", right=True, yields=2),
    Column("absent", lambda figure: f"{figure.absent:.0%}" if figure.absent else "", right=True, yields=2),
)


def corruption_notes(run: SpoiltRows) -> list[str]:
    """Return sentences about the run, and how to read its tables."""
    result, figures = run.result, run.figures
    rows, labeled = result.counts["rows"], result.counts["labeled"]
    speed = f"labeled clean and spoilt in {result.seconds:,.1f} s, {result.tokens:,} tokens, ${result.cost_usd:,.4f}"
    sentences = [f"{result.labeler.name} {result.labeler.version}: {rows:,} rows, {labeled:,} {speed}."]
    if result.counts["nothing_to_spoil"]:
        sentences.append(
            f"{result.counts['nothing_to_spoil']:,} rows have no documents or no response, and were left out."
        )
    if result.counts["problems"]:
        sentences.append(f"{result.counts['problems']:,} rows could not be used.")
    if not figures:
        return [*sentences, "The labeler gives no metric that a corruption should move."]
    sentences.append(
        "AUROC: how often a clean row has a better score than a spoilt one; 0.5 says that the number does not move. "
        f"Means over subsets of {FEWEST} rows or more; intervals: bootstrap of questions within subsets."
    )
    absent = dict.fromkeys(figure.corruption for figure in figures if figure.absent == 1)
    if absent:
        sentences.append(f"No spoilt row has a score of some metric (absent): {', '.join(absent)}.")
    sentences.append(
        "Alert after: interactions until the default drift rule fires in half of the simulated streams, if every "
        "interaction is spoilt from some point on, at a mean of 10,000 values between false alarms."
    )
    return sentences


CHECKS: Final = {
    "asked_again": "asked again: share of equal labels",
    "documents_reversed": "documents in reverse order: difference",
    "criteria_reversed": "criteria in reverse order: difference",
    "answer_repeated": "the answer twice as long: difference",
    "answers": "faults of the first answer: share of items",
    "cost": "cost",
}
"""Headings of the parts of the table."""


SIZES: Final = "asked again: size of the difference"
"""Heading of the part about scores that differ when the same is asked again."""


MEASURES: Final = {
    "equal_verdicts": "verdicts on sentences",
    "shared_labels": "all labels",
    "relevance_first_minus_last": "relevance, first less last place",
    "changed_labels_beyond_asking_again": "labels changed, less asked again",
    "refused": "judge refused",
    "unusable": "answer unusable",
    "corrected": "answer asked for again",
    "unknown_keys": "unknown keys in the answer",
    "tokens_per_item": "tokens an item",
    "cost_usd_per_item": "dollars for 1,000 items",
    "tokens": "tokens of the check",
    "cost_usd": "dollars of the check",
}
"""Names of rows; a row about a metric has its name."""


NOT_APPLICABLE: Final = {
    "asked_again": "no item has two answers",
    "documents_reversed": "no item has two documents",
    "criteria_reversed": "fewer than two criteria are asked",
    "answer_repeated": "no answer can be repeated",
    "answers": "no item has an answer",
}
"""Why a check does not apply."""


FAULTS: Final = frozenset({"unsteady", "moves", "often"})
"""Words that stand out."""


def check_table(rows: Sequence[CheckRow], width: int, confidence: float) -> RenderableType:
    """Return the rows as a table, in parts by check."""
    columns: list[Column[CheckRow]] = [
        Column(
            "check",
            lambda row: (
                f"  {NOT_APPLICABLE[row.check]}"
                if row.verdict == "not applicable"
                else f"  {row.metric or MEASURES[row.measure]}"
            ),
            shortest=24,
            yields=1,
        ),
        Column("estimate", lambda row: _number(row, row.mean.estimate), right=True),
        Column(
            f"{confidence:.0%} interval",
            lambda row: (
                "" if row.mean.lower is None else f"{_number(row, row.mean.lower)} to {_number(row, row.mean.upper)}"
            ),
        ),
        Column("items", lambda row: f"{row.n:,}" if row.n else "", right=True),
        Column("verdict", _word),
    ]
    parts = groupby(rows, lambda row: SIZES if row.measure == "mean_absolute_difference" else CHECKS[row.check])
    ordered, above = in_sections(([Text(part, style="italic")], list(members), ()) for part, members in parts)
    return fitted(columns, ordered, width, above)


def _number(row: CheckRow, number: float | None) -> str:
    if number is None:
        return ""
    if row.check == "cost":
        dollars = {"cost_usd": number, "cost_usd_per_item": 1000 * number}.get(row.measure)
        return f"{number:,.0f}" if dollars is None else f"{dollars:,.2f}"
    return f"{number:.3f}" if row.check in ("asked_again", "answers") else f"{number:+.3f}"


def _word(row: CheckRow) -> str | Text:
    word = "" if row.verdict is None or row.verdict == "not applicable" else row.verdict
    return Text(word, style="bold yellow") if word in FAULTS else word


def check_notes(result: RunResult, confidence: float) -> list[str]:
    """Return sentences about the check, and how to read its words."""
    counts = result.counts
    sentences = [
        f"{counts['labeled']:,} answers, none from a cache, {result.tokens:,} tokens, ${result.cost_usd:,.4f}."
    ]
    if counts["nothing_to_judge"]:
        sentences.append(f"{counts['nothing_to_judge']:,} rows have nothing that the judge is asked about.")
    if counts["problems"]:
        sentences.append(
            f"{counts['problems']:,} questions have no answer, because of a fault of the row or the endpoint."
        )
    sentences.append(
        f"moves: not by chance, at {confidence:.0%} for the whole table; slight: the same, but by at most {SMALL:g} of "
        f"the range; stays: by at most {SMALL:g}, if at all; unclear: ask about more items."
    )
    sentences.append(
        f"steady: {1 - SMALL:.0%} of the labels or more are equal, scores differ by at most {SMALL:g}; rare: at most "
        f"{SMALL:.0%} of the items; often: more than {TOLERATED:.0%}."
    )
    return sentences


def criterion_sentences(result: CriterionFit, gathered: GatheredInteractions) -> Iterator[str]:
    """Yield sentences about the proxy of a criterion and its errors."""
    from ragtide_offline.local_fit.sources import reference_text  # noqa: PLC0415

    loss = result.cross_validated
    yield f"{result.criterion.metric}: {loss.interactions:,} answers by {reference_text(gathered.reference)}"
    yield (
        f"Mean squared error: {loss.shipped:.4f} of a constant, {loss.fitted:.4f} of the proxy; difference "
        f"{loss.difference:+.4f} ({result.confidence:.0%} interval {loss.lower:+.4f} to {loss.upper:+.4f}). Each of "
        f"{result.questions:,} questions was predicted by a fit to others."
    )
    yield (
        f"Correlation with the judge: {result.correlation:.2f}. If few interactions are judged, the prediction-powered "
        f"interval is {result.width:.2f} times as wide as that of the judged items alone."
    )
    if result.reads_similarity:
        yield "The proxy is surely better with similarity."
    if result.unused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.unused.items()))
        yield f"Not used: {reasons}."
    if gathered.missing:
        yield f"Not used: {gathered.missing:,} whose texts were not found."


def scores_table(result: FitResult, reference: str, width: int) -> RenderableType:
    """Return the figures of each score, shipped and fitted, with the difference: squared errors, or AUROCs."""
    rows = [(score, _figures(score)) for score in result.scores]
    columns: list[Column[tuple[ScoreResult, Sequence[str]]]] = [
        Column("score", lambda row: row[0].score),
        Column("shipped", lambda row: row[1][0], right=True),
        Column("fitted", lambda row: row[1][1], right=True),
        Column("gain" if result.spoilt else "difference", lambda row: row[1][2], right=True),
        Column(f"{result.confidence:.0%} interval", lambda row: row[1][3], stacks=True, yields=1),
        Column(
            "used",
            lambda row: Text("fitted", style="green") if row[0].is_fitted else Text("shipped", style="yellow"),
        ),
    ]
    title = "AUROC of spoilt interactions" if result.spoilt else "mean squared errors"
    above = heading([title, f"{result.interactions:,} interactions", reference], width)
    return Group(above, fitted(columns, rows, width))


def _figures(score: ScoreResult) -> tuple[str, str, str, str]:
    if (separation := score.separation) is not None:
        interval = f"{separation.lower:+.3f} to {separation.upper:+.3f}"
        return f"{separation.shipped:.3f}", f"{separation.fitted:.3f}", f"{separation.gain:+.3f}", interval
    if (loss := score.cross_validated) is not None:
        interval = f"{loss.lower:+.4f} to {loss.upper:+.4f}"
        return f"{loss.shipped:.4f}", f"{loss.fitted:.4f}", f"{loss.difference:+.4f}", interval
    return "", "", "", ""


def decisions(result: FitResult, missing: int) -> Sequence[str]:
    """Return sentences about the errors, the decisions, and interactions that were not used."""
    sentences = [
        *_meaning(result),
        *(f"{score.score} stays as shipped: {score.reason}." for score in result.scores if not score.is_fitted),
        *(f"{score.score} is surely better with similarity." for score in result.scores if score.reads_similarity),
    ]
    if result.unused:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(result.unused.items()))
        sentences.append(f"Not used: {reasons}.")
    if missing:
        sentences.append(f"Not used: {missing:,} whose texts were not found.")
    return sentences


def _meaning(result: FitResult) -> Iterator[str]:
    if not result.spoilt:
        yield f"Mean squared errors; each of {result.questions:,} questions was predicted by a fit to others."
        return
    yield (
        "AUROC: how often a clean interaction has a higher score than a spoilt one, the mean over the corruptions that "
        f"a score should follow. {result.spoilt:,} interactions were spoilt; each question was predicted by a fit to "
        "others."
    )
    for score in result.scores:
        if (loss := score.cross_validated) is not None:
            yield (
                f"{score.score}, squared error on {loss.interactions:,} judged interactions: "
                f"{loss.shipped:.4f} shipped, "
                f"{loss.fitted:.4f} fitted ({loss.lower:+.4f} to {loss.upper:+.4f})."
            )
    kept = [score.score for score in result.scores if score.is_fitted and score.cross_validated is None]
    if kept:
        yield (
            "Too few interactions are judged, so the level stays that of the shipped labeler, and no judge's scores "
            f"checked the fit: {', '.join(kept)}."
        )


def sentence_of_file(path: Path | None, digest: str | None) -> str:
    """Return the sentence after a fit that is better than shipped."""
    if path is None or digest is None:
        return "Dry run: nothing was written."
    return f"Written to {path} (SHA-256 {digest[:16]}…). Workers load it with local.model."


def sentence_without_file(result: FitResult) -> str:
    """Return the sentence after a fit that is not better than shipped."""
    if result.spoilt:
        return (
            f"No score surely follows corruptions better than the shipped labeler's on {result.questions:,} questions, "
            "so nothing was written: keep the shipped labeler, or give more interactions"
        )
    return (
        f"No score is surely better than the shipped labeler's on {result.questions:,} questions, so nothing was "
        "written: keep the shipped labeler, or judge more interactions"
    )


BAR_WIDTHS: Final = (24, 14)
"""Characters of an interval's bar, from a wide terminal to a narrow terminal."""


STYLES = {"running": "cyan", "complete": "bold green", "stopped": "bright_black"}


NAME_CHARS: Final = 12
"""Fewest characters of a config's name."""


TITLE_CHARS: Final = 8
"""Fewest characters of a parameter's name as the title of a column."""


VALUE_CHARS: Final = 24
"""Most characters of a parameter's value."""


def board_view(board: Board, width: int, others: Sequence[str] = (), *, driven: bool = True) -> RenderableType:
    """Return the leaderboard for a terminal.

    Args:
        board: leaderboard to draw.
        width: columns of the terminal.
        others: metrics to show besides the metric of the race.
        driven: whether a process runs the experiment.
    """
    rows, metric = board.rows, board.metric
    if not rows:
        return Group(_head(board, driven=driven), *_notes(board))
    names = {row.name: row.number for row in rows}
    ratios = {row.name: board.quality_per_usd(row) for row in rows}

    def per_dollar(row: BoardRow) -> str:
        ratio = ratios[row.name]
        return "—" if ratio is None or ratio.estimate is None else f"{ratio.estimate:,.4g}"

    def per_run(row: BoardRow, metric: MetricDefinition) -> str:
        count = board.per_item(row, metric)
        return "—" if count is None else f"{count.estimate:.2f}"

    def interval(row: BoardRow) -> str:
        main = row.estimates[metric]
        return interval_text((main.lower, main.upper), exact=main.exact)

    def mean(row: BoardRow, name: str) -> str:
        value = row.estimates[name].estimate if name in row.estimates else None
        return "—" if value is None else f"{value:.3f}"

    def behind(row: BoardRow, *, long: bool) -> str:
        gap = row.behind
        if gap is None or not long:
            return "" if gap is None else f"{gap.estimate:z.3f}"
        ends = interval_text((gap.lower, gap.upper), exact=gap.lower == gap.upper)
        return f"{gap.estimate:z.3f} ({ends}) to #{names.get(row.against or '', '?')}"

    def config(row: BoardRow) -> Text:
        name = f"#{row.number}" if row.own_name is None else f"#{row.number} {row.own_name}"
        return Text(printable(name), style=STYLES.get(row.status, ""))

    def drawn(row: BoardRow, width: int) -> Text:
        main, style = row.estimates[metric], STYLES.get(row.status) or "cyan"
        return interval_bar(main.estimate, (main.lower, main.upper), main.value_range, width, style)

    main_mean, (wide, narrow) = partial(mean, name=metric), (partial(drawn, width=chars) for chars in BAR_WIDTHS)
    columns: list[Column[BoardRow]] = [
        Column("config", config, yields=6, shortest=NAME_CHARS),
        *_parameters(rows),
        Column("status", lambda row: Text(row.status, style=STYLES.get(row.status, ""))),
        Column(_last(metric), main_mean, right=True, yields=7, narrower=Column("mean", main_mean, right=True)),
        Column("interval", interval),
        Column("", wide, yields=2, narrower=Column("", narrow, yields=4)),
        Column("n", lambda row: f"{row.estimates[metric].n:,}", right=True),
        Column(
            "failed",
            lambda row: Text(f"{row.n_failed:,}" if row.n_failed else "", style="red"),
            right=True,
            yields=7,
            stacks=True,
            optional=True,
        ),
        *(Column(_last(other), partial(mean, name=other), right=True, yields=1) for other in others),
        *(
            Column(title, partial(per_run, metric=metric), right=True, yields=5)
            for title, metric in board.counts.items()
        ),
        Column("$ / item", lambda row: f"{row.cost_per_item_usd:.5f}" if row.cost_usd else "—", right=True, yields=2),
        *([Column(f"{_last(metric)} / $", per_dollar, right=True, yields=6)] if any(ratios.values()) else []),
        Column(
            "p50 s",
            lambda row: f"{row.latency_quantiles_s['p50']:.3f}" if row.latency_quantiles_s else "—",
            right=True,
            yields=2,
        ),
        Column("behind", partial(behind, long=True), yields=3, narrower=Column("behind", partial(behind, long=False))),
    ]
    return Group(_head(board, driven=driven), Text(), fitted(columns, rows, width), *_notes(board))


def _parameters(rows: Sequence[BoardRow]) -> Iterator[Column[BoardRow]]:
    for name in dict.fromkeys(name for row in rows for name in row.parameters):
        value = partial(_parameter, name)
        values = set(map(value, rows))
        # A single config has no difference to show, so all its parameters are shown.
        if len(rows) == 1 or len(values) > 1:
            yield Column(name, value, yields=8, shortest=max(TITLE_CHARS, *map(cell_len, values)), stacks=True)


def _parameter(name: str, row: BoardRow) -> str:
    return shortened(printable(value_text(row.parameters[name])), VALUE_CHARS) if name in row.parameters else ""


def _last(metric: str) -> str:
    return metric.rpartition(".")[2]


def _head(board: Board, *, driven: bool) -> Text:
    saved = board.calls_saved / board.calls_total if board.calls_total else 0.0
    left = board.calls_total - board.executed - board.calls_saved
    going = "running" if driven else "waits for a driver"
    state = "complete" if board.completed else "paused" if board.paused else going
    text = Text.assemble(
        (board.run, "bold cyan"),
        f"   {state}   {board.compared:,} of {board.population_size:,} items   shard {board.shard} of {board.shards}",
        f"   {board.cost_usd:.4f} USD" if board.cost_usd else "",
        f"   {board.tokens:,} tokens" if board.tokens else "",
        f"\nby {board.metric}   {board.executed:,} of {board.calls_total:,} calls made, ",
        f"{board.calls_saved:,} saved ({saved:.0%}){f', {left:,} to come' if left > 0 else ''}",
    )
    if board.paused and not board.completed:
        text.append(f"\n{board.paused}", style="yellow")
    if board.warning is not None:
        text.append(f"\n{printable(board.warning)}", style="yellow")
    return text


def _notes(board: Board) -> list[Text]:
    notes = []
    if any(row.estimates[board.metric].exact for row in board.rows):
        outlook = ""
        if board.outlook is not None and board.leader is not None:
            ends = interval_text((board.outlook.lower, board.outlook.upper))
            outlook = f" For other items like these {board.leader.title} has {ends}."
        notes.append(f"exact: all {board.population_size:,} items have run.{outlook}")
    titles = {row.name: row.title for row in board.rows}
    stopped = sorted((row for row in board.rows if row.stopped_by is not None), key=lambda row: row.n_items)
    for row in stopped:
        leader = titles.get(row.against or "")
        if row.stopped_by == RACE and row.behind is not None and leader is not None:
            sure = stop_text(row.behind, leader, higher_is_better=board.higher_is_better)
            notes.append(f"{row.title} stopped after {row.n_items:,} items: {sure}")
        else:
            notes.append(f"{row.title} stopped by {row.stopped_by}{': ' if row.reason else ''}{row.reason}")
    if board.margin is not None and any(row.stopped_by == RACE for row in stopped):
        notes.append(
            f"The race stops a config once it is surely at most {board.margin:g} better than another (error "
            f"probability of all stops together: {board.alpha:.2g})."
        )
    return [Text(), *(Text(printable(note), style="bright_black") for note in notes)] if notes else []


def shown_metrics(board: Board, most: int = 3) -> list[str]:
    """Return the first few scored metrics besides the metric of the race, which get a column each.

    Outcomes such as an empty retrieval come last, because they say less about quality.
    """
    outcomes = {metric.name for metric in OUTCOMES}
    scored = dict.fromkeys(metric for row in board.rows for metric, estimate in row.estimates.items() if estimate.n)
    counts = {metric.name for metric in board.counts.values()}  # they have columns of their own
    others = [metric for metric in scored if metric != board.metric and metric not in counts]
    return sorted(others, key=lambda metric: (metric in outcomes, metric.startswith((TOOL_FAMILY, "agent."))))[:most]


_CriterionRow = tuple["ListedCriterion", "CriterionNumber | None", bool]
"""A criterion with one of its numbers, and whether it is the first."""


def show_criteria(rows: Sequence[ListedCriterion]) -> None:
    """Print the criteria with their numbers."""
    if not rows:
        err.print("No criteria: ragtide criteria add stores one; the settings may have [[judge.criteria]].")
        return
    lines = [(row, number, not place) for row in rows for place, number in enumerate(row.numbers or (None,))]
    out.print(fitted(CRITERION_COLUMNS, lines, out.width))


def _criterion_state(row: ListedCriterion) -> str:
    where = "in the settings" if row.source == "settings" else f"by {row.by}"
    state = {"in the settings": "not asked: the settings have this name"}.get(row.state, row.state)
    return f"{state}, {row.criterion.rate:.0%}, {where}"


def _criterion_cell(text: Callable[[CriterionNumber], str]) -> Callable[[_CriterionRow], str]:
    return lambda row: "" if row[1] is None else text(row[1])


def _criterion_interval(number: CriterionNumber) -> str:
    if number.lower is None or number.estimate is None:
        return ""
    return f"{number.lower:.3f} – {number.upper:.3f}"


CRITERION_COLUMNS: Final[Sequence[Column[_CriterionRow]]] = (
    Column("criterion", lambda row: row[0].criterion.name if row[2] else "", yields=3, shortest=20),
    Column("state", lambda row: _criterion_state(row[0]) if row[2] else "", yields=2, stacks=True),
    Column("pipeline", _criterion_cell(lambda number: number.pipeline), yields=6, shortest=8),
    Column(
        "version",
        _criterion_cell(lambda number: "present" if number.is_present else number.version),
        yields=5,
        stacks=True,
    ),
    Column(
        "mean",
        _criterion_cell(lambda number: "" if number.estimate is None else f"{number.estimate:.3f}"),
        right=True,
    ),
    Column("interval", _criterion_cell(_criterion_interval), right=True),
    Column("asked", _criterion_cell(lambda number: f"{number.asked:,}"), right=True),
    Column("cannot tell", _criterion_cell(lambda number: f"{number.cannot_tell:,}"), True, yields=4, stacks=True),
    Column("", lambda row: row[0].criterion.question if row[2] else "", yields=1, stacks=True),
)


def show_checks(
    criteria: Sequence[Criterion], findings: Sequence[CriterionFinding], prices: CriteriaPrices | None, reasons: str
) -> None:
    """Print the findings, and the price of 1,000 answers."""
    for finding in findings:
        style = "red" if finding.level == "error" else "yellow"
        out.print(f"{finding.criterion}: {finding.level}, {finding.kind}: {finding.message}", style=style)
    if not findings:
        out.print(f"{len(criteria)} criteria, and nothing to object.")
    if prices is None:
        out.print("No price, because not all of these criteria can be asked: correct the errors.")
        return
    for unit, together in (("answer", prices.together), ("session", prices.together_of_session)):
        if together is not None:
            _show_prices(prices, [price for price in prices.each if price.unit == unit], together, reasons)


def _show_prices(
    prices: CriteriaPrices, priced: Sequence[CriterionPrice], together: CriterionPrice, reasons: str
) -> None:
    from ragtide_roles.criteria.pricing import PER  # noqa: PLC0415 - it imports Redis

    rows: list[CriterionPrice] = [*priced, *([together] if len(priced) > 1 else [])]
    columns: list[Column[CriterionPrice]] = [
        Column(f"per {PER:,} {together.unit}s", lambda row: row.name or "all together", shortest=12),
        Column("tokens in", lambda row: f"{row.prompt_tokens:,.0f}", right=True),
        Column("tokens out", lambda row: f"{row.completion_tokens:,.0f}", right=True),
        Column("US dollars", lambda row: _dollars(row.cost_usd), right=True),
        Column("out, no reasons", lambda row: f"{row.completion_tokens_bare:,.0f}", right=True, yields=1),
        Column("US dollars, no reasons", lambda row: _dollars(row.cost_usd_bare), right=True, yields=2),
    ]
    out.print()
    out.print(fitted(columns, rows, out.width))
    model = prices.model or "no model is set (judge.model), so there are no dollars"
    calls = together.calls / PER
    item, items = ("item", prices.items) if together.unit == "answer" else ("session", prices.sessions)
    extra = (
        f"{calls:g} more calls {'an' if item == 'item' else 'a'} {item}" if calls else "in the call that is made anyway"
    )
    err.print(
        f"{model}; {extra}; estimated from {items} {item}s; judge.reasons is {reasons!r}; "
        "a criterion with a rate below 1 costs that share",
        style="bright_black",
        soft_wrap=True,
    )


def _dollars(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:,.4f}"


def show_verdicts(trial: CriterionTrial) -> None:
    """Print each verdict beside its reason, then the counts."""
    width = max(out.width if out.width < 200 else 80, 40)
    answers = [verdict.answer or verdict.absent or "" for verdict in trial.verdicts]
    left = min(max([len(answer) for answer in answers] or [0]), 18)
    out.print(trial.criterion.question, style="bold")
    for verdict, answer in zip(trial.verdicts, answers, strict=True):
        question = " ".join(printable(verdict.question or "").split())
        style = "yellow" if verdict.value is None else "bold"
        head = Text.assemble((printable(answer)[:left].ljust(left), style), "  ", Text(question))
        head.truncate(width, overflow="ellipsis")
        out.print(head)
        for line in Text(printable(verdict.reason)).wrap(out, width - left - 2) if verdict.reason else ():
            out.print(Text.assemble(" " * (left + 2), (line.plain, "bright_black")))
    counts = ", ".join(f"{answer} {count}" for answer, count in trial.counts.most_common())
    share = trial.cannot_tell_share
    mean = "no value" if trial.mean is None else f"mean {trial.mean:.3f}"
    out.print()
    what = "sessions" if trial.criterion.is_of_session else "interactions"
    cost = f"${trial.result.cost_usd:.4f}"
    out.print(f"{len(trial.verdicts)} {what}: {counts}; {mean}; cannot tell {share or 0:.0%}; {cost}")


ROLES: Final = {"producer": "producers", "worker": "workers", "aggregator": "aggregators", "redis": "Redis"}


def capacity_view(
    traffic: PlannedTraffic,
    needs: Capacity,
    bill: JudgeBill | None,
    costs: UnitCosts,
    *,
    width: int,
    larger: Mapping[str, Capacity] | None = None,
) -> RenderableType:
    """Return what a traffic needs, with the assumptions behind it.

    Args:
        bill: of the judge; None without one.
        costs: behind the needs.
        width: of the tables, in characters.
        larger: the needs of ten times each size of the traffic, by the name of the size.
    """
    from ragtide_offline.capacity.planning import MEMORY_SHARE, UTILIZATION  # noqa: PLC0415 - it imports Redis

    tables = (_roles(needs, width), _memory(needs, width), _limits(needs, larger or {}, width))
    title = Text.assemble(
        (f"{traffic.rate:,g} interactions a second", "bold"),
        f", {traffic.documents:g} documents of {traffic.document_kib:,.3g} KiB, "
        f"{count_of(traffic.pipelines, 'pipeline')}, {count_of(needs.partitions, 'partition')}",
    )
    parts = [title, Text(), *(part for table in tables for part in (table, Text()))]
    network = f"Redis receives {_size(needs.received_bytes)} a second and sends {_size(needs.sent_bytes)}."
    backlog = f"Interactions that wait for an hour without workers take {_size(needs.backlog_bytes)} more."
    included = (
        f"Included: each process uses {UTILIZATION:.0%} of a processor on average, and the data {MEMORY_SHARE:.0%} of "
        "Redis's memory. Not included: standbys, replicas, ragtide serve, recorder and notify."
    )
    origin = (
        f"Unit costs: measured on {costs.measured_on}, {costs.machine}, {costs.versions}. Another machine differs by "
        "its speed: make capacity measures it, and --costs FILE takes its costs."
    )
    advice = [f"Above 100%: {limit.limit}: {limit.exceeded}." for limit in needs.limits if limit.used > 1]
    if needs.partitions < needs.partitions_needed:
        advice.append(
            f"Set at least {needs.partitions_needed:,} partitions: each has one process at a time and a cap of keys."
        )
    lines = [f"{network} {backlog}", "" if bill is None else _bill(bill), "\n".join(advice), included, origin]
    return Group(*parts, *(Text(line) for line in lines if line))


def _roles(needs: Capacity, width: int) -> RenderableType:
    first = {part.role: part for part in reversed(needs.work)}

    def of_role(text: Callable[[str], str]) -> Callable[[WorkPart], str]:
        return lambda part: text(part.role) if first[part.role] is part else ""

    columns: list[Column[WorkPart]] = [
        Column("role", of_role(ROLES.__getitem__)),
        Column("processes", of_role(lambda role: f"{needs.processes(role):,}"), right=True),
        Column("processors", of_role(lambda role: f"{needs.processors(role):,.2f}"), right=True),
        Column("of these", lambda part: f"{part.processors:,.3f}", right=True),
        Column("work", lambda part: part.work),
    ]
    return fitted(columns, needs.work, width)


def _memory(needs: Capacity, width: int) -> RenderableType:
    rows = [(content, size) for content, size in needs.memory.items() if size]
    rows += [("all data", needs.memory_bytes), ("maxmemory of Redis", needs.maxmemory_bytes)]
    columns: list[Column[tuple[str, float]]] = [
        Column("memory of Redis, steady state", itemgetter(0)),
        Column("", lambda row: _size(row[1]), right=True),
    ]
    return fitted(columns, rows, width)


def _limits(needs: Capacity, larger: Mapping[str, Capacity], width: int) -> RenderableType:
    columns: list[Column[str]] = [Column("limit", str)]
    for title, needs_of_size in {"used": needs, **{f"{size} x10": grown for size, grown in larger.items()}}.items():
        used = {limit.limit: f"{limit.used:,.0%}" for limit in needs_of_size.limits}
        columns.append(Column(title, used.__getitem__, right=True))
    return fitted(columns, [limit.limit for limit in needs.limits], width)


def _bill(bill: JudgeBill) -> str:
    calls = (
        f"The judge: {bill.calls:,.3g} calls, {bill.prompt_tokens:,.0f} tokens sent and {bill.completion_tokens:,.0f} "
        "answered a second"
    )
    if bill.usd_a_day is None or bill.usd_a_month is None:
        return f"{calls}. The price of the model is not known: give --price IN,OUT."
    return f"{calls}: ${bill.usd_a_day:,.2f} a day, ${bill.usd_a_month:,.2f} in 30 days."


def _size(size: float) -> str:
    for unit, bytes_each in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= bytes_each:
            return f"{size / bytes_each:,.1f} {unit}"
    return f"{size / 2**10:,.1f} KiB"


def plan_view(plan: SamplePlan, width: int) -> RenderableType:
    """Return the samples as a table, with the assumptions."""
    names = ["judged alone"] if plan.with_proxy is None else ["with the proxy", "judged alone"]
    samples = [plan.judged_alone] if plan.with_proxy is None else [plan.with_proxy, plan.judged_alone]
    rows: list[tuple[str, ...]] = []
    for name, sample in zip(names, samples, strict=True):
        if sample is None:
            rows.append((name, "not reached", "", "", ""))
            continue
        dollars = "unknown" if sample.usd is None else f"{sample.usd:,.2f}"
        rows.append((name, f"{sample.judged:,}", f"{sample.rate:.1%}", f"{sample.judged / plan.days:,.0f}", dollars))
    columns: list[Column[tuple[str, ...]]] = [
        Column(title, itemgetter(place), right=place > 0)
        for place, title in enumerate(("", "judged items", "share", "a day", "dollars"))
    ]
    title = [
        plan.metric,
        f"± {plan.half_width:g}",
        f"{plan.confidence:.0%}",
        f"{plan.interactions:,} interactions in {plan.days:g} days",
    ]
    notes = (Text(line, style="bright_black") for line in _lines(plan))
    return Group(heading(title, width), fitted(columns, rows, width), *notes)


def _about_clusters(plan: SamplePlan) -> Iterator[str]:
    scale = plan.scale
    if not scale.dependence and not scale.dependence_alone:
        yield "Sessions and other clusters: none, or no measured effect."
        return
    sample, proxy = plan.with_proxy or plan.judged_alone, plan.with_proxy is not None
    effect = "" if sample is None else f" of {scale.design_effect(sample.judged, plan.interactions, proxy=proxy):.2f}"
    yield (
        f"Interactions of one session or cluster (about {scale.cluster_items:.1f} each) are alike: a design "
        f"effect{effect}. More judged items do not make that part of the width smaller; more days do."
    )


def _lines(plan: SamplePlan) -> Iterator[str]:
    scale = plan.scale
    yield (
        f"Assumed: mean {scale.mean:.3g}, standard deviation {scale.deviation:.3g}, correlation of the proxy with the "
        f"judge {scale.correlation:.2f}, and that they stay; items drawn one by one, at one rate."
    )
    yield from _about_clusters(plan)
    for sample in filter(None, (plan.with_proxy, plan.judged_alone)):
        if sample.would_see is not None:
            yield f"At {sample.rate:.1%} it would see: {sample.would_see}."
    yield f"An interval needs {scale.least_judged:,.0f} judged items, worth 30 at each end of the scale."
    if plan.judged_alone is None:
        yield "The width is not reached although everything is judged: take more --days, or a wider interval."
    if plan.usd_each is None:
        yield "No price is known: set judge.model, and judge.prices if it is not on the list."
    else:
        yield f"The judge's call costs about ${plan.usd_each:.5f} with texts of the given size."


def show_setup(setup: JudgeSetup) -> None:
    """Print which judge answered, and what each rate costs and sees."""
    key = f" with the key of {setup.key_variable}" if setup.key_variable else ""
    cost = "at an unknown price" if setup.usd_per_answer is None else f"for ${setup.usd_per_answer:.5f}"
    tokens = f"{setup.prompt_tokens:,} tokens and {setup.completion_tokens:,} answered"
    out.print(
        f"{setup.model} at {setup.address}{key} scored the test item in {setup.seconds:.1f} s: {tokens}, {cost}.",
        highlight=False,
    )
    if setup.answers_per_day is None:
        out.print("The traffic of a day is not known yet:", highlight=False)
    else:
        out.print(f"At {setup.answers_per_day:,.0f} answers a day:", highlight=False)
    for option in setup.rates:
        out.print(f"  {option.sentence}", style="bold" if option.rate == setup.rate else "", highlight=False)
    judge = (
        f"a judge with the slope {setup.kappa:.2f}, measured on {setup.measured_rows:,} rows with labels"
        if setup.measured_rows
        else f"a judge with an assumed kappa of {setup.kappa:g} against people (--kappa; ragtide trust FILE --store "
        "measures it)"
    )
    out.print(
        f"Typical times, from a mean of {setup.mean:g}, by {judge}. The price is that of "
        + (f"{setup.priced_items} kept answers." if setup.priced_items else "the test item; longer texts cost more."),
        style="bright_black",
        highlight=False,
    )


def setup_sentence(setup: JudgeSetup) -> str:
    """Return what was written, or would be."""
    limit = (
        "without a spend limit" if setup.spend_per_day_usd is None else f"at most ${setup.spend_per_day_usd:,.2f} a day"
    )
    rules = f"; rules on its numbers: {', '.join(setup.rules)}" if setup.rules else ""
    does = "now scores" if setup.written else "would score"
    return f"{setup.file}: {setup.model} {does} {100 * setup.rate:g}% of the answers, {limit}{rules}"
