import os
import signal
from pathlib import Path

import pytest
from redis import RedisError
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, estimates, interactions, metric_events, running

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.server.embedded import EmbeddedRedis


@pytest.mark.heavy
def test_a_redis_that_is_killed_and_comes_back_with_its_data_costs_nothing(tmp_path: Path) -> None:
    published = interactions(1200)
    with EmbeddedRedis.open(tmp_path / "redis") as server, connect(server.url) as redis:
        # A killed process loses nothing: Redis writes to its file before it replies. Only a power cut could.
        with InteractionProducer(server.url) as producer:
            producer.publish_many(published)

        def scored() -> int:
            try:
                return int(redis.xlen(STREAMS.metrics))
            except RedisError:  # it is on its way back
                return -1

        with running("up", server.url, tmp_path / "up.log"):
            for wanted in (200, 500):
                wait_until(lambda wanted=wanted: scored() >= wanted)  # type: ignore[misc]
                os.kill(int(redis.info("server")["process_id"]), signal.SIGKILL)
                wait_until(lambda: scored() >= 0)
            wait_until(lambda: scored() == len(published))
            wait_until(lambda: _aggregated(server.url) == len(published))
        assert {event.interaction_id for event in metric_events(redis)} == {one.interaction_id for one in published}
        assert redis.xpending(STREAMS.interactions, "label")["pending"] == 0


def _aggregated(url: str) -> int:
    found = [e["n"] for e in estimates(url) if e["metric"] == "trace.context_utilization" and e["segment"] is None]
    return max(found, default=0)


@pytest.mark.heavy
def test_roles_end_when_they_are_told_to_even_if_redis_is_gone(tmp_path: Path) -> None:
    with (
        RedisProcess(tmp_path / "redis", "appendonly yes") as server,
        InteractionProducer(server.url) as producer,
        running("up", server.url, tmp_path / "up.log"),
    ):
        producer.publish_many(interactions(400))
        wait_until(lambda: server.client.xlen(STREAMS.metrics) >= 50)
        server.kill()
