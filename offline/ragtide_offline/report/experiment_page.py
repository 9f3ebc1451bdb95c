"""The page of an experiment's report: the values of its template, and sentences that explain its numbers."""

from collections.abc import Sequence
from typing import Final

from ragtide_schemas import Kind
from ragtide_schemas.experiments import RACE, Plan
from ragtide_web.look.amounts import number, usd

from ..experiments.board import Board, BoardRow
from ..experiments.projections import Projection
from ..experiments.verdict import ExperimentVerdict, stop_text, surely_behind, verdict_of, verdict_text
from . import charts
from .content import ExperimentReport
from .pages import page, parameters

ANYTIME: Final = ("betting", "empirical_bernstein", "running", "auto")
"""Strategies whose intervals are valid at every look."""

EXACT: Final = (
    " Of these questions, exactly: all have run, so no uncertainty about these questions is left. An interval for "
    "other questions like these holds if these are a random sample of them."
)
"""Sentences about exact numbers."""


def experiment_page(report: ExperimentReport) -> str:
    """Return the report of an experiment as a page."""
    board, verdict = report.board, verdict_of(report.board)
    pairs = report.pairs.pairs if report.pairs is not None else ()
    sizes = {frozenset({pair.first, pair.second}): pair.n for pair in pairs}
    return page(
        "experiment",
        {
            "report": report,
            "made_at": report.made_at,
            "verdict": verdict_text(verdict),
            "facts": facts(report, verdict),
            "behind_n": {row.name: sizes.get(frozenset({row.name, row.against or ""})) for row in board.rows},
            "headline": headline(report),
            "status": status(report),
            "meaning": meaning(report),
            "scale": scale([row.estimates[board.metric] for row in board.rows]),
            "others": [name for name in (board.rows[0].estimates if board.rows else {}) if name != board.metric],
            "numbers": {row.name: row.number for row in board.rows},
            "stops": stops(report),
            "labels": report.board.labels,
            "pairs": {(pair.first, pair.second): pair for pair in pairs},
            "cost": charts.cost_chart(board),
            "curves": charts.curve_chart(board, report.curves),
            "frame": charts.FRAME,
        },
    )


def headline(report: ExperimentReport) -> str:
    """Return the outcome in a sentence or two."""
    board, leader = report.board, report.board.leader
    if leader is None:
        return f"No answer has a score of {board.metric} yet."
    unscored = [row.title for row in board.rows[1:] if not row.estimates[board.metric].n]
    rivals = [
        row.title
        for row in board.rows[1:]
        if row.status != "stopped" and row.title not in unscored and not surely_behind(row, board)
    ]
    stopped = sum(row.status == "stopped" for row in board.rows)
    parts = [_lead(leader, report)]
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


def _lead(leader: BoardRow, report: ExperimentReport) -> str:
    board, at = report.board, leader.estimates[report.board.metric]
    values = f" with {parameters(leader.parameters)}" if leader.own_name and leader.parameters else ""
    lead = f"{leader.title}{values} leads: {board.metric} {number(at.estimate)}"
    if not at.exact:
        return f"{lead} ({number(at.lower)} to {number(at.upper)}) after {at.n:,} items."
    beyond = board.outlook
    ends = (
        ""
        if beyond is None
        else f" For other questions like these expect {number(beyond.lower)} to {number(beyond.upper)}."
    )
    return f"{lead}, of these {at.n:,} questions, exactly.{ends}"


def stops(report: ExperimentReport) -> dict[str, str]:
    """Return what the race was sure of about each config that it stopped."""
    board, known = report.board, report.board.labels
    if board.leader is not None:
        known[board.leader.name] = "the leader"
    return {
        row.name: stop_text(row.behind, known[row.against], higher_is_better=board.higher_is_better)
        for row in board.rows
        if row.stopped_by == RACE and row.behind is not None and row.against in known
    }


def status(report: ExperimentReport) -> str:
    """Return the status of the experiment in a few words."""
    if report.board.paused is not None and not report.board.completed:
        return f"paused: {report.board.paused}"
    return "complete" if report.board.completed else "not complete"


def meaning_of(plan: Plan, board: Board) -> dict[str, str]:
    """Return the explanation of the leaderboard (`estimates`, `intervals`) and of the `race`."""
    options = plan.intervals
    level = f"{options.confidence:.0%}"
    looks = (
        "is valid at every look"
        if options.strategy in ANYTIME
        else "is valid once, at a number of items fixed in advance"
    )
    kind = next((row.estimates[board.metric].kind for row in board.rows), Kind.ALGEBRAIC)
    projected = "total" if kind is Kind.DISTRIBUTIVE else "mean"
    strategy = {"auto": "betting (asymptotic for counts)"}.get(options.strategy, options.strategy)
    said = {
        "estimates": f"Estimates of the {projected} over all {plan.population_size:,} items, with {level} intervals "
        f"({strategy}). Cost is a mean over all calls; latency is of answered calls",
        "intervals": f"With a probability of {level} the interval of a config contains its {projected} over all items. "
        f"It {looks}. Each interval is about one config: with many configs some intervals miss, and the leader was "
        "probably lucky. To decide between two configs use their difference on the same items: its interval is "
        "narrower." + (EXACT if any(row.estimates[board.metric].exact for row in board.rows) else ""),
        "race": "",
    }
    if plan.race.enabled:
        said["race"] = (
            f"The race stops a config once it is surely at most {plan.race.margin:g} better than another config. The "
            f"probability that any stop is wrong is at most {1 - plan.race.confidence:.2g}, over all looks. The "
            "e-value is the evidence against the config: a stop needs an e-value of 1 / alpha."
        )
    return said


def meaning(report: ExperimentReport) -> dict[str, str]:
    """Return the explanation of each part of the page."""
    plan, said = report.plan, {**meaning_of(report.plan, report.board), "pairs": ""}
    if report.pairs is not None:
        pairs = report.pairs
        left = f" {pairs.left_out:,} configs further down the leaderboard are left out." if pairs.left_out else ""
        own = sum(pair.source == "pairs" for pair in pairs.pairs)
        sentences = []
        if own < len(pairs.pairs):
            sentences.append(
                "The intervals are those of the race: paired by item, and valid at every look. The intervals of all "
                f"duels of a config hold together at {plan.race.confidence:.0%}. A stop shows the interval on which "
                f"the race decided: the config is surely at most {plan.race.margin:g}, the margin, better."
            )
        if own:
            sentences.append(
                f"{own:,} of {len(pairs.pairs):,} pairs have no duel in the race. Their intervals are paired by item, "
                f"by betting without replacement, and valid at every look. Each has the level "
                f"{pairs.confidence_each:.3%}, so that all hold together at {pairs.confidence:.0%} (Bonferroni)."
            )
        said["pairs"] = " ".join(sentences) + left
    return said


def scale(estimates: Sequence[Projection]) -> tuple[float, float]:
    """Return the ends of the bars: the range of all intervals, or the metric's range before the first score."""
    scored = [estimate for estimate in estimates if estimate.n]
    if not scored:
        return estimates[0].value_range if estimates else (0.0, 1.0)
    return min(estimate.lower for estimate in scored), max(estimate.upper for estimate in scored)


def facts(report: ExperimentReport, verdict: ExperimentVerdict) -> list[tuple[str, str, str]]:
    """Return label, value and remark of the numbers at the head of the page."""
    board = report.board
    saved = f"{verdict.calls_saved:.0%}"
    about = f"{board.calls_saved:,} calls" + (f", about {usd(board.saved_usd)}" if board.saved_usd else "")
    return [
        ("Questions", f"{board.compared:,}", f"of {board.population_size:,} compared"),
        ("Configs", f"{len(board.rows):,}", f"{verdict.stopped:,} stopped"),
        ("Calls", f"{board.executed:,}", f"of {board.calls_total:,}, {board.share_of_work:.0%}"),
        ("Calls saved", saved, about),
        ("Cost", usd(board.cost_usd), f"{board.tokens:,} tokens, answers and labels"),
    ]


def _some(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
