"""Power cuts: how much is lost, and whether anything counts twice.

    python -m tests.chaos.power_cuts [--interactions 20000] [--cuts 27]

A real Redis with an append-only file, a worker, an aggregator, and a producer that publishes all the time. At a power
cut what the disk has not been made to keep is gone: Redis is killed, and its file is cut back to the length it had when
the disk was last made to keep it, once a second (`everysec`) or at every write (`always`). Then it starts again. At the
end the producer has had every interaction confirmed, and it is counted how many of them have no metric event, how many
have more than one, and whether the estimates count each metric event once.
"""

import argparse
import logging
import os
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from redis import RedisError
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, estimates, interactions, metric_events, publish_until_confirmed, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import LABEL_GROUP

KEPT_S = {"everysec": 1.0, "always": 0.0}
"""Seconds between two moments at which the disk is made to keep the file; 0 makes it keep every write."""

PACE_S = 0.15
"""Seconds between two batches."""

AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Result:
    """The fate of interactions that Redis had confirmed to a producer."""

    confirmed: int
    lost: int
    twice: int
    counted: int
    """Metric events in the estimates."""
    events: int


class Disk:
    """How long the append-only file was when the disk was last made to keep it.

    Redis 6.2 appends to one file; later servers keep several in a folder, and append to the last.
    """

    def __init__(self, folder: Path, every_s: float) -> None:
        self._folder = folder
        self._every_s = every_s
        self._kept: dict[Path, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Disk":
        if self._every_s:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._every_s:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self._every_s):
            with suppress(FileNotFoundError):
                file = self._appended()
                self._kept[file] = file.stat().st_size

    def _appended(self) -> Path:
        """Return the file that the server appends to."""
        several = self._folder.glob("appendonlydir/*.incr.aof")
        return max(several, key=lambda file: int(file.name.split(".")[-3]), default=self._folder / "appendonly.aof")

    def lose(self) -> None:
        """Cut the file back to the length that a power cut would have left."""
        if self._every_s:
            file = self._appended()
            os.truncate(file, min(self._kept.get(file, 0), file.stat().st_size))


def run(folder: Path, *, fsync: str, count: int, cuts: int, resend: bool) -> Result:
    """Run a deployment through power cuts.

    Args:
        folder: for its files.
        fsync: `everysec` or `always`.
        count: interactions.
        cuts: power cuts, spread evenly over them.
        resend: whether the producer is `submit`, which sends its last seconds again.
    """
    published = interactions(count)
    server = RedisProcess(
        folder / "redis", "appendonly yes", f"appendfsync {fsync}", "save ''", "aof-load-truncated yes",
        "auto-aof-rewrite-percentage 0",
    )  # fmt: skip
    server.start()
    with ExitStack() as stack:
        stack.callback(server.kill)
        disk = stack.enter_context(Disk(server.folder, KEPT_S[fsync]))
        stack.enter_context(running("worker", server.url, folder / "worker.log"))
        stack.enter_context(running("aggregator", server.url, folder / "aggregator.log"))
        # A role that finds no Redis when it starts ends, and here is no supervisor.
        wait_until(lambda: server.client.exists(STREAMS.lease, STREAMS.interactions) == 2)
        producer = stack.enter_context(InteractionProducer(server.url))
        at = [count * (number + 1) // (cuts + 1) for number in range(cuts)]
        sent = 0
        while sent < count:
            batch = published[sent : sent + AT_ONCE]
            if resend:
                for one in batch:
                    wait_until(lambda one=one: producer.submit(one))  # type: ignore[misc]
                wait_until(lambda: producer.flush(1.0))
            else:
                publish_until_confirmed(producer, batch)
            sent += len(batch)
            time.sleep(PACE_S)
            if at and sent >= at[0]:
                at.pop(0)
                server.kill()
                disk.lose()
                server.start()
        if resend:
            time.sleep(3.0)  # in which it notices that the newest are gone
            wait_until(lambda: producer.flush(1.0))
        wait_until(lambda: _at_rest(server))
        events = Counter(event.interaction_id for event in metric_events(stack.enter_context(connect(server.url))))
        shown = [e for e in estimates(server.url) if e["metric"] == "trace.adherence" and e["segment"] is None]
        counted = max((e["n"] + e["n_absent"] for e in shown if e["window"] == "all"), default=0)
    return Result(
        confirmed=count,
        lost=count - len(events),
        twice=sum(times > 1 for times in events.values()),
        counted=counted,
        events=events.total(),
    )


def _at_rest(server: RedisProcess) -> bool:
    redis = server.client
    try:
        (group,) = redis.xinfo_groups(STREAMS.interactions)
        untaken = redis.xrange(STREAMS.interactions, min=f"({group['last-delivered-id']}", count=1)
        last = redis.xrevrange(STREAMS.metrics, count=1)
        done = redis.hget(STREAMS.checkpoint, "position") == last[0][0]
    except (RedisError, ValueError, IndexError):
        return False
    return bool(group["name"] == LABEL_GROUP and not group["pending"] and not untaken and done)


def main() -> None:
    """Run all three, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--cuts", type=int, default=27)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{options.interactions:,} interactions, {options.cuts} power cuts")
    print(f"{'':<40}{'lost':>8}{'twice':>8}{'events':>8}{'counted':>9}")
    ways = {
        "everysec": ("everysec", False),
        "everysec, last seconds sent again": ("everysec", True),
        "always": ("always", False),
    }
    for name, (fsync, resend) in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = run(Path(folder), fsync=fsync, count=options.interactions, cuts=options.cuts, resend=resend)
            os.chdir("/")
        print(f"{name:<40}{found.lost:>8,}{found.twice:>8,}{found.events:>8,}{found.counted:>9,}")


if __name__ == "__main__":
    main()
