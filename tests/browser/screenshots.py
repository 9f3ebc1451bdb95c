"""Makes the pictures of docs/page.md: every screen, dark and light, on a desk and on a phone, of the demo's data.

    python -m tests.browser.screenshots [--only NAME] [FOLDER]
    python -m tests.browser.screenshots --sizes [--only NAME] FOLDER

The demo runs on a Redis of its own, with three more pipelines whose answers stay good, and with a few entries that are
no interactions. `make screenshots` runs it.
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
from tests.browser.sized_screens import sized_pictures
from tests.monitoring.programs import program
from tests.support.conditions import until
from tests.support.recorded import record_streams

from ragtide import Deployment, InteractionProducer
from ragtide_offline.demo import SHIFT, DemoResult, demo_interactions, demo_settings, run_demo
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RecorderSettings
from ragtide_schemas import RagInteraction, utc_now
from ragtide_web.server import page_beside

EXAMPLE = Path(__file__).parents[2] / "examples" / "bm25_rag" / "experiment.toml"
FOLDER = Path(__file__).parents[2] / "docs" / "screens"
WIDTHS = {1400: 900, 390: 844}
LONGEST = {"traffic": 1_800}
"""Most pixels of the height of a picture of a long list."""
COLOURS = 256
"""Colours of a picture: enough for text and charts, and a third of the bytes."""
PIPELINES = ("support-bot", "docs-search", "legal-qa")
DAY = timedelta(days=1)
WORSE_FROM = 0.8
"""Share of the day of the first of these pipelines after which its answers get worse."""
STREAMS = Streams("ragtide", 0)


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


async def _alert(page: Page) -> str:
    found = await _link(page, "/a?state=firing", f"tbody th a:has-text('{PIPELINES[0]}')")
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
    return f"/i?pipeline={PIPELINES[0]}&list=worst"


async def _item(page: Page) -> str:
    return await _link(page, await _items(page), "a[href^='/i/']")


async def _label(_: Page) -> str:
    return f"/label?pipeline={PIPELINES[1]}"


async def _judge(_: Page) -> str:
    return "/judge"


async def _dead(_: Page) -> str:
    return "/dead"


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
    "label": _label,
    "dead": _dead,
    "system": _system,
}
"""Finds the path of each screen."""


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


async def experiment(settings: Settings, folder: Path) -> None:
    """Run the example of an experiment to its end, in a folder whose path may be on a picture."""
    example = shutil.copytree(EXAMPLE.parent, folder / EXAMPLE.parent.name) / EXAMPLE.name
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ragtide", "experiment", "run", str(example),
        env={**os.environ, "RAGTIDE_REDIS_URL": str(settings.redis_url)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    if await process.wait() != 0:
        raise SystemExit(f"the experiment failed: ragtide experiment run {example}")


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
                if await page.locator("main[data-follow]").count():
                    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
                await page.evaluate("() => document.fonts.ready")
                shot = Image.open(io.BytesIO(await page.screenshot(full_page=True)))
                shown = shot.crop((0, 0, shot.width, min(shot.height, LONGEST.get(name, shot.height))))
                small = shown.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(folder / f"{name}-{scheme}-{width}.png", optimize=True)
                await context.close()


async def make(folder: Path, only: str) -> None:
    """Run the demo, and write the pictures."""
    path = program("chromium", "chromium-browser", "google-chrome")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        settings = demo_settings(server.url, Path(name))

        async def finished(_: DemoResult) -> None:
            await more_traffic(settings)
            await experiment(settings, Path(name))
            recording = Path(name) / "recording"
            with connect(server.url) as redis:
                await asyncio.to_thread(record_streams, redis, settings.layout, recording)
            recorded = settings.model_copy(update={"recorder": RecorderSettings(url=str(recording))})
            async with page_beside(recorded, server.url) as address, async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                await pictures(browser, address, folder, only)
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
