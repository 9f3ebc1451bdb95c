"""The older servers that users run; every other test runs on the newest server."""

from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, command, estimates, interactions, kill, metric_events, running, start

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.server.binary import RedisBinary, find_redis_servers, version_text
from ragtide_schemas import Feedback

OTHERS = {str(binary.server): binary for binary in find_redis_servers()[1:]}


@pytest.mark.skipif(not OTHERS, reason="no other server is here: on Linux x86-64 and Python 3.12 the dev extra has one")
@pytest.mark.parametrize("binary", OTHERS.values(), ids=OTHERS)
@pytest.mark.heavy
def test_every_server_that_is_found_does(binary: RedisBinary, tmp_path: Path) -> None:
    published = interactions(300)
    server = RedisProcess(tmp_path / "redis", "appendonly yes", "save ''", binary=binary.path)
    try:
        server.start()
        with InteractionProducer(server.url) as producer, connect(server.url) as redis:
            producer.publish_many(published)
            dying = start("worker", server.url, tmp_path / "worker.log")
            wait_until(lambda: redis.xlen(STREAMS.metrics) >= 20)
            kill(dying)
            assert redis.xlen(STREAMS.metrics) < 300
            with running("up", server.url, tmp_path / "up.log"):
                producer.publish_feedback(
                    Feedback(
                        pipeline=one.pipeline, interaction_id=one.interaction_id, gold_scores={"trace.adherence": 1}
                    )
                    for one in published[:40]
                )
                wait_until(lambda: _counted(server.url) == 300)
                # It is killed, comes back, and everything goes on.
                server.kill()
                server.start()
                producer.publish_many([one.model_copy(update={"interaction_id": "after"}) for one in published[:1]])
                wait_until(lambda: _counted(server.url) == 301)
                # The aggregator trims once a second, so a role that ended at once would leave the last entries.
                wait_until(lambda: redis.xlen(STREAMS.interactions) == 0)
            assert sorted(event.interaction_id for event in metric_events(redis)) == sorted(
                ["after", *(one.interaction_id for one in published)]
            )
        found = command(server.url, "doctor")
        assert found.returncode == 0, found.stdout
        assert version_text(binary.version) in found.stdout
    finally:
        server.kill()


def _counted(url: str) -> int:
    found = [e["n"] for e in estimates(url) if e["metric"] == "trace.context_utilization" and e["segment"] is None]
    return max(found, default=0)
