"""Estimates, alerts and dead letters as tables a person enjoys. Renderables only; nothing is read or printed here."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ragtide_schemas import METRICS, Alert, Estimate, value_range

from .reading import StoredLetter

BAR_WIDTH = 28
"""Characters of an interval's bar."""

BAND_STYLES = {"poor": "red", "acceptable": "yellow", "good": "green", "excellent": "bold green"}

SPARKS = "▁▂▃▄▅▆▇█"

Trends = Mapping[tuple[str, str | None, str | None, str], Sequence[float]]
"""Recent means seen by a watcher, the oldest first, by pipeline, run, segment and metric."""


def estimate_key(estimate: Estimate) -> tuple[str, str | None, str | None, str]:
    """Return what a trend is kept under."""
    return estimate.pipeline, estimate.run, estimate.segment, estimate.metric


def metric_range(metric: str) -> tuple[float, float]:
    """Return the ends of the scale a metric is drawn on."""
    return value_range(metric.removeprefix("rmse.")) if metric.startswith("rmse.") else value_range(metric)


def bar(estimate: Estimate, width: int = BAR_WIDTH) -> Text:
    """Return the interval drawn on the metric's whole range, the estimate as a dot."""
    lowest, highest = metric_range(estimate.metric)

    def cell(value: float) -> int:
        share = (value - lowest) / (highest - lowest) if highest > lowest else 0.0
        return min(max(round(share * (width - 1)), 0), width - 1)

    text = Text()
    first, last = cell(estimate.lower), cell(estimate.upper)
    middle = None if estimate.estimate is None else cell(estimate.estimate)
    for position in range(width):
        if position == middle:
            text.append("●", style=f"bold {BAND_STYLES.get(estimate.band or '', 'cyan')}")
        elif first <= position <= last:
            text.append("━", style="cyan")
        else:
            text.append("─", style="bright_black")
    return text


def spark(values: Sequence[float], lowest: float, highest: float) -> str:
    """Return the last values as a line of small bars on the metric's range."""
    span = (highest - lowest) or 1.0
    steps = [int((value - lowest) / span * (len(SPARKS) - 1) + 0.5) for value in values]
    return "".join(SPARKS[min(max(step, 0), len(SPARKS) - 1)] for step in steps)


def trend(estimate: Estimate, seen: Sequence[float]) -> Text:
    """Return an arrow for where the last 64 or so values lie against the interval, and a line of recent means."""
    if estimate.recent is None or estimate.estimate is None:
        return Text("·", style="bright_black")
    definition = METRICS.get(estimate.metric)
    higher_is_better = definition is None or definition.direction != "lower"
    if estimate.recent > estimate.upper:
        arrow, style = "▲", "green" if higher_is_better else "red"
    elif estimate.recent < estimate.lower:
        arrow, style = "▼", "red" if higher_is_better else "green"
    else:
        arrow, style = "→", "bright_black"
    text = Text(f"{arrow} {estimate.recent:.2f} ", style=style)
    text.append(spark(seen, *metric_range(estimate.metric)), style="blue")
    return text


def estimates_table(estimates: Sequence[Estimate], trends: Trends | None = None, *, title: str | None = None) -> Table:
    """Return estimates as a table, one row each; what repeats from the row above is left out."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    table.add_column("pipeline", no_wrap=True)
    table.add_column("segment", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("estimate", justify="right")
    table.add_column("interval", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("recent", no_wrap=True)
    table.add_column("band")
    before: tuple[str, str] | None = None
    for estimate in estimates:
        pipeline = estimate.pipeline if estimate.run is None else f"{estimate.pipeline} ({estimate.run})"
        scope = (pipeline, estimate.segment or "all")
        if before is not None and before != scope:
            table.add_section()
        shown = scope if before != scope else ("", "")
        before = scope
        table.add_row(
            Text(shown[0], style="bold"),
            Text(shown[1]),
            estimate.metric.removeprefix("trace."),
            "—" if estimate.estimate is None else f"{estimate.estimate:.3f}",
            f"{estimate.lower:.3f} {estimate.upper:.3f}",
            bar(estimate),
            f"{estimate.n:,}",
            trend(estimate, (trends or {}).get(estimate_key(estimate), ())),
            Text(estimate.band or "", style=BAND_STYLES.get(estimate.band or "", "")),
        )
    return table


def alert_panel(alert: Alert) -> Panel:
    """Return one alert as a box: what happened, since when, on what evidence."""
    firing = alert.status == "firing"
    style = "red" if firing else "green"
    state = "FIRING" if firing else "resolved"
    title = f"[bold]{state}[/bold] {escape(alert.rule)} · {escape(alert.pipeline)}"
    if alert.segment:
        title += f" · {escape(alert.segment)}"
    return Panel(Text(alert.message), title=title, title_align="left", border_style=style)


def alerts_view(alerts: Sequence[Alert]) -> RenderableType:
    """Return alerts one below the other, the firing ones first, or a sentence that there are none."""
    if not alerts:
        return Text("No alerts.", style="green")
    ordered = sorted(alerts, key=lambda alert: (alert.status != "firing", -alert.fired_at.timestamp()))
    return Group(*(alert_panel(alert) for alert in ordered))


def dead_letters_table(letters: Sequence[StoredLetter]) -> RenderableType:
    """Return dead letters as a table, or a sentence that there are none."""
    if not letters:
        return Text("No dead letters.", style="green")
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("failed at", no_wrap=True)
    table.add_column("reason", style="red", no_wrap=True)
    table.add_column("deliveries", justify="right")
    table.add_column("detail", overflow="fold")
    for stored in letters:
        letter = stored.letter
        table.add_row(
            stored.letter_id,
            f"{letter.failed_at:%Y-%m-%d %H:%M:%S}",
            letter.reason,
            str(letter.deliveries),
            Text(letter.detail),
        )
    return table
