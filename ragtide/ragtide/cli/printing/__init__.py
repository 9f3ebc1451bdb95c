"""The terminal: its outputs without characters that could control it, and tables of records that fit its width.

A record has one list of columns, from which `fitted` makes its table, or `folded` where the texts are long. A table
shortens names in the middle, and its columns yield in a stated order. Numbers are never cut. Names that would
look alike are not shortened: each has a line of its own above its row.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

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


GAP = 2
"""Characters between two columns."""


INDENT = 2
"""Characters before a line below a row."""


BESIDE_CUT = 3
"""Characters on each side of a cut in which a difference of two names is not seen."""


Row = TypeVar("Row")


@dataclass(frozen=True, eq=False)
class Column(Generic[Row]):
    """One column of the table of a record, with the order in which it yields where the terminal is too narrow."""

    title: str
    cell: Callable[[Row], str | Text]
    right: bool = False
    yields: int = 0
    """Columns yield in rising order; 0 never yields."""
    narrower: "Column[Row] | None" = None
    """The column that replaces this column when it yields; None removes it."""
    shortest: int | None = None
    """For names: when this column yields, its cells are shortened in the middle to at least this many characters."""
    stacks: bool = False
    """When this column yields, its cells move to a line below their row instead of being removed. A column that has
    `shortest`, too, is shortened first."""
    optional: bool = False
    """Whether the column is left out when all its cells are blank."""
    folds: int = 0
    """In a table of `folded`: most characters of a line of a cell; 0 for a cell that stays in one line."""


class _Cells(Generic[Row]):
    """A column with its cells."""

    def __init__(self, column: Column[Row], rows: Sequence[Row]) -> None:
        self.column, self._rows = column, rows
        self.texts = [_text(column.cell(row)) for row in rows]
        self.natural = max([cell_len(column.title), *(text.cell_len for text in self.texts)])
        """Characters of the widest cell or the title."""
        self._heads: dict[int, int] = {}
        self._alike: dict[int, frozenset[str]] = {}

    def narrower(self) -> "_Cells[Row] | None":
        """Return the column that replaces this column."""
        return None if self.column.narrower is None else _Cells(self.column.narrower, self._rows)

    def head(self, width: int) -> int:
        """Return how many characters stay at the beginning of cells that are shortened to a width."""
        if width not in self._heads:
            self._heads[width] = telling_head([text.plain for text in self.texts], width)
        return self._heads[width]

    def alike(self, width: int) -> frozenset[str]:
        """Return the cells that look like another cell when they are shortened to a width."""
        if width not in self._alike:
            names: defaultdict[str, set[str]] = defaultdict(set)
            for name in {text.plain for text in self.texts}:
                # Names that differ only beside the cut look alike to a reader.
                cut = shortened(name, max(width - 2 * BESIDE_CUT, 3), max(self.head(width) - BESIDE_CUT, 1))
                names[cut].add(name)
            self._alike[width] = frozenset(name for same in names.values() if len(same) > 1 for name in same)
        return self._alike[width]


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
    printed = [printable(part) for part in parts]
    between = " · " if sum(map(cell_len, printed)) + 3 * (len(printed) - 1) <= width else " ·\n"
    return Text(between.join(printed), style="bold", overflow="fold")


Lines = Mapping[int, Sequence[Text]]
"""Lines of the whole width above rows, by the number of the row; the number after the last row is for the end."""


def in_sections(sections: Iterable[tuple[Sequence[Text], Sequence[Row], Sequence[Text]]]) -> tuple[list[Row], Lines]:
    """Return the rows of all sections, and the lines above and below those of each."""
    rows: list[Row] = []
    above: dict[int, list[Text]] = {}
    for head, members, foot in sections:
        above.setdefault(len(rows), []).extend(head)
        rows += members
        above.setdefault(len(rows), []).extend(foot)
    return rows, above


def fitted(
    columns: Iterable[Column[Row]], rows: Sequence[Row], width: int, above: Lines | None = None
) -> RenderableType:
    """Return a table of records that is at most `width` characters wide.

    Columns yield until the others fit. If no column can yield any more, all but the first move below their rows.
    """
    above = above or {}
    layout = _FittedColumns(columns, rows, width)
    lines: list[RenderableType] = [layout.titles()]
    for row in range(len(rows)):
        lines += [*above.get(row, ()), *layout.whole_names(row), layout.line(row)]
        lines += (Padding(text, (0, 0, 0, INDENT), expand=False) for text in layout.stacked_below(row))
    return Group(*lines, *above.get(len(rows), ()))


def folded(columns: Sequence[Column[Row]], rows: Iterable[Row], gap: int = GAP) -> RenderableType:
    """Return a table of records with texts: a long text goes on in further lines.

    Args:
        gap: characters between two columns.
    """
    titled = any(column.title for column in columns)
    padding = (0, gap, 0, 0)
    table = Table(box=None, pad_edge=False, show_header=titled, padding=padding, header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold",
            max_width=column.folds or None,
        )
    for row in rows:
        table.add_row(*(_text(column.cell(row)) for column in columns))
    return table


class _FittedColumns(Generic[Row]):
    """The columns that fit, with their widths."""

    def __init__(self, columns: Iterable[Column[Row]], rows: Sequence[Row], width: int) -> None:
        cells = [_Cells(column, rows) for column in columns]
        self._beside = [each for each in cells if not each.column.optional or any(map(str, each.texts))]
        self._below: list[_Cells[Row]] = []
        self._short: list[_Cells[Row]] = []
        while self._least() > width:
            yielding = [
                each for each in self._beside
                if each.column.yields and (each not in self._short or each.column.stacks)
            ]  # fmt: skip
            if not yielding:
                self._below += self._beside[1:]
                self._beside = self._beside[:1]
                self._short = self._beside[:1]
                break
            self._yield(min(yielding, key=lambda each: (each.column.yields, each in self._short)))
        spare = width - self._least()
        self._widths = []
        for each in self._beside:
            least = self._width(each)
            more = min(max(spare, 0), each.natural - least)
            spare -= more
            self._widths.append(least + more)

    def _yield(self, each: _Cells[Row]) -> None:
        place = self._beside.index(each)
        if each.column.shortest is not None and each not in self._short:
            self._short.append(each)
        elif (narrower := each.narrower()) is not None:
            self._beside[place] = narrower
        else:
            del self._beside[place]
            if each.column.stacks:
                self._below.append(each)

    def _width(self, cells: _Cells[Row]) -> int:
        return min(cells.natural, cells.column.shortest or 1) if cells in self._short else cells.natural

    def _least(self) -> int:
        return sum(map(self._width, self._beside)) + GAP * (len(self._beside) - 1)

    def titles(self) -> Text:
        """Return the line of the titles."""
        return self._joined([Text(cells.column.title, style="bold") for cells in self._beside])

    def line(self, row: int) -> Text:
        """Return the line of a row."""
        above = self._cells_alike(row)
        cells = [each.texts[row] for each in self._beside]
        return self._joined([cell if name is None else Text() for cell, name in zip(cells, above, strict=True)])

    def whole_names(self, row: int) -> list[Text]:
        """Return the names of a row that would look like another name in their columns."""
        return [Text(cell.plain, style=cell.style, overflow="fold") for cell in self._cells_alike(row) if cell]

    def _cells_alike(self, row: int) -> list[Text | None]:
        cells = [(column, width, column.texts[row]) for column, width in zip(self._beside, self._widths, strict=True)]
        return [
            cell if cell.cell_len > width and cell.plain in column.alike(width) else None
            for column, width, cell in cells
        ]

    def stacked_below(self, row: int) -> list[Text]:
        """Return the cells of a row that have no column any more, as one text."""
        cells = [(column.column.title, column.texts[row]) for column in self._below]
        parts = [Text.assemble(f"{title} " if title else "", cell) for title, cell in cells if cell.plain.strip()]
        return [Text("   ").join(parts)] if parts else []

    def _joined(self, cells: Sequence[Text]) -> Text:
        line = Text()
        for column, width, whole in zip(self._beside, self._widths, cells, strict=True):
            cell = whole
            if whole.cell_len > width:
                cell = Text(shortened(whole.plain, width, column.head(width)), style=whole.style)
            space = " " * (width - cell.cell_len)
            right = column.column.right
            line = Text.assemble(line, space if right else "", cell, "" if right else space, " " * GAP)
        line.rstrip()
        return line


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def _within(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[:place]
    return text
