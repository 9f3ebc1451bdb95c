"""The pages of the documentation, which the wheel carries: their names, titles, and their text for a terminal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from os.path import normpath, relpath
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table
from rich.text import Text

from .fitting import Column, fitted

_INSTALLED: Final = Path(__file__).parents[1] / "docs"


_OF_THE_TREE: Final = Path(__file__).parents[3] / "docs"


_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


_LINK: Final = re.compile(r"!?\[([^\[\]]{1,300})\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


_COMMENT: Final = re.compile(r"^<!--.*?-->\n*", re.MULTILINE)


_TITLE: Final = re.compile(r"^# (.*)$", re.MULTILINE)


def folder() -> Path:
    """Return the folder of the pages: of the installed package, or of the tree that it was installed from."""
    return _INSTALLED if _INSTALLED.is_dir() else _OF_THE_TREE


_FOLDERS: Final = (
    "start", "connect", "scores", "live", "offline", "operate", "understand", "help", "reference", "contribute",
)  # fmt: skip
"""Folders in the order in which a reader needs them."""

_BESIDES: Final = ("decisions", "measured")
"""Folders whose pages are named with the folder: few readers look for them."""


def pages() -> dict[str, Path]:
    """Return every page by its name, such as `settings` or `measured/drift`, in the order in which a reader needs them.

    The first page is `index`; decisions and measurements come last.
    """
    place = folder()
    found = {_name(path.relative_to(place)): path for path in place.rglob("*.md")}
    places = {name: number for number, name in enumerate(("docs", *_FOLDERS))}

    def order(item: tuple[str, Path]) -> tuple[int, Path]:
        return places.get(item[1].parent.name, len(places)), item[1]

    return dict(sorted(found.items(), key=order))


def _name(path: Path) -> str:
    if path.stem == "README":
        return path.parent.name
    return path.with_suffix("").as_posix() if path.parts[0] in _BESIDES else path.stem


def page_name(text: str) -> str:
    """Return the name of a page as a user may write it.

    >>> page_name("docs/reference/settings.md"), page_name("Settings"), page_name("measured/drift")
    ('settings', 'settings', 'measured/drift')
    """
    name = text.strip().lower().removeprefix("docs/").removesuffix(".md")
    return name if name.startswith(_BESIDES) else name.removesuffix("/readme").rpartition("/")[2]


def title_of(page: Path) -> str:
    """Return the title of a page."""
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return page.stem if found is None else found[1].replace("`", "")


class FoundSection(NamedTuple):
    """A section of a page that has every word of a search."""

    page: str
    section: str
    """Its heading."""
    line: str
    """Its first line that has one of the words."""


def search(words: str, known: Mapping[str, Path]) -> list[FoundSection]:
    """Return the sections that have every word, in any case; those with the words in their heading come first.

    Args:
        words: separated by spaces; each may be a part of a word.
        known: every page by its name.
    """
    wanted = words.casefold().split()
    ranked = []
    for name, path in known.items():
        for section, text in _sections(path.read_text(encoding="utf-8")):
            folded = f"{section}\n{text}".casefold()
            if all(word in folded for word in wanted):
                heading = sum(word in section.casefold() for word in wanted)
                lines = [line.strip() for line in text.split("\n") if any(word in line.casefold() for word in wanted)]
                times = sum(folded.count(word) for word in wanted)
                ranked.append((-heading, "/" in name, -times, FoundSection(name, section, next(iter(lines), ""))))
    return [found for *_, found in sorted(ranked)]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the heading and the text of each section of a page; a line of code is no heading."""
    heading, lines, code = "", list[str](), False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if line.startswith("#") and not code:
            yield heading, "\n".join(lines)
            heading, lines = line.lstrip("#").strip().replace("`", ""), []
        else:
            lines.append(line)
    yield heading, "\n".join(lines)


def for_terminal(text: str, name: str, known: dict[str, Path]) -> str:
    """Return a page without comments, whose links to other pages name them: a terminal cannot follow a relative link.

    Args:
        text: the page, in Markdown.
        name: of the page.
        known: every page by its name.
    """
    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(lambda link: _named(link, name, known), _COMMENT.sub("", part)) for part in parts[::2]]
    return "".join(parts)


def _named(link: re.Match[str], name: str, known: dict[str, Path]) -> str:
    words, target, section = link.groups()
    if not target:
        return words
    place = normpath(known[name].parent / target)
    page = next((page for page, path in known.items() if normpath(path) == place), None)
    if page is None:
        return f"{words} (`{relpath(place, folder().parent)}`, in the source)"
    own = words in (Path(target).name, page)
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
    """Return pages with their titles and folders as a table."""
    columns = [
        Column("page", list(found)),
        Column("title", [title_of(path) for path in found.values()]),
        Column("about", [path.parent.name if path.parent.name in _FOLDERS else "" for path in found.values()]),
    ]
    return fitted(columns, width)


def found_lines(found: Sequence[FoundSection], words: str, width: int) -> Iterator[Text]:
    """Yield two lines a section that a search found: its page and heading, and the part of its line with a word."""
    wanted = words.casefold().split()
    for section in found:
        yield Text.assemble((section.page, "bold cyan"), f"  {section.section}")
        plain = " ".join(_LINK.sub(r"\1", section.line).strip("| -*").replace("`", "").split())
        first = min((plain.casefold().find(word) for word in wanted if word in plain.casefold()), default=0)
        begin = max(0, min(first - width // 3, len(plain) - width + 4))
        line = Text(f"  {'…' * bool(begin)}{plain[begin:]}", style="bright_black", no_wrap=True)
        line.truncate(width, overflow="ellipsis")
        yield line
