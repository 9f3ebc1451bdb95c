"""Reads the selected interactions of a recording in the order of a replay, each with its feedback."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, cast

from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import Feedback, RagInteraction

from .counting import first_entry
from .selection import Selection


class ReplayedInteraction(NamedTuple):
    """One interaction with its position, which is the same each time the replay is started."""

    position: str
    interaction: RagInteraction
    feedback: tuple[Feedback, ...] = ()


class RecordedInteractions:
    """The selected interactions of a recording, in the order of publishing over all partitions.

    Args:
        recording: with the interactions.
        selection: the part to replay.
    """

    def __init__(self, recording: Recording, selection: Selection) -> None:
        self._recording = recording
        self._selection = selection

    def after(self, position: str | None) -> Iterator[ReplayedInteraction]:
        """Yield the items after a position, or all items. Memory holds all feedback."""
        given: defaultdict[str, list[Feedback]] = defaultdict(list)
        for entry in self._entries(EntryKind.FEEDBACK):
            one = cast("Feedback", entry.model)
            given[interaction_digest(one.pipeline, one.interaction_id)].append(one)
        last = None if position is None else _order(position)
        for at, interaction in self._selected():
            if last is None or _order(at) > last:
                digest = interaction_digest(interaction.pipeline, interaction.interaction_id)
                yield ReplayedInteraction(at, interaction, tuple(given.get(digest, ())))

    def _selected(self) -> Iterator[tuple[str, RagInteraction]]:
        partitions = [self._entries(EntryKind.INTERACTIONS, partition) for partition in self._recording.partitions]
        for entry in heapq.merge(*partitions, key=lambda entry: (entry.order, entry.partition)):
            interaction = cast("RagInteraction", entry.model)
            if self._selection.takes(interaction):
                yield f"{entry.entry_id}-{entry.partition}", interaction

    def _entries(self, kind: EntryKind, partition: int | None = None) -> Iterator[RecordedEntry]:
        return self._recording.entries(
            kind,
            since=first_entry(self._selection),
            pipelines=self._selection.pipelines,
            partitions=None if partition is None else [partition],
        )


def _order(position: str) -> tuple[int, ...]:
    return tuple(int(part) for part in position.split("-"))
