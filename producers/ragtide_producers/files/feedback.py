"""Reads feedback from JSON Lines, with the number and the problem of each bad line."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragtide_schemas import Feedback, InvalidEntryError
from ragtide_schemas.base import read_json_object
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from ..errors import UnreadableFileError
from .formats import RecordError
from .formats.text import lines_of


class FeedbackLine(NamedTuple):
    """One line of the file: its feedback or its problem."""

    number: int
    feedback: Feedback | None = None
    problem: str | None = None


def read_feedback(file: Path) -> Iterator[FeedbackLine]:
    """Yield every line that is not blank.

    Raises:
        UnreadableFileError: the file cannot be read.
    """
    try:
        lines = list(lines_of(file))
    except RecordError as error:
        raise UnreadableFileError(f"{file}: {error}") from None
    except OSError as error:
        raise UnreadableFileError(f"{file} cannot be read ({error.strerror}): correct the path") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield FeedbackLine(number, sent(Feedback.from_fields, read_json_object(line), utc_now()))
            except InvalidEntryError as error:
                yield FeedbackLine(number, problem=error.detail)
