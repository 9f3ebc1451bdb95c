"""The terminal: standard output and standard error without characters that could control it."""

from collections.abc import Iterable
from typing import Any, Final

import typer
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragtide_schemas.printable import printable, printable_json

UNLIMITED: Final = 10_000
"""Columns of a pipe or a file: a table then has all columns and whole names, and no line is wrapped."""


class SafeConsole(Console):
    """A console whose text cannot control the terminal. Styles and redrawing still work, because rich adds them.

    A pipe or a file has lines of any length, unless COLUMNS states a width.
    """

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal."""
        known = super().size
        stated = self._width is not None or self._environ.get("COLUMNS", "").isdigit()
        return known if stated or self.is_terminal else ConsoleDimensions(UNLIMITED, known.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments in which characters that control a terminal are escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n\t"), style, control)


# Without markup and names of emoji, because a cell of a table may show a text that an application published.
out = SafeConsole(soft_wrap=False, markup=False, emoji=False)
err = SafeConsole(stderr=True, markup=False, emoji=False)


def warn(*sentences: str) -> None:
    """Print warnings on standard error."""
    for sentence in sentences:
        err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    typer.echo(printable_json(value))
