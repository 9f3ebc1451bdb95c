"""The contents of a recording as a table, and the problems of its files."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.filesize import decimal

from ragtide_runtime.recordings import Recording
from ragtide_runtime.recordings.recording import COUNTS

from .fitting import Column, fitted
from .progress import interruptible, progress_bar


def problems_of_files(recording: Recording) -> list[str]:
    """Return the problems of the files, with a progress bar."""
    done, problems = 0, list[str]()

    def kept() -> str:
        return f"{done:,} of {recording.file_count:,} files were read: to verify all, give the same command again."

    with interruptible(kept), progress_bar("verifying", recording.file_count) as show:

        def each() -> None:
            nonlocal done
            done += 1
            show(done)

        problems += recording.verify(each)
    return problems


def contents_table(rows: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Return the counts of a recording by day and pipeline as a table."""
    columns = [
        Column("day", [row["day"] for row in rows]),
        Column("pipeline", [row["pipeline"] or "—" for row in rows], yields=3, shortest=12),
    ]
    for name in COUNTS:
        empty = not any(row[name] for row in rows)
        exact = [f"{row[name]:,}" for row in rows]
        if name == "bytes":
            short = [decimal(row[name]) for row in rows]
            columns.append(Column(name, exact, right=True, yields=2, narrower=Column("size", short, right=True)))
        else:
            columns.append(Column(name, exact, right=True, yields=1 if empty else 4, stacks=not empty))
    return fitted(columns, width)
