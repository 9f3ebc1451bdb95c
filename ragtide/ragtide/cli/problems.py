"""Prints the problems of a file's rows: the first few of each kind, and the number of the others."""

from collections import Counter
from typing import Final

from rich.console import Console

from ragtide_offline.experiments.error_kinds import kind_of

SHOWN: Final = 5
"""Most problems of one kind that are printed."""

KINDS: Final = 20
"""Most kinds of problems with a count of their own; all other kinds share one count."""

FIRST_CHARS: Final = 100
"""Most characters of a problem that are repeated beside the number."""


class Problems:
    """Prints the first problems of each kind as they come, and counts the others.

    Args:
        console: to print on.
        source: name of the file.
    """

    def __init__(self, console: Console, source: object) -> None:
        self._console = console
        self._source = source
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, line: int | str, problem: str) -> None:
        """Count a problem of a row, and print it if it is among the first of its kind."""
        kind = kind_of(problem)
        if kind not in self._first and len(self._first) >= KINDS:
            kind = ""
        self._first.setdefault(kind, problem)
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN:
            self._print(f"{self._source}:{line}: {problem}")

    def sum_up(self) -> None:
        """Print the number of problems of each kind that were not printed."""
        for kind, count in self._counts.items():
            if count > SHOWN:
                first = self._first[kind]
                shown = first if len(first) <= FIRST_CHARS else f"{first[:FIRST_CHARS]}..."
                like = f"like it: {shown}" if kind else "of other kinds"
                self._print(f"{self._source}: {count - SHOWN:,} more {like}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
