"""A recorder writes every entry once, in the order of the streams."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    MAKERS,
    STREAMS,
    add,
    add_all,
    alert,
    caught_up,
    event,
    interaction,
    recorded,
    recording,
    session_of,
    settings_of,
)
from tests.support.conditions import until

from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.copies import begin_copies, end_copies


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
async def test_what_is_on_the_streams_is_recorded_in_their_order(form: str, async_redis: Any, tmp_path: Path) -> None:
    expected = await add_all(async_redis, 0, 40)
    async with recording(async_redis, settings_of(tmp_path / "r", format=form)):
        await until(lambda: caught_up(async_redis))
        for kind, more in (await add_all(async_redis, 40, 25)).items():
            expected[kind] += more
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    for kind in EntryKind:
        assert list(found.entries(kind)) == expected[kind]
        assert found.count(kind) == 65
        ids = [entry_id for table in found.tables(kind) for entry_id in table["entry_id"].to_pylist()]
        assert ids == [entry.entry_id for entry in expected[kind]], "tables have the same order"
    assert found.pipelines() == ["*", "help/desk Ä", "shop"]
    assert found.verify() == []


async def test_what_is_read_is_written_when_it_is_stopped(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r", roll_s=1000)):
        await until(lambda: async_redis.exists(STREAMS.interactions))
        expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    assert recorded(tmp_path / "r") == expected


async def test_a_part_of_the_time_and_one_pipeline(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.recorder.session.ROLL_ENTRIES", 70)
    expected = (await add_all(async_redis, 0, 60))[EntryKind.METRICS]
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    ms = [entry.order[0] for entry in expected]
    since, until_ = (datetime.fromtimestamp(one / 1000, tz=UTC) for one in (ms[10], ms[-1]))
    within = [entry for entry in expected if ms[10] <= entry.order[0] < ms[-1]]
    assert list(found.entries("metrics", since=since, until=until_)) == within
    assert found.count("metrics", since=since, until=until_) == len(within)
    assert sum(table.num_rows for table in found.tables("metrics", since=since, until=until_)) == len(within)
    shop = [entry for entry in expected if entry.model.pipeline == "shop"]  # type: ignore[attr-defined]
    assert list(found.entries("metrics", pipelines=["shop"])) == shop
    assert list(found.entries("metrics", until=since - timedelta(days=1))) == []
    with pytest.raises(ValueError, match="without a time zone"):
        found.count("metrics", since=datetime(2026, 1, 1))  # noqa: DTZ001


async def test_a_restart_continues_where_the_last_one_ended(async_redis: Any, tmp_path: Path) -> None:
    expected = []
    for round_ in range(3):
        expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(7 * round_, 7 * round_ + 7)))
        async with recording(async_redis, settings_of(tmp_path / "r")):
            await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected


async def test_a_copy_made_when_partitions_were_changed_is_not_recorded_again(async_redis: Any, tmp_path: Path) -> None:
    expected = await add(async_redis, EntryKind.METRICS, event(0))
    await begin_copies(async_redis, STREAMS, "token")
    await async_redis.xadd(STREAMS.metrics, {"data": event(1).encode(), "moved": "token"})
    await async_redis.xadd(STREAMS.alerts, {"data": alert(1).encode(), "moved": "token"})
    await end_copies(async_redis, STREAMS, "token")
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected
    assert recorded(tmp_path / "r", EntryKind.ALERTS) == []


async def test_an_entry_is_no_copy_because_it_says_so(async_redis: Any, tmp_path: Path) -> None:
    ids: dict[EntryKind, list[str]] = {kind: [] for kind in EntryKind}

    async def say(token: str) -> None:
        for kind, make in MAKERS.items():
            fields = {"data": make(len(ids[kind])).encode(), "moved": token}
            ids[kind].append((await async_redis.xadd(kind.stream(STREAMS), fields)).decode())

    await say("token")  # before the change
    await begin_copies(async_redis, STREAMS, "token")
    for word in ("1", "", "other", b"\xff"):  # no token of it, while it goes on
        await say(word)  # type: ignore[arg-type]
    await end_copies(async_redis, STREAMS, "token")
    await begin_copies(async_redis, STREAMS, "unfinished")
    for word in ("token", "unfinished"):  # after it
        await say(word)
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    for kind in EntryKind:
        assert [entry.entry_id for entry in recorded(tmp_path / "r", kind)] == ids[kind]


async def test_a_stop_writes_all_that_the_streams_hold(async_redis: Any, tmp_path: Path) -> None:
    owner = await session_of(async_redis, tmp_path, "1:owner")
    expected = await add(async_redis, EntryKind.METRICS, *map(event, range(1200)))
    owner.ownership.stop.set()
    await owner.run()
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected


async def test_unreadable_entries_are_kept_as_they_were_with_the_reason(async_redis: Any, tmp_path: Path) -> None:
    good = await add(async_redis, EntryKind.INTERACTIONS, interaction(0))
    await async_redis.xadd(STREAMS.interactions, {"data": b'{"pipeline": "shop"'})
    await async_redis.xadd(STREAMS.interactions, {"other": b"\xff\x00"})
    await async_redis.xadd(STREAMS.interactions, {"data": b'{"pipeline": "shop", "question": "q"}'})
    good += await add(async_redis, EntryKind.INTERACTIONS, interaction(1))
    async with recording(async_redis, settings_of(tmp_path / "r", format="jsonl")):
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    assert list(found.entries("interactions")) == good
    bad = list(found.unreadable("interactions"))
    assert [row["reason"] for row in bad] == ["not_json", "missing_data_field", "invalid"]
    assert bad[0]["payload"] == '{"pipeline": "shop"'
    assert bad[1]["payload_encoding"] == "base64"
    assert "response is missing" in bad[2]["detail"]
    (file,) = [one for one in found.partitions[0].files if one.unreadable]
    assert file.count == 3
    assert found.verify() == []


async def test_a_session_is_not_recorded_because_its_turns_are(async_redis: Any, tmp_path: Path) -> None:
    (turn,) = await add(async_redis, EntryKind.INTERACTIONS, interaction(0))
    whole = turn.model.model_copy(update={"unit": "session", "interaction_id": "session-1", "documents": ()})
    await add(async_redis, EntryKind.INTERACTIONS, whole)
    (scores,) = await add(async_redis, EntryKind.METRICS, event(0).model_copy(update={"unit": "session", "turn": 3}))
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == [turn]
    assert list(Recording.open(str(tmp_path / "r")).entries(EntryKind.METRICS)) == [scores]
