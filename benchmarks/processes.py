"""Roles as processes of the command line, for benchmarks."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ragtide import RagInteraction
from ragtide_offline.demo import demo_interactions

SERVER = Path(__file__).parents[1] / "tests" / "support" / "remembering_judge.py"


@contextmanager
def judge_server(latency_s: float) -> Iterator[str]:
    """Give the URL of a judge in a process of its own, which answers after the latency."""
    command = [sys.executable, str(SERVER), "--latency", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the judge server did not start: {SERVER}")
            yield url
        finally:
            process.terminate()


@contextmanager
def role(name: str, settings: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a role as an operator does, for the body of a `with`; a worker has one process by default."""
    environment = {**os.environ, "RAGTIDE_LOG_LEVEL": "error", "RAGTIDE_WORKER_PROCESSES": "0", **settings}
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, "-m", "ragtide", name], env=environment, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def commit() -> str:
    """Return the commit of this tree, short."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def until(condition: Callable[[], object], timeout_s: float = 300.0) -> float:
    """Wait for a condition, and return the time at which it held (monotonic seconds).

    Raises:
        TimeoutError: it did not hold within the timeout.
    """
    deadline = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"still not so after {timeout_s} s")
        time.sleep(0.01)
    return time.perf_counter()


def interactions(count: int, pipelines: int = 1) -> list[RagInteraction]:
    """Return real questions, each asked anew, so that no cache helps."""
    rows = demo_interactions()
    return [
        rows[number % len(rows)].model_copy(
            update={
                "interaction_id": f"i{number}",
                "pipeline": f"pipeline-{number % pipelines}",
                "question": f"{rows[number % len(rows)].question} ({number})",
            }
        )
        for number in range(count)
    ]
