"""An owner that is paused anywhere in a commit, until another has its partition, is refused; the numbers are exact."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.aggregator.test_service import STATE, STREAMS, caught_up, publish, running, stored_rows
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta
from tests.support.pausing_owner import POINTS

from ragtide import Alert, MetricEvent
from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
REFUSED = b"partition lost"


class Paused:
    """The process that pauses itself."""

    def __init__(self, url: str, folder: Path) -> None:
        self.at, self.log = folder / "point", folder / "log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "tests.support.pausing_owner", url, str(self.at)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    @property
    def stopped(self) -> bool:
        """Whether it is paused; fails if it has ended."""
        assert self.process.poll() is None, self.log.read_text()
        state = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return state == "T"

    def said(self, words: bytes, since: int) -> bool:
        return words in self.log.read_bytes()[since:]


@pytest.fixture
def paused(redis_url: str, tmp_path: Path) -> Iterator[Paused]:
    one = Paused(redis_url, tmp_path)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()


async def owner(redis: Any) -> str:
    return ((await redis.get(STREAMS.lease)) or b"").decode()


async def exact(redis: Any, events: Sequence[MetricEvent]) -> None:
    """Check that the checkpoint and the alerts are those of all events, each counted once."""
    state = AggregatorState(STATE)
    for event in events:
        state.apply(event)
    changes = state.take_changes()
    assert await stored_rows(redis) == changes.rows
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.alerts)]
    assert alerts == list(changes.alerts)


@pytest.mark.heavy
async def test_an_owner_paused_at_any_point_of_a_commit_is_refused_and_the_numbers_are_exact(
    async_redis: Any, paused: Paused
) -> None:
    events: list[MetricEvent] = []

    async def more(mean: float) -> None:
        new = adherence(beta(mean, 20, len(events)), first=len(events))
        events.extend(new)
        await publish(async_redis, new)

    async def owned_by(holder: str) -> bool:
        return f":{holder}:" in await owner(async_redis)

    for number, point in enumerate(POINTS):
        await until(lambda: owned_by("paused"))
        log_size = paused.log.stat().st_size
        paused.at.write_text(point, encoding="utf-8")
        await more(0.85 if number % 2 else 0.4)
        await until(lambda: paused.stopped)
        async with running(async_redis, "other"):
            await until(lambda: owned_by("other"))
            await until(lambda: caught_up(async_redis))
            await more(0.5)
            paused.process.send_signal(signal.SIGCONT)
            await until(lambda: paused.said(REFUSED, log_size))  # noqa: B023 - looked at at once
            assert await owned_by("other")
            await until(lambda: caught_up(async_redis))
            await exact(async_redis, events)
        await more(0.6)
        await until(lambda: owned_by("paused"))
        await until(lambda: caught_up(async_redis))
        await exact(async_redis, events)


async def test_an_owner_that_is_paused_while_its_last_commit_is_answered_says_that_it_lost_the_partition(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing to commit that could be refused, and hands over what it no longer owns."""
    commit = Committer.commit
    taken = asyncio.Event()

    async def paused(self: Committer, step: Step, token: str) -> None:
        await commit(self, step, token)
        await async_redis.delete(STREAMS.lease)  # it runs out meanwhile
        assert (await Lease(async_redis, STREAMS, holder="other", lease_s=60).acquire()).token is not None
        aggregator.owner.owned[0].stop.set()  # as with one partition and two aggregators that both count it as theirs
        taken.set()

    monkeypatch.setattr(Committer, "commit", paused)
    with capture_logs() as logs:
        async with running(async_redis, "paused") as aggregator:
            await publish(async_redis, adherence(beta(0.85, 20, 1)))
            await until(taken.is_set)
            await until(lambda: not aggregator.owner.owned)
    assert [line for line in logs if line["event"].startswith("partition lost")]
    assert (await owner(async_redis)).partition(":")[2].startswith("other:")
