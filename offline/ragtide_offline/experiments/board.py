"""The leaderboard of an experiment: projected estimates with intervals, cost and latency of every config. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf, isclose
from typing import Any, Final, Literal

import numpy as np

from ragtide_aggregator.statistics.intervals.intervals import Interval, ratio
from ragtide_runtime.data_frames import Library, frame_of
from ragtide_schemas import METRICS, Kind, MetricDefinition
from ragtide_schemas.experiments import IntervalOptions
from ragtide_schemas.html_tables import html_table
from ragtide_schemas.metric_definitions import AGENT_CALLS, AGENT_WASTED, ANSWER_COST, MATCH
from ragtide_schemas.printable import short_repr
from ragtide_schemas.slopes import BROKEN_RETRIEVER, is_blind, slopes_of

from .drafts import name_from, value_text
from .projections import Projection, difference_of, differences, projection_of, race_evidence, weighted_projection
from .results import Result
from .state import ConfigStatus, ExperimentState

RACED_MAX: Final = 100
"""With more configs a leaderboard has no race intervals of running configs, because each is slow to compute."""

_COLUMNS: Final = (
    "name", "number", "status", "n_items", "n_failed", "n_unlabeled", "cost_usd", "tokens", "latency_s", "pareto",
)  # fmt: skip
"""Fields of a row that are columns of the data frame."""

LATENCIES: Final = (0.5, 0.95)
"""Quantiles of latency on the leaderboard."""

OTHER_DOCUMENTS: Final = 0.05
"""From this share of items with different documents the configs count as different in what they retrieve."""

LONGER_CONTEXT: Final = 1.2
"""From this ratio of the mean lengths of the retrieved documents the contexts of two configs differ in length."""

VALUE_CHARS: Final = 24
"""Most characters of a parameter's value in the label of a config."""

LABEL_CHARS: Final = 80
"""Characters from which the label of a config leaves out its further parameters."""

Price = Literal["cost", "latency"]
"""The quantity that quality is weighed against: the mean cost of an item, or seconds where nothing has a cost."""


@dataclass(frozen=True, slots=True, repr=False)
class BoardRow:
    """The row of one config on the leaderboard."""

    name: str
    number: int
    """Its number, from 0, in the order in which configs were added."""
    parameters: dict[str, Any]
    parent: str | None
    status: str
    """`running`, `stopped`, `deleted`, or `complete` after a run on all items."""
    n_items: int
    """Items that were compared while the config ran."""
    n_failed: int
    """Failed calls among these items, without an answer and scores."""
    n_unlabeled: int
    """Answers to these items that could not be labeled."""
    n_executed: int
    """All executions of the config, including items that are not compared yet."""
    estimates: dict[str, Projection]
    """Estimates by metric."""
    cost_usd: float
    """Cost of all answers and their labels."""
    tokens: int
    latency_s: float | None
    """Mean seconds of an answer."""
    latency_quantiles_s: dict[str, float]
    behind: Interval[float, float] | None = None
    """Mean of `against` minus mean of this config, on the items that both have; None for the leader."""
    against: str | None = None
    """The config of the comparison: the config because of which the race stopped this one, otherwise the leader."""
    pareto: bool = False
    """Whether no other config is both better and cheaper; faster, where nothing has a cost."""
    label: str = ""
    """The config in words, different for every config of a leaderboard: its own name, or else the parameters in which
    the configs differ."""
    stopped_by: str | None = None
    reason: str | None = None
    """Reason of the stop."""

    def __repr__(self) -> str:
        """Return name, status and the means, in bounded length."""
        means = {name: projection.estimate for name, projection in self.estimates.items()}
        fields: list[tuple[str | None, object]] = [
            (None, self.name),
            ("status", self.status),
            ("n_items", self.n_items),
            ("means", means),
            ("cost_usd", self.cost_usd),
        ]
        return short_repr("BoardRow", fields)

    @property
    def own_name(self) -> str | None:
        """The name of the config; None if it only repeats the parameters."""
        return None if self.parameters and self.name == name_from(self.parameters) else self.name

    @property
    def title(self) -> str:
        """The config in a sentence: its label and its number."""
        return f"{self.label or self.name} (#{self.number})"

    @property
    def cost_per_item_usd(self) -> float:
        """The mean cost of an answer with its labels."""
        return self.cost_usd / self.n_executed if self.n_executed else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Board:
    """The leaderboard of an experiment."""

    run: str
    metric: str
    higher_is_better: bool
    compared: int
    """Items up to the most recent comparison point."""
    population_size: int
    shard: int
    """Number of complete shards."""
    shards: int
    paused: str | None
    """Reason of a pause; None while the experiment is not paused."""
    completed: bool
    rows: list[BoardRow] = field(default_factory=list)
    """The leader first, then running configs, then stopped configs, each group by estimate."""
    calls_total: int = 0
    """Calls that every config, clones and deleted ones too, would need on every item."""
    executed: int = 0
    """Calls of these that were made."""
    calls_saved: int = 0
    """Calls of these that are not needed: of stopped and deleted configs, of copied answers, and all that were not made
    once the experiment is complete. The others are still to be made."""
    saved_usd: float = 0.0
    """About the cost of the saved calls in US dollars, at the mean cost of each config so far."""
    cost_usd: float = 0.0
    tokens: int = 0
    margin: float | None = None
    """Difference that does not matter to the race; None without a race."""
    alpha: float | None = None
    """Largest probability that any stop of the race is wrong; None without a race."""
    outlook: Projection | None = None
    """Mean of the leader over other items, if these items are a random sample of them; None while not all have run."""
    price: Price = "cost"
    """The quantity that quality is weighed against."""
    traffic: str | None = None
    """What the estimates stand for, if the items are drawn rows."""
    warning: str | None = None
    """Sentences if the metric of the race is not fit for the choice: the configs retrieve different documents, and it
    does not follow a broken retriever; or contexts of different lengths, and it is a share of them."""

    @property
    def labels(self) -> dict[str, str]:
        """The label of each config by its name."""
        return {row.name: row.label for row in self.rows}

    @property
    def share_of_work(self) -> float:
        """Calls made, as a share of all calls of every config on every item."""
        return self.executed / self.calls_total if self.calls_total else 0.0

    @property
    def leader(self) -> BoardRow | None:
        """The best config so far; None if no config has a score."""
        first = self.rows[0] if self.rows else None
        return first if first is not None and _value(first, self.metric) is not None else None

    def quality_per_usd(self, row: BoardRow) -> Interval[float | None, float | None] | None:
        """Return the mean of the metric of the race divided by the mean cost of an answer of a config, without labels.

        The interval holds whenever those of both means do (`ratio`). None without costs, and for a metric that is not
        better when it is higher, from 0 on.
        """
        quality, cost = row.estimates.get(self.metric), self.per_item(row, ANSWER_COST)
        if quality is None or cost is None or quality.estimate is None:
            return None
        if not self.higher_is_better or quality.kind is Kind.DISTRIBUTIVE or quality.value_range[0] < 0:
            return None
        return ratio(Interval(quality.estimate, quality.lower, quality.upper), cost)

    def per_item(self, row: BoardRow, metric: MetricDefinition) -> Interval[float, float] | None:
        """Return the mean of a count or an amount, whose estimate is a total, for an item; None without a value.

        Items without the number are left out: failed calls have no cost, and an answer without calls wastes none.
        """
        total = row.estimates.get(metric.name)
        if total is None or total.estimate is None:
            return None
        # Each of the items that the total is of adds at most `upper`.
        items = total.value_range[1] / metric.upper
        return Interval(total.estimate / items, total.lower / items, total.upper / items)

    @property
    def counts(self) -> dict[str, MetricDefinition]:
        """Counts of an agent's calls that a config has, by the title of their column; empty without agents."""
        counts = {"calls a run": AGENT_CALLS, "wasted": AGENT_WASTED}
        return {
            title: metric for title, metric in counts.items() if any(self.per_item(row, metric) for row in self.rows)
        }

    @property
    def has_quality_per_usd(self) -> bool:
        """Whether a config has a quality per dollar."""
        return any(map(self.quality_per_usd, self.rows))

    def __repr__(self) -> str:
        """Return progress and leader, in bounded length."""
        leader = self.leader
        fields: list[tuple[str | None, object]] = [
            (None, self.run),
            ("metric", self.metric),
            ("configs", len(self.rows)),
            ("compared", self.compared),
            ("of", self.population_size),
            ("completed", self.completed),
            ("leader", None if leader is None else leader.name),
        ]
        return short_repr("Board", fields)

    def _repr_html_(self) -> str:
        columns = ("#", "config", "status", self.metric, "lower", "upper", "items", "failed", "cost $", "p50 s")
        rows = [
            (
                row.number, row.name, row.status, mean.estimate, mean.lower, mean.upper, row.n_items, row.n_failed,
                row.cost_usd, row.latency_quantiles_s.get("p50"),
            )
            for row in self.rows
            if (mean := row.estimates[self.metric])
        ]  # fmt: skip
        done = "complete" if self.completed else self.paused or "not complete"
        return html_table(columns, rows, caption=f"{self.run}: {self.compared:,} of {self.population_size:,}, {done}")

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a row for each config as a data frame of pandas, or of Polars if only that is installed.

        Raises:
            ConfigurationError: neither is installed.
        """
        rows = [
            {
                **{f"parameter.{name}": value for name, value in row.parameters.items()},
                **{name: getattr(row, name) for name in _COLUMNS},
                **{metric: projection.estimate for metric, projection in row.estimates.items()},
                **{f"{metric}.lower": projection.lower for metric, projection in row.estimates.items()},
                **{f"{metric}.upper": projection.upper for metric, projection in row.estimates.items()},
            }
            for row in self.rows
        ]
        return frame_of(rows, list(dict.fromkeys([*_COLUMNS, *(name for row in rows for name in row)])), library)

    def as_dict(self) -> dict[str, Any]:
        """Return the board as JSON fields."""
        ratios = [self.quality_per_usd(row) for row in self.rows]
        rows = [
            {
                **asdict(row),
                "quality_per_usd": None if per_usd is None else asdict(per_usd),
                "per_run": {
                    metric.name: asdict(mean)
                    for metric in self.counts.values()
                    if (mean := self.per_item(row, metric)) is not None
                },
            }
            for row, per_usd in zip(self.rows, ratios, strict=True)
        ]
        fields = {**asdict(self), "rows": rows, "share_of_work": self.share_of_work}
        return fields if self.traffic else {name: value for name, value in fields.items() if name != "traffic"}


def board(state: ExperimentState, *, metrics: Iterable[str] | None = None, confidence: float | None = None) -> Board:
    """Return the leaderboard.

    Args:
        metrics: metrics to estimate; all scored metrics unless given.
        confidence: level of the estimates' intervals; that of the plan unless given.
    """
    plan = state.plan
    counted = {
        status.config.name: [result for _, result in state.counted(status.config.name)] for status in state.shown
    }
    if metrics is None:
        events = (result.event for results in counted.values() for result in results if result.event is not None)
        metrics = dict.fromkeys([plan.metric, *(metric for event in events for metric in event.scores)])
    options = plan.intervals if confidence is None else plan.intervals.model_copy(update={"confidence": confidence})
    estimates = _estimates(state, counted, list(metrics), options)
    rows = [_row(state, status, counted[status.config.name], estimates[status.config.name]) for status in state.shown]
    sign = 1.0 if plan.higher_is_better else -1.0
    price: Price = "cost" if any(row.cost_usd for row in rows) else "latency"
    rows = _with_pareto(_ranked(_with_labels(rows), plan.metric, sign), plan.metric, sign, price)
    made, saved, saved_usd = _count_calls(state)
    warnings = [warning for warning in (_other_documents(state), _longer_contexts(state)) if warning is not None]
    if rows and _value(rows[0], plan.metric) is not None:
        rows = [rows[0], *_with_differences(state, rows[0].name, rows[1:])]
    return Board(
        run=plan.run,
        metric=plan.metric,
        higher_is_better=plan.higher_is_better,
        compared=state.compared,
        population_size=plan.population_size,
        shard=sum(end <= state.compared for end in plan.shard_ends()),
        shards=plan.shards,
        paused=state.paused,
        completed=state.completed,
        rows=rows,
        calls_total=len(state.configs) * plan.population_size,
        executed=made,
        calls_saved=saved,
        saved_usd=saved_usd,
        cost_usd=state.results.cost_usd,
        tokens=state.results.tokens,
        margin=plan.race.margin if plan.race.enabled else None,
        alpha=1 - plan.race.confidence if plan.race.enabled else None,
        outlook=_outlook(state, rows[0], counted[rows[0].name], options) if rows else None,
        price=price,
        traffic=None if state.weights is None else state.weights.sentence,
        warning=" ".join([*warnings, ADVICE]) if warnings else None,
    )


ADVICE: Final = (
    f"Decide by a measure of your own against right answers, or by a judge; without them compare {MATCH.name} between "
    "configs with equally many documents."
)
"""What to do if the metric of the race is not fit for the choice."""


def _count_calls(state: ExperimentState) -> tuple[int, int, float]:
    """Return the calls that were made, those that are not needed, and about their cost in US dollars."""
    size, made, saved, saved_usd = state.plan.population_size, 0, 0, 0.0
    for status in state.configs.values():
        results = [result for result in state.results.by_config[status.config.name].values() if result.execution]
        copied = sum(result.execution is not None and result.execution.copied_from is not None for result in results)
        called = len(results) - copied
        not_made = copied if status.running and not state.completed else max(size - called, 0)
        made, saved = made + called, saved + not_made
        saved_usd += not_made * sum(result.cost_usd for result in results) / max(len(results), 1)
    return made, saved, saved_usd


def _with_labels(rows: Sequence[BoardRow]) -> list[BoardRow]:
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    texts = [{name: value_text(value) for name, value in row.parameters.items()} for row in rows]
    # A single config has no difference to show, so all its parameters are shown.
    differing = [name for name in names if len(rows) == 1 or len({values.get(name) for values in texts}) > 1]
    labels = [
        row.own_name or _parameters_text({name: values[name] for name in differing if name in values}) or row.name
        for row, values in zip(rows, texts, strict=True)
    ]
    return [
        replace(row, label=label if labels.count(label) == 1 else f"{label} #{row.number}")
        for row, label in zip(rows, labels, strict=True)
    ]


def _parameters_text(values: Mapping[str, str]) -> str:
    parts: list[str] = []
    for name, text in values.items():
        if sum(map(len, parts)) > LABEL_CHARS:
            return f"{', '.join(parts)}, …"
        parts.append(f"{name}={text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1].rstrip() + '…'}")
    return ", ".join(parts)


def _longer_contexts(state: ExperimentState) -> str | None:
    definition = METRICS.get(state.plan.metric)
    if definition is None or not definition.of_context:
        return None
    lengths = [
        {
            item: result.execution.context_chars
            for item, result in state.counted(status.config.name)
            if result.execution is not None and result.execution.context_chars is not None
        }
        for status in state.shown
    ]
    most = max(lengths, key=len, default={})
    ratios = [1.0]
    for of_config in lengths:
        common = most.keys() & of_config.keys()
        first, second = (sum(chars[item] for item in common) for chars in (most, of_config))
        if first and second:
            ratios.append(second / first)
    if max(ratios) < LONGER_CONTEXT * min(ratios):
        return None
    return (
        f"The documents that a config retrieved are up to {max(ratios) / min(ratios):.1f} times as long as those of "
        f"another config, and {state.plan.metric} is a share of them, which each further document lowers: it cannot "
        "choose the number of documents or the size of chunks."
    )


def _other_documents(state: ExperimentState) -> str | None:
    metric, labelers = state.plan.metric, set[str]()
    matches: dict[int, list[float]] = {}
    for status in state.shown:
        for item, result in state.counted(status.config.name):
            if result.event is None:
                continue
            if metric in result.event.scores:
                labelers.add(result.event.labeler)
            if MATCH.name in result.event.scores:
                matches.setdefault(item, []).append(result.event.scores[MATCH.name])
    blind = [name for name in sorted(labelers) if is_blind(slopes_of(name, metric), BROKEN_RETRIEVER)]
    pairs = [scores for scores in matches.values() if len(scores) > 1]
    different = sum(not isclose(min(scores), max(scores), abs_tol=1e-9) for scores in pairs)
    if not blind or different < max(OTHER_DOCUMENTS * len(pairs), 1):
        return None
    return (
        f"The configs retrieved different documents for {different:,} of {len(pairs):,} items, and {metric} of the "
        f"labeler {blind[0]} does not see a broken retriever: random documents may win."
    )


def _outlook(
    state: ExperimentState, leader: BoardRow, counted: list[Result], options: IntervalOptions
) -> Projection | None:
    metric = state.plan.metric
    at = leader.estimates[metric]
    if not at.exact or at.kind is Kind.DISTRIBUTIVE:
        return None
    beyond = options.model_copy(update={"use_fpc": False})
    return _estimates(state, {leader.name: counted}, [metric], beyond)[leader.name][metric]


def _with_differences(state: ExperimentState, leader: str, rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Return rows with their differences: to the config because of which the race stopped one, or to the leader."""
    lost = {row.name: evidence for row in rows if (evidence := race_evidence(state, row.name)) is not None}
    open_ = [row.name for row in rows if row.name not in lost]
    gaps = dict(zip(open_, differences(state, leader, open_, raced=len(state.configs) <= RACED_MAX), strict=True))
    result = []
    for row in rows:
        evidence, gap = lost.get(row.name), gaps.get(row.name)
        if evidence is not None:
            result.append(replace(row, behind=difference_of(evidence), against=evidence.by))
        elif gap is not None:
            result.append(replace(row, behind=gap.difference, against=leader))
        else:
            result.append(row)
    return result


def _estimates(
    state: ExperimentState, counted: dict[str, list[Result]], metrics: Sequence[str], options: IntervalOptions
) -> dict[str, dict[str, Projection]]:
    plan = state.plan
    result: dict[str, dict[str, Projection]] = {name: {} for name in counted}
    if state.weights is not None:
        items = {name: dict(state.counted(name)) for name in counted}
        return {
            name: {
                metric: weighted_projection(
                    state.weights,
                    {item: result.score(metric) for item, result in items[name].items()},
                    state.results.definition(plan, metric),
                    options=options,
                )
                for metric in metrics
            }
            for name in counted
        }
    for metric in metrics:
        values = [[result.score(metric) for result in results] for results in counted.values()]
        scores = [[score for score in row if not np.isnan(score)] for row in values]
        projections = projection_of(
            scores,
            state.results.definition(plan, metric),
            missing=[len(row) - len(known) for row, known in zip(values, scores, strict=True)],
            population=plan.population_size,
            options=options,
        )
        for name, projection in zip(counted, projections, strict=True):
            result[name][metric] = projection
    return result


def _row(
    state: ExperimentState, status: ConfigStatus, counted: Sequence[Result], estimates: dict[str, Projection]
) -> BoardRow:
    config = status.config
    results = [result for result in state.results.by_config[config.name].values() if result.execution is not None]
    executions = [result.execution for result in results if result.execution is not None]
    latencies = [
        execution.latency_s for execution in executions if execution.failure is None and execution.copied_from is None
    ]
    quantiles = np.quantile(latencies, LATENCIES).tolist() if latencies else []
    command = None if status.running else status.last
    return BoardRow(
        name=config.name,
        number=status.index,
        parameters=dict(config.parameters),
        parent=config.parent,
        status="complete" if status.running and len(counted) == state.plan.population_size else status.status,
        n_items=len(counted),
        n_failed=sum(result.outcome == "failed" for result in counted),
        n_unlabeled=sum(result.outcome == "unlabeled" for result in counted),
        n_executed=len(results),
        estimates=estimates,
        cost_usd=sum(result.cost_usd for result in results),
        tokens=sum(result.tokens for result in results),
        latency_s=float(np.mean(latencies)) if latencies else None,
        latency_quantiles_s={
            f"p{round(100 * level)}": value for level, value in zip(LATENCIES, quantiles, strict=False)
        },
        stopped_by=None if command is None else command.by,
        reason=None if command is None else command.reason,
    )


def _value(row: BoardRow, metric: str) -> float | None:
    return row.estimates[metric].estimate


def _ranked(rows: list[BoardRow], metric: str, sign: float) -> list[BoardRow]:
    def rank(row: BoardRow) -> tuple[bool, bool, float]:
        value = _value(row, metric)
        return value is None, row.status == "stopped", 0.0 if value is None else -sign * value

    return sorted(rows, key=rank)


def price_of(row: BoardRow, price: Price) -> float | None:
    """Return the mean cost of an item in US dollars, or the median latency in seconds; None without an answer."""
    return row.cost_per_item_usd if price == "cost" else row.latency_quantiles_s.get("p50")


def _with_pareto(rows: list[BoardRow], metric: str, sign: float, price: Price) -> list[BoardRow]:
    points = [
        (None if (v := _value(row, metric)) is None else sign * v, inf if (p := price_of(row, price)) is None else p)
        for row in rows
    ]
    marked = []
    for row, (value, paid) in zip(rows, points, strict=True):
        beaten = value is None or any(
            other is not None and other >= value and its_price <= paid and (other > value or its_price < paid)
            for other, its_price in points
        )
        marked.append(replace(row, pareto=not beaten))
    return marked
