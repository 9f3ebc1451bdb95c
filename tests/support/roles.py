"""Roles as real processes of the command line, for the end-to-end tests."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.transcripts import as_run

from ragtide import InteractionProducer
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import DeadLetter, MetricEvent, RagInteraction

STREAMS = Streams("ragtide", 0)

FAST = {
    "RAGTIDE_WORKER_MIN_IDLE_S": "0.5",
    "RAGTIDE_LEASE_S": "1",
    "RAGTIDE_COMMIT_INTERVAL_S": "0.05",
    "RAGTIDE_WORKER_PROCESSES": "0",
}
"""Settings with which the roles notice a dead colleague within a second, and a command is one process."""


READY = (
    b"worker started",
    b"aggregating a partition",
    b"recording a partition",
    b"partition acquired",
    b"standing by",
    b'"event": "serving"',
)
"""Log messages of a role that has started."""


def environment(url: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a role: that of this process, a Redis, and `extra`."""
    return {**os.environ, "RAGTIDE_REDIS_URL": url, **FAST, **(extra or {})}


def start(role: str, url: str, log: Path, extra: Mapping[str, str] | None = None) -> ForkedProcess:
    """Start a role that logs into the file."""
    return begin(url, log, role, extra=extra)


def begin(url: str, log: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> ForkedProcess:
    """Start a command whose output goes to the end of the file, in the folder of the file."""
    with log.open("ab") as file:
        return ForkedProcess(arguments, environment(url, extra), log.parent, file, file)


ROOT = Path(__file__).parents[2]


def start_doomed(
    role: str, url: str, log: Path, *options: str, extra: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a role that sends itself a signal in the middle of its work (`tests/support/doomed.py`)."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.doomed", role, *options],
            env={**environment(url, extra), "PYTHONPATH": path},
            stdout=file,
            stderr=file,
            cwd=log.parent,
        )


@contextmanager
def running(role: str, url: str, log: Path, extra: Mapping[str, str] | None = None) -> Iterator[ForkedProcess]:
    """Run a role for the body of a `with`, then stop it as an operator does; it must end well."""
    before = log.stat().st_size if log.exists() else 0
    process = start(role, url, log, extra)
    try:
        yield process
        # A process that is still starting does not hear SIGTERM as a request yet.
        wait_until(lambda: process.poll() is not None or any(word in log.read_bytes()[before:] for word in READY))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def kill(process: ForkedProcess | subprocess.Popen[bytes]) -> None:
    """End a process as a power cut does."""
    process.kill()
    process.wait()


def command(url: str, *arguments: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line to its end."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = ForkedProcess(arguments, environment(url, extra), Path.cwd(), out, err)
        try:
            code = process.wait(120)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def estimates(url: str) -> list[dict[str, Any]]:
    """Return the output of `ragtide estimates --json`."""
    done = command(url, "estimates", "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def interactions(count: int, *, pipeline: str = "shop") -> list[RagInteraction]:
    """Return so many real interactions, each with an id of its own; each second is the run of an agent."""
    rows = demo_interactions()
    made = [
        rows[number % len(rows)].model_copy(update={"interaction_id": f"i-{number:05d}", "pipeline": pipeline})
        for number in range(count)
    ]
    return [as_run(interaction) if number % 2 else interaction for number, interaction in enumerate(made)]


def publish_until_confirmed(producer: InteractionProducer, batch: list[RagInteraction]) -> None:
    """Publish as an application does that tries again until Redis has confirmed everything."""

    def confirmed() -> bool:
        try:
            producer.publish_many(batch)
        except RedisUnavailable:
            return False
        return True

    wait_until(confirmed)


def metric_events(redis: Any) -> list[MetricEvent]:
    """Return every metric event, in the order of the stream."""
    return [MetricEvent.decode(fields[DATA_FIELD]) for _, fields in redis.xrange(STREAMS.metrics)]


def dead_letters(redis: Any) -> list[DeadLetter]:
    """Return every dead letter, in the order of the stream."""
    return [DeadLetter.decode(fields[DATA_FIELD]) for _, fields in redis.xrange(STREAMS.dead_letters)]


def wait_for_events(redis: Any, count: int, timeout_s: float = 240.0) -> None:
    """Wait until there are at least so many metric events."""
    wait_until(lambda: redis.xlen(STREAMS.metrics) >= count, timeout_s)


def wait_for_aggregation(redis: Any, timeout_s: float = 240.0) -> None:
    """Wait until the aggregator's checkpoint holds the last metric event."""
    last = redis.xrevrange(STREAMS.metrics, count=1)[0][0]
    # Its owner may append a tick, and go on after it.
    wait_until(
        lambda: order(_text(redis.hget(STREAMS.checkpoint, "position")) or START) >= order(_text(last)), timeout_s
    )


def _text(entry_id: bytes | str | None) -> str:
    return entry_id.decode() if isinstance(entry_id, bytes) else entry_id or ""
