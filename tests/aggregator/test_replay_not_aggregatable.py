"""A replay counts to the bit as if an entry that its state cannot take had not been recorded."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregator.test_replay import OPTIONS, RUN, alerts_of, entries, replay, rows_of, unseen
from tests.support.impossible import make_impossible
from tests.support.recorded import record

from ragtide_aggregator.events.batch import EventBatch
from ragtide_aggregator.events.keys import SQUARED_ERROR
from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.replay import metrics_replay
from ragtide_offline.replay.speed import ReplayPace
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_schemas import Feedback, MetricEvent

BAD_EVENTS = {"i-10", "i-160"}
BAD_FEEDBACK = "i-501"


def is_bad(kind: EntryKind, entry: RecordedEntry) -> bool:
    model = entry.model
    assert isinstance(model, MetricEvent | Feedback)
    return model.interaction_id in (BAD_EVENTS if kind is EntryKind.METRICS else {BAD_FEEDBACK})


def fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the work on a batch fail that holds a bad event, or a pair of scores that bad feedback made."""
    take = AggregatorState._take

    def failing(self: AggregatorState, batch: EventBatch) -> None:
        take(self, batch)
        ids = [batch.source.interaction_id(int(place)) for place in batch.places]
        errors = [self._rows.keys[row].metric.startswith(SQUARED_ERROR) for row in batch.rows.tolist()]
        if BAD_EVENTS & set(ids) or BAD_FEEDBACK in {ids[part] for part in batch.part_of[errors]}:
            make_impossible(self._rows.moments, int(batch.rows[0]), recent=np.nan)

    monkeypatch.setattr(AggregatorState, "_take", failing)


def commits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a commit come before the first entry, as one does where another partition's step is full, or time is up."""
    wait_s, begun = ReplayPace.wait_s, list[ReplayPace]()

    def first_waits(self: ReplayPace, at: datetime, now: float) -> float:
        if self in begun:
            return wait_s(self, at, now)
        begun.append(self)
        return 0.001

    monkeypatch.setattr(metrics_replay, "COMMIT_S", 0.0)
    monkeypatch.setattr(ReplayPace, "wait_s", first_waits)


@pytest.mark.parametrize(
    "options",
    [OPTIONS, {**OPTIONS, "speed": 1e9}],
    ids=["in tables", "one by one"],
)
async def test_the_rest_of_a_recording_counts_to_the_bit(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    good = [(kind, entry) for kind, entry in entries() if not is_bad(kind, entry)]
    await replay(async_redis, record(good, tmp_path / "good", partitions=3), options=options).run(
        asyncio.Event(), unseen
    )
    expected = await rows_of(async_redis, RUN), await alerts_of(async_redis, RUN)
    await async_redis.flushall()
    fails(monkeypatch)
    commits_at_once(monkeypatch)
    whole = replay(async_redis, record(entries(), tmp_path / "whole", partitions=3), options=options)
    progress = await whole.run(asyncio.Event(), unseen)
    assert progress.complete
    assert progress.done == progress.total
    assert (await rows_of(async_redis, RUN), await alerts_of(async_redis, RUN)) == expected
    counts = whole.counts()
    assert counts["refused"] == len(BAD_EVENTS) + 1
    assert counts["feedback_refused"]["not_aggregatable"] == 1
