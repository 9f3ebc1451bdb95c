"""Draws tables for tests, as a terminal of some width would show them."""

from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType

WIDTHS = (80, 100, 120, 200)
"""Usual widths of terminals."""


def drawn(table: RenderableType, width: int) -> str:
    """Return a table as the text of a terminal, after checking that no line is wider than the terminal."""
    console = Console(file=StringIO(), width=width * 3)  # wide, so that the terminal does not hide a line too long
    console.print(table)
    assert isinstance(console.file, StringIO)
    wide = console.file.getvalue()
    # Text below a row is wrapped by the terminal, so draw again at the true width.
    console = Console(file=StringIO(), width=width, legacy_windows=False)
    console.print(table)
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    assert "".join(wide.split()) == "".join(text.split()), "the terminal cuts characters"
    return text
