"""An outage of Redis is two lines of each role, however long it is, and costs nothing, also where Redis is full."""

import json
import os
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, estimates, interactions, running, wait_for_events

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams


class Refusing:
    """A port that takes connections, closes them at once, and counts them: tries of an outage."""

    def __init__(self, port: int) -> None:
        self.tries = 0
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until(lambda: self._bound(port))
        self._socket.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def _bound(self, port: int) -> bool:
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._socket.accept()
            except OSError:
                return
            self.tries += 1
            taken.close()

    def close(self) -> None:
        """Leave the port to another."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


ROLES: Final = frozenset({"worker", "aggregator", "serve"})
"""Roles that `ragtide up` runs."""


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


@pytest.mark.heavy
def test_an_outage_of_redis_is_two_lines_of_each_role(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with (
        RedisProcess(tmp_path / "redis", "appendonly yes") as server,
        # A lease of a minute: on a slow machine a process may stand still for longer than a second, more than once.
        running("up", server.url, log, {"RAGTIDE_LEASE_S": "60"}) as process,
        connect(server.url) as redis,
    ):
        with InteractionProducer(server.url) as producer:
            producer.publish_many(interactions(20))
        wait_until(lambda: redis.xlen(Streams("ragtide", 0).metrics) == 20)
        before = len(lines(log))
        server.kill()
        refusing = Refusing(server.port)
        wait_until(lambda: refusing.tries > 40)
        refusing.close()
        server.start()

        def said(words: str) -> Counter[str]:
            return Counter(line["role"] for line in lines(log) if line["event"].startswith(words))

        wait_until(lambda: set(said("Redis answers again")) == ROLES)
        found = [line for line in lines(log)[before:] if line["level"] != "info"]
        assert said("Redis failed") == said("Redis answers again") == Counter(ROLES)
        ended = [line for line in found if line["event"] == "Redis answers again"]
        assert all(line["lasted_s"] > 0 and line["failed_attempts"] > 0 for line in ended)
        # Every other warning appears once: the stream may have lost its tail, an owner its lease.
        assert max(Counter((line["role"], line["event"]) for line in found).values()) == 1, found
        assert {(line["host"], line["process"]) for line in lines(log)} == {(socket.gethostname(), process.pid)}
        assert os.getpid() != process.pid


def test_a_full_memory_of_redis_loses_nothing(tmp_path: Path) -> None:
    log, batch = tmp_path / "up.log", interactions(60)
    with (
        RedisProcess(tmp_path / "redis", "appendonly yes", "maxmemory-policy noeviction") as server,
        running("up", server.url, log, {"RAGTIDE_LEASE_S": "60", "RAGTIDE_SERVE_PORT": "0"}),
        connect(server.url) as redis,
        InteractionProducer(server.url) as producer,
    ):
        producer.publish_many(batch[:20])
        wait_for_events(redis, 20)
        redis.config_set("maxmemory", 1)
        assert all(producer.submit(interaction) for interaction in batch[20:])
        wait_until(lambda: any("raise maxmemory" in line.get("error", "") for line in lines(log)))
        assert not producer.flush(0.1)
        assert (producer.counts.dropped, redis.xlen(STREAMS.metrics)) == ({}, 20)
        redis.config_set("maxmemory", 0)
        assert producer.flush(60)
        wait_for_events(redis, 60)

        def counted() -> list[int]:
            return [
                estimate["n"]
                for estimate in estimates(server.url)
                if estimate["metric"] == "trace.context_relevance" and estimate["segment"] is None
            ]

        wait_until(lambda: counted() == [60])
        assert redis.xlen(STREAMS.dead_letters) == 0
