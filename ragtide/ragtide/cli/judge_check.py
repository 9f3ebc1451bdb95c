"""`ragtide judge check`: the price of a check, its run, and its table."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from ragtide_offline.benchmark.running import CostPlan
from ragtide_offline.judge_check.rows import SMALL, TOLERATED, CheckRow
from ragtide_runtime.errors import ConfigurationError

from .benchmark_tables import planned
from .console import err, out, print_json, warn
from .corruption_tables import labeled_within
from .fitting import Column, Notes, fitted, heading
from .progress import interrupted, progress_bar

if TYPE_CHECKING:
    from ragtide_offline.judge_check.running import JudgeCheck

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


def refuse_cost(plan: CostPlan, max_cost_usd: float, fewer: str) -> None:
    """Print what a check would cost.

    Args:
        plan: of the check.
        max_cost_usd: most US dollars.
        fewer: what makes the check cheaper, as words of the error.

    Raises:
        ConfigurationError: it may cost more than allowed, or the price is not known.
    """
    err.print(planned(plan), markup=False, highlight=False)
    if plan.calls.calls and not plan.has_price:
        raise ConfigurationError(
            "the price of the model is not known, so --max-cost-usd cannot be kept: set it under judge.prices, for a "
            "model of your own with input = 0 and output = 0"
        )
    if plan.calls.cost_usd > max_cost_usd:
        raise ConfigurationError(
            f"the check would cost about ${plan.calls.cost_usd:,.2f}, and --max-cost-usd is {max_cost_usd:g}: give "
            f"{fewer}, or a higher --max-cost-usd"
        )


def run_check(check: "JudgeCheck", *, confidence: float, max_cost_usd: float, as_json: bool) -> None:
    """Ask the judge about the items of a check, and print the table; after Ctrl-C that of the answers so far.

    Args:
        check: that has read its items.
        confidence: level of the intervals.
        max_cost_usd: US dollars at which the check stops.
        as_json: whether the rows are printed as JSON.
    """
    stopped = False
    with progress_bar("judging", None) as advance:
        try:
            asyncio.run(labeled_within(check, check.run(), advance, max_cost_usd))
        except KeyboardInterrupt:
            stopped = True
    warn(*check.problems)
    if check.counts["labeled"] or not stopped:
        _print_rows(check, confidence, as_json=as_json)
    if stopped:
        interrupted(
            f"{check.counts['labeled']:,} answers were paid for. No answer is stored, so a new check begins anew."
        )


def _print_rows(check: "JudgeCheck", confidence: float, *, as_json: bool) -> None:
    rows = check.rows(confidence=confidence)
    if as_json:
        print_json(check.as_dict(rows, confidence))
        return
    title = heading([check.labeler.name, check.labeler.version, f"{check.counts['rows']:,} items"], out.width)
    out.print(title)
    out.print(check_table(rows, out.width, confidence))
    for sentence in check_notes(check, confidence):
        out.print(sentence, style="bright_black", markup=False, highlight=False)


def check_table(rows: Sequence[CheckRow], width: int, confidence: float) -> RenderableType:
    """Return the rows as a table, in parts by check."""
    parts = [_heading(row) for row in rows]
    begins = [0, *(place for place, (one, other) in enumerate(pairwise(parts), 1) if one != other)]
    above = {place: [Text(parts[place], style="italic")] for place in begins}
    columns = [
        Column("check", [f"  {_name(row)}" for row in rows], shortest=24, yields=1),
        Column("estimate", [_number(row, row.estimate) for row in rows], right=True),
        Column(f"{confidence:.0%} interval", [_interval(row) for row in rows]),
        Column("items", [f"{row.n:,}" if row.n else "" for row in rows], right=True),
        Column("verdict", [_word(row) for row in rows]),
    ]
    return fitted(columns, width, Notes(above))


def _heading(row: CheckRow) -> str:
    return SIZES if row.measure == "mean_absolute_difference" else CHECKS[row.check]


def _name(row: CheckRow) -> str:
    if row.verdict == "not applicable":
        return NOT_APPLICABLE[row.check]
    return row.metric or MEASURES[row.measure]


def _is_change(row: CheckRow) -> bool:
    return row.check not in ("asked_again", "answers", "cost")


def _number(row: CheckRow, number: float | None) -> str:
    if number is None:
        return ""
    if row.check == "cost":
        dollars = {"cost_usd": number, "cost_usd_per_item": 1000 * number}.get(row.measure)
        return f"{number:,.0f}" if dollars is None else f"{dollars:,.2f}"
    return f"{number:+.3f}" if _is_change(row) else f"{number:.3f}"


def _interval(row: CheckRow) -> str:
    return "" if row.lower is None else f"{_number(row, row.lower)} to {_number(row, row.upper)}"


def _word(row: CheckRow) -> str | Text:
    word = "" if row.verdict is None or row.verdict == "not applicable" else row.verdict
    return Text(word, style="bold yellow") if word in FAULTS else word


def check_notes(check: "JudgeCheck", confidence: float) -> list[str]:
    """Return sentences about the check, and how to read its words.

    Args:
        check: that was run.
        confidence: level of the intervals.
    """
    counts = check.counts
    found = [f"{counts['labeled']:,} answers, none from a cache, {check.tokens:,} tokens, ${check.cost_usd:,.4f}."]
    if counts["nothing_to_judge"]:
        found.append(f"{counts['nothing_to_judge']:,} rows have nothing that the judge is asked about.")
    if counts["problems"]:
        found.append(f"{counts['problems']:,} questions have no answer, because of a fault of the row or the endpoint.")
    found.append(
        f"moves: not by chance, at {confidence:.0%} for the whole table; slight: the same, but by at most {SMALL:g} of "
        f"the range; stays: by at most {SMALL:g}, if at all; unclear: ask about more items."
    )
    found.append(
        f"steady: {1 - SMALL:.0%} of the labels or more are equal, scores differ by at most {SMALL:g}; rare: at most "
        f"{SMALL:.0%} of the items; often: more than {TOLERATED:.0%}."
    )
    return found
