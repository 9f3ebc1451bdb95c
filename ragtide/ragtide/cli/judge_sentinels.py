"""Chooses sentinels from a recording or a file, and writes them into a file of interactions."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ragtide_consumers.sentinels.service import sentinels_of
from ragtide_producers import FileOptions, read_rows
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction

from .gates import write_file

READ_MAX: Final = 100_000
"""Most interactions that are looked at."""


def write_sentinels(settings: Settings, source: str, output: Path, *, limit: int, pipeline: str | None) -> int:
    """Write sentinels into a file, and return their number.

    Args:
        settings: of the process.
        source: recording or file.
        output: file to write.
        limit: most sentinels.
        pipeline: only of this pipeline; all unless given.

    Raises:
        RagtideError: the source cannot be read, or no judge can label any interaction in it.
    """
    found = (each for each in _interactions(settings, source) if pipeline in (None, each.pipeline))
    sentinels = sentinels_of(list(islice(found, READ_MAX)), limit)
    if not sentinels:
        of = "" if pipeline is None else f" of the pipeline {pipeline}"
        raise ConfigurationError(f"{source} has no interaction{of} with documents and a response: name another source")
    lines = [sentinel.interaction.encode() for sentinel in sentinels]
    write_file(output, b"\n".join(lines) + b"\n", "the file of sentinels")
    return len(lines)


def _interactions(settings: Settings, source: str) -> Iterator[RagInteraction]:
    is_url = len(urlsplit(source).scheme) > 1 and not source.startswith("hf:")
    if is_url or Path(source).is_dir():
        recording = Recording.open(source, storage_options=settings.recorder.storage_options)
        for entry in recording.entries(EntryKind.INTERACTIONS):
            if isinstance(entry.model, RagInteraction):
                yield entry.model
        return
    for row in read_rows(source, FileOptions(unnamed="unnamed")):
        if row.interaction is not None:
            yield row.interaction
