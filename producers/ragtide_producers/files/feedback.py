"""Reads feedback from JSON Lines, with the number and the problem of each bad line."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragtide_schemas import Feedback, InvalidEntryError
from ragtide_schemas.sent import sent
from ragtide_schemas.times import utc_now

from .interactions import FileOptions, read_records


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
    for record in list(read_records(file, FileOptions(format="jsonl"))):
        try:
            feedback = None if record.fields is None else sent(Feedback.from_fields, record.fields, utc_now())
            yield FeedbackLine(record.number, feedback, record.problem)
        except InvalidEntryError as error:
            yield FeedbackLine(record.number, problem=error.detail)
