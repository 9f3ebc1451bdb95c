"""How soon an interaction is an event, in an estimate, on the screen and in an alert, at low traffic and under load.

    python benchmarks/latency.py [--short] > benchmarks/measured/latency.md

`ragtide worker` (local labeler), `aggregator`, `serve` and `notify` run with default settings as processes of their
own, on a Redis of their own. This process publishes the demo's interactions, and is every reader: of the stream of
metric events, of the checkpoint from which all estimates are read (a look every 5 ms), of the server-sent events of an
open page, and a webhook. All times begin just before an interaction is published or, under load, when it was due.

1. Low traffic: single interactions, each published after the one before it was on the screen, and a random pause.
2. Capacity: for a few seconds as many interactions are published as leave 400 waiting.
3. Load: arrivals of a Poisson process (seeded) at 10%, 50% and 90% of the capacity. Half of them belong to one
   pipeline, which the open page shows. The others belong to a pipeline of which a threshold rule demands too much, so
   that it fires soon; then they belong to the next such pipeline. The alert's `n` says which interaction fired the
   rule: measured is from that interaction to the body that the webhook got.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
from processes import commit, role, until

from ragtide import Alert, AlertRule, InteractionProducer, RagInteraction
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.entries import START, payload_of
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.log import read_after
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import MetricEvent

STREAMS = Streams("ragtide", 0)
SHOWN = "shown"
"""The pipeline of the open page."""
LOOK_S = 0.005
WAITING = 400
RULE = AlertRule(name="never-good-enough", kind="threshold", metric="trace.adherence", target=0.99, min_effect=0.0)
AIM_S = 1.0
"""The aim for the 99th percentile at half of the capacity."""


@dataclass
class Times:
    """When each interaction of each pipeline was due, and in seconds since then: when it was where."""

    due: dict[str, float] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)
    screen: dict[str, float] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids of each pipeline in the order of their metric events."""
    alerts: dict[str, tuple[float, Alert]] = field(default_factory=dict)
    """The first firing alert of each pipeline, and when the webhook got it."""
    uncommitted: list[tuple[tuple[int, int], str]] = field(default_factory=list)
    shown_n: int = 0
    shown_at: float = 0.0
    drawn: int = 0

    def published(self, interaction_id: str, due: float) -> None:
        """Note when an interaction is published."""
        self.due[interaction_id] = due

    def event(self, entry_id: str, event: MetricEvent) -> None:
        """Note that a metric event was read."""
        self.events[event.interaction_id] = self.since(event.interaction_id)
        self.order[event.pipeline].append(event.interaction_id)
        self.uncommitted.append((_order(entry_id), event.interaction_id))
        self._note_drawn()

    def committed(self, position: str) -> None:
        """Note that the estimates include all events up to a position."""
        reached = _order(position)
        while self.uncommitted and self.uncommitted[0][0] <= reached:
            _, interaction_id = self.uncommitted.pop(0)
            self.estimates[interaction_id] = self.since(interaction_id)

    def on_screen(self, n: int) -> None:
        """Note that the screen shows the first n interactions of its pipeline."""
        self.shown_n, self.shown_at = n, time.perf_counter()
        self._note_drawn()

    def _note_drawn(self) -> None:
        # The screen may be ahead of the reader of events, which then has the ids a moment later.
        for interaction_id in self.order[SHOWN][self.drawn : self.shown_n]:
            self.screen[interaction_id] = self.shown_at - self.due[interaction_id]
            self.drawn += 1

    def alerted(self, alert: Alert) -> None:
        """Note that the webhook got an alert."""
        if alert.status == "firing":
            self.alerts.setdefault(alert.pipeline, (time.perf_counter(), alert))

    def since(self, interaction_id: str) -> float:
        """Return seconds since an interaction was due."""
        return time.perf_counter() - self.due[interaction_id]

    def alert_delays(self) -> list[float]:
        """Return the seconds from each interaction that fired a rule to its alert."""
        fired_by = {pipeline: self.order[pipeline][(alert.n or 1) - 1] for pipeline, (_, alert) in self.alerts.items()}
        return [self.alerts[pipeline][0] - self.due[cause] for pipeline, cause in fired_by.items()]


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number)


@dataclass
class Readers:
    """Everything that is read while interactions are published."""

    times: Times
    redis_url: str
    page: str

    async def read_events(self) -> None:
        """Read metric events until cancelled."""
        last = START
        async with connect_async(self.redis_url) as redis:
            while True:
                for _, entries in await read_after(redis, {STREAMS.metrics: last}, count=1000, block_ms=500):
                    for entry in entries:
                        self.times.event(entry.entry_id, MetricEvent.decode(payload_of(entry.fields, "metric event")))
                        last = entry.entry_id

    async def read_position(self) -> None:
        """Look at the checkpoint until cancelled."""
        async with connect_async(self.redis_url) as redis:
            while True:
                if position := await redis.hget(STREAMS.checkpoint, CheckpointField.POSITION):
                    self.times.committed(position if isinstance(position, str) else position.decode())
                await asyncio.sleep(LOOK_S)

    async def read_screen(self) -> None:
        """Follow the page as a browser does, until cancelled."""
        key = f"row:{SHOWN}"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None), read_bufsize=2**20) as session,
            session.get(self.page) as reply,
        ):
            async for line in reply.content:
                if line.startswith(b"data: {") and (patch := json.loads(line[6:]).get(key)):
                    self.times.on_screen(int(patch[1].replace(",", "")))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Return a context in which everything is read."""
        # A reader that fails ends the run.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(read()) for read in (self.read_events, self.read_position, self.read_screen)]
            yield
            for task in tasks:
                task.cancel()


@contextmanager
def webhook(times: Times) -> Iterator[str]:
    """Return a context with the URL of a webhook in a thread."""

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            times.alerted(Alert.model_validate(json.loads(body)["data"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Traffic:
    """The demo's interactions, each under a new id, for the pipeline of the page and for those that alert."""

    def __init__(self, times: Times, seed: int = 20261126) -> None:
        self._times = times
        self._rows = itertools.cycle(demo_interactions())
        self._numbers = itertools.count()
        self._alerting = 0
        self.rng = random.Random(seed)

    def interaction(self, *, shown: bool, due: float) -> RagInteraction:
        """Return the next interaction."""
        if f"alerting-{self._alerting}" in self._times.alerts:
            self._alerting += 1
        row, interaction_id = next(self._rows), f"i-{next(self._numbers)}"
        self._times.published(interaction_id, due)
        return row.model_copy(
            update={
                "interaction_id": interaction_id,
                "pipeline": SHOWN if shown else f"alerting-{self._alerting}",
                "question": f"{row.question} ({interaction_id})",
            }
        )


async def low_traffic(producer: InteractionProducer, traffic: Traffic, times: Times, count: int) -> Times:
    """Publish single interactions, and return their times."""
    first = len(times.due)
    for _ in range(count):
        interaction = traffic.interaction(shown=True, due=time.perf_counter())
        await producer.apublish(interaction)
        await _until(lambda name=interaction.interaction_id: name in times.screen and name in times.estimates)
        await asyncio.sleep(traffic.rng.uniform(0.3, 0.8))
    return _part(times, first)


async def capacity(producer: InteractionProducer, traffic: Traffic, times: Times, seconds: float) -> float:
    """Return the interactions a second that pass from publishing to an estimate while some always wait."""
    begun, counted, counted_at = time.perf_counter(), 0, 0.0
    while (now := time.perf_counter()) - begun < seconds:
        if not counted_at and now - begun > seconds / 3:
            counted, counted_at = len(times.estimates), now
        if missing := WAITING - (len(times.due) - len(times.estimates)):
            await producer.apublish_many(
                [traffic.interaction(shown=True, due=now) for _ in range(min(max(missing, 0), 100))]
            )
        await asyncio.sleep(LOOK_S)
    rate = (len(times.estimates) - counted) / (time.perf_counter() - counted_at)
    await _drained(times)
    return rate


async def under_load(
    producer: InteractionProducer, traffic: Traffic, times: Times, rate: float, seconds: float
) -> Times:
    """Publish at a rate whatever the answer, and return the times of the interactions after the first fifth."""
    due, ends, first = time.perf_counter(), time.perf_counter() + seconds, 0
    began = due
    while due < ends:
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        batch = []
        while due <= time.perf_counter() and due < ends:
            batch.append(traffic.interaction(shown=traffic.rng.random() < 0.5, due=due))
            due += traffic.rng.expovariate(rate)
        await producer.apublish_many(batch)
        if not first and due - began > seconds / 5:
            first = len(times.due)
    await _drained(times)
    return _part(times, first)


def _part(times: Times, first: int) -> Times:
    """Return the times of the interactions from a number on."""
    ids = set(itertools.islice(times.due, first, None))

    def of(values: Mapping[str, float]) -> dict[str, float]:
        return {name: value for name, value in values.items() if name in ids}

    part = Times(of(times.due), of(times.events), of(times.estimates), of(times.screen), times.order)
    part.alerts = {
        pipeline: alert
        for pipeline, alert in times.alerts.items()
        if times.order[pipeline] and times.order[pipeline][0] in ids
    }
    return part


async def _drained(times: Times) -> None:
    await _until(lambda: len(times.estimates) == len(times.due) and times.drawn == len(times.order[SHOWN]))


async def _until(condition: Any, timeout_s: float = 120.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(LOOK_S)


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile of at least two values."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def table(title: str, times: Times) -> str:
    """Return a section: p50, p99 and most of each delay, in milliseconds."""
    delays = {
        "its metric event": [*times.events.values()],
        "the estimates that include it": [*times.estimates.values()],
        "the screen": [*times.screen.values()],
        "the webhook has the alert": times.alert_delays(),
    }
    lines = [f"## {title}", "", "| from publishing to | n | p50, ms | p99, ms | most, ms |", "|---|---|---|---|---|"]
    for name, values in delays.items():
        if len(values) > 1:
            cells = (f"{1000 * value:,.0f}" for value in (statistics.median(values), p99(values), max(values)))
            lines.append(f"| {name} | {len(values):,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Loads:
    """What was measured."""

    rate: float
    """Interactions a second that pass at most."""
    single: Times
    loads: Mapping[float, Times]
    """By the share of the highest rate."""


async def measure(seconds: float, singles: int, shares: Sequence[float], readers: Readers) -> Loads:
    """Measure everything."""
    times, traffic = readers.times, Traffic(readers.times)
    async with InteractionProducer(readers.redis_url) as producer, readers.running():
        await low_traffic(producer, traffic, times, 5)
        single = await low_traffic(producer, traffic, times, singles)
        rate = await capacity(producer, traffic, times, seconds)
        loads = {share: await under_load(producer, traffic, times, share * rate, seconds) for share in shares}
    return Loads(rate, single, loads)


def text_of(measured: Loads) -> str:
    """Return the page."""
    half = measured.loads[0.5]
    delays = {"estimate": [*half.estimates.values()], "screen": [*half.screen.values()], "alert": half.alert_delays()}
    late = [name for name, values in delays.items() if len(values) > 1 and p99(values) >= AIM_S]
    return PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        commit=commit(),
        python=platform.python_version(),
        cores=os.cpu_count(),
        aim="met" if not late else f"not met by {', '.join(late)}",
        rate=measured.rate,
        single=table("Low traffic: one interaction at a time", measured.single),
        loads="\n".join(
            table(f"{share:.0%} of the capacity: {share * measured.rate:,.0f} interactions a second", times)
            for share, times in measured.loads.items()
        ),
    )


PAGE = """# Latency

Written by `make latency` (`benchmarks/latency.py`) on {date}, commit {commit}, Python {python}, {cores} cores, on which
Redis, four processes of ragtide and the readers run, too. Default settings, the local labeler, one worker process.

An estimate is in Redis with the next commit of the aggregator (`commit_interval_s`, 0.25): at once if there was none in
that time. The screen shows it with the next update of the page (at most four a second, each soon after a commit),
unless reading its numbers takes more than 0.1 s of processor time: then they are used for four times as long as it took
beyond that. An alert leaves with its commit.

The aim is a p99 below 1 s at half of the capacity: {aim}.

{single}
All of them together pass {rate:,.0f} interactions a second on this machine.

{loads}"""

SHARES = (0.1, 0.5, 0.9)


def run(seconds: float, singles: int, shares: Sequence[float] = SHARES) -> Loads:
    """Start the processes, and measure.

    Args:
        seconds: of the highest rate, and of each load.
        singles: interactions at low traffic.
        shares: of the highest rate.
    """
    times = Times()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        webhook(times) as hook,
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        ExitStack() as stack,
    ):
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_SERVE_PORT": str(port),
            "RAGTIDE_ALERTS": json.dumps([RULE.model_dump(mode="json", exclude_none=True)]),
            "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
            "RAGTIDE_NOTIFY_STORM_MESSAGES": "100000",
            "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps([{"name": "hook", "kind": "webhook", "url": hook}]),
        }
        for process in ("worker", "aggregator", "notify", "serve"):
            stack.enter_context(role(process, settings, Path(name) / f"{process}.log"))
        until(lambda: _listens(port) and redis.exists(STREAMS.interactions))
        page = f"http://127.0.0.1:{port}/live?view=fleet&pipeline={SHOWN}&range=all"
        return asyncio.run(measure(seconds, singles, shares, Readers(times, server.url, page)))


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each load")
    parser.add_argument("--singles", type=int, default=50, help="interactions at low traffic")
    parser.add_argument("--short", action="store_true", help="about a minute: 8 seconds of each load")
    options = parser.parse_args()
    if options.short:
        options.seconds, options.singles = 8.0, 20
    sys.stdout.write(text_of(run(options.seconds, options.singles)))


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
