"""The pages of the documentation, which the wheel carries: their names, titles, and their text for a terminal."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from .fitting import Column, fitted

_INSTALLED: Final = Path(__file__).parents[1] / "docs"


_OF_THE_TREE: Final = Path(__file__).parents[3] / "docs"


_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


_LINK: Final = re.compile(r"!?\[([^\[\]]{1,300})\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


_TITLE: Final = re.compile(r"^# (.*)$", re.MULTILINE)


def folder() -> Path:
    """Return the folder of the pages: of the installed package, or of the tree that it was installed from."""
    return _INSTALLED if _INSTALLED.is_dir() else _OF_THE_TREE


def pages() -> dict[str, Path]:
    """Return every page by its name, such as `settings` or `measured/drift`; pages in folders come last."""
    place = folder()
    found = {path.relative_to(place).with_suffix("").as_posix(): path for path in place.rglob("*.md")}
    return dict(sorted(found.items(), key=lambda item: ("/" in item[0], item[0])))


def page_name(text: str) -> str:
    """Return the name of a page as a user may write it.

    >>> page_name("docs/settings.md"), page_name("Settings")
    ('settings', 'settings')
    """
    return text.strip().lower().removeprefix("docs/").removesuffix(".md")


def title_of(page: Path) -> str:
    """Return the title of a page."""
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return page.stem if found is None else found[1].replace("`", "")


def for_terminal(text: str, name: str, known: dict[str, Path]) -> str:
    """Return a page whose links to other pages name them, because a terminal cannot follow a relative link.

    Args:
        text: the page, in Markdown.
        name: of the page.
        known: every page by its name.
    """
    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(lambda link: _named(link, name, known), part) for part in parts[::2]]
    return "".join(parts)


def _named(link: re.Match[str], name: str, known: dict[str, Path]) -> str:
    words, target, section = link.groups()
    if not target:
        return words
    place = PurePosixPath(normpath(PurePosixPath("docs") / PurePosixPath(name).parent / target))
    page = place.with_suffix("").as_posix().removeprefix("docs/")
    if place.suffix != ".md" or page not in known:
        return f"{words} (`{place}`, in the source)"
    own = words in (PurePosixPath(target).name, page)
    if section:
        return f'{"" if own else f"{words}: "}`{page}`, "{section.replace("-", " ")}"'
    return f"`{page}`" if own else f"{words} (`{page}`)"


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


def pages_table(found: dict[str, Path], width: int) -> RenderableType:
    """Return pages with their titles as a table."""
    columns = [Column("page", list(found)), Column("title", [title_of(path) for path in found.values()])]
    return fitted(columns, width)
