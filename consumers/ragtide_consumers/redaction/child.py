"""The child process of `process.py`: it redacts the texts of entries until its socket is closed."""

import os
import signal
from multiprocessing.connection import Connection
from typing import Any

from pydantic_core import from_json, to_json

from ragtide_runtime.processes.user_code import function_at

from .process import READY, RedactionError
from .redaction import Redaction


def serve(*, socket_number: int, patterns: list[str], function: str | None, limit_s: float) -> None:
    """Redact in the child process until its role closes the socket."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    redaction = Redaction(patterns, None if function is None else function_at("redact_function", function), function)
    connection = Connection(socket_number)
    os.set_inheritable(socket_number, False)
    connection.send_bytes(READY)
    while True:
        try:
            request: dict[str, Any] = from_json(connection.recv_bytes())
        except EOFError:
            return
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 2 * limit_s + 1)
        try:
            reply: dict[str, Any] = {"value": redaction.answer(request)}
        except RedactionError as error:
            reply = {"error": str(error)}
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            connection.send_bytes(to_json({**reply, "counts": redaction.counts}))
        except OSError:
            return
        redaction.counts.clear()
