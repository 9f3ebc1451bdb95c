import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.recording_live import record_live
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, command, interactions, kill, running, start

from ragtide import InteractionProducer
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.entries import UnreadableRecordingError
from ragtide_runtime.redis.keys import DATA_FIELD


def folder(path: Path) -> dict[str, str]:
    return {"RAGTIDE_RECORDER_URL": str(path), "RAGTIDE_RECORDER_ROLL_S": "0.02"}


def assert_recorded_exactly(redis: Any, place: Path, kind: EntryKind) -> int:
    """Compare a recording with a stream nothing of which was trimmed, byte for byte; return how many there were."""
    found = [(entry.entry_id, entry.model.encode()) for entry in Recording.open(str(place)).entries(kind)]
    on_stream = [
        (entry_id.decode(), kind.decode(entry_id.decode(), fields[DATA_FIELD]).encode())
        for entry_id, fields in redis.xrange(kind.stream(STREAMS))
    ]
    assert found == on_stream
    return len(found)


def recorded_to_the_end(redis: Any) -> bool:
    groups = redis.xinfo_groups(STREAMS.interactions)
    at = [group["last-delivered-id"] for group in groups if group["name"] == b"record"]
    return bool(at == [redis.xinfo_stream(STREAMS.interactions)["last-generated-id"]])


@pytest.mark.heavy
def test_a_recorder_killed_at_random_moments_leaves_no_torn_file(redis: Any, redis_url: str, tmp_path: Path) -> None:
    place, log = tmp_path / "r", tmp_path / "recorder.log"
    random_ = random.Random(5)
    batch = interactions(1800)
    with InteractionProducer(redis_url) as producer:
        for round_ in range(6):
            process = start("recorder", redis_url, log, folder(place))
            producer.publish_many(batch[300 * round_ : 300 * round_ + 200])
            before = len(list(place.rglob("*.json")))
            wait_until(lambda before=before: len(list(place.rglob("*.json"))) > before)  # type: ignore[misc]
            producer.publish_many(batch[300 * round_ + 200 : 300 * round_ + 300])
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(random_.uniform(0, 0.15))  # it is busy writing: some moment in between
            kill(process)
            if place.exists():
                assert Recording.open(str(place)).verify() == [], "what a manifest names is whole"
    with running("recorder", redis_url, log, folder(place)):
        wait_until(lambda: recorded_to_the_end(redis))
    assert assert_recorded_exactly(redis, place, EntryKind.INTERACTIONS) == 1800
    names = {file.path for file in Recording.open(str(place)).files(EntryKind.INTERACTIONS)}
    there = {path.relative_to(place).as_posix() for path in (place / "interactions").rglob("*") if path.is_file()}
    assert there == names


def test_a_redis_that_is_killed_and_restarted_loses_nothing_of_the_recording(tmp_path: Path) -> None:
    place, log = tmp_path / "r", tmp_path / "recorder.log"
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        batch = interactions(900)
        with InteractionProducer(server.url) as producer, running("recorder", server.url, log, folder(place)):
            # A role that starts without a Redis ends.
            wait_until(lambda: "recording a partition" in log.read_text())
            for round_ in range(3):
                producer.publish_many(batch[300 * round_ : 300 * round_ + 300])
                server.kill()
                server.start()
            from redis import Redis

            with Redis(port=server.port) as redis:
                wait_until(lambda: recorded_to_the_end(redis))
            wait_until(lambda: "files written" in log.read_text())
            assert "a file is written this long after" in log.read_text(), "it says when the first file comes"
        with Redis(port=server.port) as redis:
            assert assert_recorded_exactly(redis, place, EntryKind.INTERACTIONS) == 900


def test_the_commands_of_the_recorder(redis: Any, redis_url: str, tmp_path: Path) -> None:
    place, log = tmp_path / "r", tmp_path / "recorder.log"
    extra = {**folder(place), "RAGTIDE_RECORDER_FORMAT": "jsonl"}
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(30))
    with running("recorder", redis_url, log, extra):
        wait_until(lambda: redis.exists(STREAMS.recorder_lease) and recorded_to_the_end(redis))
        told = {one["subject"]: one for one in json.loads(command(redis_url, "doctor", "--json", extra=extra).stdout)}
        assert told["partition 0: recorder"]["level"] == "ok"
        assert "up to date" in told["partition 0: recorder"]["found"]
        assert command(redis_url, "doctor", "--role", "recorder", extra=extra).returncode == 0
    slow = {**extra, "RAGTIDE_RECORDER_ROLL_S": "1000", "RAGTIDE_RECORDER_URL": str(tmp_path / "slow")}
    with running("recorder", redis_url, tmp_path / "slow.log", slow):
        wait_until(lambda: redis.exists(STREAMS.recorder_lease) and (tmp_path / "slow").exists())

        def waiting() -> dict[str, Any]:
            shown = command(redis_url, "inspect", "--json", extra=slow)
            return dict(json.loads(shown.stdout).get("waiting", {})) if shown.returncode == 0 else {}

        wait_until(lambda: waiting().get("count") == 30)
        assert 0 < waiting()["next_file_s"] <= 1000
        # The recorder of another recording says nothing about this one.
        assert "waiting" not in json.loads(command(redis_url, "inspect", str(place), "--json").stdout)
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(40))
    told = {one["subject"]: one for one in json.loads(command(redis_url, "doctor", "--json", extra=extra).stdout)}
    assert told["partition 0: recorder"]["level"] == "warning"
    assert "ragtide recorder --forget" in told["partition 0: recorder"]["advice"]
    done = command(redis_url, "inspect", str(place), "--json", "--verify")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["pipeline"], row["interactions"]) for row in found["days"]] == [("shop", 30)]
    assert found["problems"] == []
    shown = command(redis_url, "inspect", extra=extra)
    assert "shop" in shown.stdout
    next(place.rglob("*.jsonl.gz")).unlink()
    assert command(redis_url, "inspect", str(place), "--verify").returncode == 1
    done = command(redis_url, "inspect", str(tmp_path / "nothing"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "holds no recording" in done.stderr
    assert command(redis_url, "recorder", "--forget").returncode == 0
    assert redis.xinfo_groups(STREAMS.interactions) == []
    done = command(redis_url, "recorder")
    assert (done.returncode, done.stderr.count("\n")) == (1, 2), done.stderr
    assert "RAGTIDE_RECORDER_URL" in done.stderr


def recorded(place: Path) -> dict[EntryKind, int]:
    """Return the number of entries that are recorded, none before there is a recording."""
    try:
        recording = Recording.open(str(place))
    except UnreadableRecordingError:
        return {}
    return {kind: recording.count(kind) for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS)}


def test_up_records_too_where_a_place_is_set(redis: Any, redis_url: str, tmp_path: Path) -> None:
    place, log = tmp_path / "r", tmp_path / "up.log"
    with running("up", redis_url, log, folder(place)):
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(interactions(50))
        wait_until(lambda: redis.xlen(STREAMS.metrics) == 50)
        wait_until(lambda: recorded(place) == {EntryKind.INTERACTIONS: 50, EntryKind.METRICS: 50})
    assert Recording.open(str(place)).count(EntryKind.METRICS) == 50
    assert Recording.open(str(place)).count(EntryKind.INTERACTIONS) == 50
    assert assert_recorded_exactly(redis, place, EntryKind.METRICS) == 50


@pytest.mark.heavy
def test_a_recording_of_live_traffic_is_what_was_on_the_streams_while_workers_die(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    result = record_live(redis_url, tmp_path, count=1500, kills=3)
    assert result.published == result.interactions == result.metrics == 1500
    assert result.problems == []
