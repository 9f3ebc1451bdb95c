"""Renders alerts as boxes; reads and prints nothing."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from ragtide_schemas import Alert
from ragtide_schemas.printable import printable

WIDEST: Final = 120
"""Most characters of a line of a box, because long lines are hard to read."""

LONGEST_TITLE: Final = 60
"""Most characters of rule, pipeline and segment in the frame of a box."""


def alert_panel(alert: Alert) -> Panel:
    """Return one alert as a box with the event, its start and its evidence."""
    firing = alert.status != "resolved"
    style = "red" if firing else "green"
    state = "FIRING" if firing else "resolved"
    rule = f"{alert.rule} ({alert.severity})" if alert.severity else alert.rule
    # Escape the texts before the layout, so that the box keeps its width.
    scope = printable(" · ".join((rule, alert.pipeline, *([alert.segment] if alert.segment else []))))
    above = [] if cell_len(scope) <= LONGEST_TITLE else [scope]  # a title that is too long would be cut
    title = Text.assemble((state, "bold"), "" if above else f" {scope}")
    text = Text("\n".join([*above, *(printable(sentence) for sentence in (alert.message, *alert.diagnosis))]))
    return Panel(text, title=title, title_align="left", border_style=style, width=WIDEST)


def alerts_view(alerts: Sequence[Alert]) -> RenderableType:
    """Return alerts one below the other, firing alerts first, or the sentence that there are none."""
    if not alerts:
        return Text("No alerts.", style="green")
    ordered = sorted(alerts, key=lambda alert: (alert.status == "resolved", -alert.fired_at.timestamp()))
    return Group(*(alert_panel(alert) for alert in ordered))
