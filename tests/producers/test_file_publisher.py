import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragtide_producers import FileOptions, InteractionProducer, Row, file_publisher
from ragtide_schemas.limits import DOCUMENT_TEXT_MAX_CHARS, ENTRY_MAX_BYTES


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.mark.parametrize("rate", [0.5, 3.0, 40.0, 1000.0])
def test_a_rate_is_kept(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    clock = Clock()
    monkeypatch.setattr(file_publisher, "time", clock)
    sent, count = 0, 200
    for batch in file_publisher.paced((Row(line) for line in range(count)), rate):
        # Never ahead of the rate by more than the batch that is being sent.
        assert sent <= rate * (clock.now - 100.0) + 1e-6
        sent += len(batch)
    assert sent == count
    assert clock.now - 100.0 == pytest.approx(count / rate, abs=0.06 + 1 / rate)


def test_without_a_rate_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(file_publisher, "time", clock)
    rows = list(itertools.chain.from_iterable(file_publisher.paced((Row(line) for line in range(450)), None)))
    assert [row.line for row in rows] == list(range(450))
    assert clock.now == 100.0


def test_a_row_above_the_most_of_an_entry_is_bad_and_the_others_are_published(redis_url: str, tmp_path: Path) -> None:
    texts = ["x" * DOCUMENT_TEXT_MAX_CHARS] * (ENTRY_MAX_BYTES // DOCUMENT_TEXT_MAX_CHARS + 1)
    given = [["short"], texts, ["short"]]
    table = [
        {
            "interaction_id": f"row-{number}",
            "pipeline": "shop",
            "question": "q?",
            "response": "a",
            "documents": documents,
        }
        for number, documents in enumerate(json.dumps([{"text": text} for text in row]) for row in given)
    ]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "rows.parquet")
    with InteractionProducer(redis_url) as producer:
        (batch,) = file_publisher.publish_file(producer, tmp_path / "rows.parquet", FileOptions(), rate=None)
    assert batch.counts() == {"published": 2, "bad": 1}
    assert [row.line for row in batch.rows if row.problem] == [2]
