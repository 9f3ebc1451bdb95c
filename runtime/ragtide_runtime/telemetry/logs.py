"""Structured logs on standard error: a line for people on a terminal, JSON elsewhere.

Lines that repeat are limited, whoever writes them: a fault that comes with every connection must not fill a disk.
"""

import logging
import os
import re
import socket
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from io import StringIO
from typing import Any, Final, TextIO

import structlog

from ragtide_schemas.printable import printable

from .log_limit import LogLimit

REPEATS: Final = 10
"""Most lines of one kind in a minute; the others are counted."""

OWN_KINDS: Final = ("partition", "role", "name", "destination", "labeler", "model", "rule", "reason")
"""Fields whose values make a kind of their own: a role with 64 partitions starts 64 times."""

_NUMBER: Final = re.compile(r"0x[0-9a-f]+|[0-9]+")

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
    repeats = _Repeats()
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
        processors=[*shared[:-2], repeats.limit, *shared[-2:], *renderers],
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
    handler.addFilter(repeats.passes)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log only warnings: FastStream logs every received message at INFO.
    root.setLevel(max(threshold, logging.WARNING))
    handler.setLevel(root.level)  # some libraries set a level of their own


class _Repeats:
    """Limits the lines of a process that repeat, those of libraries included."""

    def __init__(self) -> None:
        self._limit = LogLimit(most=REPEATS)

    def limit(self, _: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Drop an event that repeats too often; a processor of structlog."""
        kind = (str(event.get("event", "")), method, *(str(event.get(name)) for name in OWN_KINDS))
        if method != "debug" and not self._is_due(kind):
            raise structlog.DropEvent
        return event

    def passes(self, record: logging.LogRecord) -> bool:
        """Return whether a record of a library is logged; a filter of its handler."""
        return self._is_due((_NUMBER.sub("#", record.getMessage()[:200]), record.name, record.levelname))

    def _is_due(self, kind: tuple[str, ...]) -> bool:
        for over, times in self._limit.ended():
            line = over[0] if isinstance(over, tuple) else over
            structlog.get_logger("ragtide").warning("a line repeated and was not logged", line=line, times=times)
        return self._limit.due(kind) > 0


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
