"""Measures the time from nothing to the first live alert: with a Redis on the machine, and without one.

A record and no test: there is no limit. The time of `pip install` contains the download of what is not in pip's cache.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.conditions import HANGS_S, wait_until
from tests.support.redis_processes import RedisProcess
from tests.wheel import environment

from ragtide_runtime.redis.server.binary import find_redis_servers

from .terminal import screen_of

FIRING = "FIRING"
"""The first word of an alert on the screen."""

TRAFFIC = """
import json
for number in range(450):
    good = number < 300
    row = {
        "interaction_id": f"t-{number}", "pipeline": "shop", "question": "When was the tower built?",
        "documents": ["The tower was built in 1889. It is made of iron."],
        "response": "The tower was built in 1889." if good else "It is a bridge over the river Thames.",
    }
    print(json.dumps(row))
"""


def clean(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user who has set nothing."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAGTIDE_", "OPENAI_", "COLUMNS"))
    }
    return {**kept, "TERM": "xterm-256color", "RAGTIDE_DATA_DIR": str(folder / "data"), **more}


def times(work: Path, wheel: Path) -> Iterator[str]:
    """Measure each way, and yield a line about it."""
    yield _demo(work / "embedded", wheel, "service,embedded", "no Redis on the machine")
    server = find_redis_servers()[0]
    on_path = work / "server" / "valkey-server"
    on_path.parent.mkdir()
    on_path.symlink_to(server.path)
    path = f"{on_path.parent}{os.pathsep}{os.environ['PATH']}"
    yield _demo(work / "own", wheel, "service", f"{server} on PATH", PATH=path)
    yield _live(work, work / "own" / "bin", server.path)


def _demo(folder: Path, wheel: Path, extras: str, where: str, **more: str) -> str:
    """Install, and run the demo at its visible pace until an alert stands on the screen."""
    started = time.monotonic()
    programs = environment(folder, f"{wheel}[{extras}]")
    installed = time.monotonic() - started
    code, screen, seconds = screen_of([str(programs / "ragtide"), "demo"], folder, clean(folder, **more), FIRING)
    assert code == 0, screen
    assert FIRING in screen, screen
    return (
        f"{where}: pip install 'ragtide[{extras}]' {_minutes(installed)}, ragtide demo to the first alert "
        f"{_minutes(seconds)}; together {_minutes(installed + seconds)}"
    )


def _live(work: Path, programs: Path, server: Path) -> str:
    """Start all roles on a Redis with RAGTIDE_REDIS_URL, and publish a file of answers that get worse."""
    folder = work / "live"
    with RedisProcess(folder / "redis", binary=server) as redis:
        environ = clean(folder, RAGTIDE_REDIS_URL=redis.url)
        with (folder / "rows.jsonl").open("w") as rows:
            subprocess.run([sys.executable, "-c", TRAFFIC], stdout=rows, check=True)
        started = time.monotonic()
        with roles(programs / "ragtide", folder, environ):
            screen_of([str(programs / "ragtide"), "publish", "rows.jsonl"], folder, environ)
            wait_until(lambda: FIRING in screen_of([str(programs / "ragtide"), "alerts"], folder, environ)[1])
            seconds = time.monotonic() - started
    return (
        "RAGTIDE_REDIS_URL=redis://... with the same installation: ragtide up, ragtide publish rows.jsonl, "
        f"ragtide alerts {_minutes(seconds)}"
    )


@contextmanager
def roles(program: Path, folder: Path, environ: dict[str, str]) -> Iterator[None]:
    """Run `ragtide up` for the body of a `with`."""
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen([program, "up"], cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(HANGS_S)


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {seconds % 60:.0f} s"
