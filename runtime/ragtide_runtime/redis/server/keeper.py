"""The keeper: the small process that owns the Redis server of one data directory.

`embedded.py` starts it as a file (`python -I -S keeper.py DATA_DIR SOCKET REDIS_SERVER`), not as a module. It needs
only the standard library, starts in a few hundredths of a second, and no package's code or path setting can disturb it.

The keeper starts redis-server, restarts it after a crash, and stops it cleanly when the last user has ended. A user may
close, crash or be killed: the kernel frees a dead process's locks. The keeper has a session of its own, so a Ctrl-C in
the terminal reaches the users, which may still flush data, and not the server.

Four lock files in the data directory show which processes are there; their contents mean nothing:

    start.lock     exclusive    the process that starts the server, or leaves as its last user
    users.lock     shared       every process that uses the server; exclusive: the keeper, while it stops the server
    keeper.lock    exclusive    the keeper, as long as it lives
    server.lock    exclusive    redis-server itself (it inherits the descriptor), so that no two append to one file

A keeper killed with -9 leaves its redis-server running. The next keeper adopts it; the last user that closes starts a
keeper for this purpose. A server stays behind only if the keeper and all users are killed with -9, until the next open.
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
"""Seconds between two checks of users and server; a server outlives its last user by so long."""

STOP_TIMEOUT_S = 30.0
"""Seconds that redis-server has to write its last bytes before it is killed."""

START_FAILURES = 3
"""Failed starts in a row after which the keeper gives up."""

HEALTHY_S = 5.0
"""Seconds of running after which a server counts as healthy; its next crash counts as the first again."""

LOG_LIMIT_BYTES = 1_000_000
"""Size beyond which the server's log is renamed to redis.log.1 before a start."""

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
    """An advisory lock on a file, held until it is released, or this process and its forked children are dead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Take the lock without waiting, unless it is held already, and return whether it is held now.

        Raises:
            OSError: the file cannot be opened, or its file system has no locks.
        """
        if self._descriptor is not None:
            return True
        # os.open sets O_CLOEXEC: a program that a user of the server starts is not a user itself.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        if not os.fstat(descriptor).st_nlink:  # its directory was removed in the meantime
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock. Closing the descriptor, unlike unlocking, keeps the lock of the parent of a fork."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def handed_to_child(self) -> int:
        """Return the held descriptor, for `pass_fds`: the child then holds the lock too."""
        if self._descriptor is None:
            raise RuntimeError(f"{self.path.name} is not held: acquire it first")
        return self._descriptor


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock, exclusive or shared."""
    lock = FileLock(path)
    if lock.acquire():
        lock.release()
        return False
    return True


def ask(address: Path, command: str, *, timeout_s: float = 1.0) -> str:
    """Return a Redis server's reply to a command without arguments: a line or a bulk string; '' if it disconnects.

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
    """Return the state of the server at a socket: `busy` while it loads data, runs a script or is slow to answer."""
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
        """Return whether the server ended with an error of its own, neither stopped nor killed from outside."""
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
            self._rename_long_log()
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
            # Stop an adopted server by its socket: in another container its process id may be that of another process.
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

    def _rename_long_log(self) -> None:
        log = self._data_dir / "redis.log"
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(self._data_dir / "redis.log.1")


def keep(server: Server, users: FileLock) -> None:
    """Keep the server running until no process uses it or this process gets a signal to end.

    If no process uses it, `users` is held on return, so that a new user waits until the server has stopped.

    Raises:
        SystemExit: the server cannot be started; the message says why.
    """
    ending = False

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    server.start()
    started_at, answered = time.monotonic(), False
    deaths = unanswered = 0  # both in a row: crashes soon after a start, starts that failed before the first answer
    while not ending and not _unused(users):
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


def _unused(users: FileLock) -> bool:
    try:
        return users.acquire()
    except FileNotFoundError:  # the data directory was removed
        return True


def main(data_dir: Path, address: Path, program: str) -> None:
    """Become the keeper of a data directory, unless it has one. The started process ends as soon as a keeper runs.

    Raises:
        SystemExit: the server cannot be started; the message says why.
    """
    os.umask(0o077)  # no other user may read questions and answers of production traffic
    # Signals that were blocked or ignored in the starting thread are inherited, also by redis-server: reset them.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    keeper = FileLock(data_dir / "keeper.lock")
    if not keeper.acquire():
        return
    if os.fork() > 0:
        os._exit(0)  # the forked keeper holds the lock, so the starter need not wait
    server = Server(data_dir, address, program)
    try:
        keep(server, FileLock(data_dir / "users.lock"))
    finally:
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
