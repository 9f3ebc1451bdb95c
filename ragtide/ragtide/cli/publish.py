"""`ragtide publish`: publishes a file of interactions."""

from collections import Counter
from typing import Annotated

import typer

from ragtide_producers import FileOptions, InteractionProducer, count_rows
from ragtide_producers.file_publisher import publish_file

from .columns_option import MapOption, columns_line, columns_of
from .common import JsonOption, given
from .console import err, print_json, warn
from .problems import Problems
from .progress import interruptible, progress_bar


def publish(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help=(
                "File of interactions: JSON Lines, CSV, Parquet, RAGBench rows or RAGChecker's JSON; or a data set of "
                "Hugging Face, as hf:owner/name?split=test."
            )
        ),
    ],
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of the rows that name no pipeline.")] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of a run that the rows belong to, such as nightly-7; its size is the number of rows."),
    ] = None,
    columns: MapOption = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Interactions per second; by default as fast as possible.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of interactions, to be scored live.

    Publishing the file again adds only the interactions that are missing in Redis.
    """
    options = FileOptions(pipeline, run, columns=columns_of(columns))
    taken, counts = dict[str, str](), Counter(published=0, duplicates=0, dropped=0, bad=0)
    settings = given(context).settings()

    def kept() -> str:
        return (
            f"{counts['published']:,} published interactions stay: to go on, give the same command again. It adds only "
            "the missing interactions."
        )

    problems = Problems(err, file)
    with (
        interruptible(kept),
        InteractionProducer(settings=settings, sample=1.0) as producer,
        progress_bar("publishing", count_rows(file, options)) as show,
    ):
        done = 0
        for batch in publish_file(producer, file, options, rate=rate):
            counts.update(batch.counts())
            for row in batch.rows:
                if row.interaction is None:
                    problems.add(row.line, row.problem or "")
                taken |= row.columns
            done += len(batch.rows)
            show(done)
    problems.sum_up()
    warn(*filter(None, [columns_line(taken)]))
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
