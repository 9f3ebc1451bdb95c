"""Manifests, files and stores of a recording."""

from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    add,
    caught_up,
    interaction,
    recorded,
    recording,
    settings_of,
)
from tests.support.conditions import until

from ragtide_consumers.recorder import session as recorder_session
from ragtide_runtime.recordings import EntryKind, Recording, UnreadableRecordingError, manifest
from ragtide_runtime.recordings.store import LocalStore, Store, open_store


async def test_a_complete_manifest_replaces_those_before_it(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (manifest, recorder_session):
        monkeypatch.setattr(module, "COMPLETE_EVERY", 4)
    expected = []
    async with recording(async_redis, settings_of(tmp_path / "r")):
        for number in range(17):
            expected += await add(async_redis, EntryKind.INTERACTIONS, interaction(number))
            await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected
    assert 4 <= len(LocalStore(tmp_path / "r").list("manifests")) <= 9
    oldest = min((tmp_path / "r" / "manifests").iterdir())
    newest = max((tmp_path / "r" / "manifests").glob("*.complete.json"))
    oldest.unlink()
    assert recorded(tmp_path / "r") == expected, "what was replaced is not needed"
    newest.unlink()
    with pytest.raises(UnreadableRecordingError, match="is missing: restore it"):
        recorded(tmp_path / "r")


async def test_damage_is_found(async_redis: Any, tmp_path: Path) -> None:
    await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(4)))
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    one, other = (tmp_path / "r" / file.path for file in found.files("interactions"))
    data = bytearray(one.read_bytes())
    data[len(data) // 2] ^= 1
    one.write_bytes(data)
    other.unlink()
    problems = found.verify()
    assert len(problems) == 2
    assert any("is damaged" in problem for problem in problems)
    assert any("is missing" in problem for problem in problems)
    with pytest.raises(UnreadableRecordingError):
        list(found.entries("interactions"))


def test_a_place_without_a_recording_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecordingError, match="holds no recording: give the recorder"):
        Recording.open(str(tmp_path / "nothing"))
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "p0-000000000001.json").write_text('{"partition": 0}')
    with pytest.raises(UnreadableRecordingError, match="is no valid manifest"):
        Recording.open(str(tmp_path))


@pytest.mark.parametrize("url", ["memory://recorded/here", pytest.param("file://{folder}/r", marks=pytest.mark.heavy)])
async def test_a_url_of_fsspec_is_a_place_too(url: str, async_redis: Any, tmp_path: Path) -> None:
    place = url.format(folder=tmp_path)
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6)))
    for _ in range(2):
        async with recording(async_redis, settings_of(place)):
            await until(lambda: caught_up(async_redis))
        expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6, 9)))
    assert recorded(place) == expected[:9]
    assert Recording.open(place).verify() == []


@pytest.mark.parametrize("url", ["memory://created", "file://{folder}/r", "{folder}/plain"])
def test_of_two_who_create_a_file_one_succeeds(url: str, tmp_path: Path) -> None:
    store: Store = open_store(url.format(folder=tmp_path))
    assert store.create("manifests/p0-1.json", b"first")
    assert not store.create("manifests/p0-1.json", b"second")
    assert store.read("manifests/p0-1.json") == b"first"
    assert store.list("manifests") == ["manifests/p0-1.json"]
    assert store.list("nothing") == []
    store.remove("manifests/p0-1.json")
    store.remove("manifests/p0-1.json")
    assert store.list("manifests") == []
