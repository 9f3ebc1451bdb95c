"""Processes of the command line whose start takes no second: forks of a process that has imported it.

They are processes like any other, with arguments, environment, folder and output of their own, and they are killed like
any other. Tests of the start itself run `python -m ragtide`.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any


class ForkedProcess:
    """A running command, with the methods of `subprocess.Popen` that tests use.

    Args:
        arguments: of the command line, without `ragtide`.
        environment: all of it.
        folder: to run in.
        stdout: file for standard output.
        stderr: file for standard error.
        main: function that runs the command, as `module:name`; it finds the arguments in `sys.argv`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        stdout: IO[Any],
        stderr: IO[Any],
        *,
        main: str = "ragtide.cli:run",
    ) -> None:
        self.args = tuple(arguments)
        self.returncode: int | None = None
        self._socket, its = socket.socketpair()
        with its:
            socket.send_fds(_server(), [b"1"], [its.fileno(), stdout.fileno(), stderr.fileno()])
        wanted = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "folder": str(folder),
            "main": main,
        }
        self._socket.sendall(json.dumps(wanted).encode())
        self._socket.shutdown(socket.SHUT_WR)
        self._answers = self._socket.makefile("r")
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self._read()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code as soon as the process has ended.

        Raises:
            subprocess.TimeoutExpired: it has not ended within so many seconds.
        """
        if self.returncode is None and not select.select([self._socket], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self._read()

    def _read(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a power cut does."""
        self.send_signal(signal.SIGKILL)


@cache
def _server() -> socket.socket:
    """Return the socket of the fork server of this process; it is started when it is first needed."""
    mine, its = socket.socketpair()
    file = Path(__file__).with_name("fork_server.py")
    with its:
        process = subprocess.Popen(
            [sys.executable, "-P", str(file), str(its.fileno())], stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]
        )

    def end() -> None:
        mine.close()
        process.wait()

    atexit.register(end)
    return mine
