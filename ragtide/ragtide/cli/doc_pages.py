"""The pages of the documentation, which the wheel carries: their names, titles, and their text for a terminal."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

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
    return dict(sorted(found.items(), key=lambda one: ("/" in one[0], one[0])))


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
