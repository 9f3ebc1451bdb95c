"""`ragtide judge check`: the price of a check, its run, and its table."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from ragtide_offline.judge_check.rows import SMALL, TOLERATED, CheckRow

from .console import out, print_json
from .fitting import Column, Notes, fitted, heading
from .labeler_runs import finish_run, label_rows
from .progress import interrupted

if TYPE_CHECKING:
    from ragtide_offline.judge_check.running import JudgeCheck
    from ragtide_offline.runs import RunResult

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


def run_check(check: "JudgeCheck", *, confidence: float, max_cost_usd: float, as_json: bool) -> None:
    """Ask the judge about the items of a check, and print the table; after Ctrl-C that of the answers so far.

    Args:
        check: of the items.
        confidence: level of the intervals.
        max_cost_usd: US dollars at which the check stops.
        as_json: whether the rows are printed as JSON.
    """
    stopped = False
    try:
        label_rows(check, "judging", max_cost_usd=max_cost_usd)
    except KeyboardInterrupt:
        stopped = True
    labeled = check.result.counts["labeled"]
    finish_run(check, confidence)
    if labeled or not stopped:
        _print_rows(check, confidence, as_json=as_json)
    if stopped:
        interrupted(f"{labeled:,} answers were paid for. No answer is stored, so a new check begins anew.")


def _print_rows(check: "JudgeCheck", confidence: float, *, as_json: bool) -> None:
    result = check.result
    if as_json:
        print_json(result.as_dict())
        return
    out.print(heading([result.labeler.name, result.labeler.version, f"{result.counts['rows']:,} items"], out.width))
    out.print(check_table(check.rows, out.width, confidence))
    for sentence in check_notes(result, confidence):
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


def check_notes(result: "RunResult", confidence: float) -> list[str]:
    """Return sentences about the check, and how to read its words."""
    counts = result.counts
    found = [f"{counts['labeled']:,} answers, none from a cache, {result.tokens:,} tokens, ${result.cost_usd:,.4f}."]
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
