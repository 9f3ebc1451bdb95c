"""Renders estimates as tables, and intervals as bars; reads and prints nothing."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from ragtide_aggregator.statistics.windows import ALL_TIME
from ragtide_schemas import METRICS, Direction, Estimate

BAR_WIDTH = 28
"""Characters of an interval's bar."""

NARROW = 140
"""With fewer columns, bars are shorter and trends have no line."""

NARROW_BAR_WIDTH = 14

BAND_STYLES = {"poor": "red", "acceptable": "yellow", "good": "green", "excellent": "bold green"}

SPARKS = "▁▂▃▄▅▆▇█"

TrendKey = tuple[str, str | None, str | None, str, str | None]
"""Pipeline, run, segment, metric and its version."""

Trends = Mapping[TrendKey, Sequence[float]]
"""Means of the most recent values at earlier looks, the oldest first."""


def estimate_key(estimate: Estimate) -> TrendKey:
    """Return the key of an estimate's trend."""
    return estimate.pipeline, estimate.run, estimate.segment, estimate.metric, estimate.metric_version


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of the interval; a missing end is the end of the value range."""
    lowest, highest = estimate.value_range
    return (
        lowest if estimate.lower is None else estimate.lower,
        highest if estimate.upper is None else estimate.upper,
    )


def short_name(metric: str) -> str:
    """Return a metric's name without the family `trace`; other families stay, because two may use one name.

    >>> short_name("trace.adherence"), short_name("rmse.trace.adherence"), short_name("retrieval.empty")
    ('adherence', 'rmse.adherence', 'retrieval.empty')
    """
    return metric.removeprefix("trace.").replace(".trace", "")


def bar(estimate: Estimate, width: int = BAR_WIDTH) -> Text:
    """Return the interval drawn on the metric's whole range, with a dot for the estimate."""
    style = BAND_STYLES.get(estimate.band or "", "cyan")
    return interval_bar(estimate.estimate, ends_of(estimate), estimate.value_range, width, style)


def interval_bar(
    estimate: float | None,
    ends: tuple[float, float],
    scale: tuple[float, float],
    width: int = BAR_WIDTH,
    style: str = "cyan",
) -> Text:
    """Return an interval drawn on a scale, with a dot for the estimate."""
    lowest, highest = scale

    def cell(value: float) -> int:
        share = (value - lowest) / (highest - lowest) if highest > lowest else 0.0
        return min(max(round(share * (width - 1)), 0), width - 1)

    text = Text()
    first, last = (cell(end) for end in ends)
    middle = None if estimate is None else cell(estimate)
    for position in range(width):
        if position == middle:
            text.append("●", style=f"bold {style}")
        elif first <= position <= last:
            text.append("━", style="cyan")
        else:
            text.append("─", style="bright_black")
    return text


def spark(values: Sequence[float], lowest: float, highest: float) -> str:
    """Return values as a line of small bars on the metric's range."""
    span = (highest - lowest) or 1.0
    steps = [int((value - lowest) / span * (len(SPARKS) - 1) + 0.5) for value in values]
    return "".join(SPARKS[min(max(step, 0), len(SPARKS) - 1)] for step in steps)


def trend(estimate: Estimate, seen: Sequence[float]) -> Text:
    """Return an arrow that compares the mean of about the last 64 values with the interval, and a line of such means.

    A window is compared with the window before it.
    """
    if estimate.window != ALL_TIME:
        return _against_before(estimate)
    if estimate.recent is None or estimate.estimate is None:
        return Text("·", style="bright_black")
    lower, upper = ends_of(estimate)
    if estimate.recent > upper:
        arrow, style = "▲", _better_style(estimate, rising=True)
    elif estimate.recent < lower:
        arrow, style = "▼", _better_style(estimate, rising=False)
    else:
        arrow, style = "→", "bright_black"
    text = Text(f"{arrow} {estimate.recent:.2f} ", style=style)
    text.append(spark(seen, *estimate.value_range), style="blue")
    return text


def _against_before(estimate: Estimate) -> Text:
    """Return an arrow if a window differs for certain from the window before, and the mean of the window before."""
    if estimate.trend is None or estimate.previous is None:
        return Text("·", style="bright_black")
    if estimate.trend == "steady":
        return Text(f"→ was {estimate.previous:.2f}", style="bright_black")
    rising = estimate.trend == "rising"
    style = _better_style(estimate, rising=rising)
    return Text(f"{'▲' if rising else '▼'} was {estimate.previous:.2f}", style=style)


def _better_style(estimate: Estimate, *, rising: bool) -> str:
    direction = estimate.direction
    if direction is None:
        # Estimates of an older release have no direction.
        definition = METRICS.get(estimate.metric)
        errors = estimate.metric.startswith("rmse.")
        direction = Direction.LOWER if errors else definition.direction if definition else Direction.HIGHER
    if direction is Direction.NEITHER:
        return "blue"
    return "green" if rising == (direction is Direction.HIGHER) else "red"


def in_reading_order(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Return estimates by scope, then in the order of the registry of metrics; other metrics come last."""
    registered = list(METRICS)

    def key(estimate: Estimate) -> tuple[str, str, str, int, str, str]:
        place = registered.index(estimate.metric) if estimate.metric in METRICS else len(registered)
        return (
            estimate.pipeline,
            estimate.run or "",
            estimate.segment or "",
            place,
            estimate.metric,
            estimate.metric_version or "",
        )

    return sorted(estimates, key=key)


def estimates_table(estimates: Sequence[Estimate], width: int, trends: Trends | None = None) -> Table:
    """Return estimates as a table with a row for each; a cell that repeats the cell above is empty.

    Args:
        estimates: estimates to show.
        width: columns of the terminal.
        trends: recent means to draw as a line.
    """
    narrow = width < NARROW
    clustered = any(estimate.n_effective is not None for estimate in estimates)
    bar_width = (NARROW_BAR_WIDTH - 6 * clustered) if narrow else BAR_WIDTH
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("metric",) if narrow else ("pipeline", "segment", "metric"):
        # Rich first narrows the columns that may wrap: names and reasons of absence, and no number.
        table.add_column(name, overflow="ellipsis")
    table.add_column("estimate", justify="right", no_wrap=True)
    table.add_column("interval", min_width=bar_width + 12)
    table.add_column("n (eff.)" if clustered else "n", justify="right", no_wrap=True)
    all_time = all(estimate.window == ALL_TIME for estimate in estimates)
    table.add_column("recent" if all_time else "before", no_wrap=True, min_width=7)
    if not narrow:
        table.add_column("band", no_wrap=True)
    with_absent = not narrow and any(estimate.n_absent and estimate.n for estimate in estimates)
    if with_absent:
        table.add_column("absent", no_wrap=True)
    before: tuple[str, str] | None = None
    for estimate in in_reading_order(estimates):
        pipeline = estimate.pipeline if estimate.run is None else f"{estimate.pipeline} ({estimate.run})"
        scope = (pipeline, estimate.segment or "all")
        if narrow and before != scope:
            table.add_row(Text(" · ".join(scope), style="bold", no_wrap=True))
        elif before not in (None, scope):
            table.add_section()
        named = () if narrow else tuple(Text(part, style="bold") for part in (scope if before != scope else ("", "")))
        before = scope
        lower, upper = ends_of(estimate)
        missing = absent_text(estimate)
        drawn = Text.assemble(f"{lower:.3f} ", bar(estimate, bar_width), f" {upper:.3f}")
        if missing and not estimate.n:  # show the reason instead of an interval over the whole range
            drawn, missing = missing, None
        band = Text(estimate.band or "", style=BAND_STYLES.get(estimate.band or "", ""))
        table.add_row(
            *named,
            short_name(estimate.metric_name),
            "—" if estimate.estimate is None else f"{estimate.estimate:.3f}",
            drawn,
            _count(estimate),
            trend(estimate, () if narrow else (trends or {}).get(estimate_key(estimate), ())),
            *(() if narrow else (band, *((missing or "",) if with_absent else ()))),
        )
        if narrow and missing:
            table.add_row("", "", missing)
    return table


def _count(estimate: Estimate) -> str:
    """Return n, with the number of independent interactions that would be as precise where clusters say it."""
    if estimate.n_effective is None:
        return f"{estimate.n:,}"
    return f"{estimate.n:,} ({estimate.n_effective:,.0f})"


def absent_text(estimate: Estimate) -> Text | None:
    """Return the number of interactions without the metric, and the most frequent reason; None if there are none."""
    if not estimate.n_absent:
        return None
    reasons = list(estimate.absent)
    named = f": {reasons[0]}" if reasons else ""
    more = f" +{len(reasons) - 1}" if len(reasons) > 1 else ""
    return Text(f"{estimate.n_absent:,} absent{named}{more}", style="yellow")


def labeling_table(estimates: Sequence[Estimate]) -> Table:
    """Return a table of the time and cost of labeling, with mean and quantiles."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("pipeline", "labeler", "quantity"):
        table.add_column(name, no_wrap=True)
    for name in ("n", "mean", "p5", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    for e in estimates:
        quantiles = e.quantiles or {}
        numbers = [e.estimate, *(quantiles.get(name) for name in ("p5", "p50", "p95", "p99")), e.maximum]
        cells = ["—" if number is None else f"{number:.4g}" for number in numbers]
        table.add_row(e.pipeline, e.labeler, e.metric.removeprefix("labeling."), f"{e.n:,}", *cells)
    return table
