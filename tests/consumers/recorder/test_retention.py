"""No entry is trimmed before it is recorded; old days of a recording are removed."""

import errno
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    STREAMS,
    add_all,
    caught_up,
    interaction,
    recorded,
    recording,
    settings_of,
)
from tests.support.conditions import until

from ragtide_aggregator.service.trimming import trim_streams
from ragtide_consumers.recorder import service
from ragtide_consumers.recorder.service import prepare_recorder
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.store import LocalStore
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings


async def test_entries_wait_for_a_recorder_from_before_the_other_roles_start(async_redis: Any, tmp_path: Path) -> None:
    await prepare_recorder(settings_of(tmp_path / "r"), async_redis)
    for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS):
        (group,) = await async_redis.xinfo_groups(kind.stream(STREAMS))
        assert (group["name"], group["last-delivered-id"]) == (b"record", b"0-0")


async def test_nothing_is_trimmed_before_it_is_recorded(async_redis: Any, tmp_path: Path) -> None:
    trimming = trim_streams(STREAMS, Settings(events_keep=0), "0-0", "0-0")
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    entries = (await add_all(async_redis, 0, 10))[EntryKind.INTERACTIONS]
    await async_redis.xgroup_setid(STREAMS.interactions, LABEL_GROUP, entries[-1].entry_id)
    await async_redis.zadd(STREAMS.finished, {entry.entry_id: order(entry.entry_id)[0] for entry in entries})
    await run_script(async_redis, trimming)
    assert await async_redis.xlen(STREAMS.interactions) == 10
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await run_script(async_redis, trimming)
    assert await async_redis.xlen(STREAMS.interactions) == 0
    assert recorded(tmp_path / "r") == entries


class FullDisk(LocalStore):
    """A store without space, until somebody frees some."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full, self.refused = True, 0

    def write(self, path: str, data: bytes) -> None:
        if self.full:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(path, data)


async def test_a_store_that_is_away_costs_no_entry(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STORE_RETRY_S", 0.05)
    trimming = trim_streams(STREAMS, Settings(events_keep=0), "0-0", "0-0")
    store = FullDisk(tmp_path / "r")
    expected = await add_all(async_redis, 0, 10)
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="$")
    await async_redis.zadd(
        STREAMS.finished, {entry.entry_id: order(entry.entry_id)[0] for entry in expected[EntryKind.INTERACTIONS]}
    )
    async with recording(async_redis, settings_of(tmp_path / "r"), store):
        await until(lambda: store.refused >= 3)
        await run_script(async_redis, trimming)
        assert await async_redis.xlen(STREAMS.interactions) == 10
        store.full = False
        await until(lambda: caught_up(async_redis))
    await run_script(async_redis, trimming)
    assert await async_redis.xlen(STREAMS.interactions) == 0
    for kind, entries in expected.items():
        assert recorded(tmp_path / "r", kind) == entries


async def no_group(redis: Any) -> bool:
    return bool(await redis.xinfo_groups(STREAMS.interactions) == [])


async def test_a_stream_that_is_no_longer_recorded_is_let_go(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    async with recording(async_redis, settings_of(tmp_path / "r", kinds=["metrics"])):
        await until(lambda: caught_up(async_redis, (EntryKind.METRICS,)))
        await until(lambda: no_group(async_redis))


async def test_old_days_go_and_the_manifest_says_so_first(async_redis: Any, tmp_path: Path) -> None:
    root = tmp_path / "r"
    day_ms = 86_400_000
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    for days in (9, 5, 4, 1):
        entry = {"data": interaction(days).encode()}
        await async_redis.xadd(STREAMS.interactions, entry, id=f"{now_ms - days * day_ms}-0")
    async with recording(async_redis, settings_of(root)):
        await until(lambda: caught_up(async_redis))
    assert Recording.open(str(root)).count("interactions") == 4
    async with recording(async_redis, settings_of(root, keep_days=4)):
        await until(lambda: Recording.open(str(root)).count("interactions") == 2)
        await until(lambda: len(LocalStore(root).list("interactions")) == 2)
    assert [entry.model.interaction_id for entry in recorded(root)] == ["i-4", "i-1"]  # type: ignore[attr-defined]
    assert len(list((root / "interactions").iterdir())) == 2, "empty folders go too"
