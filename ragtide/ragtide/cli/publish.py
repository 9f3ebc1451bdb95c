"""`ragtide publish`: publishes a file of interactions."""

from collections import Counter
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragtide_producers import FileOptions, InteractionProducer, count_rows
from ragtide_producers.file_publisher import publish_file

from .common import JsonOption, err, given, print_json
from .problems import Problems


def publish(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="Interactions: JSON Lines, CSV, Parquet; RAGBench rows; RAGChecker's JSON; hf:owner/name?split=test."
        ),
    ],
    pipeline: Annotated[str | None, typer.Option(help="Name of the pipeline for rows that name none.")] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of a run that the rows belong to, such as nightly-7; its size is the number of rows."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Interactions per second; by default as fast as possible.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of interactions, to be scored live.

    Publishing the file again adds only the interactions that are missing in Redis.
    """
    options, counts = FileOptions(pipeline, run), Counter(published=0, duplicates=0, dropped=0, bad=0)
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        InteractionProducer(settings=given(context).settings()) as producer,
        Progress(*columns, console=err, disable=not err.is_terminal) as progress,
    ):
        problems, task = Problems(err, file), progress.add_task("publishing", total=count_rows(file, options))
        for batch in publish_file(producer, file, options, rate=rate):
            counts.update(batch.counts())
            for row in batch.rows:
                if row.interaction is None:
                    problems.add(row.line, row.problem or "")
            progress.advance(task, len(batch.rows))
        problems.sum_up()
    if as_json:
        print_json(counts)
    else:
        err.print(
            f"{counts['published']:,} published, {counts['duplicates']:,} published before, "
            f"{counts['dropped']:,} dropped, {counts['bad']:,} bad rows",
            highlight=False,
        )
    if counts["bad"]:
        raise typer.Exit(1)
