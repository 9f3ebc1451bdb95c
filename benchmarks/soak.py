"""Long runs of a whole deployment: do memory, keys, file descriptors and threads stay flat, or below a stated cap?

    python benchmarks/soak.py [--minutes 30] [--workers 1]
    python benchmarks/soak.py --live [--minutes 60] [--rate 15] [--set NAME=VALUE ...] [--samples FILE]

Without `--live` the run has the highest sustainable rate, and only memory is looked at. A producer keeps the stream of
interactions filled but short (so that the workers set the rate), for label workers with the local labeler and an
aggregator with the default rules. Every interaction has an id of its own. Few kept events, and time compressed: ids
are known for the default windows divided by one number, so that everything that grows to a bound has reached it after
the first fifth, which is not looked at. The memory of known ids is printed as it was, and multiplied by that number:
what they take at this rate with the default windows. Exit code 1 if the line through the memory of any process rises by
more than a tenth of its size an hour and by more than 5 MiB in the time looked at.

With `--live` the traffic is that of an application: RATE interactions a second over HTTP, three of four pipelines with
sessions, answers that are worse for five minutes of every ten. Worker, aggregator, `serve` and `notify` are processes
with the default windows and caps, the history of a segment, specimens, two webhooks (one of which fails now and then)
and five open pages. Every 15 seconds memory, file descriptors, threads, keys by family, lengths of streams and fields
of the checkpoint by part are counted. The report (Markdown) shows them in six equal parts of the run, and the slope of
a line through the second half. `--set` changes a setting, such as `RAGTIDE_CLUSTERS_QUIET_S=60` to see a plateau early.
"""

import argparse
import http.client
import http.server
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
from processes import interactions, role, until

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)
AHEAD = 2000
"""Interactions that wait for the workers."""

MIB = 2**20

DEFAULTS = Settings()

SAMPLE_S = 15.0
"""Seconds between two samples of a live run."""

PARTS = 6
"""Columns of the report of a live run."""

PAGES = 5
"""Pages that are open during a live run."""


def samples_of(redis: Any, processes: dict[str, psutil.Process]) -> dict[str, float]:
    """Return the memory of everything now, in MiB."""
    found = {name: process.memory_info().rss / MIB for name, process in processes.items()}
    return {**found, "redis, used": redis.info("memory")["used_memory"] / MIB}


def known_bytes(redis: Any) -> int:
    """Return the memory of the buckets of known ids."""
    buckets = [
        key for kind in ("owners", "events") for key in redis.scan_iter(match=getattr(STREAMS, kind)("*"), count=1000)
    ]
    return sum(redis.memory_usage(key) or 0 for key in buckets)


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--rate", type=float, default=15.0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="changes")
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--port", type=int, default=28080)
    options = parser.parse_args()
    if options.live:
        options.minutes = options.minutes or 60.0
        live(options)
    else:
        options.minutes = options.minutes or 30.0
        full_rate(options)


def full_rate(options: argparse.Namespace) -> None:
    """Run at the highest rate, and print."""
    # A bucket of known ids lives for up to 1.25 windows, and the first fifth is 12 seconds of every minute.
    compressed = DEFAULTS.feedback_window_s / (12 * options.minutes / 1.25)
    rows = interactions(2000, pipelines=10)
    times: list[float] = []
    memory: list[dict[str, float]] = []
    published = 0
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        ExitStack() as stack,
    ):
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_EVENTS_KEEP": "10000",
            "RAGTIDE_DEDUPE_WINDOW_S": str(DEFAULTS.dedupe_window_s / compressed),
            "RAGTIDE_FEEDBACK_WINDOW_S": str(DEFAULTS.feedback_window_s / compressed),
            "RAGTIDE_WINDOWS": '["1m","5m/1m"]',
            "RAGTIDE_LATENESS_S": "60",
        }
        running = {
            f"worker {number}": stack.enter_context(role("worker", settings, Path(name) / "worker.log"))
            for number in range(options.workers)
        }
        running["aggregator"] = stack.enter_context(role("aggregator", settings, Path(name) / "aggregator.log"))
        processes = {what: psutil.Process(process.pid) for what, process in running.items()}
        processes["producer"] = psutil.Process(os.getpid())
        processes["redis, resident"] = psutil.Process(redis.info("server")["process_id"])
        producer = stack.enter_context(
            InteractionProducer(server.url, dedupe_window_s=float(settings["RAGTIDE_DEDUPE_WINDOW_S"]))
        )
        started = next_sample = time.perf_counter()
        while (now := time.perf_counter()) < started + 60 * options.minutes:
            if redis.xlen(STREAMS.interactions) < AHEAD:
                batch = [
                    rows[(published + at) % len(rows)].model_copy(update={"interaction_id": f"s-{published + at}"})
                    for at in range(500)
                ]
                producer.publish_many(batch)
                published += len(batch)
            else:
                time.sleep(0.02)
            if now >= next_sample:
                next_sample = now + max(0.3 * options.minutes, 1.0)
                times.append(now - started)
                memory.append(samples_of(redis, processes))
        seconds = time.perf_counter() - started
        known = known_bytes(redis)
        scored = redis.info("commandstats").get("cmdstat_xack", {}).get("calls", 0)
    print(f"{seconds / 60:.1f} minutes, {published:,} published, {scored / seconds:,.0f} labeled a second")
    print(
        f"known ids: {known / MIB:,.1f} MiB with the default windows compressed {compressed:,.0f} times; "
        f"uncompressed {known * compressed / 2**30:,.1f} GiB at this rate"
    )
    sys.exit(not report(np.array(times), memory))


def report(times: Any, memory: list[dict[str, float]]) -> bool:
    """Print the measurements and return whether everything is flat."""
    late = times >= times[-1] / 5
    hours = (times[-1] - times[late][0]) / 3600
    flat = True
    print(f"{'':<18}{'from MiB':>10}{'to MiB':>10}{'MiB/h':>10}")
    for name in memory[0]:
        values = np.array([sample[name] for sample in memory])[late]
        slope = float(np.polyfit(times[late] / 3600, values, 1)[0])
        grows = slope > 0.1 * values[0] and slope * hours > 5
        flat = flat and not grows
        print(f"{name:<18}{values[0]:>10.1f}{values[-1]:>10.1f}{slope:>10.1f}{'   grows' if grows else ''}")
    return flat


class Webhook(http.server.BaseHTTPRequestHandler):
    """A destination of notifications; on the path `/uneven` every fifth request fails."""

    calls: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        """Take a notification."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.calls[self.path] += 1
        self.send_response(503 if self.path == "/uneven" and self.calls[self.path] % 5 == 0 else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def webhooks() -> Iterator[int]:
    """Give the port of the destinations."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def open_pages(port: int) -> Iterator[Counter[str]]:
    """Read the events of open pages; give the numbers of events and of connections."""
    counted: Counter[str] = Counter()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("GET", "/live?follow=estimates,alerts&view=fleet")
                reply = connection.getresponse()
                counted["connections"] += 1
                while not ended.is_set() and reply.readline():
                    counted["lines"] += 1
            except (OSError, http.client.HTTPException):
                counted["cut off"] += 1
                ended.wait(1)
            finally:
                connection.close()

    threads = [threading.Thread(target=read, daemon=True) for _ in range(PAGES)]
    for thread in threads:
        thread.start()
    try:
        yield counted
    finally:
        ended.set()


def live_item(number: int, chance: random.Random, worse: bool) -> dict[str, Any]:
    """Return one interaction of an application: sessions of about ten turns, in three of four pipelines."""
    pipeline, year = f"soak-{number % 4}", 1800 + number % 200
    found: dict[str, Any] = {
        "interaction_id": f"s-{number}",
        "pipeline": pipeline,
        "question": f"When was tower {number} built?",
        "documents": [
            {"id": f"d-{number}-{at}", "text": f"Tower {number} was built in {year + at}. It is {number % 90} m high."}
            for at in range(3)
        ],
        "response": f"Bananas are purple {number}." if worse else f"Tower {number} was built in {year}.",
        "segments": {"lang": chance.choice(("de", "en", "fr"))},
        "user_id": f"u-{number % 500}",
    }
    # A session is of one pipeline: forty numbers in a row hold four sessions of ten turns. Some end after three turns.
    session, turn = number // 40, number % 40 // 4
    if number % 4 and not (session % 3 == 0 and turn >= 3):
        found["session_id"] = f"session-{pipeline}-{session}"
    return found


@dataclass(slots=True)
class LiveRun:
    """The samples of a live run."""

    times: list[float] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    published: int = 0
    refused: int = 0

    def add(self, seconds: float, sample: dict[str, float], file: Path | None) -> None:
        """Add a sample, and a line of JSON to a file."""
        self.times.append(seconds)
        self.samples.append(sample)
        if file:
            with file.open("a") as lines:
                lines.write(json.dumps({"s": round(seconds), "published": self.published, **sample}) + "\n")


def live_sample(redis: Any, processes: dict[str, psutil.Process]) -> dict[str, float]:
    """Return everything that could grow."""
    found: Counter[str] = Counter()
    for name, process in processes.items():
        found[f"{name}, MiB"] = process.memory_info().rss / MIB  # type: ignore[assignment]
        found[f"{name}, file descriptors"] = process.num_fds()
        found[f"{name}, threads"] = process.num_threads()
    info = redis.info()
    found["redis, used MiB"] = info["used_memory"] / MIB
    found["redis, clients"] = info["connected_clients"]
    found["keys, all"] = redis.dbsize()
    for key in redis.scan_iter(count=1000):
        family = key.decode(errors="replace").partition("}:")[2].partition(":")[0] or key.decode(errors="replace")
        found[f"keys, {family}"] += 1
    for name in ("interactions", "metrics", "feedback", "estimates", "alerts", "dead-letters"):
        found[f"entries, {name}"] = redis.xlen(f"{STREAMS.prefix}:{{0}}:{name}")
    for name, _ in redis.hscan_iter(STREAMS.checkpoint, count=1000):
        found[f"checkpoint, {name.partition(b':')[0].decode(errors='replace')}"] += 1
    found["checkpoint, all"] = redis.hlen(STREAMS.checkpoint)
    return dict(found)


def live(options: argparse.Namespace) -> None:
    """Run a live deployment, and print the report."""
    changes = dict(change.split("=", 1) for change in options.changes)
    run, chance = LiveRun(), random.Random(7)
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        webhooks() as hooks,
        ExitStack() as stack,
    ):
        config = Path(name) / "ragtide.toml"
        destinations = "".join(
            f'[[notify.destinations]]\nname = "{path}"\nkind = "webhook"\nurl = "http://127.0.0.1:{hooks}/{path}"\n'
            for path in ("even", "uneven")
        )
        config.write_text(
            f'[history]\nsegments = ["lang"]\n[serve]\nport = {options.port}\n[notify]\nallow_private = true\n'
            f"{destinations}"
        )
        settings = {"RAGTIDE_REDIS_URL": server.url, "RAGTIDE_CONFIG": str(config), "HOME": name, **changes}
        running = {
            what: stack.enter_context(role(what, settings, Path(name) / f"{what}.log"))
            for what in ("worker", "aggregator", "serve", "notify")
        }
        processes = {what: psutil.Process(process.pid) for what, process in running.items()}
        processes["redis"] = psutil.Process(redis.info("server")["process_id"])
        serving = running["serve"]
        until(lambda: answers(options.port) or serving.poll() is not None, 300)
        pages = stack.enter_context(open_pages(options.port))
        started = next_sample = time.perf_counter()
        while (now := time.perf_counter()) < started + 60 * options.minutes:
            due = min(int((now - started) * options.rate) - run.published, 200)
            if due > 0:
                worse = int((now - started) / 300) % 2 == 1
                items = [live_item(run.published + at, chance, worse) for at in range(due)]
                if post(options.port, items):
                    run.published += due
                else:
                    run.refused += 1
            if now >= next_sample:
                next_sample += SAMPLE_S
                run.add(now - started, live_sample(redis, processes), options.samples)
            for what, process in running.items():
                if process.poll() is not None:
                    sys.exit(f"{what} ended: {(Path(name) / f'{what}.log').read_text()[-2000:]}")
            time.sleep(0.5)
        run.add(time.perf_counter() - started, live_sample(redis, processes), options.samples)
        counted = {"known": known_bytes(redis), **pages, **Webhook.calls}
    print("\n".join(live_report(run, options.rate, changes, counted)))


def answers(port: int) -> bool:
    """Return whether the service answers."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def post(port: int, items: Sequence[dict[str, Any]]) -> bool:
    """Publish interactions over HTTP; return whether the service took them."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/interactions", json.dumps(items), {"content-type": "application/json"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def live_report(run: LiveRun, rate: float, changes: dict[str, str], counted: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of the report."""
    times = np.array(run.times)
    ends = np.array([times[-1] * part / PARTS for part in range(1, PARTS + 1)])
    at = [int(np.searchsorted(times, end)) if end < times[-1] else len(times) - 1 for end in ends]
    yield "# An hour of an application's traffic\n"
    yield "Written by `make livesoak` (`benchmarks/soak.py --live`). "
    yield "[Growth in an hour](rates.md#growth-in-an-hour) states the bounds.\n"
    yield f"{times[-1] / 60:.0f} minutes, {run.published:,} interactions, {rate:g} a second."
    if changes:
        yield "\nSettings: " + ", ".join(f"`{name}={value}`" for name, value in changes.items()) + "."
    calls = {path: counted.get(path, 0) for path in ("/even", "/uneven")}
    yield f"\nNotifications: {calls['/even']:,}, and {calls['/uneven']:,} calls of the webhook that fails now and then."
    yield (
        f"Requests that were not taken: {run.refused}. Open pages: {PAGES}, {counted['lines']:,} lines, "
        f"{counted['connections']} connections.\n"
    )
    yield "| | start | " + " | ".join(f"{times[index] / 60:.0f} min" for index in at) + " | an hour, second half |"
    yield "|---|---|" + "---|" * (PARTS + 1)
    names = sorted({name for sample in run.samples for name in sample}, key=lambda name: (name.split(",")[0], name))
    late = times >= times[-1] / 2
    for name in names:
        values = np.array([sample.get(name, 0) for sample in run.samples], dtype=float)
        slope = float(np.polyfit(times[late] / 3600, values[late], 1)[0]) if late.sum() > 1 else 0.0
        shown = "{:,.1f}" if name.endswith("MiB") else "{:,.0f}"
        cells = [shown.format(value) for value in (values[0], *values[at])]
        yield f"| {name} | {' | '.join(cells)} | {slope:+,.1f} |"
    yield f"\nKnown ids at the end: {counted['known'] / MIB:,.1f} MiB."


if __name__ == "__main__":
    main()
