"""A worker reads entries ahead of their turn, except those that may have crashed a worker."""

import pytest

from ragtide import RagInteraction
from ragtide_consumers.worker.reading import TOGETHER_BYTES, InteractionReader, RejectedError
from ragtide_consumers.worker.results import StreamEntry
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_runtime.user_ids import AS_SENT


def entry(number: int, question: str = "q", *, deliveries: int = 1) -> StreamEntry:
    interaction = RagInteraction(
        interaction_id=str(number), pipeline="shop", question=question, documents=(), response="r"
    )
    return StreamEntry(f"{number}-0", {b"data": interaction.encode()}, deliveries)


def reads_ahead(reader: InteractionReader, of: StreamEntry) -> bool:
    """Return whether the entry is read already: then an entry of the same id without content gives its interaction."""
    try:
        return bool(reader.read(StreamEntry(of.entry_id, {})))
    except RejectedError:
        return False


@pytest.fixture
def reader() -> InteractionReader:
    return InteractionReader(AS_SENT, WorkerTelemetry())


def test_the_next_entries_are_read_with_an_entry_until_they_are_forgotten(reader: InteractionReader) -> None:
    entries = [entry(number) for number in range(5)]
    assert reader.read(entries[0], entries[1:]).interaction_id == "0"
    assert reads_ahead(reader, entries[1])
    assert reader.read(entries[2]).interaction_id == "2"
    reader.forget()
    assert not reads_ahead(reader, entries[3])


def test_an_entry_that_was_delivered_before_waits_for_its_turn(reader: InteractionReader) -> None:
    reader.read(entry(0), [entry(1, deliveries=2), entry(2)])
    assert not reads_ahead(reader, entry(1))
    assert not reads_ahead(reader, entry(2))


def test_few_large_entries_are_read_ahead(reader: InteractionReader) -> None:
    large = "word " * (TOGETHER_BYTES // 15)
    entries = [entry(number, large) for number in range(5)]
    reader.read(entries[0], entries[1:])
    assert [reads_ahead(reader, each) for each in entries[1:]] == [True, False, False, False]


def test_an_entry_that_cannot_be_read_is_rejected_at_its_own_turn(reader: InteractionReader) -> None:
    invalid = StreamEntry("1-0", {b"data": b"{}"})
    assert reader.read(entry(0), [invalid, entry(2)]).interaction_id == "0"
    with pytest.raises(RejectedError):
        reader.read(invalid)
    assert reads_ahead(reader, entry(2))
