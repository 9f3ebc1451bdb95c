"""Runs the processes of one command: starts them, starts those that die again, and ends them together.

A fork copies locks as they are at that moment, so the parent has neither threads nor an event loop. The processes share
the memory of what it imported and loaded before. On platforms where a fork is not safe, such as macOS, each process is
started afresh and loads everything itself.

The processes notice the end of the parent, however it ends, because it alone holds the other end of a pipe.
"""

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, Final

import structlog

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.children import spawned, spawning
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.telemetry.process_reports import ProcessReport, ReportSlot

from .running import END_S

AT_ONCE_S: Final = 10.0
"""Seconds after its start before which a process that dies has died at once; later the first pause follows."""

MOST_DEATHS: Final = 5
"""Times in a row that one process may die at once, of itself, before the command ends."""

FIRST_PAUSE_S: Final = 0.5
"""Seconds before a process that died is started again for the first time."""

LONGEST_PAUSE_S: Final = 30.0
"""Most seconds before a process is started again."""

KILL_S: Final = END_S + 1.5
"""Seconds after the signal at which processes that have not ended are killed."""

FROM_OUTSIDE: Final = (0, -signal.SIGTERM, -signal.SIGKILL)
"""Exit codes of a process that was ended by an operator, or by the system for its memory."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger("ragtide")


def process_context() -> BaseContext:
    """Return how processes are started: by fork, or afresh where a fork is not safe."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """The place of a process among those of a command."""

    slot: ReportSlot
    parent: Connection
    """Readable when the parent has ended."""
    is_restarted: bool
    """Whether it takes the place of a process that died."""


Work = Callable[[ProcessPlace], None]
"""Runs in a process until SIGTERM, or the end of the parent. Where processes start afresh, it is pickled."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a command."""

    code: int = 0
    """The exit code."""
    sentence: str = ""
    """The reason, if it is an error."""


@dataclass(slots=True)
class _Member:
    """One of the processes."""

    name: str
    work: Work
    slot: ReportSlot
    process: BaseProcess | None = None
    started_at: float = 0.0
    starts_at: float = 0.0
    starts: int = 0
    deaths: int = 0
    pauses: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S))


def supervise(
    works: Mapping[str, Work], slots: Mapping[str, ReportSlot], *, context: BaseContext, stdin_is_terminal: bool = False
) -> Ending:
    """Run processes until SIGTERM or SIGINT, and return the end of the command.

    A process that dies is started again after a growing pause. If it fails at once again and again, or of a user's
    mistake, the others are ended and the mistake is returned once. SIGHUP is passed on. A second SIGTERM or SIGINT
    kills all processes.

    Args:
        slots: for the reports of each.
        context: how they are started (`process_context`).
        stdin_is_terminal: whether SIGHUP means that the terminal was closed, so that it ends the command.
    """
    with _signals(hangups=not stdin_is_terminal) as signals:
        return _Supervisor([_Member(name, work, slots[name]) for name, work in works.items()], context, signals).run()


class _Supervisor:
    def __init__(self, members: list[_Member], context: BaseContext, signals: socket.socket) -> None:
        self._members = members
        self._context = context
        self._signals = signals
        self._parent, self._held = context.Pipe(duplex=False)
        self._ending: Ending | None = None
        self._kill_at = 0.0

    def run(self) -> Ending:
        try:
            while self._ending is None or self._running():
                if self._ending is None:
                    for member in self._members:
                        if member.process is None and monotonic() >= member.starts_at:
                            self._start(member)
                elif monotonic() >= self._kill_at:
                    names = [member.name for member in self._running()]
                    log.warning("killing processes that did not end", processes=names)
                    self._send(signal.SIGKILL)
                readable = wait([self._signals], self._timeout_s())
                for number in self._signals.recv(4096) if readable else b"":
                    self._obey(number)
                for member in self._running():
                    self._look_at(member)
        finally:
            self._send(signal.SIGKILL)
            self._held.close()
            self._parent.close()
        return self._ending

    def _running(self) -> list[_Member]:
        return [member for member in self._members if member.process is not None]

    def _timeout_s(self) -> float | None:
        if self._ending is not None:
            return max(0.0, self._kill_at - monotonic())
        waiting = [member.starts_at for member in self._members if member.process is None]
        return max(0.0, min(waiting) - monotonic()) if waiting else None

    def _start(self, member: _Member) -> None:
        place = ProcessPlace(member.slot, self._parent, member.starts > 0)
        process: Any = self._context.Process(  # type: ignore[attr-defined]
            target=_run, args=(member.work, place, self._held), name=f"ragtide {member.name}"
        )
        # A signal that the child received before it has handlers of its own would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, signal.SIGHUP))
        try:
            with spawning():
                process.start()
        except OSError as error:  # no memory, or too many processes
            member.starts_at = monotonic() + member.pauses.pause_s()
            log.warning("a process cannot be started: trying again", name=member.name, error=str(error))
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGHUP))
        member.process, member.started_at, member.starts = process, monotonic(), member.starts + 1
        log.info("process started", name=member.name, process_id=process.pid)

    def _obey(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._send(signal.SIGHUP)
        elif number in STOP_SIGNALS and self._ending is None:
            self._end(Ending())
        elif number in STOP_SIGNALS:
            self._ending = Ending(128 + number)
            self._send(signal.SIGKILL)

    def _end(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending, self._kill_at = ending, monotonic() + KILL_S
            self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for member in self._running():
            if member.process is not None and member.process.pid is not None and member.process.exitcode is None:
                os.kill(member.process.pid, number)

    def _look_at(self, member: _Member) -> None:
        code = None if member.process is None else member.process.exitcode
        if member.process is None or code is None:
            return
        member.process.close()
        member.process = None
        report = member.slot.read() or ProcessReport(monotonic())
        if report.mistake:
            self._end(Ending(1, report.mistake))
        if self._ending is not None:
            return
        if monotonic() - member.started_at >= AT_ONCE_S:
            member.deaths = 0
            member.pauses.succeeded()
        member.deaths += code not in FROM_OUTSIDE
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if member.deaths >= MOST_DEATHS:
            sentence = (
                f"{member.name} ended {member.deaths} times in a row soon after its start, at last {how}: "
                "correct what its last lines on standard error name"
            )
            self._end(Ending(128 - code if code < 0 else code or 1, sentence))
            return
        pause_s = member.pauses.pause_s()
        member.starts_at = monotonic() + pause_s
        member.slot.write(report.ended(f"ended {how}, and is started again"))
        log.warning("a process ended: starting it again", name=member.name, how=how, pause_s=round(pause_s, 1))


def _run(work: Work, place: ProcessPlace, held: Connection) -> None:
    spawned()
    held.close()  # only the parent's may be open, so that its end shows
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):  # the parent's to decide; rules are read anew by a handler of its own
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGHUP))
    try:
        work(place)
    except RagtideError as error:
        report = place.slot.read() or ProcessReport(monotonic())
        place.slot.write(ProcessReport(monotonic(), metrics=report.metrics, mistake=str(error)))
        sys.exit(1)


@contextmanager
def _signals(*, hangups: bool) -> Iterator[socket.socket]:
    received, written = socket.socketpair()
    written.setblocking(False)
    numbers = (*STOP_SIGNALS, signal.SIGCHLD, *((signal.SIGHUP,) if hangups else ()))
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    descriptor = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    try:
        yield received
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        received.close()
        written.close()
