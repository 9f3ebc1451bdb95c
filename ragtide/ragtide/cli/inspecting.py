"""`ragtide inspect`: shows the contents of a recording, and verifies its files."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.filesize import decimal

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.recordings.recording import COUNTS, counts_by_day, partition_rows

from .common import JsonOption, given
from .console import err, out, print_json
from .fitting import Column, fitted
from .progress import interruptible, progress_bar


def inspect(
    context: typer.Context,
    url: Annotated[str | None, typer.Argument(help="Folder or URL of the recording [RAGTIDE_RECORDER_URL].")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the contents of a recording, or verify its files.

    A recorder has written the files. The table shows their entries by day and pipeline. The exit code is 1 if --verify
    finds damage.
    """
    settings = given(context).settings().recorder
    place = url or settings.url
    if place is None:
        raise ConfigurationError("no recording is named: give its folder or URL, or set RAGTIDE_RECORDER_URL")
    recording = Recording.open(place, storage_options=settings.storage_options)
    rows = counts_by_day(recording)
    problems = _verified(recording) if verify else []
    if as_json:
        found = {"url": place, "partitions": partition_rows(recording), "days": rows}
        print_json({**found, "problems": problems} if verify else found)
    else:
        out.print(contents_table(rows, out.width))
        for problem in problems:
            err.print(problem, style="red", markup=False, highlight=False, soft_wrap=True)
        if verify and not problems:
            err.print("every file matches its manifest", highlight=False)
    if problems:
        raise typer.Exit(1)


def _verified(recording: Recording) -> list[str]:
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
