"""The page of an experiment's report: the values of its template, and sentences about the meaning of the numbers."""

from collections.abc import Sequence
from typing import Final

from ragtide_schemas import Kind

from ..experiments.board import BoardRow
from ..experiments.projections import Projection
from . import charts
from .content import ExperimentReport
from .findings import parameter_value
from .pages import Format, number, page

ANYTIME: Final = ("betting", "empirical_bernstein", "running", "auto")
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
            "parameters_shown": not all(names_its_parameters(row) for row in board.rows),
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
    """Return the outcome in a sentence or two."""
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
    """Return the status of the experiment in a few words."""
    if report.board.paused is not None and not report.board.completed:
        return f"paused: {report.board.paused}"
    return "complete" if report.board.completed else "not complete"


def meaning(report: ExperimentReport) -> dict[str, str]:
    """Return the meaning of the numbers in sentences, by the part of the page."""
    plan, options = report.plan, report.plan.intervals
    level = f"{options.confidence:.0%}"
    looks = (
        "holds at every look"
        if options.strategy in ANYTIME
        else "holds at one look at a number of items fixed beforehand"
    )
    kind = next((row.estimates[report.board.metric].kind for row in report.board.rows), Kind.ALGEBRAIC)
    projected = "total" if kind is Kind.DISTRIBUTIVE else "mean"
    strategy = {"auto": "betting (asymptotic for counts)"}.get(options.strategy, options.strategy)
    said = {
        "estimates": f"Estimates of the {projected} over all {plan.population_size:,} items; intervals {strategy}, "
        f"{level}; cost and latency are of answers that were given",
        "intervals": f"With a probability of {level} the interval of a config holds its {projected} over all items, "
        f"and it {looks}. Each interval is for one config alone: with many configs some intervals miss, and the leader "
        "was probably lucky. To decide between two configs take their difference on the same items, which is narrower.",
        "race": "",
        "pairs": "",
    }
    if plan.race.enabled:
        said["race"] = (
            f"The race stops a config once it is surely not better than another by {plan.race.margin:g} or more. The "
            f"probability that any of its stops is wrong is {1 - plan.race.confidence:.2g} at most, at all looks "
            "together. An e-value is the factor by which a bettor against the config has multiplied its capital; a "
            "stop needs 1 / alpha."
        )
    if report.pairs is not None:
        pairs = report.pairs
        left = f" {pairs.left_out:,} configs further down are left out." if pairs.left_out else ""
        own = sum(pair.source == "pairs" for pair in pairs.pairs)
        sentences = []
        if own < len(pairs.pairs):
            sentences.append(
                "Intervals are the race's: paired by item, valid at every look; those of all duels of a config hold "
                f"together at {plan.race.confidence:.0%}. For a stop it is the interval on which the race decided: the "
                f"config is surely not better by the margin of {plan.race.margin:g}."
            )
        if own:
            sentences.append(
                f"{own:,} of {len(pairs.pairs):,} have no duel: paired by item, betting without replacement, valid "
                f"at every look; each at {pairs.confidence_each:.3%}, so that with {pairs.confidence:.0%} all hold at "
                "once (Bonferroni)."
            )
        said["pairs"] = " ".join(sentences) + left
    return said


def names_its_parameters(row: BoardRow) -> bool:
    """Return whether the name of a config shows its parameters, as the names of a grid do."""
    return row.name == ",".join(f"{name}={parameter_value(value)}" for name, value in row.parameters.items())


def scale(estimates: Sequence[Projection]) -> tuple[float, float]:
    """Return the ends of the bars: those of all intervals together, or the metric's range before the first score."""
    known = [at for at in estimates if at.n]
    if not known:
        return estimates[0].value_range if estimates else (0.0, 1.0)
    return min(at.lower for at in known), max(at.upper for at in known)


def _surely_behind(row: BoardRow, report: ExperimentReport) -> bool:
    if row.behind is None:
        return False
    return row.behind.lower > 0 if report.board.higher_is_better else row.behind.upper < 0


def _some(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
