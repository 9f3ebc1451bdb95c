"""The live screen of `ragtide watch`: a list of pipelines, a pipeline's own view, and the loop that redraws it."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from redis import RedisError
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ragtide_runtime.processes.waiting import end
from ragtide_schemas import Alert, Headline

from .groups import short_name
from .headline_tables import STATE_STYLES, headlines_table
from .keyboard import keyboard
from .screen import Screen, newest_alerts
from .watch_view import WatchView, by_pipeline, chosen_of, matching, most_changed, press, worst_of

LISTED = 8
"""Most lines of the list of pipelines; the list follows the cursor."""


SEGMENTS_LISTED = 20
"""Most segment values that a pipeline's own view lists above its table, which has them all."""


NAME_CHARS = 20
"""Most characters of a pipeline's name in the list."""


OTHER_CHARS = 30
"""Columns of the list for cursor, n, the number of alerts and the gaps."""


class Filled:
    """Three renderables in a number of lines: the middle one is cut, and shown from a first line on.

    Args:
        above: shown whole.
        middle: cut to the remaining lines; its last lines if there are not enough from the first line on.
        below: shown whole.
        first: number of lines of the middle that are left out above.
        most: lines of all three.
    """

    def __init__(
        self, above: RenderableType, middle: RenderableType, below: RenderableType, *, first: int, most: int
    ) -> None:
        self._parts, self._most = (above, middle, below), most
        self.first = first
        """Number of lines that are left out above: after drawing, only as many as there are to leave out."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        free = options.update(height=None)
        above, middle, below = (console.render_lines(part, free, pad=False) for part in self._parts)
        room = max(self._most - len(above) - len(below), 1)
        self.first = max(min(self.first, len(middle) - room), 0)
        for line in (*above, *middle[self.first : self.first + room], *below):
            yield from line
            yield Segment.line()


def shown_pipelines(screen: Screen, view: WatchView, *, segments: bool) -> dict[str, list[Headline]]:
    """Return the headlines of each shown pipeline, in the order of the view."""
    kept = [headline for headline in screen.headlines if segments or view.opened or headline.segment is None]
    # The filter selects from the list. A pipeline's own view shows all of it.
    return by_pipeline(kept if view.opened else matching(kept, view.text), view.sort)


def watch_screen(screen: Screen, view: WatchView, width: int, height: int, *, segments: bool, keys: bool) -> Filled:
    """Return the screen of a view, which fills a terminal of `width` columns and `height` lines at most."""
    pipelines = shown_pipelines(screen, view, segments=segments)
    chosen = chosen_of(view, list(pipelines))
    above: list[RenderableType] = [screen.counts, *(Text(warning, style="yellow") for warning in screen.warnings)]
    if chosen is None:
        waiting = "Waiting for the first estimates ..."
        body: RenderableType = Text(f"Nothing matches {view.text!r}." if screen.headlines else waiting, "bright_black")
    elif view.opened:
        body = _own_view(screen, chosen, pipelines[chosen], width)
    else:
        above.append(_list(pipelines, chosen, screen.alerts, width))
        own = [alert for alert in screen.alerts if alert.pipeline == chosen]
        body = Group(headlines_table(pipelines[chosen], width), Text(), newest_alerts(own, screen.muted))
    below = _below(view) if keys else Text("Ctrl-C ends it.", style="bright_black")
    return Filled(Group(*above), body, below, first=view.first_line, most=height)


def _list(pipelines: dict[str, list[Headline]], chosen: str, alerts: Sequence[Alert], width: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    name_width = min(max(map(len, pipelines)), NAME_CHARS)
    share = max((width - name_width - OTHER_CHARS) // 2, 1)
    table.add_column("")
    # A name that is too long goes on in a further line: two cut names could look alike.
    table.add_column("pipeline", overflow="fold", max_width=max(name_width, len("pipeline")))
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("worst state", overflow="fold", max_width=share)
    table.add_column("largest change", overflow="fold", max_width=share)
    table.add_column("firing", justify="right", no_wrap=True)
    names = list(pipelines)
    first = max(min(names.index(chosen) - LISTED // 2, len(names) - LISTED), 0)
    for name in names[first : first + LISTED]:
        found = pipelines[name]
        firing = sum(alert.pipeline == name and alert.status != "resolved" for alert in alerts)
        table.add_row(
            "›" if name == chosen else " ",
            Text(name, style="bold" if name == chosen else ""),
            f"{max(headline.n for headline in found):,}",
            _worst(found),
            _change(found),
            Text(str(firing), style="red") if firing else "0",
        )
    return table


def _worst(found: Iterable[Headline]) -> Text:
    worst = worst_of(found)
    if worst is None:
        return Text()
    named = worst.state not in ("steady", "unwatched")
    return Text(f"{worst.state}{f': {short_name(worst.metric)}' if named else ''}", STATE_STYLES[worst.state])


def _change(found: Iterable[Headline]) -> str:
    most = most_changed(found)
    if most is None or most.all_time is None or most.all_time.estimate is None or most.estimate is None:
        return ""
    return f"{most.estimate - most.all_time.estimate:+.3f} {short_name(most.metric)}"


def _own_view(screen: Screen, pipeline: str, found: Sequence[Headline], width: int) -> Group:
    segments = sorted({headline.segment for headline in found if headline.segment is not None})
    more = f", and {len(segments) - SEGMENTS_LISTED:,} more" if len(segments) > SEGMENTS_LISTED else ""
    return Group(
        Text(pipeline, style="bold cyan"),
        Text("Segments: " + (", ".join(segments[:SEGMENTS_LISTED]) + more if segments else "none")),
        Text(),
        newest_alerts([alert for alert in screen.alerts if alert.pipeline == pipeline], screen.muted),
        Text(),
        headlines_table(found, width, small=True),
    )


def _below(view: WatchView) -> Text:
    parts = [view.keys]
    if view.typing or view.text:
        parts.append(f"filter: {view.text}{'_' if view.typing else ''}")
    if not view.opened:
        parts.append(f"pipelines by {view.sort}")
    return Text("   ".join(parts), style="reverse", no_wrap=True, overflow="ellipsis")


class LiveWatch:
    """Redraws the screen after every key and every reading of Redis, until the user quits.

    Args:
        console: the terminal.
        screen: the deployment on the screen.
        segments: whether the list shows segment values.
    """

    def __init__(self, console: Console, screen: Screen, *, segments: bool) -> None:
        self._console = console
        self._screen = screen
        self._segments = segments
        self._view = WatchView()
        self._problem: str | None = None
        self._changed = asyncio.Event()

    async def run(self, interval_s: float) -> None:
        """Draw until the user quits or the task is cancelled; afterwards the terminal is as before."""
        reading = asyncio.create_task(self._read(interval_s))
        reading.add_done_callback(lambda _: self._changed.set())
        try:
            with (
                keyboard(sys.stdin, self._press) as keys,
                Live(console=self._console, auto_refresh=False, screen=True) as live,
            ):
                while not self._view.closed:
                    await self._changed.wait()
                    self._changed.clear()
                    if reading.done():
                        reading.result()
                    filled = self._filled(keys=keys)
                    live.update(self._drawn(filled), refresh=True)
                    # Further presses of a key at the end have no effect that later presses would have to undo.
                    self._view = replace(self._view, first_line=filled.first)
        finally:
            await end(reading)

    async def _read(self, interval_s: float) -> None:
        """Read Redis at an interval. A slow answer delays neither keys nor drawing."""
        while True:
            try:
                await self._screen.refresh()
                self._problem = None
            except RedisError as error:
                self._problem = f"Redis does not answer ({error}); trying again ..."
            self._changed.set()
            await asyncio.sleep(interval_s)

    def _press(self, key: str) -> None:
        shown = shown_pipelines(self._screen, self._view, segments=self._segments)
        self._view = press(self._view, key, list(shown))
        # Only a pipeline's own view shows segment values: reading them takes longer.
        self._screen.segments = self._segments or self._view.opened
        self._changed.set()

    def _filled(self, *, keys: bool) -> Filled:
        width, height = self._console.size
        lines = height if self._problem is None else height - 1
        return watch_screen(self._screen, self._view, width, lines, segments=self._segments, keys=keys)

    def _drawn(self, filled: Filled) -> RenderableType:
        if self._problem is None:
            return filled
        return Group(Text(self._problem, "red", no_wrap=True, overflow="ellipsis"), filled)
