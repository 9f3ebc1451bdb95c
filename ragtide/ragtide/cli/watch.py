"""The live table: estimates, intervals, trends and alerts, redrawn as they change."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from redis import RedisError
from redis.asyncio import Redis
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ragtide_aggregator.estimates.estimates import chosen
from ragtide_runtime.redis.backlog import COUNT_CAP, read_backlog
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Estimate
from ragtide_schemas.suggestions import unknown

from .reading import read_estimates
from .reading_streams import read_alerts
from .tables import TrendKey, alerts_view, estimate_key, estimates_table

TREND_POINTS = 16
"""Recent means drawn for each row."""

ALERTS_SHOWN = 4
"""Alerts drawn below the table."""


class Screen:
    """The screen of a watcher; it remembers recent means to draw trends."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        *,
        keep: Callable[[Estimate], bool] = lambda _: True,
        pipeline: str | None = None,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._keep = keep
        self._pipeline = pipeline
        self._trends: dict[TrendKey, deque[float]] = defaultdict(lambda: deque(maxlen=TREND_POINTS))
        self.estimates: Sequence[Estimate] = ()
        self.alerts: Sequence[Alert] = ()
        self._counts = Text()
        self._warnings: list[str] = []

    async def refresh(self) -> None:
        """Read everything anew."""
        everything = await read_estimates(self._redis, self._settings)
        self.estimates = [e for e in chosen(everything) if self._keep(e)]
        self.alerts, unreadable = await read_alerts(self._redis, self._settings)
        known = {estimate.pipeline for estimate in everything}
        wanted = self._pipeline
        missing = unknown("pipeline", wanted, known) if wanted is not None and known and wanted not in known else None
        self._warnings = [sentence for sentence in (missing, unreadable.warning()) if sentence is not None]
        for estimate in self.estimates:
            if estimate.recent is not None:
                self._trends[estimate_key(estimate)].append(estimate.recent)
        self._counts = await self._read_counts()

    async def _read_counts(self) -> Text:
        waiting = scored = dead = 0
        for streams in self._settings.layout.all():
            backlog = await read_backlog(self._redis, streams)
            scored += backlog.lengths["metrics"]
            dead += backlog.lengths["dead_letters"]
            waiting += backlog.waiting
        more = "+" if waiting >= COUNT_CAP else ""
        text = Text.assemble(
            ("ragtide", "bold cyan"), f"   scored {scored:,}   waiting {waiting:,}{more}   dead letters "
        )
        text.append(f"{dead:,}", style="red" if dead else "")
        return text

    def render(self, width: int) -> RenderableType:
        """Return what to draw on a terminal of so many columns."""
        warnings = [Text(sentence, style="yellow") for sentence in self._warnings]
        if not self.estimates:
            waiting = Text("Waiting for the first scored interaction ...", style="bright_black")
            return Group(self._counts, *warnings, waiting)
        level = f"{self.estimates[0].confidence:.0%}"
        note = f"{level} intervals, valid at every look; recent: about the last 64"
        return Group(
            self._counts,
            *warnings,
            Text(note, style="bright_black"),
            Text(),
            estimates_table(self.estimates, width, self._trends),
            Text(),
            alerts_view(sorted(self.alerts, key=lambda alert: alert.fired_at)[-ALERTS_SHOWN:]),
        )


async def watch(console: Console, screen: Screen, *, interval_s: float) -> None:
    """Redraw the screen until cancelled; a Redis that is away for a while is waited for."""
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            try:
                await screen.refresh()
                live.update(screen.render(console.width), refresh=True)
            except RedisError as error:
                live.update(Text(f"Redis does not answer ({error}); trying again ...", style="red"), refresh=True)
            await asyncio.sleep(interval_s)
