"""Draws intervals as bars, and recent means with an arrow; reads and prints nothing."""

from itertools import groupby

from rich.text import Text

from ragtide_aggregator.statistics.tables.windows import ALL_TIME
from ragtide_schemas import METRICS, Direction, Estimate

BAND_STYLES = {"poor": "red", "acceptable": "yellow", "good": "green", "excellent": "bold green"}


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of the interval; a missing end is the end of the value range."""
    lowest, highest = estimate.value_range
    return (
        lowest if estimate.lower is None else estimate.lower,
        highest if estimate.upper is None else estimate.upper,
    )


def bar(estimate: Estimate, width: int) -> Text:
    """Return the interval drawn on the metric's whole range, with a dot for the estimate."""
    style = BAND_STYLES.get(estimate.band or "", "cyan")
    return interval_bar(estimate.estimate, ends_of(estimate), estimate.value_range, width, style)


def interval_bar(
    estimate: float | None,
    ends: tuple[float, float],
    scale: tuple[float, float],
    width: int,
    style: str = "cyan",
) -> Text:
    """Return an interval drawn on a scale, with a dot for the estimate."""
    lowest, highest = scale

    def cell(value: float) -> int:
        share = (value - lowest) / (highest - lowest) if highest > lowest else 0.0
        return min(max(round(share * (width - 1)), 0), width - 1)

    first, last = (cell(end) for end in ends)
    middle = None if estimate is None else cell(estimate)
    drawn = ["━" if first <= position <= last else "─" for position in range(width)]
    if middle is not None:
        drawn[middle] = "●"
    styles = {"●": f"bold {style}", "━": "cyan", "─": "bright_black"}
    # A part of equal characters is one piece: a table may have thousands of bars.
    return Text.assemble(*(("".join(part), styles[character]) for character, part in groupby(drawn)))


def trend(estimate: Estimate) -> Text:
    """Return an arrow that compares the mean of about the last 64 values with the interval.

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
    return Text(f"{arrow} {estimate.recent:.2f}", style=style)


def _against_before(estimate: Estimate) -> Text:
    """Return an arrow if a window differs for certain from the window before, and the mean of the window before."""
    if estimate.trend is None or estimate.previous is None:
        return Text("·", style="bright_black")
    if estimate.trend == "steady":
        return Text(f"→ was {estimate.previous:.2f}", style="bright_black")
    rising = estimate.trend == "rising"
    style = _better_style(estimate, rising=rising)
    return Text(f"{'▲' if rising else '▼'} was {estimate.previous:.2f}", style=style)


def direction_of(estimate: Estimate) -> Direction:
    """Return the direction in which the metric of an estimate gets better."""
    if estimate.direction is not None:
        return estimate.direction
    definition = METRICS.get(estimate.metric)
    if estimate.metric.startswith("rmse."):
        return Direction.LOWER
    return Direction.HIGHER if definition is None else definition.direction


def _better_style(estimate: Estimate, *, rising: bool) -> str:
    direction = direction_of(estimate)
    if direction is Direction.NEITHER:
        return "blue"
    return "green" if rising == (direction is Direction.HIGHER) else "red"
