"""An aggregator that stops itself with SIGSTOP at a point of its commit, once for each request.

python -m tests.support.pausing_owner REDIS_URL FILE

The file names the point at which it is to stop next; it is removed right before.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from redis import ConnectionError  # noqa: A004 - Redis's own
from tests.aggregator.test_service import SETTINGS

from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.applying import EventApplier
from ragtide_aggregator.service.step_writer import StepWriter
from ragtide_runtime.redis.client import connect_async

POINTS = (
    "before reading",
    "after reading",
    "after applying",
    "before the script",
    "after the script, before the reply",
    "after the script, and the reply is lost",
)


def pause_at(file: Path) -> None:
    """Make every point check whether it was requested."""
    take, apply_events = EventApplier.take, EventApplier.apply_events
    commit_step, commit = StepWriter.commit, Committer.commit

    def reached(point: str) -> bool:
        if not file.exists() or file.read_text(encoding="utf-8") != point:
            return False
        file.unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    async def taking(self: EventApplier, *arguments: Any) -> Any:
        reached("before reading")
        return await take(self, *arguments)

    async def applying(self: EventApplier, *arguments: Any) -> Any:
        reached("after reading")
        return await apply_events(self, *arguments)

    async def building(self: StepWriter, *arguments: Any, **options: Any) -> Any:
        reached("after applying")
        return await commit_step(self, *arguments, **options)

    async def committing(self: Committer, step: Step, token: str) -> None:
        reached("before the script")
        await commit(self, step, token)
        reached("after the script, before the reply")
        if reached("after the script, and the reply is lost"):
            raise ConnectionError("the reply is lost")

    setattr(EventApplier, "take", taking)  # noqa: B010 - for the type checker
    setattr(EventApplier, "apply_events", applying)  # noqa: B010
    setattr(StepWriter, "commit", building)  # noqa: B010
    setattr(Committer, "commit", committing)  # noqa: B010


async def serve(url: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with connect_async(url) as redis:
        await Aggregator(redis, SETTINGS, holder="paused").run(stop)


if __name__ == "__main__":
    pause_at(Path(sys.argv[2]))
    asyncio.run(serve(sys.argv[1]))
