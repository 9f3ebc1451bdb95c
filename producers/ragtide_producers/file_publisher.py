"""Publishes a file of interactions, at a given rate or as fast as possible."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ragtide_schemas import InvalidEntryError

from .client import InteractionProducer
from .files.interactions import FileOptions, Row, read_rows
from .given_fields import fitted
from .publishing.routes import Publication

AT_ONCE = 200
"""Interactions sent in one round trip without a rate."""

STEPS_PER_S = 20
"""Sends per second while a rate limits the publishing."""


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """Rows of a file, with the publications of the good rows."""

    rows: Sequence[Row]
    publications: Sequence[Publication]

    def counts(self) -> Counter[str]:
        """Return the numbers of rows that were `published`, `duplicates`, `dropped` and `bad`."""
        counts = Counter(bad=len(self.rows) - len(self.publications))
        for publication in self.publications:
            counts["dropped" if publication.dropped else "published" if publication.added else "duplicates"] += 1
        return counts


def publish_file(
    producer: InteractionProducer, source: str | Path, options: FileOptions, *, rate: float | None
) -> Iterator[PublishedBatch]:
    """Publish the good rows of a file, and yield each batch after it was sent.

    Args:
        producer: destination of the rows.
        source: a file in one of the formats, or a Hugging Face data set.
        options: values of missing fields. With a run but no population size the source is read twice, to count its
            good rows.
        rate: interactions per second; None for as fast as possible.

    Raises:
        UnreadableFileError: the source cannot be read.
        StreamFullError: the stream stayed full; published rows stay.
        RedisUnavailable: Redis failed; published rows stay, and publishing the file again adds only the missing rows.
    """
    if options.run is not None and options.population_size is None:
        size = sum(row.interaction is not None for row in read_rows(source, options))
        options = replace(options, population_size=max(size, 1))
    for rows in paced(read_rows(source, options), rate):
        sent = [_fitted(row) for row in rows]
        good = [row.interaction for row in sent if row.interaction is not None]
        try:
            batch = PublishedBatch(sent, producer.publish_many(good))
        except InvalidEntryError:  # of one row, and nothing was published
            batch = _publish_each(producer, sent)
        yield batch


def _publish_each(producer: InteractionProducer, rows: Iterable[Row]) -> PublishedBatch:
    sent: list[Row] = []
    publications: list[Publication] = []
    for row in rows:
        sent.append(row)
        if row.interaction is None:
            continue
        try:
            publications.append(producer.publish(row.interaction))
        except InvalidEntryError as error:
            sent[-1] = Row(row.line, problem=error.detail)
    return PublishedBatch(sent, publications)


def _fitted(row: Row) -> Row:
    if row.interaction is None or (smaller := fitted(row.interaction)) is row.interaction:
        return row
    dropped = smaller.left_out - row.interaction.left_out
    return replace(row, interaction=smaller, left_out=Counter(row.left_out) + dropped)


def paced(rows: Iterable[Row], rate: float | None) -> Iterator[list[Row]]:
    """Yield rows in batches, as fast as possible or `rate` rows per second."""
    iterator = iter(rows)
    size = AT_ONCE if rate is None else max(1, round(rate / STEPS_PER_S))
    due = time.monotonic()
    while batch := list(islice(iterator, size)):
        if rate is not None:
            time.sleep(max(due - time.monotonic(), 0.0))
            due += len(batch) / rate
        yield batch
