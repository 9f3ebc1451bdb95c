"""The demo: its numbers while it runs, its page, and what it showed."""

import asyncio
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.console import Group
from rich.live import Live
from rich.text import Text

from ragtide_offline.demo import HALF, DemoResult, run_demo
from ragtide_roles.running import on_signal
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.alert_text import alert_text

from ..printing import err, out
from ..printing.estimates import estimates_table
from ..printing.live import alerts_view
from .roles import needs_web, say_page
from .watching import Screen

REDRAWN_S = 0.25
"""Seconds between two drawings of the live table."""


async def run_on_screen(settings: Settings, *, fast: bool, live: bool, open_page: bool) -> DemoResult:
    """Run the demo, with a live table on a terminal. A page that was opened stays until Ctrl-C."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(_page(settings)) if open_page else None
        table = await stack.enter_async_context(AsyncExitStack())

        def show_phase(number: int) -> None:
            if live and number in (0, HALF):
                out.print(_phase(number))

        async def stay(result: DemoResult) -> None:
            await table.aclose()  # the live table ends before the result is printed
            if live:
                print_demo(result)
            err.print(f"The page stays at {address} until Ctrl-C.", highlight=False, soft_wrap=True)
            stop = asyncio.Event()
            with on_signal(stop.set):
                await stop.wait()

        finished = None if address is None else stay
        if live and not fast and out.is_terminal:
            await table.enter_async_context(_drawn(settings))
            return await run_demo(settings, paced=True, finished=finished)
        return await run_demo(settings, paced=not fast, publishing=show_phase, finished=finished)


@asynccontextmanager
async def _page(settings: Settings) -> AsyncIterator[str]:
    try:
        from ragtide_offline.pages.laboratory import LABORATORY  # noqa: PLC0415 - an extra of its own
        from ragtide_web.server import page_beside  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise needs_web(error) from None
    assert settings.redis_url is not None  # noqa: S101 - for the type checker: `demo_settings` sets it
    async with page_beside(settings, settings.redis_url, LABORATORY) as address:
        say_page(address)
        # A browser that runs in a terminal does not return before it is closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        yield address


@asynccontextmanager
async def _drawn(settings: Settings) -> AsyncIterator[None]:
    assert settings.redis_url is not None  # noqa: S101 - for the type checker: `demo_settings` sets it
    async with connect_async(settings.redis_url) as redis:
        screen = Screen(redis, settings, segments=False)
        with Live(console=out, auto_refresh=False) as live:

            async def draw() -> None:
                while True:
                    await screen.refresh()
                    aggregated = max((headline.n for headline in screen.headlines), default=0)
                    live.update(Group(_phase(aggregated), screen.render(out.width)), refresh=True)
                    await asyncio.sleep(REDRAWN_S)

            drawing = asyncio.create_task(draw())
            try:
                yield
            finally:
                await end(drawing)
                live.update(Text(), refresh=True)


def _phase(number: int) -> Text:
    if number < HALF:
        return Text("Real answers to real questions. Half way, answers will be swapped between questions.", "green")
    return Text("Answers are now swapped between questions: watch adherence.", "bold yellow")


def print_demo(result: DemoResult) -> None:
    """Print the result of the demo."""
    out.print(Text("Result", style="bold"))
    out.print(estimates_table(result.estimates, out.width, folded_by="ragtide estimates --all shows them"))
    out.print()
    out.print(alerts_view([alert_text(alert) for alert in result.alerts]))
    out.print(
        f"{result.published:,} interactions published, {result.scored:,} scored and aggregated, "
        f"{result.dead_letters:,} dead letters, in {result.duration_s:.1f} s.",
        highlight=False,
    )
    if result.first_alert_s is not None:
        out.print(f"The first alert fired {result.first_alert_s:.1f} s after the start.", highlight=False)
    if not result.alerts:
        out.print("No alert fired, which is unexpected: run it again with --keep, then ragtide doctor.", style="red")
