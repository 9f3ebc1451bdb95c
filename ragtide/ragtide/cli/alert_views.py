"""Renders alerts as boxes; reads and prints nothing."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ragtide_schemas.alert_text import AlertText
from ragtide_schemas.printable import printable

WIDEST: Final = 120
"""Most characters of a line of a box, because long lines are hard to read."""

LONGEST_TITLE: Final = 60
"""Most characters of rule, pipeline and segment in the frame of a box."""

BRIEF: Final = ("What", "Seen", "Now", "Normal", "Target", "When", "Where")
"""Facts that a screen with other things on it shows."""


def alert_panel(text: AlertText, *, brief: bool = False) -> Panel:
    """Return one alert as a box with every fact.

    Args:
        text: the alert in words.
        brief: whether only the facts of `BRIEF` are shown.
    """
    alert, firing = text.alert, text.state == "firing"
    style = "red" if firing else "green"
    rule = f"{alert.rule} ({alert.severity})" if alert.severity else alert.rule
    # Escape the texts before the layout, so that the box keeps its width.
    scope = printable(" · ".join((rule, alert.pipeline, *([alert.segment] if alert.segment else []))))
    above = [] if cell_len(scope) <= LONGEST_TITLE else [Text(scope)]  # a title that is too long would be cut
    muted = "".join([", acknowledged" if text.acknowledged else "", ", silenced" if text.silenced_until else ""])
    title = Text.assemble(
        ("FIRING" if firing else "resolved", "bold"),
        muted,
        "" if above else f" {'· ' if muted else ''}{scope}",
    )
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="bright_black", no_wrap=True)
    facts.add_column(overflow="fold")
    before = ""
    for name, sentence in text.rows:
        if not brief or name in BRIEF:
            facts.add_row("" if name == before else name, Text(printable(sentence)))
            before = name
    if not brief:
        facts.add_row("Id", Text(printable(alert.alert_id)))  # what `ragtide ack` takes
    content = Group(*above, Text(printable(text.title), style="bold"), facts)
    return Panel(content, title=title, title_align="left", border_style=style, width=WIDEST)


def alerts_view(texts: Sequence[AlertText], *, brief: bool = False) -> RenderableType:
    """Return alerts one below the other, firing alerts first, or the sentence that there are none."""
    if not texts:
        return Text("No alerts.", style="green")
    ordered = sorted(texts, key=lambda text: (text.state == "resolved", -text.fired_at.timestamp()))
    return Group(*(alert_panel(text, brief=brief) for text in ordered))
