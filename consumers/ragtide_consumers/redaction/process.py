"""Redacts in a child process, because a process can be killed and a thread cannot.

A regular expression holds Python's global lock. If a pattern, or a function of the user, hung on a text, the role would
hang too: a recorder would lose its lease and not react to SIGTERM, and a worker would stop labeling. So the role sends
each entry's texts to a child process, waits for a limited time, and kills a child that does not answer.

The child never outlives its role: it ends when its socket is closed, and SIGALRM ends it if it still works on a
text long after the limit. It ignores Ctrl-C and SIGTERM, because its role then still writes entries.
"""

import socket
import subprocess
import threading
from multiprocessing.connection import Connection
from typing import Any, Final

from pydantic_core import from_json, to_json

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.children import child_command


class RedactionError(RagtideError):
    """A text could not be redacted, so it is not written."""


class NotRedactedError(RagtideError):
    """Redaction of one entry took too long or crashed; its texts are not stored."""


class RedactionAbortedError(RagtideError):
    """Redaction was stopped, because its role is stopping and its time is over."""


START_S: Final = 120.0
"""Seconds that a child may take to start: it imports ragtide and the module of the user's function."""

READY: Final = b"ready"

DYING_S: Final = 5.0
"""Seconds that a child has to end after it closed its socket, so that its exit code is known."""

TRIES: Final = 2
"""Children that may crash on an entry before the entry counts as not redacted."""

_CHILD: Final = "import json; from ragtide_consumers.redaction.child import serve; serve(**json.loads(sys.argv[1]))"


class RedactionProcess:
    """A child process that redacts the texts of one entry after another; threads that share it wait for each other.

    Args:
        table: name of the table of the settings that describes the redaction.
        patterns: names of built-in patterns.
        function: the user's function as `module:attribute`; None without a function.
        limit_s: seconds that one entry may take.
    """

    def __init__(self, table: str, patterns: tuple[str, ...], function: str | None, *, limit_s: float) -> None:
        self._table = table
        self._patterns = patterns
        self._function = function
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._aborted = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the child's reply to a request: `value` and `counts`.

        Raises:
            NotRedactedError: the child needed longer than the limit, or crashed on the entry.
            RedactionAbortedError: the role stops.
            RedactionError: the user's function failed, or no child can be started.
        """
        with self._lock:
            for tries_left in reversed(range(TRIES)):
                try:
                    reply = self._ask(to_json(request))
                except (OSError, EOFError):
                    died = self._end_child(DYING_S)
                    if not tries_left:
                        raise NotRedactedError(f"the redaction process died ({died})") from None
                    continue
                if "error" in reply:
                    raise RedactionError(reply["error"])
                return reply
        raise AssertionError("not reached")

    def abort(self) -> None:
        """Kill the child at once; every later request raises RedactionAbortedError."""
        self._aborted = True
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        """Kill the child, and wait until no thread uses it."""
        self.abort()
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.end()

    def _ask(self, request: bytes) -> dict[str, Any]:
        self._go_on()
        child = self._child or self._start_child()
        child.send(request)
        if not child.answers(self._limit_s):
            self._end_child()
            raise NotRedactedError(f"redaction took longer than {self._table}.redact_limit_s ({self._limit_s:g} s)")
        reply: dict[str, Any] = from_json(child.receive())
        return reply

    def _start_child(self) -> "_Child":
        try:
            self._child = child = _Child(self._patterns, self._function, self._limit_s)
            self._go_on()
            if child.answers(START_S) and child.receive() == READY:
                return child
        except (OSError, EOFError):
            pass
        ended = self._end_child(DYING_S)
        raise RedactionError(
            f"the redaction process did not start ({ended}): nothing was written; look at its output above"
        )

    def _go_on(self) -> None:
        if self._aborted:
            self._end_child()
            raise RedactionAbortedError("redaction was stopped, because its role stops: the entries stay in Redis")

    def _end_child(self, patience_s: float = 0.0) -> str:
        child, self._child = self._child, None
        ended = "not started" if child is None else child.end(patience_s)
        if self._aborted:
            raise RedactionAbortedError("redaction was stopped, because its role stops: the entries stay in Redis")
        return ended


class _Child:
    """A running child and the socket to it."""

    def __init__(self, patterns: tuple[str, ...], function: str | None, limit_s: float) -> None:
        ours, theirs = socket.socketpair()
        options = {"socket_number": theirs.fileno(), "patterns": patterns, "function": function, "limit_s": limit_s}
        with theirs:
            # Its output is not buffered, so that lines of a user's function survive its end.
            self._process = subprocess.Popen(  # noqa: S603 - our own code, with the settings of this process
                child_command(_CHILD, to_json(options).decode()),
                stdin=subprocess.DEVNULL,
                # A user's function may print, and standard output belongs to the role.
                stdout=2,
                pass_fds=(theirs.fileno(),),
            )
        self._connection = Connection(ours.detach())

    def send(self, request: bytes) -> None:
        self._connection.send_bytes(request)

    def answers(self, timeout_s: float) -> bool:
        return self._connection.poll(timeout_s)

    def receive(self) -> bytes:
        return self._connection.recv_bytes()

    def kill(self) -> None:
        self._process.kill()

    def end(self, patience_s: float = 0.0) -> str:
        """Kill the process unless it ends by itself within `patience_s`, and return how it ended."""
        self._connection.close()
        try:
            ended = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            ended = None
            self._process.kill()
            self._process.wait()
        return "killed by its role" if ended is None else f"signal {-ended}" if ended < 0 else f"exit code {ended}"
