"""`ragtide publish`: a file of interactions onto the stream, at a rate, with progress and exact line numbers."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragtide_producers import FileOptions, InteractionProducer, Row, count_rows, read_rows
from ragtide_schemas import RagInteraction

from .common import JsonOption, err, given, print_json
from .problems import Problems

AT_ONCE = 200
"""Interactions sent in one round trip when there is no rate to keep."""

STEPS_PER_S = 20
"""Sends per second while a rate limits the publishing."""


def publish_file(
    producer: InteractionProducer,
    source: str | Path,
    options: FileOptions,
    *,
    rate: float | None,
    console: Console,
) -> Counter[str]:
    """Publish every good row and return counts: `published`, `duplicates`, `dropped` and `bad`.

    Bad rows are named on the console with file and line, the first few of each kind; the others are published all the
    same.

    Args:
        producer: destination of the rows.
        source: a file in one of the formats, or a Hugging Face data set.
        options: values for fields that rows lack. With a run but no population size the source is read twice, to count
            its good rows.
        rate: interactions per second, or None for as fast as they go.
        console: for bad rows and the progress bar; standard error in the command line.

    Raises:
        UnreadableFileError: the source cannot be read.
        StreamFullError: the stream stayed full; rows already published stay.
        RedisUnavailable: Redis failed; rows already published stay, and a second run on the file adds only the rest.
    """
    if options.run is not None and options.population_size is None:
        size = sum(row.interaction is not None for row in read_rows(source, options))
        options = replace(options, population_size=max(size, 1))
    counts: Counter[str] = Counter(published=0, duplicates=0, dropped=0, bad=0)
    total = count_rows(source, options)
    columns = (TextColumn("publishing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("publishing", total=total)
        rows = read_rows(source, options)
        problems = Problems(console, source)
        for batch in paced(rows, rate):
            good: list[RagInteraction] = []
            for row in batch:
                if row.interaction is None:
                    counts["bad"] += 1
                    problems.add(row.line, row.problem or "")
                else:
                    good.append(row.interaction)
            for publication in producer.publish_many(good):
                became = "dropped" if publication.dropped else "published" if publication.added else "duplicates"
                counts[became] += 1
            progress.advance(task, len(batch))
        problems.sum_up()
    return counts


def paced(rows: Iterable[Row], rate: float | None) -> Iterator[list[Row]]:
    """Yield rows in batches: as they come, or so that `rate` of them are yielded a second."""
    iterator = iter(rows)
    size = AT_ONCE if rate is None else max(1, round(rate / STEPS_PER_S))
    due = time.monotonic()
    while batch := list(islice(iterator, size)):
        if rate is not None:
            time.sleep(max(due - time.monotonic(), 0.0))
            due += len(batch) / rate
        yield batch


def publish(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="Interactions: JSON Lines, CSV, Parquet; RAGBench rows; RAGChecker's JSON; hf:owner/name?split=test."
        ),
    ],
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of rows that name none.")] = None,
    run: Annotated[str | None, typer.Option(help="Offline run to put the rows into, with its size known.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Interactions per second; as fast as they go if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of interactions. Publishing it again adds only what is not there yet."""
    with InteractionProducer(settings=given(context).settings()) as producer:
        counts = publish_file(producer, file, FileOptions(pipeline, run), rate=rate, console=err)
    if as_json:
        print_json(counts)
    else:
        err.print(
            f"{counts['published']:,} published, {counts['duplicates']:,} there already, "
            f"{counts['dropped']:,} dropped, {counts['bad']:,} bad rows",
            highlight=False,
        )
    if counts["bad"]:
        raise typer.Exit(1)
