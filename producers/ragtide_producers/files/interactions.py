"""Reads interactions from files and Hugging Face data sets, in ragtide's schema or as RAGBench or RAGChecker rows."""

import atexit
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import Final

from ragtide_schemas import ClaimLabels, InvalidEntryError, RagInteraction, SentenceLabels
from ragtide_schemas.base import is_left_out
from ragtide_schemas.sent import sent
from ragtide_schemas.suggestions import unknown
from ragtide_schemas.times import time_in, utc_now

from ..errors import UnreadableFileError
from ..given_fields import with_bounded_steps
from . import columns
from .chunk_rows import whole_rows
from .columns import Mapped
from .formats import FORMATS, Format, Record, RecordError, huggingface, json, parquet, text
from .labeled import labeled_row


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a file: its interaction with stored labels, or its problem."""

    line: int
    """Number of the line, row or result, from 1; blank lines count."""
    interaction: RagInteraction | None = None
    problem: str | None = None
    labels: tuple[SentenceLabels | ClaimLabels, ...] = field(default=())
    """Labels of the response, in files of RAGBench and RAGChecker."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of each field that has another name in the file."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How often the row has what is not scored on purpose, such as images, by name."""

    def with_interaction(self, interaction: RagInteraction) -> "Row":
        """Return the row with another interaction."""
        return replace(self, interaction=interaction)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Values of missing fields, the run of the rows, and the file's format."""

    pipeline: str | None = None
    """Pipeline of rows without one; by default `ragbench` or `ragchecker` for their rows, `unnamed` for other rows."""
    run: str | None = None
    """Run of every row. Ids become `<run>/<id>`, so that one file can be published in several runs."""
    population_size: int | None = None
    """Number of interactions in the run."""
    format: str | None = None
    """Name of a format in `FORMATS`; by default found by the file's name."""
    unnamed: str | None = None
    """Pipeline of other rows without one, if `pipeline` is not given; None refuses them."""
    columns: Mapped = field(default_factory=dict)
    """Column by field, such as `{"documents": "contexts", "segments.lang": "request.lang"}`; other fields are found by
    their known names. Several columns have documents each."""


def read_rows(source: str | Path, options: FileOptions) -> Iterator[Row]:
    """Yield every record of a file or of a Hugging Face data set, in order; the rows of one answer's chunks as one.

    A record without `interaction_id` gets an id from its number and content, so that publishing an unchanged file
    again adds nothing.

    Args:
        source: path of a file, or `hf:owner/name/config?split=test` (see `formats/huggingface.py`).
        options: values of missing fields.

    Raises:
        UnreadableFileError: the source cannot be opened, or has another format.
    """
    return rows_of(read_records(source, options), options)


def rows_of(records: Iterable[Record], options: FileOptions) -> Iterator[Row]:
    """Yield the rows of records, of which the first ones show what the columns mean; see `read_rows`."""
    whole = whole_rows(records, options.columns)
    head = list(islice(whole, HEAD_ROWS))
    seen = columns_seen(head, options)
    yield from (row_of(record, options, seen) for record in chain(head, whole))


HEAD_ROWS: Final = 100
"""First rows of a file that are looked at before one is returned, so that it does not matter in which two differ."""


def columns_seen(head: Iterable[Record], options: FileOptions) -> columns.SeenColumns:
    """Return what the first rows of a file show about its columns."""
    seen = columns.SeenColumns()
    for record in head:
        with suppress(InvalidEntryError):
            columns.interaction_fields(record.fields or {}, options.columns, cells=record.cells, seen=seen)
    return seen


def read_records(source: str | Path, options: FileOptions) -> Iterator[Record]:
    """Yield every record of a source, not yet interpreted, in order; see `read_rows`.

    Raises:
        UnreadableFileError: the source cannot be opened, or has another format.
    """
    return (make() for make in pending_records(source, options))


def pending_records(source: str | Path, options: FileOptions, start: int = 0) -> Iterator[Callable[[], Record]]:
    """Yield for every record from a place, from 0, a function that returns it, so that records are skipped undecoded.

    Raises:
        UnreadableFileError: the source cannot be opened, or has another format.
    """
    with _reading(source):
        form = format_of(source, options)
        yield from form.pending(_readable_place(source), start, columns.columns_named(options.columns))


def made_id(record: Record) -> str:
    """Return an id for a record without one, from its number and content."""
    return f"row-{blake2b(b'%d:' % record.number + record.content, digest_size=16).hexdigest()}"


def count_rows(source: str | Path, options: FileOptions) -> int | None:
    """Return the number of records of a source; None if that takes reading the whole source.

    Raises:
        UnreadableFileError: the source cannot be opened, or has another format.
    """
    with _reading(source):
        return format_of(source, options).count(_readable_place(source))


def digest_of(source: str | Path, options: FileOptions) -> str:
    """Return a digest that changes with the content of a file; empty for a data set of Hugging Face.

    Raises:
        UnreadableFileError: the source cannot be opened, or has another format.
    """
    with _reading(source):
        return format_of(source, options).digest(_readable_place(source))


@contextmanager
def _reading(source: str | Path) -> Iterator[None]:
    try:
        yield
    except RecordError as error:
        raise UnreadableFileError(f"{source}: {error}") from None
    except OSError as error:
        raise UnreadableFileError(
            f"{source} cannot be read ({error.strerror}): give the path of a file of interactions or feedback"
        ) from None


def _readable_place(source: str | Path) -> str | Path:
    if huggingface.is_huggingface(source) or parquet.is_url(source):
        return str(source)
    path = Path("/dev/stdin" if str(source) == STDIN else source)
    return path if path.is_file() or not path.exists() or path.is_dir() else _copy_stream(path)


STDIN: Final = "-"
"""Name of standard input as a source."""


@cache
def _copy_stream(stream: Path) -> Path:
    with stream.open("rb") as source, NamedTemporaryFile(prefix="ragtide-", delete=False) as copy:
        atexit.register(Path(copy.name).unlink, missing_ok=True)
        copyfileobj(source, copy)
    return Path(copy.name)


def format_of(source: str | Path, options: FileOptions) -> Format:
    """Return the format of a source."""
    if huggingface.is_huggingface(source):
        if options.format is not None:
            raise UnreadableFileError(f"format {options.format!r} is for files, but {source} is no file: leave it out")
        return huggingface.HuggingFace()
    if parquet.is_url(source):
        if options.format not in (None, "parquet"):
            raise UnreadableFileError(f"{source} is a URL, of which only Parquet is read: copy the file, then score it")
        return FORMATS["parquet"]
    ending = text.bare_suffixes(Path(source))[-1:]
    by_ending = (name for name, form in FORMATS.items() if ending and ending[0] in form.suffixes)
    name = options.format or next(by_ending, "jsonl")
    if name not in FORMATS:
        raise UnreadableFileError(unknown("format", name, tuple(FORMATS)))
    if options.format is None and name in ("json", "jsonl"):
        name = json.detect_format(Path(_readable_place(source)), name)
    return FORMATS[name]


def row_of(record: Record, options: FileOptions, seen: columns.SeenColumns | None = None) -> Row:
    """Return the row of a record, with its interaction or its problem.

    Args:
        options: values of missing fields.
        seen: the columns of other rows of the file.
    """
    if record.fields is None:
        return Row(record.number, problem=record.problem)
    left_out: Counter[str] = Counter()
    now = utc_now()
    try:
        known = labeled_row(record.fields)
        given, mapping = (record.fields, options.columns) if known is None else (known[0], {})
        fields, taken = columns.interaction_fields(given, mapping, cells=record.cells, seen=seen, left_out=left_out)
        unnamed = options.unnamed if known is None else given["source"]
        named = unnamed if options.pipeline is None else options.pipeline
        fields = fields if named is None else {"pipeline": named} | fields
        if is_left_out(fields.get("interaction_id")):
            fields["interaction_id"] = made_id(record)
        if options.run is not None:
            fields |= {"run": options.run, "interaction_id": f"{options.run}/{fields['interaction_id']}"}
            fields |= {} if options.population_size is None else {"population_size": options.population_size}
        interaction = sent(RagInteraction.from_fields, with_bounded_steps(fields), now)
    except InvalidEntryError as error:
        return Row(record.number, problem=error.detail)
    _, unit = time_in(fields.get("occurred_at"), now)
    if unit is not None:
        taken = {**taken, "occurred_at": f"{taken.get('occurred_at', 'occurred_at')} in {unit}"}
    labels = () if known is None or known[1] is None else (known[1],)
    renamed = taken if known is None else {}
    return Row(record.number, interaction, labels=labels, columns=renamed, left_out=left_out + interaction.left_out)


def name_of(source: str | Path) -> str:
    """Return the name of a source without folders and ending, or that of a folder, as a pipeline's name.

    >>> name_of("runs/answers.v2.jsonl"), name_of("hf:owner/name/config?split=test"), name_of("s3://bucket/a.v1/*.pq")
    ('answers.v2', 'name', 'a.v1')
    """
    if huggingface.is_huggingface(source):
        parts = str(source).removeprefix("hf:").partition("?")[0].strip("./").split("/")
        return parts[1] if len(parts) > 1 else parts[0]
    if str(source) == STDIN or str(source).startswith("/dev/"):
        return "stdin"
    if parquet.is_url(source) and ("*" in str(source) or not str(source).lower().endswith(parquet.Parquet.suffixes)):
        return [part for part in str(source).split("/") if part and "*" not in part][-1]
    if Path(source).is_dir():
        return Path(source).resolve().name
    name = Path(source).name
    for ending in (*text.PACKED, "".join(Path(name).suffixes[-1:])):
        name = name.removesuffix(ending)
    return name
