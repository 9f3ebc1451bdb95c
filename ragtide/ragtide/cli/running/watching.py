"""The screens of numbers: once, and redrawn with alerts for `ragtide watch` and the demo."""

import asyncio
import codecs
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TextIO

from redis import RedisError
from redis.asyncio import Redis
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from ragtide_aggregator.estimates.choices import RECOMMENDED, chosen
from ragtide_aggregator.reading.alerts import AlertLog
from ragtide_aggregator.reading.first_commit import has_commits
from ragtide_consumers.notify.silences import MutedAlerts
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.backlog import COUNT_CAP, Backlog, read_backlogs
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Estimate, Headline
from ragtide_schemas.headline import HEADLINE_STATES
from ragtide_schemas.suggestions import unknown

from ..printing import Column, folded
from ..printing.estimates import (
    STATE_STYLES,
    headlines_note,
    headlines_table,
    short_name,
)
from ..printing.live import alerts_view
from .alerts import text_of_alert

if TYPE_CHECKING:
    from ragtide_aggregator.reading.deployment import Deployment

ALERTS_SHOWN = 4
"""Most alerts drawn below the table."""


class Screen:
    """The numbers of a deployment, and its alerts, as they are now.

    Args:
        redis: client.
        settings: of the deployment on the screen, or of a workspace.
        pipeline: name of the only shown pipeline; all pipelines if it is None.
        segments: whether numbers of segment values are shown.
        live: whether they are of live traffic, not of a workspace, whose numbers are of all its interactions.
        read_muted: reads silences and acknowledgements; without it no alert has any.
    """

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        *,
        pipeline: str | None = None,
        segments: bool = True,
        live: bool = True,
        read_muted: Callable[[], Awaitable[MutedAlerts]] | None = None,
    ) -> None:
        self._redis, self._settings = redis, settings
        self._alerts = AlertLog(redis, settings.layout.all())
        self._deployment: Deployment | None = None
        self._pipeline = pipeline
        self.segments = segments
        """Whether the next `refresh` reads segment values, too."""
        self._live = live
        self.headlines: Sequence[Headline] = ()
        self.alerts: Sequence[Alert] = ()
        self.muted = MutedAlerts()
        self._read_muted = read_muted
        self.counts = Text()
        self.warnings: list[str] = []

    async def refresh(self) -> None:
        """Read headlines, alerts and backlog."""
        everything, self.alerts, backlogs = await asyncio.gather(
            self._numbers(), self._alerts.read(), read_backlogs(self._redis, self._settings.layout.all())
        )
        if self._read_muted is not None:
            self.muted = await self._read_muted()
        wanted, known = self._pipeline, {headline.pipeline for headline in everything}
        self.headlines = [headline for headline in everything if wanted in (None, headline.pipeline)]
        missing = unknown("pipeline", wanted, known) if wanted is not None and known and wanted not in known else None
        self.warnings = [sentence for sentence in (missing, self._alerts.unreadable.warning()) if sentence is not None]
        self.counts = _counts(backlogs)

    async def _numbers(self) -> list[Headline]:
        if self._deployment is None:
            if not await has_commits(self._redis, self._settings):
                return []
            from ragtide_aggregator.reading.deployment import Deployment  # noqa: PLC0415 - imports NumPy

            self._deployment = Deployment(self._redis, self._settings)
        live = await self._deployment.headlines(segments=self.segments) if self._live else []
        return live or await self._of_workspace(self._deployment)  # without live traffic there may be runs

    async def _of_workspace(self, deployment: "Deployment") -> list[Headline]:
        recommended = chosen(await deployment.estimates(windows=False), estimator=RECOMMENDED)
        return [headline_of(estimate) for estimate in recommended if self.segments or estimate.segment is None]

    def render(self, width: int) -> RenderableType:
        """Return the screen for a terminal of `width` columns."""
        warnings = [Text(sentence, style="yellow") for sentence in self.warnings]
        if not self.headlines:
            waiting = Text("Waiting for the first estimates ...", style="bright_black")
            return Group(self.counts, *warnings, waiting)
        return Group(
            self.counts,
            *warnings,
            Text(headlines_note(self.headlines, options=False), style="bright_black"),
            Text(),
            headlines_table(self.headlines, width),
            Text(),
            newest_alerts(self.alerts, self.muted),
        )


def headline_of(estimate: Estimate) -> Headline:
    """Return an estimate over all interactions of a run or a workspace, which nothing watches, as a headline."""
    fields = {name: getattr(estimate, name) for name in Headline.model_fields if name in Estimate.model_fields}
    fields["lowest"], fields["highest"] = estimate.value_range
    if estimate.run is not None:
        fields["pipeline"] = f"{estimate.pipeline} ({estimate.run})"
    return Headline(**fields, range="all", state="unwatched")


def newest_alerts(alerts: Sequence[Alert], muted: MutedAlerts) -> RenderableType:
    """Return the newest alerts in brief."""
    newest = sorted(alerts, key=lambda alert: alert.fired_at)[-ALERTS_SHOWN:]
    return alerts_view([text_of_alert(alert, muted) for alert in newest], brief=True)


def _counts(backlogs: Sequence[Backlog]) -> Text:
    scored = sum(backlog.lengths["metrics"] for backlog in backlogs)
    dead = sum(backlog.lengths["dead_letters"] for backlog in backlogs)
    waiting = sum(backlog.waiting for backlog in backlogs)
    more = "+" if waiting >= COUNT_CAP else ""
    text = Text.assemble(("ragtide", "bold cyan"), f"   scored {scored:,}   waiting {waiting:,}{more}   dead letters ")
    text.append(f"{dead:,}", style="red" if dead else "")
    return text


try:
    import termios
    import tty
except ImportError:  # Windows has no terminal settings
    termios = tty = None  # type: ignore[assignment]


READ_BYTES: Final = 1024


NAMES: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b": "escape",
}
"""Names of keys by the text that a terminal sends."""


KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)


class KeyDecoder:
    """Turns the bytes of a terminal into keys: a printable character, or a name of `NAMES`; other keys are left out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        r"""Return the keys of the next bytes.

        >>> KeyDecoder().feed(b"a\x1b[A\r")
        ['a', 'up', 'enter']
        """
        names = (NAMES.get(key, key) for key in KEY.findall(self._decoder.decode(data)))
        return [key for key in names if key in NAMES.values() or (len(key) == 1 and key.isprintable())]


@contextmanager
def keyboard(stream: TextIO, on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call `on_key` with each key while the body runs, and yield whether there is a keyboard.

    Args:
        stream: standard input; without a terminal no keys are read.
        on_key: called in the event loop, never from a thread.
    """
    if termios is None or not stream.isatty():
        yield False
        return
    file, loop, decoder = stream.fileno(), asyncio.get_running_loop(), KeyDecoder()

    def read() -> None:
        data = os.read(file, READ_BYTES)  # does not wait: the loop has seen that there is input
        if not data:
            loop.remove_reader(file)
        for key in decoder.feed(data):
            on_key(key)

    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)  # keys come at once and are not echoed; Ctrl-C is still a signal
        loop.add_reader(file, read)
        yield True
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


FILTER_CHARS: Final = 60
"""Most characters of a filter."""


KEYS: Final = "↑↓ choose  Enter open  s sort  / filter  q quit"


FILTER_KEYS: Final = "type a text  Enter keep the filter  Esc remove it"


OPENED_KEYS: Final = "↑↓ scroll  ←→ other pipeline  Esc back  q quit"


class Sort(StrEnum):
    """Orders of the pipelines."""

    NAME = "name"
    WORST = "worst state"
    CHANGE = "largest change"


@dataclass(frozen=True, slots=True)
class WatchView:
    """The part of the deployment on the screen."""

    sort: Sort = Sort.NAME
    text: str = ""
    """Only metrics whose pipeline, segment, metric or labeler contains this text."""
    typing: bool = False
    """Whether keys belong to the filter."""
    chosen: str | None = None
    """The pipeline under the cursor; None is the first."""
    opened: bool = False
    """Whether the chosen pipeline has the whole screen."""
    first_line: int = 0
    """Number of lines above the screen."""
    closed: bool = False
    """Whether the user has quit."""

    @property
    def keys(self) -> str:
        """The keys that have an effect now."""
        if self.typing:
            return FILTER_KEYS
        return OPENED_KEYS if self.opened else KEYS


def press(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    """Return the view after a key.

    Args:
        view: the view before.
        key: a printable character, or a name: up, down, left, right, enter, escape, backspace, page-up, page-down.
        pipelines: the shown pipelines, in their order.
    """
    if view.typing:
        return _typed(view, key)
    if key == "q":
        return replace(view, closed=True)
    return _pressed_opened(view, key, pipelines) if view.opened else _pressed(view, key, pipelines)


def _typed(view: WatchView, key: str) -> WatchView:
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return replace(view, typing=False, text="")
    if key == "backspace":
        return replace(view, text=view.text[:-1])
    if len(key) == 1 and len(view.text) < FILTER_CHARS:
        return replace(view, text=view.text + key)
    return view


def _pressed(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    if key in {"up", "k"}:
        return _moved(view, -1, pipelines)
    if key in {"down", "j"}:
        return _moved(view, 1, pipelines)
    if key in {"enter", "right"} and pipelines:
        return replace(view, chosen=chosen_of(view, pipelines), opened=True, first_line=0)
    if key == "s":
        orders = list(Sort)
        return replace(view, sort=orders[(orders.index(view.sort) + 1) % len(orders)])
    if key == "/":
        return replace(view, typing=True)
    return replace(view, text="") if key == "escape" else view


def _pressed_opened(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    scrolled = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
    if key in scrolled:
        return replace(view, first_line=max(view.first_line + scrolled[key], 0))
    if key in {"escape", "backspace"}:
        return replace(view, opened=False, first_line=0)
    if key in {"left", "right"}:
        return replace(_moved(view, 1 if key == "right" else -1, pipelines), first_line=0)
    return view


def _moved(view: WatchView, steps: int, pipelines: Sequence[str]) -> WatchView:
    now = chosen_of(view, pipelines)
    if now is None:
        return view
    place = min(max(pipelines.index(now) + steps, 0), len(pipelines) - 1)
    return replace(view, chosen=pipelines[place])


def chosen_of(view: WatchView, pipelines: Sequence[str]) -> str | None:
    """Return the pipeline under the cursor: the first if the chosen pipeline is not shown; None without pipelines."""
    if view.chosen in pipelines:
        return view.chosen
    return pipelines[0] if pipelines else None


def matching(headlines: Iterable[Headline], text: str) -> list[Headline]:
    """Return the headlines whose pipeline, segment, metric or labeler contains a text, in any case."""
    wanted = text.casefold()
    return [
        headline
        for headline in headlines
        if any(
            wanted in name.casefold()
            for name in (headline.pipeline, headline.segment or "", headline.metric, headline.labeler)
        )
    ]


def by_pipeline(headlines: Iterable[Headline], sort: Sort) -> dict[str, list[Headline]]:
    """Return the headlines of each pipeline, with the pipelines in their order."""
    grouped: dict[str, list[Headline]] = {}
    for headline in headlines:
        grouped.setdefault(headline.pipeline, []).append(headline)

    def key(name: str) -> tuple[float, float, str]:
        if sort is Sort.WORST:
            place = min(map(_place, grouped[name]))
            return place, -sum(_place(headline) == place for headline in grouped[name]), name
        if sort is Sort.CHANGE:
            most = most_changed(grouped[name])
            return 0.0 if most is None else -change_of(most), 0.0, name
        return 0.0, 0.0, name

    return {name: grouped[name] for name in sorted(grouped, key=key)}


def worst_of(headlines: Iterable[Headline]) -> Headline | None:
    """Return the first headline in the worst state; None without headlines."""
    return min(headlines, key=_place, default=None)


def most_changed(headlines: Iterable[Headline]) -> Headline | None:
    """Return the headline that is farthest from its number over all time; None if each is over all time."""
    return max((headline for headline in headlines if change_of(headline) > 0), key=change_of, default=None)


def change_of(headline: Headline) -> float:
    """Return the distance of the number from that over all time, as a share of the metric's range."""
    whole = None if headline.all_time is None else headline.all_time.estimate
    if whole is None or headline.estimate is None:
        return 0.0
    lowest, highest = headline.value_range
    return abs(headline.estimate - whole) / (highest - lowest) if highest > lowest else 0.0


def _place(headline: Headline) -> int:
    return HEADLINE_STATES.index(headline.state)


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
        above.append(_listed(pipelines, chosen, screen.alerts, width))
        own = [alert for alert in screen.alerts if alert.pipeline == chosen]
        body = Group(headlines_table(pipelines[chosen], width), Text(), newest_alerts(own, screen.muted))
    below = Text("Ctrl-C ends it.", style="bright_black")
    if keys:
        parts = [view.keys]
        if view.typing or view.text:
            parts.append(f"filter: {view.text}{'_' if view.typing else ''}")
        if not view.opened:
            parts.append(f"pipelines by {view.sort}")
        below = Text("   ".join(parts), style="reverse", no_wrap=True, overflow="ellipsis")
    return Filled(Group(*above), body, below, first=view.first_line, most=height)


def _listed(pipelines: dict[str, list[Headline]], chosen: str, alerts: Sequence[Alert], width: int) -> RenderableType:
    name_width = min(max(map(len, pipelines)), NAME_CHARS)
    share = max((width - name_width - OTHER_CHARS) // 2, 1)

    def firing(name: str) -> Text:
        own = (alert for alert in alerts if alert.pipeline == name and not alert.is_news)
        count = sum(alert.status != "resolved" for alert in own)
        return Text(str(count), style="red" if count else "")

    def worst_state(name: str) -> Text:
        worst = worst_of(pipelines[name])
        if worst is None:
            return Text()
        named = worst.state not in ("steady", "unwatched")
        return Text(f"{worst.state}{f': {short_name(worst.metric)}' if named else ''}", STATE_STYLES[worst.state])

    def largest_change(name: str) -> str:
        most = most_changed(pipelines[name])
        if most is None or most.all_time is None or most.all_time.estimate is None or most.estimate is None:
            return ""
        return f"{most.estimate - most.all_time.estimate:+.3f} {short_name(most.metric)}"

    columns: list[Column[str]] = [
        Column("", lambda name: "›" if name == chosen else " "),
        # A name that is too long goes on in a further line: two cut names could look alike.
        Column(
            "pipeline",
            lambda name: Text(name, style="bold" if name == chosen else ""),
            folds=max(name_width, len("pipeline")),
        ),
        Column("n", lambda name: f"{max(headline.n for headline in pipelines[name]):,}", right=True),
        Column("worst state", worst_state, folds=share),
        Column("largest change", largest_change, folds=share),
        Column("firing", firing, right=True),
    ]
    names = list(pipelines)
    first = max(min(names.index(chosen) - LISTED // 2, len(names) - LISTED), 0)
    return folded(columns, names[first : first + LISTED])


def _own_view(screen: Screen, pipeline: str, headlines: Sequence[Headline], width: int) -> Group:
    segments = sorted({headline.segment for headline in headlines if headline.segment is not None})
    more = f", and {len(segments) - SEGMENTS_LISTED:,} more" if len(segments) > SEGMENTS_LISTED else ""
    return Group(
        Text(pipeline, style="bold cyan"),
        Text("Segments: " + (", ".join(segments[:SEGMENTS_LISTED]) + more if segments else "none")),
        Text(),
        newest_alerts([alert for alert in screen.alerts if alert.pipeline == pipeline], screen.muted),
        Text(),
        headlines_table(headlines, width, small=True),
    )


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
                    width, height = self._console.size
                    lines = height if self._problem is None else height - 1
                    filled = watch_screen(self._screen, self._view, width, lines, segments=self._segments, keys=keys)
                    live.update(self._drawn(filled), refresh=True)
                    # Further presses of a key at the end have no effect that later presses would have to undo.
                    self._view = replace(self._view, first_line=filled.first)
        finally:
            await end(reading)

    async def _read(self, interval_s: float) -> None:
        while True:
            try:
                await self._screen.refresh()
                self._problem = None
            except RedisError as error:
                self._problem = f"Redis does not answer ({error}); trying again ..."
            self._changed.set()
            await asyncio.sleep(interval_s)

    def _press(self, key: str) -> None:
        pipelines = shown_pipelines(self._screen, self._view, segments=self._segments)
        self._view = press(self._view, key, list(pipelines))
        # Only a pipeline's own view shows segment values: reading them takes longer.
        self._screen.segments = self._segments or self._view.opened
        self._changed.set()

    def _drawn(self, filled: Filled) -> RenderableType:
        if self._problem is None:
            return filled
        return Group(Text(self._problem, "red", no_wrap=True, overflow="ellipsis"), filled)
