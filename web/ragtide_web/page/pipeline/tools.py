"""The tools of a pipeline: what came of the calls of each. No clock, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragtide_schemas import Headline
from ragtide_schemas.alert_text import AlertText
from ragtide_schemas.headline import HEADLINE_STATES, HeadlineState
from ragtide_schemas.metric_definitions import AGENT_CALLS
from ragtide_schemas.step_metrics import ToolMetric, ToolQuantity


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool."""

    tool: str
    calls: float | None
    """Its calls a run, in the runs that call any tool; None while that is not known."""
    numbers: Mapping[ToolQuantity, Headline]
    """The number of each quantity that has one."""
    state: HeadlineState
    """The worst state of its metrics."""
    alert: AlertText | None
    """The newest alert that fires about one of its metrics, or that says that the tool moved; None without one."""


def tool_rows(headlines: Iterable[Headline], alerts: Sequence[AlertText]) -> list[ToolRow]:
    """Return the tools of a pipeline, the most called first.

    Args:
        headlines: of the whole pipeline.
        alerts: of the pipeline, the newest first.
    """
    tools: dict[str, dict[ToolQuantity, Headline]] = {}
    runs: Headline | None = None
    for headline in headlines:
        metric = ToolMetric.read(headline.metric)
        if metric is not None:
            tools.setdefault(metric.tool, {})[metric.quantity] = headline
        elif headline.metric == AGENT_CALLS.name:
            runs = headline
    rows = [
        ToolRow(
            tool,
            calls=_calls_a_run(numbers.get("calls"), runs),
            numbers=numbers,
            state=_state(numbers.values()),
            alert=next((text for text in alerts if text.state == "firing" and _is_about(text, tool)), None),
        )
        for tool, numbers in tools.items()
    ]
    return sorted(rows, key=lambda row: (-(row.calls or 0.0), row.tool))


def _calls_a_run(calls: Headline | None, runs: Headline | None) -> float | None:
    # A tool has a value in the runs that call it alone. Two ranges may differ, so the numbers are those of all time.
    if calls is None or runs is None or calls.labeler != runs.labeler:
        return None
    own, every = (headline.all_time or headline for headline in (calls, runs))
    return own.n * own.estimate / every.n if own.estimate is not None and every.n else None


def _state(headlines: Iterable[Headline]) -> HeadlineState:
    known = (headline.state for headline in headlines if headline.has_interval or headline.state == "firing")
    return min(known, key=HEADLINE_STATES.index, default="too few")


def _is_about(text: AlertText, tool: str) -> bool:
    alert = text.alert
    metric = ToolMetric.read(alert.metric)
    if metric is not None and metric.tool == tool and alert.segment is None:
        return True
    return alert.moved_step is not None and any(moved.step == tool for moved in alert.moved_step.moved)
