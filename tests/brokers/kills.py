"""Messages while the bridge, the broker and Redis are killed: every id is scored once, and none is lost.

`make brokers` runs a short form. The long form of docs/connect/brokers.md:
`RAGTIDE_BRIDGE_MESSAGES=20000 RAGTIDE_BRIDGE_KILLS=20 make brokers ARGS="-k killed -s"`.
"""

import os
import threading
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.delivery import OUT, TOPIC, Bridge, binary
from tests.brokers.servers import BROKERS, Broker
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, dead_letters, interactions, running

from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas import MetricEvent

MESSAGES = int(os.environ.get("RAGTIDE_BRIDGE_MESSAGES", "1500"))
KILLS = int(os.environ.get("RAGTIDE_BRIDGE_KILLS", "4"))
BATCH = 100
LIMIT_S = 900.0


class Publisher(threading.Thread):
    """Publishes every message until the broker has confirmed it, so some come twice."""

    def __init__(self, broker: Broker, bodies: list[bytes], pace_s: float) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._bodies = bodies
        self._pace_s = pace_s
        self.sent = 0

    def run(self) -> None:
        while self.sent < len(self._bodies):
            try:
                self._broker.publish(TOPIC, self._bodies[self.sent : self.sent + BATCH])
            except Exception:  # noqa: BLE001 - of any client, while the broker is away
                time.sleep(0.1)
                continue
            self.sent = min(self.sent + BATCH, len(self._bodies))
            time.sleep(self._pace_s)


def scored(redis: RedisProcess) -> Counter[str]:
    """Return how many metric events each interaction has."""
    found: Counter[str] = Counter()
    last = "-"
    client: Any = binary(redis)
    while entries := client.xrange(STREAMS.metrics, min=last, count=5000):
        found.update(MetricEvent.decode(fields[DATA_FIELD]).interaction_id for _, fields in entries)
        last = f"({entries[-1][0].decode()}"
    return found


@pytest.mark.parametrize("name", list(BROKERS))
def test_every_id_is_scored_once_while_bridge_broker_and_redis_are_killed(name: str, tmp_path: Path) -> None:
    broker = BROKERS[name](tmp_path / "broker")
    bodies = [interaction.encode() for interaction in interactions(MESSAGES)]
    bodies.insert(MESSAGES // 2, b"poison")
    broker.start()
    try:
        broker.create(TOPIC, OUT)
        with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as redis:
            bridge = Bridge(redis, tmp_path / "bridge.log", "--from", broker.url(TOPIC), "--to-events", broker.url(OUT))
            bridge.start(directions=2)
            started = time.monotonic()
            try:
                with running("worker", redis.url, tmp_path / "worker.log"):
                    publisher = Publisher(broker, bodies, pace_s=0.05)
                    publisher.start()
                    for kill, place in zip(range(KILLS), cycle(("bridge", "broker", "redis")), strict=False):
                        wanted = MESSAGES * (kill + 1) // (KILLS + 2)
                        wait_until(lambda wanted=wanted: publisher.sent >= wanted, LIMIT_S)  # type: ignore[misc]
                        victim: Any = {"bridge": bridge, "broker": broker, "redis": redis}[place]
                        victim.kill()
                        if place == "bridge":
                            bridge.begin()
                        else:
                            victim.start()
                    wait_until(lambda: publisher.sent >= len(bodies), LIMIT_S)
                    wait_until(lambda: binary(redis).xlen(STREAMS.metrics) >= MESSAGES, LIMIT_S)
                    # Everything that comes again must have come: the groups have nothing left.
                    broker.publish(TOPIC, [interactions(1)[0].model_copy(update={"interaction_id": "last"}).encode()])
                    wait_until(lambda: scored(redis)["last"] == 1, LIMIT_S)
                    # Messages that the killed bridge had not acknowledged may come after the last one.
                    wait_until(lambda: dead_letters(binary(redis)), LIMIT_S)
                counts = scored(redis)
                letters = dead_letters(binary(redis))
                assert set(counts) == {f"i-{number:05d}" for number in range(MESSAGES)} | {"last"}
                assert set(counts.values()) == {1}
                assert {letter.payload_bytes() for letter in letters} == {b"poison"}
                assert len(letters) <= 1 + KILLS

                def all_sent() -> bool:
                    (group,) = redis.client.xinfo_groups(STREAMS.metrics)
                    return not group["pending"] and group["lag"] == 0

                wait_until(all_sent, LIMIT_S)
                missing = set(counts)

                def is_last(body: bytes) -> bool:
                    missing.discard(MetricEvent.decode(body).interaction_id)
                    return not missing

                events_out = len(broker.read_until(OUT, is_last))
                print(  # noqa: T201
                    f"{name}: {MESSAGES} messages, {KILLS} kills, {time.monotonic() - started:.0f} s, "
                    f"{len(letters)} dead letters, {events_out} events out"
                )
                bridge.stop()
            finally:
                bridge.kill()
    finally:
        broker.end()
