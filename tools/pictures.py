"""Takes pictures of every screen of the story, to look at: at 1,400 and 390 pixels, dark and light. None is committed.

    python -m tools.pictures [--only NAME] FOLDER

`make pictures` runs it; it needs a Chromium (`make programs`). Each screen gives `NAME-SCHEME-WIDTH.png`, as far as it
can be scrolled, and `NAME-first-SCHEME-WIDTH.png`, as it opens. The story is `tests/support/story.py`.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Page, async_playwright, expect
from tests.monitoring.programs import program
from tests.support import story

from ragtide_runtime.telemetry.logs import configure_logging

SIZES: Final = {1400: 900, 390: 844}
"""Height of the window by its width."""
SCHEMES: Final = ("dark", "light")
FOLDER: Final = Path("build/pictures")


def paths(played: story.Story) -> Mapping[str, str]:
    """Return the address of each screen, by the name of its pictures."""
    fixed = {
        "fleet": "/", "fleet-de": "/?segment=lang%3Dde", "alerts": "/a", "traffic": "/t", "items": "/i",
        "experiments": "/x", "experiment": f"/x/{story.EXPERIMENT}", "judge": "/judge", "dead": "/dead",
        "label": f"/label?pipeline={story.SEARCH}", "system": "/system", "orders": "/system/orders",
    }  # fmt: skip
    kept = next(alert for alert in played.alerts if alert.pipeline == story.SHOP)
    item = {"item": f"/i/{story.SHOP}/{kept.worst_interaction_ids[0]}?alert={kept.alert_id}"}
    pipelines = {f"pipeline-{name}": f"/p/{name}" for name in story.COUNTS}
    ranges = {f"pipeline-shop-{name}": f"/p/{story.SHOP}?range={name}" for name in ("1h", "7d")}
    alerts = {f"alert-{alert.rule}": f"/a/{alert.alert_id}" for alert in played.alerts}
    return fixed | item | pipelines | ranges | alerts


def console_errors(page: Page) -> list[str]:
    """Return a list that gets the errors of the page's console."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


async def take(browser: Browser, address: str, screens: Mapping[str, str], folder: Path) -> list[str]:
    """Write the pictures, and return what is wrong: errors of the console, and screens wider than the window."""
    faults = []
    for scheme in SCHEMES:
        for width, height in SIZES.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                locale="en-US",
                timezone_id="UTC",
                base_url=address,
            )
            page = await context.new_page()
            errors = console_errors(page)
            for name, path in screens.items():
                answer = await page.goto(path)
                if await page.locator("main[data-follow]").count():
                    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
                await page.evaluate("() => document.fonts.ready")
                await page.screenshot(path=folder / f"{name}-first-{scheme}-{width}.png")
                await page.screenshot(path=folder / f"{name}-{scheme}-{width}.png", full_page=True)
                wide = await page.evaluate("() => document.documentElement.scrollWidth")
                if answer is None or answer.status != 200:
                    errors.append(f"answer {answer and answer.status}")
                if wide > width:
                    errors.append(f"{wide} pixels wide")
                faults += [f"{name}-{scheme}-{width}: {error}" for error in errors]
                errors.clear()
            await context.close()
    return faults


async def make(folder: Path, only: str) -> list[str]:
    """Play the story, write its pictures, and return what is wrong with them."""
    path = program("chromium", "chromium-browser", "google-chrome")
    with tempfile.TemporaryDirectory(prefix="story-") as name:
        async with story.play(Path(name)) as played, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            screens = {screen: path for screen, path in paths(played).items() if only in screen}
            found = await take(browser, played.address, screens, folder)
            await browser.close()
            return found


def main() -> int:
    """Parse the arguments, and return 1 if a screen has a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--only", default="", metavar="NAME", help="screens whose name has this text")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    configure_logging("error")
    faults = asyncio.run(make(options.folder, options.only))
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) + f"pictures: {options.folder}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
