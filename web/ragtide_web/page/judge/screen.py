"""The judge on the page: dollars against limits, calls, share judged, agreement, and errors. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ragtide_aggregator.estimates.gold_errors import RMSE
from ragtide_aggregator.events.keys import COST, LATENCY
from ragtide_runtime.calls.call_counts import CallCounts, CallHistory
from ragtide_runtime.calls.endpoint_states import EndpointSpend, EndpointState
from ragtide_runtime.redis.keys import CallField
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_schemas import Estimate
from ragtide_schemas.metric_definitions import SELF_CONSISTENCY

ROWS: Final = 200
"""Most rows of a table."""
HOURS: Final = 48
"""Hours of the chart."""
COUNTED_HOURS: Final = 24
"""Newest hours whose calls are counted together."""
NEAR: Final = 0.9
"""Share of a limit from which it is marked."""
LEAST_USD: Final = 1e-6
"""Less is an error of rounding."""

STATES: Final = ("paused", "over budget", "busy", "last call failed", "answers")
"""Words of the states of an endpoint, the worst first."""


Bar = tuple[datetime, CallCounts, float, float, float]
"""The calls of an hour or a day, and left end, width and height of their bar from 0 to 100."""


@dataclass(frozen=True, slots=True)
class SpendChart:
    """The dollars of the last hours or days."""

    counts: Mapping[datetime, CallCounts]
    """The calls of each hour or day, the oldest first."""
    limit_usd: float | None
    spent_usd: float
    """Dollars of the present hour or day in the account of the limit, with reservations; 0 without a limit."""

    @property
    def bars(self) -> list[Bar]:
        """The bars, the oldest first."""
        step = 100 / max(len(self.counts), 1)
        return [
            (
                at,
                calls,
                round(place * step + 0.1 * step, 2),
                round(0.8 * step, 2),
                round(100 * max(calls.cost_usd, 0.0) / self.top_usd, 1),
            )
            for place, (at, calls) in enumerate(self.counts.items())
        ]

    @property
    def top_usd(self) -> float:
        """Dollars at the top of the chart."""
        limit = () if self.limit_usd is None else (self.limit_usd, self.spent_usd)
        return max([*(calls.cost_usd for calls in self.counts.values()), *limit], default=0.0) or 1.0

    @property
    def limit_y(self) -> float | None:
        """Place of the limit from 0 (top) to 100."""
        return None if self.limit_usd is None else round(100 - 100 * self.limit_usd / self.top_usd, 1)

    @property
    def present_usd(self) -> float:
        """Dollars of the present hour or day: of the account if there is one, else as counted."""
        return self.spent_usd if self.limit_usd is not None else list(self.counts.values())[-1].cost_usd

    @property
    def total_usd(self) -> float:
        """Dollars of all bars."""
        return sum(calls.cost_usd for calls in self.counts.values())

    @property
    def is_near(self) -> bool:
        """Whether the limit is nearly reached."""
        return self.limit_usd is not None and self.present_usd >= NEAR * self.limit_usd


@dataclass(frozen=True, slots=True)
class PipelineSpend:
    """Dollars of the calls for one pipeline."""

    pipeline: str | None
    """None for all pipelines that are not counted apart, and for calls whose pipeline is not known."""
    hours_usd: float
    """Dollars of the last `COUNTED_HOURS`."""
    days_usd: float
    share: float | None
    """Share of the dollars of the days; None if nothing was paid."""


def pipeline_spend(history: CallHistory) -> list[PipelineSpend]:
    """Return the dollars by pipeline, the most expensive first, and last those that belong to no named pipeline."""
    hours, days = history.newest(COUNTED_HOURS), history.all_days
    total = days.cost_usd
    if not total:
        return []
    named = [
        PipelineSpend(name, hours.by_pipeline.get(name, 0.0), usd, usd / total)
        for name, usd in days.by_pipeline.items()
    ][:ROWS]
    rest = [
        hours.cost_usd - sum(pipeline.hours_usd for pipeline in named),
        total - sum(pipeline.days_usd for pipeline in named),
    ]
    rest_hours, rest_days = (max(amount, 0.0) for amount in rest)
    if max(rest_hours, rest_days) > LEAST_USD:
        named.append(PipelineSpend(None, rest_hours, rest_days, rest_days / total))
    return named


@dataclass(frozen=True, slots=True)
class EndpointProcesses:
    """Processes that see an endpoint in the same state."""

    word: str
    """`paused`, `over budget`, `busy`, `last call failed` or `answers`."""
    model: str
    names: Sequence[str]
    detail: str
    """Last failure, or the period whose limit is reached; empty if there is none."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint: the judge, or a service."""

    name: str
    model: str
    """Model in the settings of this process; empty if it has none."""
    hours: SpendChart
    days: SpendChart
    total: CallCounts
    """Counts of the last `COUNTED_HOURS`."""
    pipelines: Sequence[PipelineSpend]
    """Dollars by pipeline, the most expensive of the last days first."""
    processes: Sequence[EndpointProcesses]
    """The worst state first."""
    in_flight: int
    """Concurrent calls of all processes, when each wrote its state."""
    calls_allowed: int
    """Most concurrent calls that the processes allowed then."""

    @property
    def asked(self) -> int:
        """Questions of the last hours: calls that were answered, and answers from the cache."""
        return self.total.outcomes.get("answered", 0) + self.cache_hits

    @property
    def cache_hits(self) -> int:
        """Answers from the cache."""
        return self.total.whole[CallField.CACHE_HITS]

    @property
    def saved_usd(self) -> float:
        """Probable price of the calls that the cache saved."""
        return self.total.dollars.get(CallField.SAVED_USD, 0.0)

    @property
    def failed(self) -> int:
        """Calls that failed."""
        return sum(count for outcome, count in self.total.outcomes.items() if outcome != "answered")


def endpoint_view(
    name: str,
    remote: RemoteSettings | None,
    history: CallHistory,
    *,
    model: str,
    spend: EndpointSpend,
    states: Mapping[str, EndpointState],
) -> EndpointView:
    """Return one endpoint.

    Args:
        name: of the labeler that calls it.
        remote: its limits in the settings of this process; None if it has none.
        history: its calls.
        spend: account of its limit.
        states: of the endpoint in each process.
    """
    hour_limit = None if remote is None else remote.spend_per_hour_usd
    day_limit = None if remote is None else remote.spend_per_day_usd
    by_state: defaultdict[EndpointState, list[str]] = defaultdict(list)
    for process, state in sorted(states.items()):
        by_state[state].append(process)
    processes = [
        EndpointProcesses(
            _word(state), state.model, names, state.over_budget if _word(state) == "over budget" else state.last_error
        )
        for state, names in by_state.items()
    ]
    return EndpointView(
        name,
        model,
        SpendChart(history.hours, hour_limit, spend.hour_usd),
        SpendChart(history.days, day_limit, spend.day_usd),
        history.newest(COUNTED_HOURS),
        pipeline_spend(history),
        sorted(processes, key=lambda row: (STATES.index(row.word), row.model)),
        sum(state.in_flight for state in states.values()),
        sum(state.calls_allowed for state in states.values()),
    )


def _word(state: EndpointState) -> str:
    if state.paused:
        return "paused"
    if state.over_budget:
        return "over budget"
    if state.busy:
        return "busy"
    return "last call failed" if state.last_error else "answers"


@dataclass(frozen=True, slots=True)
class PipelineUsage:
    """What labeling of a pipeline cost, since the first interaction."""

    pipeline: str
    labeler: str
    labeled: int
    judged: int
    """Interactions that went to a judge, or to another labeler of a cascade's samples."""
    usd: float
    uniform: int | None
    """Judged interactions of the uniform part of the sample; None if it is not known, or there is no sample."""

    @property
    def share(self) -> float | None:
        """Share of the interactions that went to a judge; None without interactions."""
        return self.judged / self.labeled if self.labeled else None

    @property
    def chosen(self) -> int | None:
        """Judged interactions that were chosen for a low score or a segment."""
        return None if self.uniform is None else max(self.judged - self.uniform, 0)


def pipeline_usage(estimates: Iterable[Estimate]) -> list[PipelineUsage]:
    """Return the usage of each pipeline and labeler, the most expensive first.

    Args:
        estimates: of the pipelines that the viewer may see; versions of a labeler are added up.
    """
    labeled: defaultdict[tuple[str, str], int] = defaultdict(int)
    judged: defaultdict[tuple[str, str], int] = defaultdict(int)
    dollars: defaultdict[tuple[str, str], float] = defaultdict(float)
    # Of a labeler, the counts of each version are those of its metric with the most values.
    scored: defaultdict[tuple[str, str], defaultdict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for estimate in estimates:
        if (
            estimate.segment is not None
            or estimate.run is not None
            or estimate.estimator != "mean"
            or estimate.window != "all"
        ):
            continue
        key, version = (estimate.pipeline, estimate.labeler), (estimate.labeler_version, estimate.profile)
        if estimate.metric == LATENCY:
            labeled[key] += estimate.n
        elif estimate.metric == COST:
            judged[key] += estimate.n
            dollars[key] += estimate.n * (estimate.estimate or 0.0)
        elif not estimate.metric.startswith(RMSE):
            scored[key][version] = max(scored[key][version], estimate.n + estimate.n_absent)
    usages = []
    for key, count in judged.items():
        of_all = sum(labels for (pipeline, _), labels in labeled.items() if pipeline == key[0])
        # A labeler of a cascade's sample labels nothing alone, and its scores are those of the uniform part.
        uniform = None if key in labeled else min(sum(scored[key].values()), count)
        usages.append(PipelineUsage(*key, labeled.get(key, of_all), count, dollars[key], uniform))
    return sorted(usages, key=lambda usage: (-usage.usd, -usage.judged, usage.pipeline))[:ROWS]


def agreement_rows(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the prediction-powered means of whole pipelines, by pipeline and metric."""
    means = [
        mean
        for mean in estimates
        if mean.segment is None and mean.run is None and mean.window == "all" and mean.estimator == "prediction_powered"
    ]
    return sorted(means, key=lambda mean: (mean.pipeline, mean.metric_name, mean.labeler, mean.proxy or ""))[:ROWS]


def self_consistency_rows(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return how often a judge agrees with itself, by whole pipeline: the means of `judge.self_consistency`."""
    means = [
        estimate
        for estimate in estimates
        if estimate.metric == SELF_CONSISTENCY.name
        and estimate.n
        and estimate.segment is None
        and estimate.run is None
        and estimate.window == "all"
    ]
    return sorted(means, key=lambda estimate: (estimate.pipeline, estimate.labeler, estimate.labeler_version))[:ROWS]


def gold_error_rows(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the errors against gold scores of whole pipelines, by pipeline and metric."""
    errors = [
        error
        for error in estimates
        if error.metric.startswith(RMSE)
        and error.estimate is not None
        and error.segment is None
        and error.run is None
        and error.window == "all"
    ]
    return sorted(errors, key=lambda error: (error.pipeline, error.metric, error.labeler))[:ROWS]
