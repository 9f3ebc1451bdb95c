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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import psutil
from processes import commit, role, until
from redis import Redis

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
PORT = 18_098
AT_ONCE = 500
METRICS = (
    "trace.adherence",
    "trace.context_relevance",
    "trace.context_utilization",
    "trace.completeness",
    "trace.supported_fraction",
)
ADDRESSES = ("/v1/fleet?limit=21", "/", "/v1/estimates?pipeline=p00005")
CAPS = {"RAGTIDE_PARTITION_KEYS_CAP": "1000000"}


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


def fill(redis: Redis, pipelines: int) -> None:
    """Publish the events, and wait until they are aggregated."""
    newest: Any = b""
    for first in range(0, pipelines, AT_ONCE):
        with redis.pipeline(transaction=False) as pipe:
            for payload in events(first, min(first + AT_ONCE, pipelines)):
                pipe.xadd(STREAMS.metrics, {DATA_FIELD: payload})
            newest = pipe.execute()[-1]
    until(lambda: redis.hget(STREAMS.checkpoint, CheckpointField.POSITION) == newest)


class Meter:
    """Measures what one read costs.

    Args:
        redis: client.
        cpu_s: returns the processor seconds of the process that reads.
        begin: first cells of each row.
    """

    def __init__(self, redis: Redis, cpu_s: Callable[[], float], begin: str) -> None:
        self._redis, self._cpu_s, self._begin = redis, cpu_s, begin

    def _costs(self) -> tuple[float, float, float, int]:
        found: Mapping[str, Any] = self._redis.info()
        commands: Mapping[str, Any] = self._redis.info("commandstats")
        of_redis = found["used_cpu_user"] + found["used_cpu_sys"]
        return time.perf_counter(), self._cpu_s(), of_redis, commands.get("cmdstat_hscan", {}).get("calls", 0)

    def show(self, what: str, look: str, read: Callable[[], object]) -> None:
        """Read, and print the row."""
        before = self._costs()
        status = read()
        seconds, cpu, of_redis, walks = (now - then for now, then in zip(self._costs(), before, strict=True))
        numbers = f"{seconds:.2f} | {cpu:.2f} | {of_redis:.2f} | {walks}"
        print(f"| {self._begin} | `{what}` | {look} | {status} | {numbers} |", flush=True)


def children_s() -> float:
    """Return the processor seconds of the processes that this one has waited for."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def get(path: str) -> int:
    """Return the status of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=300)
    connection.request("GET", path)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status


def is_up() -> bool:
    """Return whether the service answers."""
    try:
        return get("/healthz") == 200
    except OSError:
        return False


def measure(pipelines: int) -> None:
    """Print the rows of one number of pipelines."""
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        settings = {"RAGTIDE_REDIS_URL": server.url, "RAGTIDE_SERVE_PORT": str(PORT), **CAPS}
        redis = connect(server.url)
        with role("aggregator", settings, Path(name) / "aggregator.log"):
            fill(redis, pipelines)
        begin = f"{pipelines:,} | {redis.hlen(STREAMS.checkpoint):,}"
        with role("serve", settings, Path(name) / "serve.log") as serving:
            until(is_up)
            process = psutil.Process(serving.pid)
            meter = Meter(redis, lambda: sum(process.cpu_times()[:2]), begin)
            for address in ADDRESSES:
                for look in ("first", "again"):
                    meter.show(address, look, partial(get, address))
        command = [sys.executable, "-m", "ragtide", "estimates", "--pipeline", "p00005"]
        run = partial(subprocess.run, command, env={**os.environ, **settings}, capture_output=True, check=False)
        Meter(redis, children_s, begin).show(" ".join(command[2:]), "first", lambda: f"exit {run().returncode}")
        redis.close()


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
