"""JSON Lines: one object per line."""

from collections.abc import Iterator
from pathlib import Path

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import read_json_object

from .record import Record


def records(path: Path) -> Iterator[Record]:
    """Yield every line that is not blank; its number counts blank lines, too."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            content = line.strip()
            if content:
                try:
                    yield Record(number, read_json_object(content.removeprefix(b"\xef\xbb\xbf")), content)
                except InvalidEntryError as error:
                    yield Record(number, problem=error.detail)


def count(path: Path) -> int:
    """Return the number of lines that are not blank, without decoding them."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
