"""Measures a labeler on spoilt rows, and shows the figures as tables and sentences."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from ragtide_offline.benchmark.corruptions import CorruptionFigures, SpoiltRows, seen_failures
from ragtide_offline.benchmark.figures import FEWEST
from ragtide_schemas.fitness import failures_in_words

from .agreement_table import interval_text, value_text
from .console import out, print_json
from .fitting import Column, Notes, fitted, heading
from .labeler_runs import finish_run, label_rows
from .progress import interruptible

SECTIONS: Final = {"worse": "should get worse", None: "may do either", "same": "should stay the same"}
"""Headings of the parts of a table, by what the metric should do."""


def measure_corruptions(
    run: SpoiltRows, *, confidence: float = 0.95, max_cost_usd: float = inf, as_json: bool = False
) -> None:
    """Run a labeler on clean and spoilt rows, and print the figures."""
    with interruptible(lambda: f"{run.result.counts['labeled']:,} rows were labeled: give the same command again."):
        label_rows(run, max_cost_usd=max_cost_usd)
    finish_run(run, confidence)
    if as_json:
        print_json(run.result.as_dict())
        return
    for metric in dict.fromkeys(figure.metric for figure in run.figures):
        out.print(corruptions_table([figure for figure in run.figures if figure.metric == metric], out.width))
    for sentence in corruption_notes(run):
        out.print(sentence, style="bright_black", markup=False, highlight=False)


def corruptions_table(figures: Sequence[CorruptionFigures], width: int) -> RenderableType:
    """Return the figures of one metric: a row for each corruption, in parts by what the metric should do."""
    parts = {expected: [figure for figure in figures if figure.expected == expected] for expected in SECTIONS}
    rows = [figure for part in parts.values() for figure in part]
    above = {
        place: [Text(SECTIONS[rows[place].expected], style="italic")]
        for place in [
            0,
            *(place for place, (before, after) in enumerate(pairwise(rows), 1) if before.expected != after.expected),
        ]
    }
    above[0] = [heading([figures[0].metric, f"up to {max(figure.n for figure in rows):,} rows"], width), *above[0]]
    columns = [
        Column("corruption", [figure.corruption for figure in rows], shortest=14),
        Column("AUROC", [value_text(figure.auroc) if figure.n else "absent" for figure in rows], right=True),
        Column("interval", [interval_text(figure.auroc) for figure in rows], yields=3),
        Column("before", [_mean_text(figure.before) for figure in rows], right=True, yields=4),
        Column("after", [_mean_text(figure.after) for figure in rows], right=True, yields=5),
        Column("alert after", [delay_text(figure) for figure in rows], right=True),
        Column("change", [interval_text(figure.change) for figure in rows], yields=1),
        Column("applied", [f"{figure.applied:.0%}" for figure in rows], right=True, yields=2),
        Column("absent", [f"{figure.absent:.0%}" if figure.absent else "" for figure in rows], right=True, yields=2),
    ]
    return fitted(columns, width, Notes(above))


def delay_text(figure: CorruptionFigures) -> str:
    """Return the number of interactions until an alert."""
    if figure.delay is None:
        return "few rows"
    return f"over {figure.delay.within:,}" if figure.delay.median is None else f"{figure.delay.median:,}"


def corruption_notes(run: SpoiltRows) -> list[str]:
    """Return sentences about the run, and how to read its tables."""
    result, figures = run.result, run.figures
    rows, labeled = result.counts["rows"], result.counts["labeled"]
    speed = f"labeled clean and spoilt in {result.seconds:,.1f} s, {result.tokens:,} tokens, ${result.cost_usd:,.4f}"
    found = [f"{result.labeler.name} {result.labeler.version}: {rows:,} rows, {labeled:,} {speed}."]
    if result.counts["nothing_to_spoil"]:
        found.append(f"{result.counts['nothing_to_spoil']:,} rows have no documents or no response, and were left out.")
    if result.counts["problems"]:
        found.append(f"{result.counts['problems']:,} rows could not be used.")
    if not figures:
        return [*found, "The labeler gives no metric that a corruption should move."]
    found.append(
        "AUROC: how often a clean row has a better score than a spoilt one; 0.5 says that the number does not move. "
        f"Means over subsets of {FEWEST} rows or more; intervals: bootstrap of questions within subsets."
    )
    absent = dict.fromkeys(figure.corruption for figure in figures if figure.absent == 1)
    if absent:
        found.append(f"No spoilt row has a score of some metric (absent): {', '.join(absent)}.")
    found.append(
        "Alert after: interactions until the default drift rule fires in half of the simulated streams, if every "
        "interaction is spoilt from some point on, at a mean of 10,000 values between false alarms."
    )
    for metric, failures in seen_failures(figures).items():
        if words := failures_in_words(failures):
            found.append(f"{metric} {words}.")
    return found


def _mean_text(mean: float | None) -> str:
    return "" if mean is None else f"{mean:.3f}"
