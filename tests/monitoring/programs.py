"""Real servers and proxies, from Debian's packages: `make programs` installs them."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.support.conditions import wait_until


def program(*names: str) -> str:
    """Return the path of a program that has one of these names.

    A test fails where the program is missing: a real server was promised.
    """
    for name in names:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        if found:
            return found
    pytest.fail(f"this machine has no {names[0]}: run `make programs` as root", pytrace=False)


@contextmanager
def served(command: list[str], log: Path, ready: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for the body of a `with`, from when this address answers."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_until(_answers(process, ready, log))
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> Callable[[], bool]:
    def does() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urlopen(address, timeout=10) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    return does
