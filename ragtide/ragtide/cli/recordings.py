"""`ragtide recordings`: shows the contents of a recording, and verifies its files."""

from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.recordings.contents import COUNTS, counts_by_day, partitions_of

from .common import JsonOption, err, given, out, print_json


def recordings(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Argument(help="Folder or URL of the recording; by default RAGTIDE_RECORDER_URL.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show or verify the files that a recorder has written.

    It shows the contents by day and pipeline. The exit code is 1 if --verify finds damage.
    """
    settings = given(context).settings().recorder
    place = url or settings.url
    if place is None:
        raise ConfigurationError("no recording is named: give its folder or URL, or set RAGTIDE_RECORDER_URL")
    recording = Recording.open(place, storage_options=settings.storage_options)
    rows = counts_by_day(recording)
    problems = recording.verify() if verify else []
    if as_json:
        found = {"url": place, "partitions": partitions_of(recording), "days": rows}
        print_json({**found, "problems": problems} if verify else found)
    else:
        out.print(_table(rows))
        for problem in problems:
            err.print(problem, style="red", markup=False, highlight=False, soft_wrap=True)
        if verify and not problems:
            err.print("every file matches its manifest", highlight=False)
    if problems:
        raise typer.Exit(1)


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("day", "pipeline"):
        table.add_column(name)
    for name in COUNTS:
        table.add_column(name, justify="right")
    for row in rows:
        # As Text, so that the name of a pipeline is not read as markup.
        pipeline = Text(row["pipeline"] or "—")
        table.add_row(row["day"], pipeline, *(f"{row[name]:,}" for name in COUNTS))
    return table
