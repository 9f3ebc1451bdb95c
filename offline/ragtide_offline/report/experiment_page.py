"""The page of an experiment: what the template is given, and the sentences that say what the numbers mean."""

from collections.abc import Sequence
from typing import Final

from ragtide_schemas import Kind

from ..experiments.board import Row
from ..experiments.projecting import Projected
from . import charts
from .content import ExperimentReport
from .findings import knob_value
from .pages import Format, number, page

ANYTIME: Final = ("betting", "empirical_bernstein", "running")
"""Strategies whose intervals hold at every look."""


def experiment_page(report: ExperimentReport, layout: Format) -> str:
    """Return the report of an experiment as a page."""
    board = report.board
    pairs = report.pairs.pairs if report.pairs is not None else ()
    return page(
        "experiment",
        layout,
        {
            "report": report,
            "made_at": report.made_at,
            "headline": headline(report),
            "status": status(report),
            "meaning": meaning(report),
            "scale": scale([row.estimates[board.metric] for row in board.rows]),
            "others": [name for name in (board.rows[0].estimates if board.rows else {}) if name != board.metric],
            "knobs_shown": not all(names_its_knobs(row) for row in board.rows),
            "numbers": {row.name: row.number for row in board.rows},
            "pairs": {(pair.first, pair.second): pair for pair in pairs},
            "cost": charts.cost_chart(report),
            "curves": charts.curve_chart(report),
            "width": charts.WIDTH,
            "height": charts.HEIGHT,
            "left": charts.LEFT,
            "right": charts.RIGHT,
            "top": charts.TOP,
            "bottom": charts.BOTTOM,
        },
    )


def headline(report: ExperimentReport) -> str:
    """Return what came out, in a sentence or two."""
    board, leader = report.board, report.board.leader
    if leader is None:
        return f"Nothing has a score of {board.metric} yet."
    at = leader.estimates[board.metric]
    lead = (
        f"{leader.name} leads with {board.metric} {number(at.estimate)} "
        f"({number(at.lower)} to {number(at.upper)}) after {at.n:,} items."
    )
    unscored = [row.name for row in board.rows[1:] if not row.estimates[board.metric].n]
    rivals = [
        row.name
        for row in board.rows[1:]
        if row.status != "stopped" and row.name not in unscored and not _surely_behind(row, report)
    ]
    stopped = sum(row.status == "stopped" for row in board.rows)
    parts = [lead]
    others = len(board.rows) - 1
    if rivals:
        parts.append(f"Not surely behind it: {_some(rivals)}.")
    elif others and stopped < others and not unscored:
        parts.append("Every other config was stopped or is surely behind it.")
    if unscored:
        parts.append(f"Without a score: {_some(unscored)}.")
    if others and stopped == others:
        parts.append(f"All {others:,} others were stopped.")
    elif stopped:
        parts.append(f"{stopped:,} of {len(board.rows):,} configs were stopped.")
    return " ".join(parts)


def status(report: ExperimentReport) -> str:
    """Return where the experiment stands, in a few words."""
    if report.board.halted is not None and not report.board.completed:
        return f"halted: {report.board.halted}"
    return "complete" if report.board.completed else "not complete"


def meaning(report: ExperimentReport) -> dict[str, str]:
    """Return what is to be said of the numbers, by what they belong to."""
    plan, options = report.plan, report.plan.intervals
    level = f"{options.confidence:.0%}"
    looks = (
        "holds at every look"
        if options.strategy in ANYTIME
        else "holds at one look at a number of items fixed beforehand"
    )
    kind = next((row.estimates[report.board.metric].kind for row in report.board.rows), Kind.ALGEBRAIC)
    what = "total" if kind is Kind.DISTRIBUTIVE else "mean"
    said = {
        "estimates": f"Estimates of the {what} over all {plan.population_size:,} items; intervals {options.strategy}, "
        f"{level}; cost and latency are of answers that were given",
        "intervals": f"With a probability of {level} a config's interval holds what it would score if it were run on "
        f"all items, and it {looks}. Each is on its own: of many configs some may be missed, and whoever leads was "
        "lucky more often than not; what decides between two is their difference on the same items, which is narrower.",
        "race": "",
        "pairs": "",
    }
    if plan.race.enabled:
        said["race"] = (
            f"The race stops a config once it is surely not better than another by {plan.race.margin:g} or more; the "
            f"probability that any of its stops is wrong is {1 - plan.race.confidence:.2g} at most, however often it "
            "looks. An e-value is how many times a bettor against the config has multiplied its capital; 1 / alpha is "
            "enough."
        )
    if report.pairs is not None:
        pairs = report.pairs
        left = f" {pairs.left_out:,} configs further down are left out." if pairs.left_out else ""
        own = sum(pair.source == "pairs" for pair in pairs.pairs)
        sentences = []
        if own < len(pairs.pairs):
            sentences.append(
                "Intervals are the race's: paired by item, valid at every look, those of one config's duels together "
                f"at {plan.race.confidence:.0%}. That of a stop is the one on which the race decided: the config is "
                f"surely not better by the margin of {plan.race.margin:g}."
            )
        if own:
            sentences.append(
                f"{own:,} of {len(pairs.pairs):,} have no duel: paired by item, betting without replacement, valid "
                f"at every look; each at {pairs.confidence_each:.3%}, so that with {pairs.confidence:.0%} all hold at "
                "once (Bonferroni)."
            )
        said["pairs"] = " ".join(sentences) + left
    return said


def names_its_knobs(row: Row) -> bool:
    """Return whether the name of a config says its knobs already, as those of a grid do."""
    return row.name == ",".join(f"{name}={knob_value(value)}" for name, value in row.knobs.items())


def scale(estimates: Sequence[Projected]) -> tuple[float, float]:
    """Return the ends of the bars: those of all intervals together, or the metric's range before the first score."""
    known = [at for at in estimates if at.n]
    if not known:
        return estimates[0].value_range if estimates else (0.0, 1.0)
    return min(at.lower for at in known), max(at.upper for at in known)


def _surely_behind(row: Row, report: ExperimentReport) -> bool:
    if row.behind is None:
        return False
    return row.behind.lower > 0 if report.board.higher_is_better else row.behind.upper < 0


def _some(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
