"""The pages of docs/ by name, and their blocks of code with the tag that says which test runs them."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from ragtide.cli.printing.pages import pages

_BLOCK: Final = re.compile(r"^(?:<!-- test: ([^\n]+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code in a page."""

    tag: str
    """Which test runs it, from the comment before it, `<!-- test: langchain -->`; empty for that of its language."""
    language: str
    code: str


def doc_page(name: str) -> Path:
    """Return the file of a page, such as `settings`."""
    return pages()[name]


def page_text(name: str) -> str:
    """Return the text of a page, such as `settings`."""
    return doc_page(name).read_text(encoding="utf-8")


def blocks_of(text: str) -> list[Block]:
    """Return every block of code in a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def tagged_block(text: str, tag: str) -> str:
    """Return the only block of a page that has this tag."""
    (code,) = (block.code for block in blocks_of(text) if block.tag == tag)
    return code
