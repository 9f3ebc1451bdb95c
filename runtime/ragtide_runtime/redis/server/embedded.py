"""The embedded Redis server: all processes that use a data directory share it, and it stops after the last user.

The server belongs to a keeper process (`keeper.py`, which describes the four lock files), not to its first user.

Opening:
    1. Take `start.lock`, exclusive: at most one process at a time starts the server, or leaves as its last user.
    2. Take `users.lock`, shared: from here on the keeper does not stop the server. While a keeper is stopping the
       server it holds this lock, so wait for it.
    3. If no keeper holds `keeper.lock`, start one. It adopts a server that still runs, or starts one with its data.
    4. Wait until the server answers, then release `start.lock`.

Closing:
    1. Take `start.lock`.
    2. Release `users.lock`. If other processes hold it (also a forked child of this one), they keep the server: end.
    3. If the keeper was killed and its server still runs, start another keeper, which stops the server.
    4. Wait until keeper and server have ended. If this process made the data directory and nothing was written, remove
       the directory. Then release `start.lock`.

The kernel releases the locks of a process that dies at any step, so the keeper sees that this user has ended.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from ...errors import RedisUnavailable
from ...processes.made_folders import missing_folders, remove_empty
from . import CLOSE_TIMEOUT_S, keeper
from .binary import RedisBinary, ServerKind
from .data_directory import OPENED_BY_THE_SERVER, check_private, choose_server, remember
from .keeper import FileLock, is_held

START_TIMEOUT_S = 20.0
"""Seconds until a server must answer; one with gigabytes of data needs more to load them."""

POLL_S = 0.01
"""Seconds between two checks of a lock or of the server."""

SOCKET_PATH_LIMIT_BYTES = 103
"""Longest socket path that Linux (107) and macOS (103) accept."""

ERROR_FILE = "keeper-error.txt"
"""File in the data directory to which a keeper that gives up writes its reason."""

FILES: Final = {
    *("start.lock", "users.lock", "keeper.lock", "server.lock", "server.json", "redis.conf"),
    *(ERROR_FILE, *OPENED_BY_THE_SERVER),
}
"""Names in a data directory of what keeper, server and users of the server write."""

LOG_LINES = 5
"""Lines of the server's log that an error quotes."""


class EmbeddedRedis:
    """A running Redis server, in use by this process until `close`, the end of a `with` block or of the process.

    A forked child may use its parent's server; only the parent opens and closes it.
    """

    def __init__(
        self,
        data_dir: Path,
        address: Path,
        binary: RedisBinary,
        users: FileLock,
        made: Sequence[Path],
        *,
        started_by_us: bool,
    ) -> None:
        self.data_dir = data_dir
        self.binary = binary
        self.started_by_us = started_by_us
        self._made = made
        self.url = f"unix://{quote(str(address))}"
        self.socket = address
        self._users = users
        self._owner_pid = os.getpid()
        self._closed = False
        atexit.register(self.close)

    @classmethod
    def open(cls, data_dir: Path, *, convert: bool = False, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Return the running server of a data directory; start it if it does not run yet.

        Args:
            data_dir: directory of its data; it is created if missing, and an existing one is reused with its data.
            convert: whether a newer server may be started that writes the data in a format which the last one cannot
                read (`data_directory.py`). Roles and producers pass True; readers pass False.
            timeout_s: seconds to wait for its answer.

        Raises:
            RedisUnavailable: no server can be started for these data, the data directory cannot be used, the start
                failed (with the last lines of the server's log), or the server did not answer in time.
        """
        if os.name != "posix":
            raise RedisUnavailable(
                "ragtide cannot start a Redis on this platform: set RAGTIDE_REDIS_URL to a running one"
            )
        deadline = time.monotonic() + timeout_s
        try:
            made = missing_folders(data_dir)
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            data_dir = data_dir.resolve()
            check_private(data_dir)
            start, users = FileLock(data_dir / "start.lock"), FileLock(data_dir / "users.lock")
            try:
                return cls._open(data_dir, start, users, deadline, made, convert=convert)
            except BaseException:  # also KeyboardInterrupt: the keeper must not wait for a user that failed to open
                users.release()
                if not cls.runs_in(data_dir):
                    _remove(made)
                raise
            finally:
                start.release()
        except OSError as error:
            raise RedisUnavailable(
                f"{data_dir} cannot be Redis's data directory ({error.strerror or error}): set RAGTIDE_REDIS_URL to a "
                "running Redis, or RAGTIDE_DATA_DIR to a local directory that you can write to"
            ) from error

    @classmethod
    def _open(
        cls,
        data_dir: Path,
        start: FileLock,
        users: FileLock,
        deadline: float,
        made: Sequence[Path],
        *,
        convert: bool,
    ) -> Self:
        def acquire() -> bool:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # its last user may just have removed it
            return start.acquire()

        # 1. and 2.
        if not _wait_until(acquire, deadline):
            raise RedisUnavailable(f"another process has been starting or stopping the Redis in {data_dir}: try again")
        if not _wait_until(lambda: users.acquire(shared=True), deadline):
            raise RedisUnavailable(f"the Redis in {data_dir} is still stopping: try again when it is done")
        # 3. A keeper that fails leaves a reason. Without a reason the keeper had ended or was killed: start another.
        address = _socket_address(data_dir)
        launched: RedisBinary | None = None
        while not (running := is_held(data_dir / "keeper.lock")) or keeper.probe(address) != "ready":
            if not running:
                if launched is not None and (reason := _last_lines(data_dir / ERROR_FILE)):
                    raise RedisUnavailable(
                        f"{launched} did not start in {data_dir} ({reason}){_log_tail(data_dir)}: "
                        "correct that, or set RAGTIDE_REDIS_URL to a running Redis"
                    )
                launched = launched or _binary_to_start(data_dir, address, convert=convert)
                launch_keeper(data_dir, address, launched)
            # 4.
            if time.monotonic() > deadline:
                raise RedisUnavailable(
                    f"the Redis in {data_dir} did not answer in time{_log_tail(data_dir)}: "
                    "if it is loading its data give it longer (timeout_s), else look into redis.log there"
                )
            time.sleep(POLL_S)
        binary = launched or _running_binary(address)
        remember(data_dir, binary)
        return cls(data_dir, address, binary, users, made, started_by_us=launched is not None)

    @staticmethod
    def runs_in(data_dir: Path) -> bool:
        """Return whether a server runs in a data directory."""
        lock = data_dir / "keeper.lock"
        return lock.exists() and is_held(lock)

    def close(self) -> None:
        """Stop using the server. The last user waits, within bounds, until no server runs any more."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        start = FileLock(self.data_dir / "start.lock")
        try:
            # A forked child only releases its copy of the lock; the parent closes the resources that both share.
            if os.getpid() == self._owner_pid:
                self._leave(start, time.monotonic() + CLOSE_TIMEOUT_S)
        except (OSError, RedisUnavailable):
            pass  # the data directory was removed or is full; a keeper stops without help from here
        finally:
            self._users.release()
            start.release()

    def _leave(self, start: FileLock, deadline: float) -> None:
        # 1.
        if not _wait_until(start.acquire, deadline):
            return
        is_empty = False
        with suppress(OSError):  # the server was killed
            is_empty = bool(self._made) and keeper.ask(self.socket, "INFO keyspace") == "# Keyspace"
        # 2. If even a shared lock is refused, the keeper holds the lock and is already stopping the server.
        self._users.release()
        others = FileLock(self._users.path)
        if not others.acquire() and others.acquire(shared=True):
            others.release()
            return
        others.release()
        # 3.
        keeper_lock, server_lock = self.data_dir / "keeper.lock", self.data_dir / "server.lock"
        if is_held(server_lock) and not is_held(keeper_lock):
            launch_keeper(self.data_dir, self.socket, self.binary)
        # 4.
        if _wait_until(lambda: not is_held(keeper_lock) and not is_held(server_lock), deadline) and is_empty:
            _remove([*self._made, self.socket.parent])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _remove(made: Sequence[Path]) -> None:
    if made and {file.name for file in made[0].iterdir()} <= FILES:
        shutil.rmtree(made[0], ignore_errors=True)
        remove_empty(made[1:])


def _socket_address(data_dir: Path) -> Path:
    inside = data_dir / "redis.sock"
    if len(os.fsencode(inside)) <= SOCKET_PATH_LIMIT_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    # Not tempfile.gettempdir(): all processes that share the data directory need the same path, whatever their TMPDIR.
    private = Path(f"/tmp/ragtide-{os.getuid()}-{digest}")  # noqa: S108  # made 0700 and checked below
    private.mkdir(mode=0o700, exist_ok=True)
    status = private.lstat()
    if private.is_symlink() or not private.is_dir() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise RedisUnavailable(
            f"{private} is not a private directory of this user: remove it, or use a shorter data directory"
        )
    return private / "redis.sock"


def _binary_to_start(data_dir: Path, address: Path, *, convert: bool) -> RedisBinary:
    """Return the binary that still runs without a keeper (it is adopted), or else the one to start."""
    if is_held(data_dir / "server.lock") and keeper.probe(address) == "ready":
        return _running_binary(address)
    return choose_server(data_dir, convert=convert)


def launch_keeper(data_dir: Path, address: Path, binary: RedisBinary) -> None:
    """Start the keeper; on return it holds `keeper.lock`, or it has failed and its reason is in `ERROR_FILE`."""
    errors = data_dir / ERROR_FILE
    errors.unlink(missing_ok=True)
    with os.fdopen(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "ab") as stderr:
        subprocess.run(  # noqa: S603  # our own file
            [sys.executable, "-I", "-S", keeper.__file__, data_dir, address, binary.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=data_dir,
            start_new_session=True,
            check=False,
        )


def _running_binary(address: Path) -> RedisBinary:
    try:
        info = dict(line.partition(":")[::2] for line in keeper.ask(address, "INFO", timeout_s=5.0).splitlines())
        major, minor, patch = (int(part) for part in info.get("valkey_version", info["redis_version"]).split(".")[:3])
        kind: ServerKind = "valkey" if "valkey_version" in info else "redis"
        return RedisBinary(Path(info["executable"]), (major, minor, patch), "already running", kind)
    except (OSError, KeyError, ValueError) as error:
        raise RedisUnavailable(f"the Redis at {address} stopped answering ({error}): try again") from error


def _log_tail(data_dir: Path) -> str:
    lines = _last_lines(data_dir / "redis.log")
    return f"; the end of redis.log: {lines}" if lines else ""


def _last_lines(file: Path) -> str:
    if not file.exists():
        return ""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines[-LOG_LINES:] if line.strip())
