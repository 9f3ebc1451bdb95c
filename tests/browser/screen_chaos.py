"""The fleet in front of a deployment whose processes and Redis fail: in the end it shows what the command shows."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from playwright.sync_api import Page, sync_playwright
from tests.browser.services import PageService
from tests.chaos.faults import KINDS, plan
from tests.chaos.running import Options, run
from tests.chaos.traffic import traffic
from tests.monitoring.programs import program
from tests.support.conditions import wait_until
from tests.support.roles import command

from ragtide_schemas import Estimate

SEED = 20_261_123
SOME = 500
FAULTS = 12

Shown = dict[str, list[str]]
"""Of each pipeline and metric the estimate and its ends, as text."""

CELLS = """() => Object.fromEntries([...document.querySelectorAll(".cell[data-key]")].map(
  (cell) => [cell.dataset.key, [cell.querySelector(".value").textContent, cell.querySelector(".ends").textContent]]))"""


def by_command(url: str) -> Shown:
    """Return the numbers of `ragtide estimates --json`."""
    done = command(url, "estimates", "--json")
    assert done.returncode == 0, done.stderr
    found = [Estimate.model_validate(one) for one in json.loads(done.stdout)]
    return {
        f"{one.pipeline}\n{one.metric}": [f"{one.estimate:z.3f}", f"{one.lower:z.3f} – {one.upper:z.3f}"]
        for one in found
        if one.segment is None and one.estimator == "mean" and one.window == "all" and one.has_interval
    }


def differences(page: Page, url: str) -> list[str]:
    """Return the cells that differ from the command, once none does or for good."""
    expected = by_command(url)

    def found() -> list[str]:
        shown: Shown = page.evaluate(CELLS)
        wrong = [] if len(shown) > 3 else [f"the screen has {len(shown)} cells"]
        return wrong + [f"{key!r}: {cell} in place of {expected.get(key)}" for key, cell in shown.items()
                        if cell != expected.get(key)]  # fmt: skip

    try:
        wait_until(lambda: not found(), 60)
    except AssertionError:
        return found()
    return []


@contextmanager
def fleet_on_screen(url: str, direct: str) -> Iterator[Callable[[], list[str]]]:
    """Show the fleet in a browser, while its service is killed again and again."""
    path = program("chromium", "chromium-browser", "google-chrome")
    ended = Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        PageService(url, Path(folder), supervised=True) as service,
        ExitStack() as browsing,
    ):

        def fail() -> None:
            while not ended.wait(3):
                service.kill()
                service.start()

        playwright = browsing.enter_context(sync_playwright())
        page = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]).new_page()
        page.goto(service.url)
        page.evaluate("() => { window.sameDocument = true }")
        failing = Thread(target=fail)
        failing.start()

        def at_rest() -> list[str]:
            ended.set()
            failing.join()
            wrong = differences(page, direct)
            if not page.evaluate("() => window.sameDocument"):
                wrong.append("the page was loaded anew")
            browsing.close()  # the event loop of Playwright would be in the way of others
            return wrong

        try:
            yield at_rest
        finally:
            ended.set()
            failing.join()


def test_after_faults_of_every_kind_the_fleet_shows_what_the_command_shows() -> None:
    things, faults = traffic(SOME, SEED), plan(SEED, FAULTS, SOME)
    assert {fault.kind for fault in faults} == set(KINDS)
    with tempfile.TemporaryDirectory(prefix="ragtide-chaos-") as folder:
        options = Options(interactions=SOME, seed=SEED, faults=faults)
        done = run(options, things, Path(folder) / "chaos", print, fleet_on_screen)
    assert done.faults.total() == FAULTS
    assert done.stuck == []
    assert done.differing == []
