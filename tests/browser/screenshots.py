"""Makes the docs' pictures of the demo's data: every screen, dark and light, on a desk and on a phone, and commands.

    python -m tests.browser.screenshots [--only NAME] [FOLDER]
    python -m tests.browser.screenshots --sizes [--only NAME] FOLDER

The demo runs on a Redis of its own, with three more pipelines whose answers stay good, and with a few entries that are
no interactions. Parts of screens, and the report of the experiment, are for other pages. `make screenshots` runs it.
"""

import argparse
import asyncio
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, Page, async_playwright, expect
from rich.console import Console
from rich.text import Text
from tests.browser.sized_screens import sized_pictures
from tests.monitoring.programs import program
from tests.support.conditions import until
from tests.support.recorded import record_streams
from tests.web.page.test_criteria import answers

from ragtide import Deployment, InteractionProducer
from ragtide_offline.demo import SHIFT, DemoResult, demo_interactions, demo_settings, run_demo
from ragtide_offline.pages.laboratory import LABORATORY
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RecorderSettings
from ragtide_runtime.stored_criteria import StoredCriterion, store_criterion
from ragtide_schemas import RagInteraction, utc_now
from ragtide_schemas.criterion import Criterion
from ragtide_web.server import page_beside

EXAMPLE = Path(__file__).parents[2] / "examples" / "bm25_rag" / "experiment.toml"
FOLDER = Path(__file__).parents[2] / "docs" / "screens"
REPORT = "report.html"
"""Name of the file of the experiment's report."""
WIDTHS = {1400: 900, 390: 844}
LONGEST = {"traffic": 1_800, "experiment": 10_000}
"""Most pixels of the height of a picture with a long list."""
MOVING_NAME = "demo.gif"
MOVING = (1240, 690)
"""Width and height of the moving picture of the README."""
SHOWN_MS = 3_500
"""Time that it shows each of its screens."""
COLOURS = 256
"""Colours of a picture: enough for text and charts, and a third of the bytes."""
PIPELINES = ("support-bot", "docs-search", "legal-qa")
DAY = timedelta(days=1)
WORSE_FROM = 0.8
"""Share of the day of the first of these pipelines after which its answers get worse."""
STREAMS = Streams("ragtide", 0)
ASKS_BACK = Criterion(
    name="asks_back",
    question="Does the response ask a clarifying question when the user's question is ambiguous?",
    scale="yes_no",
    pipelines=("support*", "docs*"),
    rate=0.2,
)
TONE = Criterion(name="tone", question="How friendly is the response?", scale="1-5", needs=("response",))
JUDGED = ((ASKS_BACK, (0.0, 1.0, 0.0, 0.0, None)), (TONE, (4.0, 5.0, 3.0, 4.0, 5.0)))
"""Criteria, and the answers of a judge to them, over and over."""
MODEL = "gpt-5-mini"
"""Model of the judge of the page, for the price of a criterion."""


async def _link(page: Page, start: str, links: str) -> str:
    """Return the path of the first link on a screen that matches."""
    await page.goto(start)
    found = await page.locator(links).first.get_attribute("href")
    assert found is not None, f"{start} has no link {links}"
    return found


async def _fleet(_: Page) -> str:
    return "/"


async def _pipeline(_: Page) -> str:
    return f"/p/{PIPELINES[0]}"


async def _alerts(_: Page) -> str:
    return "/a"


async def _firing(page: Page) -> str:
    return await _link(page, "/a?state=firing", f"tbody th a:has-text('{PIPELINES[0]}')")


async def _alert(page: Page) -> str:
    found = await _firing(page)
    await page.goto(found)
    if not await page.locator("#replay .chart").count():
        await page.locator("#statistics > summary").click()
        await page.get_by_role("button", name="Replay this rule").click()
        await expect(page.locator("#replay .chart canvas")).to_have_count(1)
    return found


async def _traffic(_: Page) -> str:
    return f"/t?pipeline={PIPELINES[0]}"


async def _experiments(_: Page) -> str:
    return "/x"


async def _experiment(page: Page) -> str:
    return await _link(page, "/x", "tbody a[href^='/x/']")


async def _items(_: Page) -> str:
    return f"/t?pipeline={PIPELINES[0]}&list=worst"


async def _item(page: Page) -> str:
    return await _link(page, await _items(page), "a[href^='/i/']")


async def _unsupported(page: Page) -> str:
    return await _link(page, await _firing(page), "main a[href^='/i/']")


async def _label(_: Page) -> str:
    return f"/label?pipeline={PIPELINES[1]}"


async def _judge(_: Page) -> str:
    return "/judge"


async def _dead(_: Page) -> str:
    return "/dead"


async def _criteria(_: Page) -> str:
    return f"/criteria?change={ASKS_BACK.name}"


async def _system(_: Page) -> str:
    return "/system"


SCREENS: Mapping[str, Callable[[Page], Awaitable[str]]] = {
    "fleet": _fleet,
    "pipeline": _pipeline,
    "alerts": _alerts,
    "alert": _alert,
    "traffic": _traffic,
    "items": _items,
    "item": _item,
    "experiments": _experiments,
    "experiment": _experiment,
    "judge": _judge,
    "criteria": _criteria,
    "label": _label,
    "dead": _dead,
    "system": _system,
}
"""Finds the path of each screen."""

PARTS: Mapping[str, tuple[str, str | None]] = {"leaderboard": ("experiment", None), "replay": ("alert", "#replay")}
"""A screen of which a picture shows a part, and the part: the element of a selector, or the first 900 pixels."""


async def more_traffic(settings: Settings) -> None:
    """Publish good answers to more pipelines, and entries that are no interactions."""
    rows = demo_interactions()
    async with InteractionProducer(settings=settings, sample=1.0) as producer:
        began = utc_now() - DAY
        for place, pipeline in enumerate(PIPELINES):
            count = 1200 - 300 * place
            for number in range(count):
                row = rows[(number + place) % len(rows)]
                changes: dict[str, Any] = {
                    "interaction_id": f"{pipeline}-{number:04d}",
                    "pipeline": pipeline,
                    "occurred_at": began + DAY * number / count,
                    "segments": {**row.segments, "version": "2026.11.2" if number > 0.55 * count else "2026.11.1"},
                }
                if pipeline == PIPELINES[0] and number > WORSE_FROM * count and number % 3:
                    # The answers of two questions of three are swapped in the last hours.
                    changes |= {"response": rows[(number + SHIFT) % len(rows)].response, "gold_scores": {}}
                await producer.apublish(RagInteraction(**{**dict(row), **changes}))
    async with connect_async(str(settings.redis_url)) as redis:
        for payload in (b"not json", b'{"pipeline": "legal-qa", "question": 7}', b'{"question": "Who?"}'):
            await redis.xadd(STREAMS.interactions, {DATA_FIELD: payload})
        deployment = Deployment(redis, settings)

        async def is_scored() -> bool:
            (backlog,) = await deployment.backlog()
            return backlog.lengths["dead_letters"] == 3 and not backlog.waiting

        await until(is_scored)


async def criteria(settings: Settings) -> None:
    """Store criteria, and emit a judge's answers to them."""
    async with connect_async(str(settings.redis_url)) as redis:
        for criterion, values in JUDGED:
            await store_criterion(redis, "ragtide", StoredCriterion(criterion=criterion, by="ann", at=utc_now()))
            for pipeline in PIPELINES[:2]:
                for event in answers(criterion, *values * 60, pipeline=pipeline):
                    now = {"occurred_at": utc_now(), "interaction_id": f"{pipeline}-{event.interaction_id}"}
                    await redis.xadd(STREAMS.metrics, {DATA_FIELD: event.model_copy(update=now).encode()})
        deployment = Deployment(redis, settings)

        async def is_counted() -> bool:
            found = await deployment.estimates()
            return sum(each.n for each in found if each.metric == TONE.metric and each.segment is None) >= 600

        await until(is_counted)


async def check_form(page: Page) -> None:
    """Check the form of a criterion, so that the picture has hints and price."""
    await page.get_by_role("button", name="Check").click()
    await expect(page.locator("#check .price")).to_be_visible()


AFTER: Mapping[str, Callable[[Page], Awaitable[None]]] = {"criteria": check_form}
"""What is done on a screen before its picture is taken."""


async def run_command(settings: Settings, *arguments: str) -> None:
    """Run a command of ragtide to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ragtide", *arguments,
        env={**os.environ, "RAGTIDE_REDIS_URL": str(settings.redis_url)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    if await process.wait() != 0:
        raise SystemExit(f"the command failed: ragtide {' '.join(arguments)}")


async def experiment(settings: Settings, folder: Path) -> None:
    """Run the example of an experiment to its end, in a folder whose path may be on a picture, and write its report."""
    example = shutil.copytree(EXAMPLE.parent, folder / EXAMPLE.parent.name) / EXAMPLE.name
    await run_command(settings, "experiment", "run", str(example))
    await run_command(settings, "report", "bm25-grid", "--output", str(folder / REPORT))


def save(shot: Image.Image, path: Path) -> None:
    """Write a picture with few colours."""
    shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


async def parts(browser: Browser, address: str, report: Path, folder: Path, only: str) -> None:
    """Write the pictures of parts of screens, and of the first page of a report: light, on a desk."""
    width, height = next(iter(WIDTHS.items()))
    for name, (screen, selector) in {**PARTS, "report": (report.as_uri(), None)}.items():
        if only not in name:
            continue
        context = await browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="light",
            locale="en-US",
            timezone_id="UTC",
            base_url=address,
        )
        page = await context.new_page()
        await page.goto(await SCREENS[screen](page) if screen in SCREENS else screen)
        await page.evaluate("() => document.fonts.ready")
        shown = page.locator(selector) if selector else page
        save(Image.open(io.BytesIO(await shown.screenshot())), folder / f"{name}-light-{width}.png")
        await context.close()


async def moving(browser: Browser, address: str, file: Path) -> None:
    """Write the moving picture: the fall of a metric, its alert, and an answer that no document supports."""
    width, height = MOVING
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", locale="en-US", timezone_id="UTC",
        base_url=address,
    )  # fmt: skip
    page = await context.new_page()
    shots = []
    for path_of in (_pipeline, _firing, _unsupported):
        await page.goto(await path_of(page))
        await page.evaluate("() => document.fonts.ready")
        if await page.locator(".chart").count():
            await expect(page.locator(".chart canvas").first).to_be_visible()
        shot = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
        shots.append(shot.quantize(COLOURS // 4, dither=Image.Dither.NONE))
    shots[0].save(file, save_all=True, append_images=shots[1:], duration=SHOWN_MS, loop=0, optimize=True)
    await context.close()


async def pictures(browser: Browser, address: str, folder: Path, only: str) -> None:
    """Write the pictures of every screen."""
    for name, path_of in SCREENS.items():
        if only not in name:
            continue
        for scheme in ("dark", "light"):
            for width, height in WIDTHS.items():
                context = await browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    locale="en-US",
                    timezone_id="UTC",
                    base_url=address,
                )
                page = await context.new_page()
                await page.goto(await path_of(page))
                if name in AFTER:
                    await AFTER[name](page)
                if await page.locator("main[data-follow]").count():
                    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
                await page.evaluate("() => document.fonts.ready")
                shot = Image.open(io.BytesIO(await page.screenshot(full_page=True)))
                shown = shot.crop((0, 0, shot.width, min(shot.height, LONGEST.get(name, shot.height))))
                save(shown, folder / f"{name}-{scheme}-{width}.png")
                await context.close()


COMMANDS: Mapping[str, tuple[str, ...]] = {"compare": ("compare", *PIPELINES[:2])}
"""Commands whose output is a picture, by the name of its file."""
COLUMNS = 100
TERMINAL = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""
"""The form of such a picture: no fonts of another site."""


async def commands(settings: Settings, folder: Path, only: str) -> None:
    """Write what commands print as pictures."""
    for name, arguments in COMMANDS.items():
        if only not in name:
            continue
        shown = {"RAGTIDE_REDIS_URL": str(settings.redis_url), "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ragtide", *arguments, env={**os.environ, **shown}, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"the command failed: ragtide {' '.join(arguments)}")
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(f"$ ragtide {' '.join(arguments)}", highlight=False)
        console.print(Text.from_ansi(output.decode()))
        drawn = console.export_svg(title="ragtide", code_format=TERMINAL, unique_id=name)
        lines = [line.rstrip() for line in drawn.splitlines()]
        (folder / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


async def make(folder: Path, only: str) -> None:
    """Run the demo, and write the pictures."""
    path = program("chromium", "chromium-browser", "google-chrome")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        settings = demo_settings(server.url, Path(name))

        async def finished(_: DemoResult) -> None:
            await more_traffic(settings)
            await criteria(settings)
            await commands(settings, folder, only)
            if only in COMMANDS:
                return
            await experiment(settings, Path(name))
            recording = Path(name) / "recording"
            with connect(server.url) as redis:
                await asyncio.to_thread(record_streams, redis, settings.layout, recording)
            judge = settings.judge.model_copy(update={"model": MODEL})
            recorded = settings.model_copy(update={"recorder": RecorderSettings(url=str(recording)), "judge": judge})
            async with page_beside(recorded, server.url, LABORATORY) as address, async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                if only in MOVING_NAME:
                    await moving(browser, address, folder / MOVING_NAME)
                await pictures(browser, address, folder, only)
                await parts(browser, address, Path(name) / REPORT, folder, only)
                await browser.close()

        await run_demo(settings, paced=False, finished=finished)


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--sizes", action="store_true", help="pictures of lists with 0, 1 and 10,000 entries instead")
    options = parser.parse_args()
    if options.sizes and options.folder == FOLDER:
        parser.error("pictures of sizes are to look at: give a folder for them, such as /tmp/sizes")
    options.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run((sized_pictures if options.sizes else make)(options.folder, options.only))


if __name__ == "__main__":
    main()
