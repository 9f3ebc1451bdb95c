from pathlib import Path
from typing import Any

import pytest
from tests.support.recorded import record
from tests.support.roles import interactions
from tests.support.stored import everything_in

from ragtide_offline.replay.publishing import RecordedInteractions, ReplayPublisher, read_published
from ragtide_offline.replay.selection import Selection
from ragtide_producers.errors import ReplayError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import Feedback, RagInteraction, hashed_user_id

RUN = Streams("ragtide.run.again", 0)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    entries: list[tuple[EntryKind, RecordedEntry]] = [
        (EntryKind.INTERACTIONS, RecordedEntry(n % 2, f"{1_795_300_000_000 + n // 3}-{n % 3}", interaction))
        for n, interaction in enumerate(interactions(60))
    ]
    told = Feedback(pipeline="shop", interaction_id="i-00007", gold_scores={"trace.adherence": 1.0})
    entries.append((EntryKind.FEEDBACK, RecordedEntry(1, "1795400000000-0", told)))
    return record(entries, tmp_path / "recording", partitions=2)


def feeder(redis: Any, position: str | None = None) -> ReplayPublisher:
    return ReplayPublisher(redis, RUN, "again", lambda _: 60, user_ids=UserIds(), dedupe_window_s=60, position=position)


def test_items_go_on_after_any_position(recording: Recording) -> None:
    items = list(RecordedInteractions(recording, Selection()).after(None))
    ids = [item.interaction.interaction_id for item in items]
    assert ids == sorted(interaction.interaction_id for interaction in interactions(60))
    assert [len(item.feedback) for item in items if item.feedback] == [1]
    for place in (0, 17, 59):
        rest = list(RecordedInteractions(recording, Selection()).after(items[place].position))
        assert rest == items[place + 1 :]


async def test_each_is_published_once_whatever_was_lost_in_between(
    async_redis: Any, redis: Any, recording: Recording
) -> None:
    items = list(RecordedInteractions(recording, Selection()).after(None))
    await feeder(async_redis).publish(items[:40])
    # The reply was lost; the same again, though its ids are forgotten.
    for key in redis.keys("*owner*"):
        redis.delete(key)
    await feeder(async_redis).publish(items[:40])
    fed = await read_published(async_redis, RUN)
    assert (fed.published, fed.duplicates, fed.position) == (40, 0, items[39].position)
    await feeder(async_redis, fed.position).publish(items[40:])
    found = [RagInteraction.decode(fields[DATA_FIELD]) for _, fields in redis.xrange(RUN.interactions)]
    assert [one.interaction_id for one in found] == [item.interaction.interaction_id for item in items]
    assert {(one.run, one.population_size) for one in found} == {("again", 60)}
    assert redis.xlen(RUN.feedback) == 1


async def test_session_turn_user_and_cluster_are_kept_and_the_user_is_hashed(
    async_redis: Any, redis: Any, tmp_path: Path
) -> None:
    names = {"session_id": "s-1", "turn": 4, "user_id": "alice", "cluster": "batch-7"}
    (one,) = interactions(1)
    entry = RecordedEntry(0, "1795300000000-0", one.model_copy(update=names))
    recorded = record([(EntryKind.INTERACTIONS, entry)], tmp_path / "raw")  # recorded with hash_user_ids = false
    await feeder(async_redis).publish(list(RecordedInteractions(recorded, Selection()).after(None)))
    ((_, fields),) = redis.xrange(RUN.interactions)
    found = RagInteraction.decode(fields[DATA_FIELD]).model_dump(include=set(names))
    assert found == {**names, "user_id": hashed_user_id("alice")}
    assert "alice" not in everything_in(redis)


async def test_two_do_not_publish_into_one_run(async_redis: Any, recording: Recording) -> None:
    items = list(RecordedInteractions(recording, Selection()).after(None))
    await feeder(async_redis).publish(items[:40])
    with pytest.raises(ReplayError, match="another process replays into this workspace"):
        await feeder(async_redis).publish(items[:10])
    assert (await read_published(async_redis, RUN)).published == 40
