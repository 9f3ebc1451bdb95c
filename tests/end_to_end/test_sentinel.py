from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess, servers
from tests.support.roles import STREAMS, estimates, interactions, publish_until_confirmed, running

from ragtide import InteractionProducer
from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.url import resolve_redis


@contextmanager
def watched(folder: Path) -> Iterator[tuple[list[RedisProcess], str]]:
    """Run a master, its replica and three sentinels; yield the first two and the URL of the sentinels."""
    with servers(folder, 2, "appendonly yes", "save ''", "repl-diskless-sync-delay 0") as (master, replica):
        replica.client.replicaof("127.0.0.1", master.port)
        wait_until(lambda: replica.client.info("replication")["master_link_status"] == "up")
        options = (
            f"sentinel monitor shop 127.0.0.1 {master.port} 2",
            "sentinel down-after-milliseconds shop 1000",
            "sentinel failover-timeout shop 5000",
        )
        sentinels = [RedisProcess(folder / f"sentinel-{number}", *options, sentinel=True) for number in range(3)]
        try:
            for sentinel in sentinels:
                sentinel.start()
            wait_until(lambda: all(_knows_everybody(sentinel) for sentinel in sentinels))
            nodes = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
            yield [master, replica], f"redis+sentinel://{nodes}/shop?db=0"
        finally:
            for sentinel in sentinels:
                sentinel.kill()


def _knows_everybody(sentinel: RedisProcess) -> bool:
    state = sentinel.client.execute_command("SENTINEL MASTER", "shop")
    return (int(state["num-other-sentinels"]), int(state["num-slaves"])) == (2, 1)


@pytest.mark.heavy
def test_roles_and_producers_follow_the_master_that_sentinels_name(tmp_path: Path) -> None:
    published = interactions(400)
    with watched(tmp_path / "redis") as ((master, replica), url):
        with running("up", url, tmp_path / "up.log"), InteractionProducer(url) as producer:
            producer.publish_many(published[:200])
            wait_until(lambda: master.client.xlen(STREAMS.metrics) == 200)
            wait_until(
                lambda: (
                    replica.client.info("replication")["slave_repl_offset"]
                    >= master.client.info("replication")["master_repl_offset"]
                )
            )
            master.kill()
            wait_until(lambda: replica.client.role()[0] == "master")
            publish_until_confirmed(producer, published)
            wait_until(lambda: replica.client.xlen(STREAMS.metrics) >= 400)
            wait_until(lambda: _counted(url) == 400)
        with connect(url) as redis:
            assert redis.xlen(STREAMS.metrics) == 400
            assert redis.xlen(STREAMS.dead_letters) == 0


def _counted(url: str) -> int:
    found = [e["n"] for e in estimates(url) if e["metric"] == "trace.context_utilization" and e["segment"] is None]
    return max(found, default=0)


def test_a_name_the_sentinels_do_not_know_is_a_clear_error(tmp_path: Path) -> None:
    with watched(tmp_path / "redis") as (_, url):
        with pytest.raises(RedisUnavailable, match="no usable Redis at redis\\+sentinel") as failure:
            resolve_redis(url.replace("/shop", "/other"), tmp_path)
        assert "other" in str(failure.value)
