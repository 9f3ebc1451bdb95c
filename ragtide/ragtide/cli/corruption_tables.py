"""Measures a labeler on spoilt rows, and shows the figures as tables and sentences."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Final, Protocol

from rich.console import RenderableType
from rich.text import Text

from ragtide_offline.benchmark.corruptions import CorruptionFigures, CorruptionRun, seen_failures
from ragtide_offline.benchmark.figures import FEWEST
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.fitness import failures_in_words

from .agreement_table import interval_text, value_text
from .console import out, print_json, warn
from .fitting import Column, Notes, fitted, heading
from .progress import Shown, cost_note, interruptible, progress_bar

SECTIONS: Final = {"worse": "should get worse", None: "may do either", "same": "should stay the same"}
"""Headings of the parts of a table, by what the metric should do."""


def names_in(text: str | None) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def measure_corruptions(
    run: CorruptionRun,
    settings: Settings,
    files: Sequence[Path],
    *,
    limit: int | None = None,
    sample: int | None = None,
    confidence: float = 0.95,
    max_cost_usd: float = inf,
    as_json: bool = False,
) -> None:
    """Run the labeler of the settings on clean and spoilt rows, and print the figures.

    It stops when it has cost more than `max_cost_usd`, because answers that are asked for again cost more than planned.
    """
    with (
        interruptible(lambda: f"{run.counts['labeled']:,} rows were labeled: give the same command again."),
        progress_bar("labeling", None) as advance,
    ):
        asyncio.run(labeled_within(run, run.run(settings, files, limit=limit, sample=sample), advance, max_cost_usd))
    warn(*run.problems)
    figures: list[CorruptionFigures] = []
    with progress_bar("comparing", len(run.metrics) * len(run.corruptions)) as advance:
        for figure in run.figures(confidence=confidence):
            figures.append(figure)
            advance(len(figures))
    if as_json:
        print_json(run.as_dict(figures))
        return
    for metric in dict.fromkeys(figure.metric for figure in figures):
        out.print(corruptions_table([figure for figure in figures if figure.metric == metric], out.width))
    for sentence in corruption_notes(run, figures):
        out.print(sentence, style="bright_black", markup=False, highlight=False)


class _PaidRun(Protocol):
    @property
    def cost_usd(self) -> float: ...


async def labeled_within(run: _PaidRun, steps: AsyncGenerator[None], advance: Shown, max_cost_usd: float) -> None:
    """Label to the end, or until that has cost more than allowed.

    Args:
        run: that counts its cost.
        steps: of the run: one after each row.
        advance: shows the progress.
        max_cost_usd: US dollars.
    """
    async with aclosing(steps):
        done = 0
        async for _ in steps:
            done += 1
            advance(done, cost_note(run.cost_usd, done, None))
            if run.cost_usd > max_cost_usd:
                warn(f"stopped after {done:,} rows: they cost ${run.cost_usd:,.2f}, more than --max-cost-usd")
                return


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


def corruption_notes(run: CorruptionRun, figures: Sequence[CorruptionFigures]) -> list[str]:
    """Return sentences about the run, and how to read its tables."""
    rows, labeled = run.counts["rows"], run.counts["labeled"]
    speed = f"labeled clean and spoilt in {run.seconds:,.1f} s, {run.tokens:,} tokens, ${run.cost_usd:,.4f}"
    found = [f"{run.labeler.name} {run.labeler.version}: {rows:,} rows, {labeled:,} {speed}."]
    if run.counts["nothing_to_spoil"]:
        found.append(f"{run.counts['nothing_to_spoil']:,} rows have no documents or no response, and were left out.")
    if run.counts["problems"]:
        found.append(f"{run.counts['problems']:,} rows could not be used.")
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
