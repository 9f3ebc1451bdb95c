"""Live traffic recorded while workers and recorders are killed, then replayed and compared to the bit.

`python -m tests.end_to_end.recording_live`.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, interactions, kill, start, wait_for_aggregation

from ragtide import InteractionProducer
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_schemas import RagInteraction

BATCH = 250


@dataclass(frozen=True, slots=True)
class Result:
    """Counts of published and recorded entries, and every difference between recording, streams and replay."""

    published: int
    interactions: int
    metrics: int
    alerts: int
    estimates: int
    """Estimates of the replay that were compared with the live ones."""
    worker_kills: int
    recorder_kills: int
    seconds: float
    files: int
    megabytes: float
    problems: list[str]


def record_live(url: str, folder: Path, *, count: int, kills: int, form: str = "parquet") -> Result:
    """Publish to two workers, an aggregator and a recorder, kill workers and recorders meanwhile, replay, and compare.

    Nothing is trimmed, because a group that nobody serves holds everything: so the streams are there to compare with.
    """
    place = folder / "recording"
    extra = {
        "RAGTIDE_RECORDER_URL": str(place),
        "RAGTIDE_RECORDER_ROLL_S": "0.2",
        "RAGTIDE_RECORDER_FORMAT": form,
        "RAGTIDE_EVENTS_KEEP": str(2 * count),
        # With specimens a live alert names only interactions that are kept, and a replay keeps none.
        "RAGTIDE_SPECIMENS_ENABLED": "false",
    }
    random_ = random.Random(count)
    started = time.monotonic()
    redis = connect(url)
    for stream in (STREAMS.interactions, STREAMS.metrics):
        redis.xgroup_create(stream, "compare", id="0", mkstream=True)
    roles = {name: start(name.rstrip("0123"), url, folder / f"{name}.log", extra) for name in _ROLES}
    batch = _traffic(count)
    worker_kills = recorder_kills = 0
    due = {count * (number + 1) // (kills + 1) // BATCH for number in range(kills)}
    try:
        with InteractionProducer(url) as producer:
            for number, first in enumerate(range(0, count, BATCH)):
                producer.publish_many(batch[first : first + BATCH])
                wait_until(lambda goal=first // 2: redis.xlen(STREAMS.metrics) >= goal)  # type: ignore[misc]
                if number in due:
                    for name in (random_.choice(["worker1", "worker2"]), "recorder"):
                        kill(roles[name])
                        roles[name] = start(name.rstrip("0123"), url, folder / f"{name}.log", extra)
                    worker_kills, recorder_kills = worker_kills + 1, recorder_kills + 1
        wait_until(lambda: redis.xlen(STREAMS.metrics) >= count, 300)
        wait_for_aggregation(redis)
        wait_until(
            lambda: all(_at_end(redis, kind) for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS, EntryKind.ALERTS))
        )
        for process in roles.values():
            process.terminate()
        for process in roles.values():
            process.wait(60)
    finally:
        for process in roles.values():
            process.kill()
            process.wait()
    recording = Recording.open(str(place))
    problems = recording.verify()
    for kind in EntryKind:
        problems += _differences(redis, recording, kind)
    compared, unlike = _replayed(url, place, extra)
    problems += unlike
    files = [file for kind in EntryKind for file in recording.files(kind)]
    return Result(
        published=count,
        interactions=recording.count(EntryKind.INTERACTIONS),
        metrics=recording.count(EntryKind.METRICS),
        alerts=recording.count(EntryKind.ALERTS),
        estimates=compared,
        worker_kills=worker_kills,
        recorder_kills=recorder_kills,
        seconds=round(time.monotonic() - started, 1),
        files=len(files),
        megabytes=round(sum(file.bytes for file in files) / 1e6, 1),
        problems=problems,
    )


_ROLES = ("worker1", "worker2", "aggregator", "recorder")


def _traffic(count: int) -> list[RagInteraction]:
    """Return interactions whose answers get worse half way: each question then gets another one's answer."""
    batch = interactions(count)
    worse = [
        one.model_copy(update={"response": other.response, "response_sentences": other.response_sentences})
        for one, other in zip(batch[count // 2 :], batch[count // 2 + 7 :] + batch[:7], strict=True)
    ]
    return batch[: count // 2] + worse


def _replayed(url: str, place: Path, extra: dict[str, str]) -> tuple[int, list[str]]:
    """Replay the recording; return how many estimates were compared with the live ones, and what is not equal."""

    def said(*arguments: str) -> str:
        done = command(url, *arguments, extra=extra)
        assert done.returncode == 0, done.stderr
        return done.stdout

    live, live_alerts = json.loads(said("estimates", "--json")), said("alerts", "--json").splitlines()
    said("replay", str(place), "--workspace", "again", "--json")
    again = json.loads(said("estimates", "--workspace", "again", "--ongoing", "--json"))
    alerts = said("alerts", "--workspace", "again", "--json").splitlines()
    problems = [
        f"{one['metric']} is not that of the live aggregator"
        for one, its in zip(again, live, strict=False)
        if one != its
    ]
    if len(again) != len(live) or not live:
        problems.append(f"the replay has {len(again)} estimates, live has {len(live)}")
    if sorted(alerts) != sorted(live_alerts) or not live_alerts:
        problems.append(f"the replay has {len(alerts)} alerts, live has {len(live_alerts)}, or they are not the same")
    return len(live), problems


def _at_end(redis: object, kind: EntryKind) -> bool:
    stream = kind.stream(STREAMS)
    groups = redis.xinfo_groups(stream)  # type: ignore[attr-defined]  # a client, typed loosely
    last = redis.xinfo_stream(stream)["last-generated-id"]  # type: ignore[attr-defined]
    return [group["last-delivered-id"] for group in groups if group["name"] == b"record"] == [last]


def _differences(redis: object, recording: Recording, kind: EntryKind) -> list[str]:
    found = [(entry.entry_id, entry.model.encode()) for entry in recording.entries(kind)]
    stream = [
        (entry_id.decode(), kind.decode(entry_id.decode(), fields[DATA_FIELD]).encode())
        for entry_id, fields in redis.xrange(kind.stream(STREAMS))  # type: ignore[attr-defined]
    ]
    return [] if found == stream else [f"{kind}: {len(found)} recorded, {len(stream)} on the stream, and not the same"]


def main() -> None:
    """Print what came of it; exit code 1 if the recording is not what was on the streams."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--format", choices=["parquet", "jsonl"], default="parquet")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis.open(Path(folder) / "redis") as server:
        result = record_live(server.url, Path(folder), count=given.interactions, kills=given.kills, form=given.format)
    for name, value in asdict(result).items():
        print(f"{name:>15}: {value}")  # noqa: T201 - a command
    if result.problems or not result.published == result.interactions == result.metrics:
        sys.exit(1)


if __name__ == "__main__":
    main()
