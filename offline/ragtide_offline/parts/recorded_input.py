"""The interactions of a recording as an input that is scored in parts. Needs pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, Self, cast

from ragtide_producers import Row
from ragtide_producers.files.large import shard_of
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.parquet import entries_of
from ragtide_schemas import RagInteraction

from ..replay.selection import Selection, first_entry
from ..replay.tables import selected_rows

AT_ONCE = 256
"""Interactions that are objects at once."""


class RecordedStep(NamedTuple):
    """A step of a recorder, with the number of its selected interactions."""

    partition: int
    number: int
    rows: int


@dataclass(frozen=True, slots=True)
class RecordedRow(Row):
    """A recorded interaction, with its place in the recording: the two numbers of its entry id, and its partition."""

    place: str = ""


@dataclass(frozen=True)
class RecordedInput:
    """The selected interactions of a recording: partition after partition, in the order of each stream."""

    recording: Recording
    selection: Selection
    run: str
    """Run of every row."""
    options: Any
    """What else the scores depend on, as values of JSON."""
    steps: Sequence[RecordedStep]
    sizes: Mapping[str, int]
    """Number of selected interactions of each pipeline."""

    @classmethod
    def of(
        cls, recording: Recording, selection: Selection, run: str, options: Any, *, sizes: Mapping[str, int]
    ) -> Self:
        """Return the selected interactions of a recording, after a pass over it.

        Args:
            selection: the part to score.
            options: what else the scores depend on, as values of JSON.
            sizes: number of selected interactions of each pipeline.

        Raises:
            UnreadableRecordingError: a file is missing or damaged.
        """
        files = recording.files(EntryKind.INTERACTIONS, since=first_entry(selection), pipelines=selection.pipelines)
        steps = [RecordedStep(*step, 0) for step, _ in groupby(files, key=lambda file: (file.partition, file.step))]
        counted = [step._replace(rows=_table(recording, selection, step).num_rows) for step in steps]
        return cls(recording, selection, run, options, counted, sizes)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(step.rows for step in self.steps)

    def shard(self, number: int, shards: int) -> tuple[int, int]:
        """Return the places at which a shard begins and ends; its number is from 1."""
        return shard_of(self.rows, number, shards)

    def reader(self) -> "RecordedReader":
        """Return a reader of the rows."""
        return RecordedReader(self)

    def source_of(self, place: int, row: Row) -> str:
        """Return the place of a row in the recording."""
        del place
        return cast("RecordedRow", row).place

    def description(self) -> Any:
        """Return what identifies the input, as values of JSON."""
        return [[list(step) for step in self.steps], self.selection.as_options(), self.run, self.options]


class RecordedReader:
    """Reads the rows of a recording from one place to another. Reading forwards costs one pass over each step.

    Args:
        of: the input.
    """

    def __init__(self, of: RecordedInput) -> None:
        self._of = of
        self._open: tuple[RecordedStep, Any] | None = None

    def between(self, start: int, stop: int) -> Iterator[Row]:
        """Yield the rows from one place up to another (exclusive).

        Raises:
            UnreadableRecordingError: a file is missing or damaged.
        """
        first = 0
        for step in self._of.steps:
            begin, until = max(start - first, 0), min(stop - first, step.rows)
            for place in range(begin, until, AT_ONCE):
                rows = self._step(step).slice(place, min(AT_ONCE, until - place))
                for number, entry in enumerate(entries_of(EntryKind.INTERACTIONS, rows), first + place + 1):
                    interaction = cast("RagInteraction", entry.model)
                    size = self._of.sizes[interaction.pipeline]
                    of_run = interaction.model_copy(update={"run": self._of.run, "population_size": size})
                    yield RecordedRow(number, of_run, place=f"{entry.entry_id}-{entry.partition}")
            first += step.rows

    def _step(self, step: RecordedStep) -> Any:
        if self._open is None or self._open[0] != step:
            self._open = step, _table(self._of.recording, self._of.selection, step)
        return self._open[1]


def _table(recording: Recording, selection: Selection, step: RecordedStep) -> Any:
    recorded = recording.partitions[step.partition]
    files = tuple(file for file in recorded.files if file.step == step.number)
    alone = replace(recording, partitions={step.partition: replace(recorded, files=files)})
    (table,) = alone.tables(EntryKind.INTERACTIONS, since=first_entry(selection), pipelines=selection.pipelines)
    return selected_rows(table, selection)
