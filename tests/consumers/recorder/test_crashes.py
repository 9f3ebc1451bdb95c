"""A recorder that is killed at any operation records every entry exactly once."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    STREAMS,
    add,
    caught_up,
    event,
    interaction,
    recorded,
    recording,
    settings_of,
)
from tests.support.conditions import until

from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.store import LocalStore


class Killed(BaseException):
    """The process ends here."""


class Fragile(LocalStore):
    """A store that ends the process at one of its operations: before it, half way, or after it."""

    def __init__(self, root: Path, at: int, where: str) -> None:
        super().__init__(root)
        self.left, self.where = at, where

    def _now(self) -> bool:
        self.left -= 1
        return self.left == -1

    def write(self, path: str, data: bytes) -> None:
        self._guarded(path, data, super().write)

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._guarded(path, data, super().create))

    def remove(self, path: str) -> None:
        self._guarded(path, b"", lambda path, _: super(Fragile, self).remove(path))

    def _guarded(self, path: str, data: bytes, action: Any) -> Any:
        if not self._now():
            return action(path, data)
        if self.where == "half" and data:
            temporary = self._root / path
            temporary.parent.mkdir(parents=True, exist_ok=True)
            (temporary.parent / f".{temporary.name}.torn.tmp").write_bytes(data[: len(data) // 2])
        if self.where == "after":
            action(path, data)
        raise Killed


async def both(redis: Any) -> bool:
    return await caught_up(redis, (EntryKind.INTERACTIONS, EntryKind.METRICS))


@pytest.mark.heavy
async def test_killed_at_any_operation_every_entry_is_recorded_exactly_once(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_consumers.recorder.session.ROLL_ENTRIES", 3)
    for where in ("before", "half", "after"):
        for at in range(14):
            await async_redis.flushall()
            root = tmp_path / f"{where}-{at}"
            expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(4)))
            events = await add(async_redis, EntryKind.METRICS, *map(event, range(4)))
            settings = settings_of(root, kinds=["interactions", "metrics"])
            dead = False
            try:
                async with recording(async_redis, settings, Fragile(root, at, where)) as task:
                    await until(lambda task=task: both(async_redis) if not task.done() else True)  # type: ignore[misc]
                    expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(4, 9)))
                    await until(lambda task=task: both(async_redis) if not task.done() else True)  # type: ignore[misc]
            except Killed:
                dead = True
            await async_redis.delete(STREAMS.recorder_lease)
            async with recording(async_redis, settings):
                await until(lambda: both(async_redis))
            assert recorded(root) == expected, (where, at)
            assert recorded(root, EntryKind.METRICS) == events, (where, at)
            found = Recording.open(str(root))
            assert found.verify() == []
            held = {path for kind in ("interactions", "metrics") for path in LocalStore(root).list(kind)}
            assert held == {file.path for kind in EntryKind for file in found.files(kind)}, "nothing torn is left"
            assert not any(name.endswith(".tmp") for _, _, names in os.walk(root) for name in names)
            if not dead:
                break  # there are no more operations
        else:
            raise AssertionError("more operations than were tried")


@pytest.mark.parametrize("way", ["write", "create"])
def test_a_file_has_its_name_only_once_the_disk_keeps_it(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(_: int) -> None:
        raise Killed

    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "fsync", dies)
    with pytest.raises(Killed):
        getattr(store, way)("interactions/file", b"data")
    assert not (tmp_path / "interactions" / "file").exists()
