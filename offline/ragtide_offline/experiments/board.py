"""The leaderboard of an experiment: projected estimates with intervals, cost and latency of every config. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_schemas.experiments import Progress, Standing

from .decisions import Judging
from .gaps import decided, difference_of, gaps
from .projecting import Projected, projected
from .results import Book, Cell

RACED_MAX: Final = 100
"""Configs up to which a leaderboard has the race's intervals of those that still run: each takes a while to find."""

LATENCIES: Final = (0.5, 0.95)
"""Quantiles of latency that are shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one config on the board."""

    name: str
    number: int
    """Its number, from 0, in the order in which configs came."""
    knobs: dict[str, Any]
    parent: str | None
    status: str
    """`running`, `stopped`, `deleted`, or `complete`: it was run on all items."""
    n_items: int
    """Items it counts on: those that were looked at while it ran."""
    n_failed: int
    """Of these, calls that failed: they are no answers and have no scores."""
    n_unlabeled: int
    """Of these, answers that could not be labeled."""
    n_executed: int
    """Calls in all, also beyond what counts."""
    estimates: dict[str, Projected]
    """By metric."""
    cost_usd: float
    """The cost of all its answers and their labels."""
    tokens: int
    latency_s: float | None
    """Mean seconds of an answer."""
    latency_quantiles_s: dict[str, float]
    behind: Difference | None = None
    """Mean of `against` minus its own, on the items both have, in the race's metric; None for the leader."""
    against: str | None = None
    """The config it is compared with: the one for which the race stopped it, otherwise the leader."""
    pareto: bool = False
    """Whether no other is both better and cheaper."""
    stopped_by: str | None = None
    reason: str | None = None
    """Why it was stopped."""

    @property
    def cost_per_item_usd(self) -> float:
        """The mean cost of an answer with its labels."""
        return self.cost_usd / self.n_executed if self.n_executed else 0.0


@dataclass(frozen=True, slots=True)
class Board:
    """Where an experiment stands, for people and programs."""

    run: str
    metric: str
    higher_is_better: bool
    looked: int
    """Items that were looked at."""
    population_size: int
    shard: int
    """Number of shards that are complete."""
    shards: int
    halted: str | None
    completed: bool
    rows: list[Row] = field(default_factory=list)
    """The leader first; then those that run, then those that were stopped, each by their estimate."""
    executed: int = 0
    """Calls in all."""
    share_of_work: float = 0.0
    """Of the calls that running every config on every item would take."""
    cost_usd: float = 0.0
    tokens: int = 0

    @property
    def leader(self) -> Row | None:
        """The best config so far; None without a score."""
        first = self.rows[0] if self.rows else None
        return first if first is not None and _value(first, self.metric) is not None else None

    def as_dict(self) -> dict[str, Any]:
        """Return the board as JSON fields."""
        return asdict(self)


def board(
    progress: Progress, book: Book, *, judging: Judging | None = None, metrics: Iterable[str] | None = None
) -> Board:
    """Return the leaderboard.

    Args:
        progress: where the experiment stands.
        book: what was scored.
        judging: the race along the log, whose intervals are shown; without it only those of its decisions are.
        metrics: which metrics to estimate; all that have a score unless given.
    """
    plan = progress.plan
    shown = [one for one in progress.configs.values() if one.status != "deleted"]
    counted = {one.config.name: [cell for _, cell in book.counted(progress, one)] for one in shown}
    wanted = list(metrics) if metrics is not None else _metrics(counted.values(), plan.metric)
    estimates = _estimates(progress, book, counted, wanted)
    rows = [_row(progress, book, one, counted[one.config.name], estimates[one.config.name]) for one in shown]
    rows = _ordered(rows, plan.metric, higher_is_better=plan.higher_is_better)
    rows = _marked(rows, plan.metric, higher_is_better=plan.higher_is_better)
    leader = rows[0] if rows and _value(rows[0], plan.metric) is not None else None
    if leader is not None:
        rows = [leader, *_compared(progress, book, judging, leader.name, rows[1:])]
    everything = [cell for cells in book.cells.values() for cell in cells.values() if cell.execution is not None]
    whole = len(plan.configs) * plan.population_size
    return Board(
        run=plan.run,
        metric=plan.metric,
        higher_is_better=plan.higher_is_better,
        looked=progress.looked,
        population_size=plan.population_size,
        shard=sum(end <= progress.looked for end in plan.shard_ends()),
        shards=plan.shards,
        halted=progress.halted,
        completed=progress.completed,
        rows=rows,
        executed=len(everything),
        share_of_work=len(everything) / whole,
        cost_usd=sum(cell.cost_usd for cell in everything),
        tokens=sum(cell.tokens for cell in everything),
    )


def _compared(progress: Progress, book: Book, judging: Judging | None, leader: str, rows: Sequence[Row]) -> list[Row]:
    """Return rows with their differences: to the config for which the race stopped one, otherwise to the leader."""
    races = judging if len(progress.configs) <= RACED_MAX else None
    lost = {row.name: evidence for row in rows if (evidence := decided(progress, row.name)) is not None}
    open_ = [row.name for row in rows if row.name not in lost]
    found = dict(zip(open_, gaps(progress, book, races, leader, open_), strict=True))
    result = []
    for row in rows:
        evidence, gap = lost.get(row.name), found.get(row.name)
        if evidence is not None:
            result.append(replace(row, behind=difference_of(evidence), against=evidence.by))
        elif gap is not None:
            result.append(replace(row, behind=gap.difference, against=leader))
        else:
            result.append(row)
    return result


def _metrics(counted: Iterable[Sequence[Cell]], first: str) -> list[str]:
    names = dict.fromkeys([first])
    for cells in counted:
        for cell in cells:
            if cell.event is not None:
                names |= dict.fromkeys(cell.event.scores)
    return list(names)


def _estimates(
    progress: Progress, book: Book, counted: dict[str, list[Cell]], metrics: Sequence[str]
) -> dict[str, dict[str, Projected]]:
    """Return the estimates of every config by metric."""
    plan = progress.plan
    result: dict[str, dict[str, Projected]] = {name: {} for name in counted}
    for metric in metrics:
        scores = [[x for x in (cell.score(metric) for cell in cells) if not np.isnan(x)] for cells in counted.values()]
        missing = [len(cells) - len(known) for cells, known in zip(counted.values(), scores, strict=True)]
        found = projected(
            scores, book.definition(plan, metric),
            missing=missing, population=plan.population_size, options=plan.intervals,
        )  # fmt: skip
        for name, one in zip(counted, found, strict=True):
            result[name][metric] = one
    return result


def _row(
    progress: Progress, book: Book, standing: Standing, cells: Sequence[Cell], estimates: dict[str, Projected]
) -> Row:
    plan, name = progress.plan, standing.config.name
    executed = [cell for cell in book.cells[name].values() if cell.execution is not None]
    latencies = [
        cell.execution.latency_s
        for cell in executed
        if cell.execution is not None and cell.execution.failure is None and cell.execution.copied_from is None
    ]
    whole = standing.status == "running" and len(cells) == plan.population_size
    quantiles = np.quantile(latencies, LATENCIES).tolist() if latencies else []
    order = standing.last if standing.status != "running" else None
    return Row(
        name=name,
        number=standing.place,
        knobs=dict(standing.config.knobs),
        parent=standing.config.parent,
        status="complete" if whole else standing.status,
        n_items=len(cells),
        n_failed=sum(cell.outcome == "failed" for cell in cells),
        n_unlabeled=sum(cell.outcome == "unlabeled" for cell in cells),
        n_executed=len(executed),
        estimates=estimates,
        cost_usd=sum(cell.cost_usd for cell in executed),
        tokens=sum(cell.tokens for cell in executed),
        latency_s=float(np.mean(latencies)) if latencies else None,
        latency_quantiles_s={
            f"p{round(100 * level)}": value for level, value in zip(LATENCIES, quantiles, strict=False)
        },
        stopped_by=None if order is None else order.by,
        reason=None if order is None else order.reason,
    )


def _value(row: Row, metric: str) -> float | None:
    return row.estimates[metric].estimate


def _ordered(rows: list[Row], metric: str, *, higher_is_better: bool) -> list[Row]:
    sign = 1.0 if higher_is_better else -1.0

    def rank(row: Row) -> tuple[bool, bool, float]:
        value = _value(row, metric)
        return value is None, row.status == "stopped", 0.0 if value is None else -sign * value

    return sorted(rows, key=rank)


def _marked(rows: list[Row], metric: str, *, higher_is_better: bool) -> list[Row]:
    """Return the rows with those marked that no other beats in both quality and cost of an item."""
    sign = 1.0 if higher_is_better else -1.0
    points = [(None if (v := _value(row, metric)) is None else sign * v, row.cost_per_item_usd) for row in rows]
    marked = []
    for row, (value, cost) in zip(rows, points, strict=True):
        beaten = value is None or any(
            other is not None and other >= value and price <= cost and (other > value or price < cost)
            for other, price in points
        )
        marked.append(replace(row, pareto=not beaten))
    return marked
