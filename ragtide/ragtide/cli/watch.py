"""`ragtide watch`: shows estimates, trends and alerts live, and follows keys."""

import asyncio
import sys
from dataclasses import replace
from typing import Annotated

import typer
from redis import RedisError
from redis.asyncio import Redis
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_roles.running import cancelled_by_signal
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.url import RedisHandle

from .common import PipelineOption, SegmentsOption
from .console import err, out
from .keyboard import keyboard
from .screen import Screen
from .watch_screen import Filled, shown_pipelines, watch_screen
from .watch_view import WatchView, press
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


def watch(
    context: typer.Context,
    pipeline: PipelineOption = None,
    segments: SegmentsOption = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of Redis.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit; so does a pipe or a file.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show estimates, trends and alerts live, until Ctrl-C.

    The last line lists the keys: choose and open a pipeline, sort the pipelines, filter, quit. A pipeline's own view
    has its segment values, too.
    """
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> None:
        printed = once or not out.is_terminal
        # The list of a live screen leaves segment values out itself, because a pipeline's own view has them.
        screen = Screen(
            Deployment(redis, settings),
            pipeline=pipeline,
            segments=segments or not printed,
            hint="--segments shows them.",
        )
        if printed:
            await screen.refresh()
            out.print(screen.render(out.width))
        else:
            await cancelled_by_signal(LiveWatch(out, screen, segments=segments).run(interval))

    with_redis(settings, body)
    if not out.is_terminal and not once:
        err.print("The output is no terminal, so this is one screen of now: --once says so.", highlight=False)


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
        self._changed.set()

    def _filled(self, *, keys: bool) -> Filled:
        width, height = self._console.size
        lines = height if self._problem is None else height - 1
        return watch_screen(self._screen, self._view, width, lines, segments=self._segments, keys=keys)

    def _drawn(self, filled: Filled) -> RenderableType:
        if self._problem is None:
            return filled
        return Group(Text(self._problem, "red", no_wrap=True, overflow="ellipsis"), filled)
