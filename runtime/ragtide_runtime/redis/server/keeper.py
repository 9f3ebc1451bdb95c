"""The keeper: the small process that owns the Redis server of one data directory.

`embedded.py` starts it, as a file (`python -I -S keeper.py DATA_DIR SOCKET REDIS_SERVER`) and not as a module: it needs
the standard library only, is up in a few hundredths of a second, and no package's code or path setting can disturb it.

It starts redis-server, starts it again when it dies, and stops it cleanly when the last user is gone, whether that one
closed, crashed or was killed: the kernel frees a dead process's locks. It lives in a session of its own, so that a
Ctrl-C in the terminal reaches its users, who may still have something to flush, and not the server.

Four lock files in the data directory show which processes are there; their contents mean nothing:

    start.lock     exclusive    the one process that starts the server, or leaves as its last user
    users.lock     shared       every process that uses the server; exclusive: the keeper, while it stops the server
    keeper.lock    exclusive    the keeper, as long as it lives
    server.lock    exclusive    redis-server itself (it inherits the descriptor), so that no two ever append to one file

A keeper killed with -9 leaves its redis-server running. The next keeper adopts it; the last user who closes starts one
for that purpose. Only when the keeper and then every user die by -9 does a server stay behind, until the next open.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Literal

with contextlib.suppress(ImportError):  # Windows has no fcntl; embedded.py says so before any lock is taken
    import fcntl

POLL_S = 0.05
"""Seconds between two looks at the users and the server: how long a server outlives its last user."""

STOP_TIMEOUT_S = 30.0
"""Seconds redis-server has to write its last bytes before it is killed."""

START_FAILURES = 3
"""Starts in a row that never answered before the keeper gives up."""

HEALTHY_S = 5.0
"""Seconds after which a server that ran counts as healthy, and its death as the first one."""

LOG_LIMIT_BYTES = 1_000_000
"""Size beyond which the server's log is put aside (as redis.log.1) before a start."""

CONFIG = """\
# Written by ragtide at every start of this server; changes are lost.
# No TCP port: only this user's processes on this machine reach the socket.
port 0
unixsocket {socket}
unixsocketperm 700
daemonize no
logfile redis.log
# Every write is in the append-only file, on disk after a second at most.
dir ./
appendonly yes
appendfsync everysec
aof-use-rdb-preamble yes
save ""
# A stream is never evicted, and a failed background save never stops writes: the append-only file holds the data.
maxmemory-policy noeviction
stop-writes-on-bgsave-error no
"""


class FileLock:
    """An advisory lock on a file, held until it is released or this process and the children it forked are dead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Return whether the lock is held now; never waits. Acquired again it stays held.

        Raises:
            OSError: the file cannot be opened, or its file system has no locks.
        """
        if self._descriptor is not None:
            return True
        # Python's os.open sets O_CLOEXEC: a program started by a user of the server is not a user itself.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go. Closing, unlike unlocking, keeps the lock of a process that this one was forked from."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def handed_to_child(self) -> int:
        """Return the held descriptor, for `pass_fds`: the child then holds the lock too."""
        if self._descriptor is None:
            raise RuntimeError(f"{self.path.name} is not held: acquire it first")
        return self._descriptor


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock exclusively or shared."""
    lock = FileLock(path)
    if lock.acquire():
        lock.release()
        return False
    return True


def ask(address: Path, command: str, *, timeout_s: float = 1.0) -> str:
    """Return a Redis server's reply to a command without arguments: a line or a bulk string, '' if it hung up.

    Raises:
        OSError: no server listens at the socket, or it does not answer in time.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(address))
        connection.sendall(f"{command}\r\n".encode())
        with connection.makefile("rb") as replies:
            reply = replies.readline()
            if reply.startswith(b"$"):
                reply = replies.read(int(reply[1:]))
    return reply.decode(errors="replace").strip()


def probe(address: Path) -> Literal["ready", "busy", "absent"]:
    """Return how the server at a socket is: busy while it loads its data, runs a script or is slow to answer."""
    try:
        return "ready" if ask(address, "PING") == "+PONG" else "busy"
    except (FileNotFoundError, ConnectionRefusedError):
        return "absent"
    except OSError:
        return "busy"


class Server:
    """The redis-server of a data directory: a child of this keeper, or one adopted from a keeper that was killed."""

    def __init__(self, data_dir: Path, address: Path, program: str) -> None:
        self._data_dir = data_dir
        self._address = address
        self._program = program
        self._lock = data_dir / "server.lock"
        self._process: subprocess.Popen[bytes] | None = None

    def alive(self) -> bool:
        """Return whether the server's process is running."""
        if self._process is not None:
            return self._process.poll() is None
        return is_held(self._lock)

    def failed(self) -> bool:
        """Return whether the server ended by its own fault: not by an order, nor by a kill from outside."""
        return self._process is not None and self._process.poll() not in {None, 0, -signal.SIGKILL}

    def start(self) -> None:
        """Start redis-server, or adopt the one that answers already.

        Raises:
            SystemExit: a server without a reachable socket holds the data.
        """
        lock = FileLock(self._lock)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        # The fork that rewrites the append-only file can hold its killed parent's lock for a while.
        while not lock.acquire():
            if probe(self._address) != "absent":
                self._process = None
                return
            if time.monotonic() > deadline:
                sys.exit("another redis-server holds the data but does not listen at its socket: end that process")
            time.sleep(POLL_S)
        try:
            self._put_log_aside()
            quoted = str(self._address).replace("\\", "\\\\").replace('"', '\\"')
            config = self._data_dir / "redis.conf"
            text = CONFIG.format(socket=f'"{quoted}"')
            descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            self._process = subprocess.Popen(  # noqa: S603  # the binary embedded.py found
                [self._program, "redis.conf"], cwd=self._data_dir, pass_fds=[lock.handed_to_child()]
            )
        except OSError as error:
            sys.exit(f"{self._program} cannot be started: {error}")
        finally:
            lock.release()  # the child has it

    def stop(self) -> None:
        """Stop the server after it has written everything, and remove its socket."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        elif probe(self._address) != "absent":
            # Adopted: stopped by its socket, because a process id may mean another process in another container.
            with contextlib.suppress(ConnectionResetError, TimeoutError):
                ask(self._address, "SHUTDOWN", timeout_s=STOP_TIMEOUT_S)
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while self.alive() and time.monotonic() < deadline:
                time.sleep(POLL_S)
        with contextlib.suppress(OSError):
            self._address.unlink(missing_ok=True)
            if self._address.parent != self._data_dir:
                self._address.parent.rmdir()

    def ready(self) -> bool:
        """Return whether the server answers."""
        return probe(self._address) == "ready"

    def _put_log_aside(self) -> None:
        log = self._data_dir / "redis.log"
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(self._data_dir / "redis.log.1")


def keep(server: Server, users: FileLock) -> None:
    """Keep the server running until no process uses it or this process is told to end.

    In the first case `users` is held on return, so that a newcomer waits rather than meets a dying server.

    Raises:
        SystemExit: the server cannot be started; the message says why.
    """
    told_to_end = False

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal told_to_end
        told_to_end = True

    signal.signal(signal.SIGTERM, end)
    server.start()
    started_at, answered = time.monotonic(), False
    deaths = unanswered = 0  # in a row: ends soon after the start, starts that failed before any answer
    while not told_to_end and not _nobody_left(users):
        if server.alive():
            answered = answered or server.ready()
        else:
            healthy = answered and time.monotonic() - started_at > HEALTHY_S
            deaths = 1 if healthy else deaths + 1
            unanswered = unanswered + 1 if server.failed() and not answered else 0
            if unanswered == START_FAILURES:
                sys.exit(f"redis-server ended {unanswered} times before it answered")
            time.sleep(min(1.0, 0.05 * 2**deaths))
            server.start()
            started_at, answered = time.monotonic(), False
        time.sleep(POLL_S)


def _nobody_left(users: FileLock) -> bool:
    try:
        return users.acquire()
    except FileNotFoundError:  # the data directory was removed: nothing left to serve
        return True


def main(data_dir: Path, address: Path, program: str) -> None:
    """Become the keeper of a data directory that has none; the process that was started ends when a keeper is in place.

    Raises:
        SystemExit: the server cannot be started; the message says why.
    """
    os.umask(0o077)  # no other user may read questions and answers of production traffic
    # The starter's thread may have had signals blocked or ignored, and both are inherited, by redis-server too.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    keeper = FileLock(data_dir / "keeper.lock")
    if not keeper.acquire():
        return
    if os.fork() > 0:
        os._exit(0)  # the forked keeper holds the lock; its starter need not wait for its end
    server = Server(data_dir, address, program)
    try:
        keep(server, FileLock(data_dir / "users.lock"))
    finally:
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
