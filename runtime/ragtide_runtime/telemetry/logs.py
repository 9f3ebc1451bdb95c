"""Structured logs on standard error: a line for people on a terminal, JSON elsewhere."""

import logging
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from io import StringIO
from typing import Any, TextIO

import structlog

from ragtide_schemas.printable import printable

_role: ContextVar[str | None] = ContextVar("ragtide_role", default=None)


def say_role(name: str) -> None:
    """Name the role in every line that the current task, and tasks and threads that it starts, log from now on."""
    _role.set(name)


_entry: ContextVar[Mapping[str, str] | None] = ContextVar("ragtide_entry", default=None)


def say_entry(**ids: str) -> None:
    """Name an entry in every line that the current task, and tasks and threads that it starts, log from now on.

    Args:
        ids: of the entry, and of what it holds; they replace those of the entry before.
    """
    _entry.set(ids)


def add_entry(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Add the ids of `say_entry` to a line that does not have them; a processor of structlog."""
    return {**(_entry.get() or {}), **event}


def _add_process(role: str | None) -> structlog.typing.Processor:
    host = socket.gethostname()

    def processor(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        name = _role.get() or role
        if name is not None:
            event.setdefault("role", name)
        event.setdefault("host", host)
        event.setdefault("process", os.getpid())
        return event

    return processor


def configure_logging(level: str, role: str | None = None) -> None:
    """Send the events of structlog, from this level on, and warnings of libraries to standard error.

    Every line names host, process and role: the role of the task (`say_role`), or else this role.
    """
    threshold = getattr(logging, level.upper())
    terminal = sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_entry,
        structlog.processors.add_log_level,
        _add_process(role),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _escape,
    ]
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=_print_traceback)]
        if terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log only warnings: FastStream logs every received message at INFO.
    root.setLevel(max(threshold, logging.WARNING))
    handler.setLevel(root.level)  # some libraries set a level of their own


def _escape(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape the characters in an event that a terminal would obey, because its fields may quote untrusted text."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event


def _print_traceback(file: TextIO, error: structlog.typing.ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    file.write(printable(text.getvalue(), keep="\n"))


def keep_logs_apart() -> None:
    """Send warnings and errors to standard error, in a program that has not configured structlog.

    By default structlog writes every event to standard output, between the lines that the program prints.
    """
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        )
