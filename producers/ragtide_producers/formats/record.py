"""One record of a file, before anybody knows what is in it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """Fields of one line, row or result; or what is wrong with it."""

    number: int
    """Line, row or result, from 1."""
    fields: dict[str, Any] | None = None
    content: bytes = b""
    """What an id is made of if the record has none."""
    problem: str | None = None


class RecordError(ValueError):
    """A file is not of the format it was read as; the message says what to do."""
