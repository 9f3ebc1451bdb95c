import asyncio
import os
import time
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
    feedback,
    interaction,
    recorded,
    recording,
    settings_of,
)
from tests.support.conditions import until

from ragtide_aggregator.service.trimming import StreamCaps, trim_streams
from ragtide_consumers.recorder import fence
from ragtide_consumers.recorder import session as recorder_session
from ragtide_consumers.recorder.errors import NotRecordableError
from ragtide_consumers.recorder.redaction import Redaction
from ragtide_consumers.recorder.service import prepare_recorder, run_recorder
from ragtide_consumers.recorder.session import RecorderSession
from ragtide_consumers.recorder.telemetry import RecorderTelemetry
from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.ownership.lease import Lease
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.recordings import EntryKind, Recording, UnreadableRecordingError, manifest
from ragtide_runtime.recordings.store import LocalStore, Store, open_store
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.copies import begin_copies, end_copies
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.telemetry.health import Health
from ragtide_runtime.telemetry.process import ProcessTelemetry


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


async def test_a_part_of_the_time_and_one_pipeline(async_redis: Any, tmp_path: Path) -> None:
    expected = (await add_all(async_redis, 0, 60))[EntryKind.METRICS]
    async with recording(async_redis, settings_of(tmp_path / "r", roll_entries=70)):
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


async def test_a_lease_that_ran_out_and_nobody_took_is_taken_back(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
        token = await async_redis.get(STREAMS.recorder_lease)
        await async_redis.delete(STREAMS.recorder_lease)
        expected = await add(async_redis, EntryKind.METRICS, event(0))
        await until(lambda: caught_up(async_redis))
        await until(lambda: async_redis.exists(STREAMS.recorder_lease))
        assert await async_redis.get(STREAMS.recorder_lease) == token
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected


async def test_a_stop_writes_all_that_the_streams_hold(async_redis: Any, tmp_path: Path) -> None:
    owner = await session_of(async_redis, tmp_path, "1:owner")
    expected = await add(async_redis, EntryKind.METRICS, *map(event, range(1200)))
    owner.ownership.stop.set()
    await owner.run()
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected


async def test_entries_wait_for_a_recorder_from_before_the_other_roles_start(async_redis: Any, tmp_path: Path) -> None:
    await prepare_recorder(settings_of(tmp_path / "r"), async_redis)
    for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS):
        (group,) = await async_redis.xinfo_groups(kind.stream(STREAMS))
        assert (group["name"], group["last-delivered-id"]) == (b"record", b"0-0")


async def test_what_is_recorded_is_counted_and_the_role_is_ready(
    async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    await add_all(async_redis, 0, 10)
    await async_redis.xadd(STREAMS.metrics, {"data": "{"})
    await add(async_redis, EntryKind.INTERACTIONS, interaction(1, question="from eve@example.com"))
    process, stop = ProcessTelemetry(Health("recorder")), asyncio.Event()
    settings = settings_of(tmp_path / "r", redact=["email"])
    prepared = await prepare_recorder(settings, async_redis)
    task = asyncio.create_task(run_recorder(settings, redis_url, stop, process, prepared))
    await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))

    def value(name: str, **labels: str) -> float | None:
        return process.registry.get_sample_value(name, labels)

    await until(lambda: value("ragtide_recorded_total", kind="alerts") == 10)
    assert value("ragtide_recorded_total", kind="metrics") == 11
    assert value("ragtide_recorded_unreadable_total", kind="metrics") == 1
    sizes = sum(file.bytes for file in found.files("interactions"))
    assert value("ragtide_recorded_bytes_total", kind="interactions") == sizes
    assert value("ragtide_redactions_total", what="email") == 1
    assert value("ragtide_recorder_owned", partition="0") == 1
    assert abs((value("ragtide_recorder_manifest_timestamp_seconds", partition="0") or 0) - time.time()) < 60
    process.health.redis_answered()
    assert process.health.ready().ok, process.health.ready().as_dict()
    assert (await read_backlogs(async_redis, [STREAMS]))[0].unrecorded_s == 0
    stop.set()
    await task
    await add(async_redis, EntryKind.FEEDBACK, feedback(1))
    await until(lambda: behind(async_redis))
    assert not process.health.ready().ok


async def behind(redis: Any) -> bool:
    return bool((await read_backlogs(redis, [STREAMS]))[0].unrecorded_s)


async def test_nothing_is_trimmed_before_it_is_recorded(async_redis: Any, tmp_path: Path) -> None:
    trimming = trim_streams(STREAMS, StreamCaps(metrics_keep=0), "0-0", "0-0")
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    entries = (await add_all(async_redis, 0, 10))[EntryKind.INTERACTIONS]
    await async_redis.xgroup_setid(STREAMS.interactions, LABEL_GROUP, entries[-1].entry_id)
    await run_script(async_redis, trimming)
    assert await async_redis.xlen(STREAMS.interactions) == 10
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await run_script(async_redis, trimming)
    assert await async_redis.xlen(STREAMS.interactions) == 0
    assert recorded(tmp_path / "r") == entries


async def test_a_stream_that_is_no_longer_recorded_is_let_go(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    async with recording(async_redis, settings_of(tmp_path / "r", kinds=["metrics"])):
        await until(lambda: caught_up(async_redis, (EntryKind.METRICS,)))
        await until(lambda: no_group(async_redis))


async def no_group(redis: Any) -> bool:
    return bool(await redis.xinfo_groups(STREAMS.interactions) == [])


async def test_of_two_recorders_one_stands_by_and_takes_over(async_redis: Any, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "r")
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    async with recording(async_redis, settings):
        async with recording(async_redis, settings) as first:
            await until(lambda: caught_up(async_redis))
            expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5, 9)))
            await until(lambda: caught_up(async_redis))
            assert not first.done()
        expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(9, 12)))
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected


async def session_of(redis: Any, tmp_path: Path, token: str) -> RecorderSession:
    await redis.set(STREAMS.recorder_lease, token)
    settings = settings_of(tmp_path / "r").recorder
    lease = Lease(redis, STREAMS, holder=token, lease_s=60, role="recorder")
    found = RecorderSession(
        redis,
        settings,
        Ownership([lease], [token]),
        store=LocalStore(tmp_path / "r"),
        redaction=Redaction(),
        telemetry=RecorderTelemetry(),
    )
    await found.begin()
    return found


@pytest.mark.parametrize("notices", [True, False])
async def test_an_owner_that_was_frozen_writes_nothing_twice(
    notices: bool, async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6)))
    frozen = await session_of(async_redis, tmp_path, "1:frozen")
    await frozen.take(0)
    other = await session_of(async_redis, tmp_path, "2:other")
    await other.take(0)
    await other.write()
    if not notices:  # the lease alone is not what keeps it from writing

        async def passes(_: fence.Fence, __: Any) -> None:
            """Find the lease held."""

        monkeypatch.setattr(fence.Fence, "check", passes)
    with pytest.raises(LeaseLostError):
        await frozen.write()
    assert recorded(tmp_path / "r") == expected
    assert Recording.open(str(tmp_path / "r")).verify() == []
    await session_of(async_redis, tmp_path, "3:next")
    names = {file.path for file in Recording.open(str(tmp_path / "r")).files("interactions")}
    assert set(LocalStore(tmp_path / "r").list("interactions")) == names, "what it left is removed"


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


async def test_killed_at_any_operation_every_entry_is_recorded_exactly_once(async_redis: Any, tmp_path: Path) -> None:
    for where in ("before", "half", "after"):
        for at in range(14):
            await async_redis.flushall()
            root = tmp_path / f"{where}-{at}"
            expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(4)))
            events = await add(async_redis, EntryKind.METRICS, *map(event, range(4)))
            settings = settings_of(root, kinds=["interactions", "metrics"], roll_entries=3)
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


async def both(redis: Any) -> bool:
    return await caught_up(redis, (EntryKind.INTERACTIONS, EntryKind.METRICS))


async def lose_tail(redis: Any, stream: str, count: int) -> None:
    """Take the last entries away, as a Redis that comes back without its last writes does."""
    entries = await redis.xrange(stream)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.delete(stream)
        for entry_id, fields in entries[:-count]:
            pipe.xadd(stream, fields, id=entry_id)
        await pipe.execute()


async def test_what_redis_lost_is_void(async_redis: Any, tmp_path: Path) -> None:
    expected = (await add_all(async_redis, 0, 20))[EntryKind.METRICS]
    async with recording(async_redis, settings_of(tmp_path / "r", roll_entries=30)):
        await until(lambda: caught_up(async_redis))
        await lose_tail(async_redis, STREAMS.metrics, 7)
        # While it runs this is noticed at its next look, or at the next step.
        again = await add(async_redis, EntryKind.METRICS, *map(event, range(13, 17)))
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    assert list(found.entries("metrics")) == expected[:13] + again
    assert found.count("metrics") == 17
    assert found.count("interactions") == 20, "the other streams lost nothing"
    assert [e for table in found.tables("metrics") for e in table["entry_id"].to_pylist()] == [
        entry.entry_id for entry in expected[:13] + again
    ]


async def test_what_was_read_and_lost_before_it_was_written_is_not_recorded(async_redis: Any, tmp_path: Path) -> None:
    owner = await session_of(async_redis, tmp_path, "1:owner")
    expected = await add(async_redis, EntryKind.METRICS, *map(event, range(5)))
    await owner.take(0)
    await lose_tail(async_redis, STREAMS.metrics, 2)
    with pytest.raises(StreamRollbackError, match="lost entries that were read"):
        await owner.write()
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await async_redis.delete(STREAMS.recorder_lease)
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected[:3]


async def test_a_redis_that_was_emptied_does_not_void_the_archive(async_redis: Any, tmp_path: Path) -> None:
    before = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await async_redis.flushall()
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
        after = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5, 8)))
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == before + after


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
    with pytest.raises(UnreadableRecordingError, match="holds no recording: give the URL"):
        Recording.open(str(tmp_path / "nothing"))
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "p0-000000000001.json").write_text('{"partition": 0}')
    with pytest.raises(UnreadableRecordingError, match="is no manifest"):
        Recording.open(str(tmp_path))


async def test_a_place_belongs_to_one_deployment(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    other = settings_of(tmp_path / "r").model_copy(update={"prefix": "other"})
    with pytest.raises(NotRecordableError, match="give each deployment a recorder"):
        async with recording(async_redis, other) as task:
            await asyncio.wait([task], timeout=120)
    assert not await async_redis.exists(Streams("other", 0).interactions)


@pytest.mark.parametrize("url", ["memory://recorded/here", "file://{folder}/r"])
async def test_a_url_of_fsspec_is_a_place_too(url: str, async_redis: Any, tmp_path: Path) -> None:
    place = url.format(folder=tmp_path)
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6)))
    for _ in range(2):
        async with recording(async_redis, settings_of(place)):
            await until(lambda: caught_up(async_redis))
        expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6, 9)))
    assert recorded(place) == expected[:9]
    assert Recording.open(place).verify() == []


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
