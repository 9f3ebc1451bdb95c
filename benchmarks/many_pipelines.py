"""What a look costs in a deployment of many pipelines.

    python benchmarks/many_pipelines.py [--pipelines 30 3000 10000]

For each number of pipelines, `ragtide aggregator` and `ragtide serve` run on a Redis of their own. Each pipeline gets
one metric event with five scores; the cap on keys is raised, so that every pipeline is counted by itself. Then each
address is read two times, the first time by a service that has just started, and `ragtide estimates --pipeline` runs
once. Measured are seconds, processor seconds of the service or of the command, processor seconds of Redis, and how
often Redis walked through a part of a checkpoint. Printed as Markdown.
"""

import argparse
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, NamedTuple

import psutil
from processes import commit, role, until
from redis import Redis

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
AT_ONCE = 500
METRICS = (
    "trace.adherence",
    "trace.context_relevance",
    "trace.context_utilization",
    "trace.completeness",
    "trace.supported_fraction",
)
FLEET = "/v1/fleet?limit=21"
ADDRESSES = (FLEET, "/", "/v1/estimates?pipeline=p00005")
ESTIMATES = ("-m", "ragtide", "estimates", "--pipeline", "p00005")
CAPS = {"RAGTIDE_PARTITION_KEYS_CAP": "1000000"}


class Look(NamedTuple):
    """What one read took."""

    status: str
    seconds: float
    processor_s: float
    """Of the process that reads."""
    redis_s: float
    walks: int
    """Times that Redis walked through a part of a checkpoint."""

    @property
    def all_s(self) -> float:
        """Processor seconds of the process that reads and of Redis."""
        return self.processor_s + self.redis_s


Read = Callable[[str], Look]
"""Reads an address of a service."""


def events(first: int, last: int) -> list[bytes]:
    """Return one metric event for each of some pipelines."""
    now = utc_now()
    return [
        MetricEvent(
            interaction_id=f"i{number}",
            pipeline=f"p{number:05}",
            occurred_at=now,
            labeled_at=now,
            labeler="bench",
            labeler_version="1",
            profile="ragbench",
            scores={name: (number * 7 + place) % 10 / 10 for place, name in enumerate(METRICS)},
        ).encode()
        for number in range(first, last)
    ]


def fill(redis: Redis, first: int, last: int) -> None:
    """Publish the events of some pipelines, and wait until they are aggregated."""
    newest: Any = b""
    for start in range(first, last, AT_ONCE):
        with redis.pipeline(transaction=False) as pipe:
            for payload in events(start, min(start + AT_ONCE, last)):
                pipe.xadd(STREAMS.metrics, {DATA_FIELD: payload})
            newest = pipe.execute()[-1]
    until(lambda: redis.hget(STREAMS.checkpoint, CheckpointField.POSITION) == newest)


class Meter:
    """Measures what one read costs.

    Args:
        redis: client.
        cpu_s: returns the processor seconds of the process that reads.
    """

    def __init__(self, redis: Redis, cpu_s: Callable[[], float]) -> None:
        self._redis, self._cpu_s = redis, cpu_s

    def _costs(self) -> tuple[float, float, float, int]:
        info: Mapping[str, Any] = self._redis.info()
        commands: Mapping[str, Any] = self._redis.info("commandstats")
        of_redis = info["used_cpu_user"] + info["used_cpu_sys"]
        return time.perf_counter(), self._cpu_s(), of_redis, commands.get("cmdstat_hscan", {}).get("calls", 0)

    def look(self, read: Callable[[], object]) -> Look:
        """Read, and return what it took."""
        before = self._costs()
        status = read()
        seconds, cpu, of_redis, walks = (now - then for now, then in zip(self._costs(), before, strict=True))
        return Look(str(status), seconds, cpu, of_redis, int(walks))


def children_s() -> float:
    """Return the processor seconds of the processes that this one has waited for."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def get(port: int, path: str) -> int:
    """Return the status of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status


def is_up(port: int) -> bool:
    """Return whether the service answers."""
    try:
        return get(port, "/healthz") == 200
    except OSError:
        return False


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def empty() -> Iterator[tuple[Redis, Path, dict[str, str]]]:
    """Give an empty Redis, a folder, and the settings, for the body of a `with`."""
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        yield redis, Path(name), {"RAGTIDE_REDIS_URL": server.url, **CAPS}


@contextmanager
def deployment(pipelines: int) -> Iterator[tuple[Redis, Path, dict[str, str]]]:
    """Give a Redis with the estimates of so many pipelines, a folder, and the settings, for the body of a `with`."""
    with empty() as (redis, folder, settings):
        with role("aggregator", settings, folder / "aggregator.log"):
            fill(redis, 0, pipelines)
        yield redis, folder, settings


@contextmanager
def reader(redis: Redis, folder: Path, settings: Mapping[str, str]) -> Iterator[Read]:
    """Give what reads an address of a service that has just started, for the body of a `with`."""
    port = free_port()
    with role("serve", {**settings, "RAGTIDE_SERVE_PORT": str(port)}, folder / "serve.log") as serving:
        until(lambda: is_up(port))
        process = psutil.Process(serving.pid)
        meter = Meter(redis, lambda: sum(process.cpu_times()[:2]))
        yield lambda address: meter.look(partial(get, port, address))


def estimates(redis: Redis, settings: Mapping[str, str]) -> Look:
    """Return what `ragtide estimates --pipeline` takes."""
    run = partial(subprocess.run, [sys.executable, *ESTIMATES], env={**os.environ, **settings}, capture_output=True)
    return Meter(redis, children_s).look(lambda: f"exit {run(check=False).returncode}")


def measure(pipelines: int) -> None:
    """Print the rows of one number of pipelines."""

    def show(what: str, which: str, look: Look) -> None:
        numbers = f"{look.seconds:.2f} | {look.processor_s:.2f} | {look.redis_s:.2f} | {look.walks}"
        print(f"| {pipelines:,} | {rows:,} | `{what}` | {which} | {look.status} | {numbers} |", flush=True)

    with deployment(pipelines) as (redis, folder, settings):
        rows = redis.hlen(STREAMS.checkpoint)
        with reader(redis, folder, settings) as read:
            for address in ADDRESSES:
                for which in ("first", "again"):
                    show(address, which, read(address))
        show(" ".join(ESTIMATES[1:]), "first", estimates(redis, settings))


def main() -> None:
    """Measure each number of pipelines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[30, 3000, 10_000])
    options = parser.parse_args()
    print(f"commit {commit()}\n")
    print("| pipelines | rows | read | look | status | seconds | processor | of Redis | walks |")
    print("|---|---|---|---|---|---|---|---|---|")
    for pipelines in options.pipelines:
        measure(pipelines)


if __name__ == "__main__":
    main()
