"""Keeps forked children of an application working: they inherit no lock as held, and nothing of their parent's threads.

A child has only the thread that forked. A lock that another thread held is held for ever there, and a thread that the
parent started is gone.
"""

import os
import sys
from collections.abc import Callable
from threading import RLock, get_ident
from types import TracebackType
from typing import Final, Protocol
from weakref import WeakSet


class _ForkGate:
    """Entered where locks of other libraries may be held, but never during I/O; a fork waits until it is free.

    Pydantic and Python's imports have such locks. It is reentrant, because a signal handler or a finalizer may submit
    while its thread is submitting.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._forking: int | None = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        self._lock.acquire()
        self._forking = get_ident()

    def after_fork_in_parent(self) -> None:
        self._forking = None
        self._lock.release()

    def after_fork_in_child(self) -> None:
        if self._forking == get_ident():
            self.after_fork_in_parent()
        else:  # a server that forks in C, such as uWSGI, calls only this
            self._forking, self._lock = None, RLock()


NOT_FORKING: Final = _ForkGate()
"""Held while interactions are checked and encoded, and while modules are imported."""


class Forked(Protocol):
    """An object that begins anew in a forked child."""

    def in_child(self) -> None:
        """Drop what belongs to the parent. Nothing may be closed, because the parent uses the same sockets."""


_BEGIN_ANEW: Final[WeakSet[Forked]] = WeakSet()


def begin_anew_in_children(forked: Forked) -> None:
    """Call `in_child` of an object in each forked child."""
    _BEGIN_ANEW.add(forked)


def _after_fork_in_child() -> None:
    NOT_FORKING.after_fork_in_child()
    for forked in list(_BEGIN_ANEW):
        forked.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=NOT_FORKING.before_fork,
        after_in_parent=NOT_FORKING.after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def at_exit_of_child(action: Callable[[], object]) -> None:
    """Call an action at the end of this process if it is a child of multiprocessing or of Celery's billiard.

    Such a child ends with `os._exit`, so before Python 3.13 `atexit` is not called there.
    """
    for package in ("multiprocessing", "billiard"):
        process, util = sys.modules.get(f"{package}.process"), sys.modules.get(f"{package}.util")
        if process is not None and util is not None and type(process.current_process()).__name__ != "_MainProcess":
            util.Finalize(None, action, exitpriority=0)
