"""What delivering an interaction costs, part by part, beside raw redis-py in the same round.

    python benchmarks/delivery.py [--interactions 8000] [--rounds 5] [--small]

Every round measures each part once, in turn, with interactions of the demo; with `--small` they have one sentence, and
raw redis-py is its blocking client, the leanest road there is. Times are processor time in microseconds an
interaction. The labeler returns fixed scores and costs nothing, so that only the road is measured.

- raw: redis-py reads 200 entries of a group, then acknowledges each and adds an event of the same size.
- read: the same reads alone. FastStream: the same reads through FastStream's subscriber, as a worker reads.
- messages: an interaction is validated, and its event is made and encoded, with no road at all; validating alone.
- without specimens: a worker in this process that keeps none. worker: with the default settings.
- process: a process of `ragtide worker`, after its start and its first thousand interactions.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import throughput
from processes import role, until
from redis.asyncio import Redis
from scaling import processor_s
from throughput import BATCH, STREAMS, FixedLabeler, Round

from ragtide import InteractionProducer, RagInteraction
from ragtide_consumers.worker.app import create_group
from ragtide_consumers.worker.results import StreamEntry
from ragtide_consumers.worker.subscriber import Handler, StreamApplication
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.outages import Outage

PARTS: Final = {
    "raw": "raw redis-py",
    "read": "of that, reading",
    "faststream": "reading through FastStream",
    "messages": "messages alone",
    "validated": "of that, validating",
    "bare": "worker without specimens",
    "worker": "worker",
    "process": "process of `ragtide worker`",
}
FIRST: Final = 1000
"""Interactions that a process labels before it is measured."""


async def read_raw(redis: Any) -> None:
    """Read every entry, 200 at a time."""
    while await redis.xreadgroup(LABEL_GROUP, "raw", {STREAMS.interactions: ">"}, count=BATCH):
        pass


async def read_with_faststream(url: str, count: int) -> None:
    """Read every entry as a worker does, and do nothing with it."""
    left, done = count, asyncio.Event()

    async def take(entries: Sequence[StreamEntry]) -> None:
        nonlocal left
        left -= len(entries)
        if left <= 0:
            done.set()

    handlers = {STREAMS.interactions: Handler(take, lambda: BATCH)}
    options: dict[str, Any] = {"group": LABEL_GROUP, "consumer": "me", "most": BATCH, "grace_s": 1.0}
    application = StreamApplication(url, handlers, **options, outage=Outage("Redis"))
    await application.start()
    await done.wait()
    await application.stop()


async def read_lean(redis: Any) -> None:
    """Read every entry with the blocking client."""
    while redis.xreadgroup(LABEL_GROUP, "raw", {STREAMS.interactions: ">"}, count=BATCH):
        pass


async def validated(payloads: Sequence[bytes]) -> None:
    """Validate every interaction."""
    for payload in payloads:
        RagInteraction.from_entry("1-1", payload)


def process_us(own: Any, url: str, folder: Path, rows: Sequence[RagInteraction]) -> float:
    """Return the processor time of an interaction in a process of `ragtide worker`, in microseconds."""
    environment = {"RAGTIDE_REDIS_URL": url, "RAGTIDE_LABELER": "throughput:FixedLabeler"}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    own.execute_command("FLUSHALL", "SYNC")
    with InteractionProducer(url) as producer, role("worker", environment, folder / "worker.log") as process:
        producer.publish_many(
            [row.model_copy(update={"interaction_id": f"f-{at}"}) for at, row in enumerate(rows[:FIRST])]
        )
        first = min(FIRST, len(rows))
        until(lambda: own.xlen(STREAMS.metrics) >= first)
        before_s = processor_s(process.pid)
        producer.publish_many(rows)
        until(lambda: own.xlen(STREAMS.metrics) >= first + len(rows))
        return (processor_s(process.pid) - before_s) / len(rows) * 1e6


class Parts(Round):
    """Every part once, on one Redis."""

    async def measure(self, folder: Path, *, lean: bool) -> dict[str, float]:
        """Return the microseconds of each part; raw redis-py is the asyncio client, or the leanest road."""
        rows, url, count = self._rows, str(self._settings.redis_url), len(self._rows)
        payloads = [row.encode() for row in rows]
        for part, enabled in (("worker", True), ("bare", False)):
            self._forget()
            await throughput.raw_publish(self._redis, payloads)
            self._settings = Settings(redis_url=url, data_dir=folder, specimens=SpecimenSettings(enabled=enabled))
            await self.costs(part, count, lambda: self._work(FixedLabeler(), count))
        event = (await self._redis.xrevrange(STREAMS.metrics, count=1))[0][1][b"data"]
        for part, body in {
            "raw": lambda: (
                throughput.lean_deliver(self._own, event) if lean else throughput.raw_deliver(self._redis, event)
            ),
            "read": lambda: read_lean(self._own) if lean else read_raw(self._redis),
            "faststream": lambda: read_with_faststream(url, count),
        }.items():
            self._forget()
            await create_group(self._redis, STREAMS.interactions)
            await throughput.raw_publish(self._redis, payloads)
            await self.costs(part, count, body)
        await self.costs("messages", count, lambda: throughput.labeled(payloads))
        await self.costs("validated", count, lambda: validated(payloads))
        us = {part: costs.us for part, costs in self._measured.items()}
        us["process"] = await asyncio.to_thread(process_us, self._own, url, folder, rows)
        return us


async def measure(count: int, rounds: int, url: str, folder: Path, *, small: bool) -> list[dict[str, float]]:
    """Return the microseconds of each part in each round; a short round before them is not counted."""
    bundled = demo_interactions()
    rows = [
        bundled[at % len(bundled)].model_copy(update={"interaction_id": f"b-{at}", "pipeline": "bench"})
        for at in range(count)
    ]
    if small:
        rows = [throughput.small(row) for row in rows]
    redis, own = Redis.from_url(url), connect(url)
    settings = Settings(redis_url=url, data_dir=folder)
    try:
        await Parts(settings, redis, own, rows[:BATCH]).measure(folder, lean=small)
        return [await Parts(settings, redis, own, rows).measure(folder, lean=small) for _ in range(rounds)]
    finally:
        await redis.aclose()
        own.close()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="interactions of one sentence")
    arguments = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        measuring = measure(arguments.interactions, arguments.rounds, server.url, Path(name), small=arguments.small)
        rounds = asyncio.run(measuring)
    print("| part | us | times raw |\n|---|---|---|")
    for part, words in PARTS.items():
        times = sorted(us[part] / us["raw"] for us in rounds)
        spread = f"{statistics.median(times):.1f} ({times[0]:.1f} to {times[-1]:.1f})"
        print(f"| {words} | {statistics.median(us[part] for us in rounds):.1f} | {spread} |")


if __name__ == "__main__":
    main()
