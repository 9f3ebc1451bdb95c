"""A role that is process 1, as in a container without an init, ends at SIGTERM whenever it comes.

The kernel drops a signal to process 1 for which it has no handler.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import free_port
from tests.support.roles import READY, environment

TERM_BIT = 1 << (signal.SIGTERM - 1)
SPACE = ["unshare", "--pid", "--fork", "--kill-child", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has spaces of process numbers")


@contextmanager
def first_process(url: str, log: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a command as process 1; yield the process that waits for it, and its number outside."""
    with log.open("ab") as file:
        outer = subprocess.Popen(
            [*SPACE, sys.executable, "-m", "ragtide", *arguments],
            env=environment(url), stdout=file, stderr=file, cwd=log.parent,
        )  # fmt: skip
    try:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        wait_until(lambda: outer.poll() is not None or children.read_text().split())
        assert outer.poll() is None, log.read_text()
        yield outer, int(children.read_text())
    finally:
        outer.kill()
        outer.wait()


def has_handler(number: int) -> bool:
    (caught,) = [line for line in Path(f"/proc/{number}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(caught.split()[1], 16) & TERM_BIT)


def imports(number: int, library: str) -> bool:
    return library in Path(f"/proc/{number}/maps").read_text()


MOMENTS: dict[str, Callable[[int, Path], bool]] = {
    "handler": lambda number, _: has_handler(number),
    "imports": lambda number, _: imports(number, "pydantic_core"),
    "numbers": lambda number, _: imports(number, "numpy"),
    "waits": lambda _, log: b"Redis failed: retrying" in log.read_bytes(),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("role", ["worker", "aggregator"])
def test_sigterm_ends_a_first_process_at_every_moment_of_its_start(
    role: str, moment: str, redis_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "role.log"
    # Numbers are imported once Redis answers.
    url = redis_url if moment == "numbers" else f"redis://127.0.0.1:{free_port()}"
    with first_process(url, log, role) as (outer, number):
        wait_until(lambda: MOMENTS[moment](number, log))
        os.kill(number, signal.SIGTERM)
        assert outer.wait(120) in (0, 128 + signal.SIGTERM), log.read_text()


def test_the_handler_is_there_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    log = tmp_path / "role.log"
    with first_process(f"redis://127.0.0.1:{free_port()}", log, "worker") as (outer, number):
        wait_until(lambda: has_handler(number) or imports(number, "pydantic_core"))
        assert has_handler(number)
        os.kill(number, signal.SIGTERM)
        outer.wait(120)


def test_a_running_first_process_ends_cleanly(redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "role.log"
    with first_process(redis_url, log, "aggregator") as (outer, number):
        wait_until(lambda: any(word in log.read_bytes() for word in READY))
        os.kill(number, signal.SIGTERM)
        assert outer.wait(120) == 0, log.read_text()
