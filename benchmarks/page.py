"""What 20 open pages cost: events that the service pushes, beside pages that poll its JSON.

    python benchmarks/page.py [--seconds 20] [--viewers 20] [--pipelines 100] [--metrics 10]

`ragtide aggregator` and `ragtide serve` run on a Redis of their own. Four times a second each pipeline gets a metric
event, so every number of the fleet changes. The same viewers look in turn, in one run: with server-sent events as the
page does, with a poll of `/v1/estimates` four times a second, and with a poll every 5 seconds. Measured are processor
and memory of `ragtide serve`, and the bytes and updates of a viewer. Last, a Chromium opens the page: measured are the
script time of each update, and the time from just before an event is published until its number is on the screen.
Printed as Markdown.
"""

import argparse
import asyncio
import contextlib
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import psutil
from playwright.async_api import async_playwright
from processes import role, until

from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import METRICS, MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
PERIOD_S = 0.25
WARM_UP = 400
"""Events of each pipeline before the first measurement, so that no state of a metric changes meanwhile."""
SEEN = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const n = document.querySelector('tr[data-key="row:pipeline-000"] td.n')?.textContent.replaceAll(",", "");
    if (n !== window.seen.at(-1)?.[0]) window.seen.push([n, Date.now()]);
  }).observe(document.getElementById("main"), { subtree: true, childList: true, characterData: true });
}"""


@dataclass
class Traffic:
    """Publishes metric events, and notes when."""

    pipelines: int
    metrics: Sequence[str]
    rng: random.Random = field(default_factory=lambda: random.Random(20261123))
    number: int = 0
    published: dict[int, float] = field(default_factory=dict)
    """Unix milliseconds just before the n-th event of each pipeline was published."""

    def _events(self) -> list[bytes]:
        self.number += 1
        now = utc_now()
        return [
            MetricEvent(
                interaction_id=f"i-{place}-{self.number}",
                pipeline=f"pipeline-{place:03d}",
                occurred_at=now,
                labeled_at=now,
                labeler="bench",
                labeler_version="1",
                profile="ragbench",
                scores={name: self.rng.betavariate(40, 10) for name in self.metrics},
            ).encode()
            for place in range(self.pipelines)
        ]

    async def publish(self, redis: Any) -> None:
        """Publish one event for each pipeline."""
        encoded = self._events()
        self.published[self.number] = time.time() * 1000
        async with redis.pipeline(transaction=False) as pipe:
            for payload in encoded:
                pipe.xadd(STREAMS.metrics, {DATA_FIELD: payload})
            await pipe.execute()

    async def keep_publishing(self, redis: Any) -> None:
        """Publish four times a second until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.publish(redis)
            due = max(due + PERIOD_S, loop.time())
            await asyncio.sleep(due - loop.time())


@dataclass
class Tally:
    """The bytes and updates of all viewers."""

    received: int = 0
    updates: int = 0


async def follow(session: aiohttp.ClientSession, url: str, tally: Tally) -> None:
    """Look as the page does."""
    async with session.get(url) as reply:
        async for line in reply.content:
            tally.received += len(line)
            tally.updates += line.startswith(b"event: patch")


async def poll(session: aiohttp.ClientSession, url: str, tally: Tally, period_s: float) -> None:
    """Look by fetching everything again and again."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        async with session.get(url) as reply:
            tally.received += len(await reply.read())
        tally.updates += 1
        await asyncio.sleep(max(began + period_s - loop.time(), 0.0))


async def measure(
    name: str, process: psutil.Process, viewers: int, seconds: float, viewer: Callable[[Tally], Awaitable[None]]
) -> tuple[str, ...]:
    """Return the row of one kind of viewers."""
    tally = Tally()
    tasks = [asyncio.ensure_future(viewer(tally)) for _ in range(viewers)]
    await asyncio.sleep(3)  # the first answer of each viewer is everything
    before, cpu, began = Tally(tally.received, tally.updates), _cpu_s(process), time.perf_counter()
    await asyncio.sleep(seconds)
    lasted = time.perf_counter() - began
    row = (
        name,
        f"{(_cpu_s(process) - cpu) / lasted:.0%}",
        f"{process.memory_info().rss / 2**20:.0f}",
        f"{(tally.received - before.received) / lasted / viewers / 1000:,.0f}",
        f"{(tally.updates - before.updates) / lasted / viewers:.2f}",
    )
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return row


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def in_browser(url: str, seconds: float, traffic: Traffic) -> tuple[list[float], list[float]]:
    """Return the script times and the delays of updates, in milliseconds."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("this machine has no chromium: run `make programs` as root")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        await page.goto(url)
        await page.locator("#connection[data-state=live]").wait_for()
        await asyncio.sleep(3)
        await page.evaluate(SEEN)
        await page.evaluate("() => performance.clearMeasures()")
        await asyncio.sleep(seconds)
        times = await page.evaluate("() => performance.getEntriesByName('ragtide-update').map((one) => one.duration)")
        seen = [(int(n), at) for n, at in await page.evaluate("() => window.seen")]
        await browser.close()
    delays = []
    for number, at in traffic.published.items():
        # Only events that were published while the screen was looked at, and are on it in the end.
        if seen and seen[0][1] < at and number <= seen[-1][0]:
            delays.append(next(shown for n, shown in seen if n >= number) - at)
    return times, delays


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


async def run(options: argparse.Namespace, redis_url: str, port: int, process: psutil.Process) -> None:
    """Measure and print."""
    metrics = sorted(METRICS, key=lambda name: METRICS[name].bands is None)[: options.metrics]
    traffic = Traffic(options.pipelines, metrics)
    base = f"http://127.0.0.1:{port}"
    filters = urlencode([("metric", name) for name in metrics])
    async with (
        connect_async(redis_url) as redis,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(None)) as session,
    ):
        for _ in range(WARM_UP):
            await traffic.publish(redis)
        await until_aggregated(redis)
        publishing = asyncio.create_task(traffic.keep_publishing(redis))
        await asyncio.sleep(2)
        live, estimates = f"{base}/live?view=fleet&{filters}", f"{base}/v1/estimates?window=all"
        one = (process, options.viewers, options.seconds)
        rows = [
            await measure("server-sent events", *one, lambda tally: follow(session, live, tally)),
            await measure("JSON, 4 polls a second", *one, lambda tally: poll(session, estimates, tally, PERIOD_S)),
            await measure("JSON, a poll every 5 s", *one, lambda tally: poll(session, estimates, tally, 5.0)),
        ]
        await asyncio.sleep(2)
        times, delays = await in_browser(f"{base}/?{filters}", options.seconds, traffic)
        publishing.cancel()
    shown = f"{options.viewers} viewers, {options.pipelines} pipelines with {len(metrics)} metrics"
    print(f"{shown}, 4 events a second each:\n")
    print("| viewers | processor of `ragtide serve` | its memory, MiB | kB/s of a viewer | updates/s of a viewer |")
    print("|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print("\nA page in Chromium, ms:\n\n| | updates | median | 95th percentile | most |\n|---|---|---|---|---|")
    for name, values in (("script time of an update", times), ("from publishing to the screen", delays)):
        found = (statistics.median(values), quantile(values, 0.95), max(values))
        print(f"| {name} | {len(values)} | " + " | ".join(f"{value:.1f}" for value in found) + " |")


async def until_aggregated(redis: Any) -> None:
    """Wait until the newest metric event is in the checkpoint."""
    ((newest, _),) = await redis.xrevrange(STREAMS.metrics, count=1)
    for _ in range(3000):
        if await redis.hget(STREAMS.checkpoint, CheckpointField.POSITION) == newest:
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the aggregator does not keep up")


def main() -> None:
    """Start the processes, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--pipelines", type=int, default=100)
    parser.add_argument("--metrics", type=int, default=10)
    options = parser.parse_args()
    port = 18_099
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_COMMIT_INTERVAL_S": "0.1",
            "RAGTIDE_SERVE_PORT": str(port),
        }
        with (
            role("aggregator", settings, Path(name) / "aggregator.log"),
            role("serve", settings, Path(name) / "serve.log") as serving,
        ):
            until(lambda: _answers(port, serving, Path(name)))
            asyncio.run(run(options, server.url, port, psutil.Process(serving.pid)))


def _answers(port: int, process: subprocess.Popen[bytes], folder: Path) -> bool:
    if process.poll() is not None:
        raise SystemExit((folder / "serve.log").read_text())
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
