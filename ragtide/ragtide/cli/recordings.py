"""`ragtide recordings`: shows the contents of a recording, and checks its files."""

from collections import Counter
from datetime import date
from typing import Annotated, Any

import typer
from redis.asyncio import Redis
from rich import box
from rich.table import Table
from rich.text import Text

from ragtide_consumers.recorder.fence import let_go
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Kind, Recording
from ragtide_runtime.settings.model import Settings

from .common import JsonOption, err, given, out, print_json


async def forget_recorder(redis: Redis, settings: Settings) -> None:
    """Let the streams be trimmed as if there had never been a recorder."""
    for streams in settings.layout.all():
        await let_go(redis, streams, Kind)


def recordings(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Argument(help="Folder or URL of the recording; by default RAGTIDE_RECORDER_URL.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a recording holds, by day and pipeline; exit code 1 if --verify finds damage."""
    settings = given(context).settings().recorder
    place = url or settings.url
    if place is None:
        raise ConfigurationError("no recording is named: give its folder or URL, or set RAGTIDE_RECORDER_URL")
    recording = Recording.open(place, storage_options=settings.storage_options)
    rows = _rows(recording)
    problems = recording.verify() if verify else []
    if as_json:
        print_json(
            {
                "url": place,
                "partitions": [_partition(one) for one in recording.partitions.values()],
                "days": rows,
                **({"problems": problems} if verify else {}),
            }
        )
    else:
        out.print(_table(rows))
        for problem in problems:
            err.print(problem, style="red", markup=False, highlight=False, soft_wrap=True)
        if verify and not problems:
            err.print("every file is what its manifest says", highlight=False)
    if problems:
        raise typer.Exit(1)


def _partition(recorded: Any) -> dict[str, Any]:
    return {
        "partition": recorded.partition,
        "manifest": recorded.number,
        "written_at": None if recorded.written_at is None else recorded.written_at.isoformat(),
        "positions": {kind.value: position for kind, position in recorded.positions.items()},
        "redaction": list(recorded.redaction),
    }


_COUNTS = (*(kind.value for kind in Kind), "unreadable", "files", "bytes")


def _rows(recording: Recording) -> list[dict[str, Any]]:
    """Return counts of entries, files and bytes by day and pipeline; a partly void file counts in full."""
    counts: dict[tuple[date, str | None], Counter[str]] = {}
    for one in recording.partitions.values():
        for file in one.files:
            if file.void:
                continue
            found = counts.setdefault((file.day, file.pipeline), Counter())
            found["unreadable" if file.unreadable else file.kind.value] += file.count
            found["files"] += 1
            found["bytes"] += file.bytes
    return [
        {"day": str(day), "pipeline": pipeline, **{name: found[name] for name in _COUNTS}}
        for (day, pipeline), found in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("day", "pipeline"):
        table.add_column(name)
    for name in _COUNTS:
        table.add_column(name, justify="right")
    for row in rows:
        # A name is anything a user wrote, so no markup.
        pipeline = Text(row["pipeline"] or "—")
        table.add_row(row["day"], pipeline, *(f"{row[name]:,}" for name in _COUNTS))
    return table
