"""The terminal: its outputs without characters that could control it, and tables that fit its width.

A table shortens names in the middle, and its columns yield in a stated order. Numbers are never cut. Names that would
look alike are not shortened: each has a line of its own above its row.
"""

import typer
from typing import Final, Any
from collections.abc import Iterable, Sequence, Mapping
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, Group
from rich.segment import Segment
from ragtide_schemas.printable import printable, printable_json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from rich.cells import cell_len
from rich.text import Text
from rich.padding import Padding


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


GAP = 2
"""Characters between two columns."""


INDENT = 2
"""Characters before a line below a row."""


BESIDE_CUT = 3
"""Characters on each side of a cut in which a difference of two names is not seen."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, with the order in which it yields where the terminal is too narrow."""

    title: str
    cells: Sequence[str | Text]
    right: bool = False
    yields: int = 0
    """Columns yield in rising order; 0 never yields."""
    narrower: "Column | None" = None
    """The column that replaces this column when it yields; None removes it."""
    shortest: int | None = None
    """For names: when this column yields, its cells are shortened in the middle to at least this many characters."""
    stacks: bool = False
    """When this column yields, its cells move to a line below their row instead of being removed. A column that has
    `shortest`, too, is shortened first."""

    @cached_property
    def natural(self) -> int:
        """Characters of the widest cell or the title."""
        return max([cell_len(self.title), *(_text(cell).cell_len for cell in self.cells)])

    def head(self, width: int) -> int:
        """Return how many characters stay at the beginning of cells that are shortened to a width."""
        if width not in self._heads:
            self._heads[width] = telling_head([_text(cell).plain for cell in self.cells], width)
        return self._heads[width]

    def alike(self, width: int) -> frozenset[str]:
        """Return the cells that look like another cell when they are shortened to a width."""
        if width not in self._alike:
            of: defaultdict[str, set[str]] = defaultdict(set)
            for name in {_text(cell).plain for cell in self.cells}:
                # Names that differ only beside the cut look alike to a reader.
                of[shortened(name, max(width - 2 * BESIDE_CUT, 3), max(self.head(width) - BESIDE_CUT, 1))].add(name)
            self._alike[width] = frozenset(name for names in of.values() if len(names) > 1 for name in names)
        return self._alike[width]

    @cached_property
    def _heads(self) -> dict[int, int]:
        return {}

    @cached_property
    def _alike(self) -> dict[int, frozenset[str]]:
        return {}


@dataclass(frozen=True, slots=True)
class Notes:
    """Lines of the whole width between the rows."""

    above: Mapping[int, Sequence[Text]] = field(default_factory=dict)
    """Lines above a row, by the number of the row; the number after the last row is for lines at the end."""


def shortened(name: str, width: int, head: int | None = None) -> str:
    """Return a name of at most `width` characters; a longer name loses its middle.

    Args:
        width: most characters.
        head: characters that stay at the beginning; half unless given.

    >>> shortened("claude-3-haiku-20240307", 14), shortened("shop", 14)
    ('claude…0240307', 'shop')
    """
    if cell_len(name) <= width:
        return name
    head = (width - 1) // 2 if head is None else head
    first, last = _within(name, head), _within(name[::-1], width - 1 - head)[::-1]
    return f"{first}…{last}"


def telling_head(names: Sequence[str], width: int) -> int:
    """Return how many characters to keep at the beginning of names, so that two shortened names stay different.

    >>> names = "sentences.fully_supported", "sentences.partially_supported"
    >>> [shortened(name, 19, telling_head(names, 19)) for name in names]
    ['sent…ully_supported', 'sent…ally_supported']
    """
    different = len(set(names))
    half = (width - 1) // 2
    heads = range(half, 0, -1)
    return next((head for head in heads if len({shortened(name, width, head) for name in names}) == different), half)


def heading(parts: Sequence[str], width: int) -> Text:
    """Return the parts of a heading, whole: of names that are too long for a line, each has lines of its own."""
    shown = [printable(part) for part in parts]
    between = " · " if sum(map(cell_len, shown)) + 3 * (len(shown) - 1) <= width else " ·\n"
    return Text(between.join(shown), style="bold", overflow="fold")


def fitted(columns: Sequence[Column], width: int, notes: Notes | None = None) -> RenderableType:
    """Return a table that is at most `width` characters wide.

    Columns yield until the others fit. If no column can yield any more, all but the first move below their rows.
    """
    notes = notes or Notes()
    layout = _FittedColumns(columns, width)
    lines: list[RenderableType] = [layout.titles()]
    rows = len(columns[0].cells)
    for row in range(rows):
        lines += [*notes.above.get(row, ()), *layout.whole_names(row), layout.line(row)]
        lines += map(_below, layout.stacked_below(row))
    return Group(*lines, *notes.above.get(rows, ()))


class _FittedColumns:
    """The columns that fit, with their widths."""

    def __init__(self, columns: Sequence[Column], width: int) -> None:
        self._beside = [*columns]
        self._below: list[Column] = []
        self._short: list[Column] = []
        while self._least() > width:
            yielding = [
                column for column in self._beside if column.yields and (column not in self._short or column.stacks)
            ]
            if not yielding:
                self._below += self._beside[1:]
                self._beside = self._beside[:1]
                self._short = self._beside[:1]
                break
            self._yield(min(yielding, key=lambda column: (column.yields, column in self._short)))
        spare = width - self._least()
        self._widths = []
        for column in self._beside:
            least = self._width(column)
            more = min(max(spare, 0), column.natural - least)
            spare -= more
            self._widths.append(least + more)

    def _yield(self, column: Column) -> None:
        place = self._beside.index(column)
        if column.shortest is not None and column not in self._short:
            self._short.append(column)
        elif column.narrower is not None:
            self._beside[place] = column.narrower
        else:
            del self._beside[place]
            if column.stacks:
                self._below.append(column)

    def _width(self, column: Column) -> int:
        return min(column.natural, column.shortest or 1) if column in self._short else column.natural

    def _least(self) -> int:
        return sum(self._width(column) for column in self._beside) + GAP * (len(self._beside) - 1)

    def titles(self) -> Text:
        """Return the line of the titles."""
        return self._joined([Text(column.title, style="bold") for column in self._beside])

    def line(self, row: int) -> Text:
        """Return the line of a row."""
        above = self._cells_alike(row)
        cells = [_text(column.cells[row]) for column in self._beside]
        return self._joined([cell if name is None else Text() for cell, name in zip(cells, above, strict=True)])

    def whole_names(self, row: int) -> list[Text]:
        """Return the names of a row that would look like another name in their columns."""
        return [Text(cell.plain, style=cell.style, overflow="fold") for cell in self._cells_alike(row) if cell]

    def _cells_alike(self, row: int) -> list[Text | None]:
        found = [
            (column, width, _text(column.cells[row])) for column, width in zip(self._beside, self._widths, strict=True)
        ]
        return [
            cell if cell.cell_len > width and cell.plain in column.alike(width) else None
            for column, width, cell in found
        ]

    def stacked_below(self, row: int) -> list[Text]:
        """Return the cells of a row that have no column any more, as one text."""
        cells = [(column.title, _text(column.cells[row])) for column in self._below]
        parts = [Text.assemble(f"{title} " if title else "", cell) for title, cell in cells if cell.plain.strip()]
        return [Text("   ").join(parts)] if parts else []

    def _joined(self, cells: Sequence[Text]) -> Text:
        line = Text()
        for column, width, whole in zip(self._beside, self._widths, cells, strict=True):
            cell = whole
            if whole.cell_len > width:
                cell = Text(shortened(whole.plain, width, column.head(width)), style=whole.style)
            space = " " * (width - cell.cell_len)
            line = Text.assemble(line, space if column.right else "", cell, "" if column.right else space, " " * GAP)
        line.rstrip()
        return line


def _below(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, INDENT), expand=False)


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def _within(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:place]
    return text
