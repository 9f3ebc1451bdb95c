"""Child processes that import as their parent does: the same path, and the current folder not before it.

Python puts the current folder first on the path of `python -c`, which multiprocessing runs, too. There a file of a
user, such as `random.py`, would replace a module of Python.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SAFE: Final = "PYTHONSAFEPATH"
_OURS: Final = "ragtide"


def child_command(statement: str, *arguments: str) -> list[str]:
    """Return the command that runs a statement in another process, which finds the arguments in `sys.argv`."""
    path = [str(place) for place in sys.path]
    return [sys.executable, "-Pu", "-c", f"import sys; sys.path[:] = {path!r}; {statement}", *arguments]


@contextmanager
def spawning() -> Iterator[None]:
    """Leave the current folder off the first path of processes that multiprocessing spawns in the body."""
    if os.environ.setdefault(_SAFE, _OURS) != _OURS:  # it is left off already
        yield
        return
    try:
        yield
    finally:
        spawned()


def spawned() -> None:
    """In a spawned process, let the programs that it starts have their usual path."""
    if os.environ.get(_SAFE) == _OURS:
        del os.environ[_SAFE]
