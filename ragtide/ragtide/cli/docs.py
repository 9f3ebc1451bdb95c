"""`ragtide docs`: lists the pages of the documentation, or shows one."""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from ragtide_schemas.suggestions import unknown

from .console import out, warn
from .doc_pages import for_terminal, page_name, pages, title_of
from .fitting import Column, fitted

TEXT_WIDTH: Final = 100
"""Most columns of a page on a terminal."""


class _WholeTable(TableElement):
    """A table that folds a long word and cuts none."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class DocumentationPage(Markdown):
    """A page in Markdown for a terminal."""

    elements = {**Markdown.elements, "table_open": _WholeTable}  # noqa: RUF012 - a table of Rich's own class


def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page, such as settings; default: list all.")] = None,
) -> None:
    """Read the documentation of this version.

    A pipe or a file gets the page as Markdown.
    """
    known = pages()
    if page is None:
        out.print(pages_table({name: path for name, path in known.items() if "/" not in name}, out.width))
        out.print("ragtide docs PAGE shows a page. A first page: start-app.", style="bright_black", highlight=False)
        return
    name = page_name(page)
    if name not in known:
        warn(unknown("page", name, known, listed_by="ragtide docs"))
        raise typer.Exit(1)
    text = for_terminal(known[name].read_text(encoding="utf-8"), name, known)
    if not out.is_terminal:
        typer.echo(text)
        return
    out.print(DocumentationPage(text, code_theme="ansi_dark", hyperlinks=False), width=min(out.width, TEXT_WIDTH))
    out.print()
    out.print("To read a page that is named here: ragtide docs PAGE", style="bright_black", highlight=False)


def pages_table(found: dict[str, Path], width: int) -> RenderableType:
    """Return pages with their titles as a table."""
    columns = [Column("page", list(found)), Column("title", [title_of(path) for path in found.values()])]
    return fitted(columns, width)
