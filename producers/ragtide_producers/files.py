"""Files of interactions: JSON Lines in the product's own schema or as RAGBench rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.base import read_json_object

from .errors import UnreadableFileError
from .ragbench import interaction_fields, is_ragbench_row


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file: the interaction in it, or what is wrong with it."""

    line: int
    """Number of the line, from 1, blank lines counted."""
    interaction: RagInteraction | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What is filled in where a row does not say it, and the run the rows are put into."""

    pipeline: str | None = None
    """Pipeline of rows that name none; by default `ragbench` for RAGBench rows, required for others."""
    run: str | None = None
    """Run of every row: its ids are then `<run>/<id>`, so that one file can be published in several runs."""
    population_size: int | None = None
    """Number of interactions in the run."""


def read_rows(path: Path, options: FileOptions) -> Iterator[Row]:
    """Yield every line of a JSON Lines file that is not blank, in order.

    A row without `interaction_id` gets one from its line number and content, so that publishing an unchanged file
    again adds nothing.

    Raises:
        UnreadableFileError: the file cannot be opened or read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _read_row(number, line, options)
    except OSError as error:
        raise UnreadableFileError(
            f"{path} cannot be read ({error.strerror}): give the path of a JSON Lines file"
        ) from None


def _read_row(number: int, line: bytes, options: FileOptions) -> Row:
    try:
        fields = read_json_object(line.strip().removeprefix(b"\xef\xbb\xbf"))
        if is_ragbench_row(fields):
            fields = interaction_fields(fields, options.pipeline or "ragbench")
        elif options.pipeline is not None:
            fields.setdefault("pipeline", options.pipeline)
        fields.setdefault(
            "interaction_id", f"row-{blake2b(b'%d:' % number + line.strip(), digest_size=16).hexdigest()}"
        )
        return Row(number, interaction=RagInteraction.from_fields(_in_run(fields, options)))
    except InvalidEntryError as error:
        return Row(number, problem=error.detail)


def _in_run(fields: dict[str, Any], options: FileOptions) -> dict[str, Any]:
    if options.run is None:
        return fields
    own: dict[str, Any] = {"run": options.run, "interaction_id": f"{options.run}/{fields['interaction_id']}"}
    if options.population_size is not None:
        own["population_size"] = options.population_size
    return fields | own
