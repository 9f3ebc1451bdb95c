"""Inputs of many files: their files in a fixed order, and their rows from one place to another."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from ..errors import UnreadableFileError
from .chunk_rows import whole_rows
from .formats import huggingface, parquet
from .interactions import (
    HEAD_ROWS,
    FileOptions,
    Row,
    columns_seen,
    count_rows,
    digest_of,
    format_of,
    name_of,
    pending_records,
    row_of,
)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of an input."""

    source: str
    """Path, URL, or data set of Hugging Face."""
    pipeline: str
    """Pipeline of its rows without one."""
    rows: int
    digest: str = ""
    """Of its content (`digest_of`)."""


def shard_of(rows: int, number: int, shards: int) -> tuple[int, int]:
    """Return the places at which a shard of so many rows begins and ends; its number is from 1."""
    return rows * (number - 1) // shards, rows * number // shards


@dataclass(frozen=True)
class LargeInput:
    """Files whose rows are one after another; a place is the number of rows before a row, over all files."""

    files: Sequence[InputFile]
    options: FileOptions
    ends: Sequence[int] = field(init=False, repr=False)
    """The place after the last row of each file."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", tuple(accumulate(file.rows for file in self.files)))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.ends[-1] if self.files else 0

    def shard(self, number: int, shards: int) -> tuple[int, int]:
        """Return the places at which a shard begins and ends.

        Args:
            number: of the shard, from 1.
            shards: number of shards of the input.

        >>> of = LargeInput([InputFile("a.parquet", "a", 10)], FileOptions())
        >>> [of.shard(number, 3) for number in (1, 2, 3)]
        [(0, 3), (3, 6), (6, 10)]
        """
        return shard_of(self.rows, number, shards)

    def reader(self) -> "LargeReader":
        """Return a reader of the rows."""
        return LargeReader(self)

    def source_of(self, place: int, row: Row) -> str:
        """Return the file of the row at a place."""
        del row
        return self.files[bisect_right(self.ends, place)].source

    def description(self) -> Any:
        """Return what identifies the input, as values of JSON: the files may have moved to another folder."""
        files = [[Path(file.source).name, file.pipeline, file.rows, file.digest] for file in self.files]
        return [files, asdict(self.options)]


def large_input(sources: Sequence[str], options: FileOptions) -> LargeInput:
    """Return the files of sources with their numbers of rows.

    Args:
        sources: files, data sets of Hugging Face, folders of Parquet files, and URLs of Parquet files or of folders of
            them that fsspec knows, perhaps with `*`.
        options: of every file; a file's rows without a pipeline have the name of the file, or of the folder.

    Raises:
        UnreadableFileError: a source cannot be read, has no files, or has a file that another one has.
    """
    files: dict[str, InputFile] = {}
    for source in sources:
        names = _files_of(source)
        named = name_of(source) if options.unnamed is None else options.unnamed
        for name in names:
            place = name if huggingface.is_huggingface(name) or parquet.is_url(name) else str(Path(name).resolve())
            if place in files:
                raise UnreadableFileError(
                    f"{name} is given twice, so its rows would count twice: leave out one of them"
                )
            rows = count_rows(name, options)
            if rows is None:
                rows = sum(1 for _ in pending_records(name, options))
            files[place] = InputFile(name, named, rows, digest_of(name, options))
            first = [make() for make in islice(pending_records(name, options), HEAD_ROWS)]
            if sum(1 for _ in whole_rows(first, options.columns)) < len(first):
                raise UnreadableFileError(
                    f"{name} has a row for each chunk, and parts would divide answers: score it alone, without parts"
                )
            seen = columns_seen(first, options)
            for field_name in seen.differing:
                raise UnreadableFileError(f"{name}: {seen.question_about(field_name)}")
    return LargeInput(list(files.values()), options)


def _files_of(source: str) -> list[str]:
    if parquet.is_url(source):
        try:
            files, place = parquet.filesystem(source)
            listed = files.glob(place) if "*" in place else files.find(place) if files.isdir(place) else [place]
            paths = [path for path in listed if listed == [place] or _is_data(path.removeprefix(place).split("/"))]
            names = [str(files.unstrip_protocol(path)) for path in sorted(paths)]
        except Exception as error:  # noqa: BLE001 - the library of an object store raises errors of its own
            raise UnreadableFileError(
                f"{source} cannot be read ({error}): check the URL and your credentials"
            ) from None
    elif huggingface.is_huggingface(source) or not Path(source).is_dir():
        return [source]
    else:
        inside = sorted(path for path in Path(source).rglob("*") if _is_data(path.relative_to(source).parts))
        names = [str(path) for path in inside]
    if not names:
        raise UnreadableFileError(f"{source} has no Parquet files: give a folder with files named .parquet, or a file")
    return names


def _is_data(parts: Sequence[str]) -> bool:
    return parts[-1].lower().endswith(parquet.Parquet.suffixes) and not any(
        part.startswith(("_", ".")) for part in parts
    )


class LargeReader:
    """Reads the rows of an input from one place to another. Reading forwards costs one pass over each file.

    Args:
        inputs: the input.
    """

    def __init__(self, inputs: LargeInput) -> None:
        self._input = inputs
        self._open: tuple[str, int, Iterator[Any]] = "", 0, iter(())

    def between(self, start: int, stop: int) -> Iterator[Row]:
        """Yield the rows from one place up to another (exclusive).

        Raises:
            UnreadableFileError: a file cannot be read, or has fewer rows than before.
        """
        first = 0
        for file, end in zip(self._input.files, self._input.ends, strict=True):
            begin, until = max(start, first) - first, min(stop, end) - first
            if begin < until:
                yield from self._rows(file, begin, until)
            first = end

    def _rows(self, file: InputFile, start: int, stop: int) -> Iterator[Row]:
        options = replace(self._input.options, unnamed=file.pipeline)
        name, place, waiting = self._open
        # Of a file whose format skips no rows, those before the place are read.
        if name != file.source or place > start or (place < start and format_of(name, options).skips_rows):
            place, waiting = start, pending_records(file.source, options, start)
        self._open = file.source, stop, waiting
        count = 0
        for make in islice(waiting, start - place, stop - place):
            count += 1
            yield row_of(make(), options)
        if count < stop - start:
            raise UnreadableFileError(f"{file.source} has fewer rows than before: begin again in a new folder")
