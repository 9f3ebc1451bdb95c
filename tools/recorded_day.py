"""Replays a recorded day, and writes its estimates and alerts as lines of JSON: two commits must write the same bytes.

    python tools/recorded_day.py FILE

Run it in the tree of each commit, with the Python of that tree, and compare the files. The day has four pipelines, one
of them split, segments, late interactions, feedback and rules of several kinds. It is replayed plainly, with a budget
of false alarms and with sessions, once in memory and once through Redis. Ids of alerts are left out: they hold a digest
of the rule's settings.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

# The tree in which it runs, which may be that of an earlier commit.
sys.path.insert(0, str(Path.cwd()))

from tests.aggregator.test_replay import RULES, entries
from tests.offline.test_rule_test import BUDGETED, SETTINGS
from tests.support.recorded import record

from ragtide_offline.replay.plan import ReplayPlan
from ragtide_offline.replay.replay import RecordingReplay
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import Selection
from ragtide_offline.replay.speed import speed
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Estimate

SESSIONS = SETTINGS.model_copy(update={"clusters": Settings(clusters={"by": "session_id", "quiet_s": 30}).clusters})


def lines_of(name: str, found: Iterable[Alert | Estimate]) -> list[str]:
    """Return alerts or estimates as lines, without ids of alerts."""
    dumped = (number.model_dump(mode="json", exclude={"alert_id"}) for number in found)
    return [json.dumps([name, fields], sort_keys=True) for fields in dumped]


async def replayed(name: str, settings: Settings, recording: Recording, folder: Path) -> list[str]:
    """Return the lines of a day, replayed in memory and through a Redis of its own."""
    settings = settings.model_copy(update={"data_dir": folder})
    stop = asyncio.Event()
    in_memory = await RuleTest(settings, recording, Selection(), RULES).run(stop, lambda _: None)
    handle = await asyncio.to_thread(resolve_redis, None, folder)
    try:
        async with connect_async(handle.url) as redis:
            plan = ReplayPlan(name, recording, Selection(), rules=RULES)
            replay = RecordingReplay(settings, plan, speed("max"))
            stored = await replay.run(redis, handle.url, stop, lambda _: None)
    finally:
        await asyncio.to_thread(handle.close)
    return [
        *lines_of(f"{name}: alert in memory", in_memory.alerts),
        *lines_of(f"{name}: alert", stored.alerts),
        *lines_of(f"{name}: estimate", stored.estimates or ()),
    ]


async def day() -> list[str]:
    """Return the lines of the day, in order."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = record(entries(), folder / "recording", partitions=3)
        lines: list[str] = []
        for kind, settings in (("plain", SETTINGS), ("budget", BUDGETED), ("sessions", SESSIONS)):
            lines += await replayed(kind, settings, recording, folder / "data")
    return sorted(lines)


if __name__ == "__main__":
    found = asyncio.run(day())
    text = "\n".join(found)
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} lines, sha256 {hashlib.sha256(text.encode()).hexdigest()}\n")
