"""A real Redis Cluster of three masters and three replicas, with eight partitions: what dies, moves, and is lost."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from redis import RedisError
from tests.support.conditions import until, wait_until
from tests.support.redis_processes import Cluster, cluster
from tests.support.roles import command, interactions, publish_until_confirmed, running

from ragtide import InteractionProducer, RagInteraction
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP
from ragtide_runtime.redis.layout import Layout, partition_of
from ragtide_schemas import MetricEvent

PARTITIONS = 8
SETTINGS = {"RAGTIDE_PARTITIONS": str(PARTITIONS)}
LAYOUT = Layout("ragtide", PARTITIONS)


def many(count: int) -> list[RagInteraction]:
    return [
        interaction.model_copy(update={"pipeline": f"pipeline-{number % 24}"})
        for number, interaction in enumerate(interactions(count))
    ]


def scored(redis: Any) -> list[MetricEvent]:
    return [
        MetricEvent.decode(fields[DATA_FIELD])
        for streams in LAYOUT.all()
        for _, fields in redis.xrange(streams.metrics)
    ]


def n_scored(redis: Any) -> int:
    try:
        return sum(redis.xlen(streams.metrics) for streams in LAYOUT.all())
    except RedisError:  # it is choosing another master
        return -1


def finished(redis: Any) -> bool:
    """Return whether no interaction waits, and every checkpoint holds the last metric event."""
    try:
        for streams in LAYOUT.all():
            if redis.xpending(streams.interactions, LABEL_GROUP)["pending"]:
                return False
            (group,) = redis.xinfo_groups(streams.interactions)
            for _ in redis.xrange(streams.interactions, min=f"({group['last-delivered-id'].decode()}", count=1):
                return False
            last = redis.xrevrange(streams.metrics, count=1)
            if last and redis.hget(streams.checkpoint, "position") != last[0][0]:
                return False
    except RedisError:
        return False
    return True


def counted(url: str) -> int:
    done = command(url, "estimates", "--json", extra=SETTINGS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = ("trace.adherence", None, "all")
    return sum(e["n"] + e["n_absent"] for e in found if (e["metric"], e["segment"], e["window"]) == wanted)


def migrate(nodes: Cluster, slot: int) -> None:
    """Move a slot to another master, key by key, while it is in use: as `redis-cli --cluster reshard` does."""
    source = nodes.master_of(slot)
    target = next(node for node in nodes.masters if node is not source and nodes.is_master(node))
    source_id, target_id = (node.client.execute_command("CLUSTER MYID") for node in (source, target))
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source_id)
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target_id)
    while keys := source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 5):
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source):
        node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target_id)


@pytest.mark.heavy
def test_a_master_that_dies_and_a_slot_that_moves_cost_nothing_that_was_replicated(tmp_path: Path) -> None:
    published = many(1600)
    with cluster(tmp_path / "cluster") as nodes, connect(nodes.url) as redis:
        log = tmp_path / "up.log"
        with (
            running("worker", nodes.url, log, SETTINGS),
            running("aggregator", nodes.url, tmp_path / "first.log", SETTINGS),
            running("aggregator", nodes.url, tmp_path / "second.log", SETTINGS),
            InteractionProducer(nodes.url, partitions=PARTITIONS) as producer,
        ):
            publish_until_confirmed(producer, published[:600])
            wait_until(lambda: n_scored(redis) >= 200)
            # A slot that holds a partition in use moves to another master.
            busiest = max(LAYOUT.all(), key=lambda streams: redis.xlen(streams.interactions))
            migrate(nodes, int(redis.keyslot(busiest.metrics)))
            publish_until_confirmed(producer, published[600:1000])
            wait_until(lambda: n_scored(redis) >= 700)
            # The master of a partition in use dies with its replica up to date: everything acknowledged is there.
            busiest = max(LAYOUT.all(), key=lambda streams: redis.xlen(streams.interactions))
            master = nodes.master_of(int(redis.keyslot(busiest.metrics)))
            wait_until(lambda: nodes.replicated(master))
            master.kill()
            publish_until_confirmed(producer, published[1000:])
            # An application cannot know whether what it was told just before the failover has survived.
            publish_until_confirmed(producer, published[:1000])
            wait_until(lambda: n_scored(redis) >= len(published))
            wait_until(lambda: finished(redis))
        ids = [event.interaction_id for event in scored(redis)]
        assert sorted(ids) == sorted({one.interaction_id for one in published}), "each once"
        assert counted(nodes.url) == len(published)
        assert {partition_of(one.pipeline, PARTITIONS) for one in published} == set(range(PARTITIONS))


@pytest.mark.heavy
async def test_a_client_that_only_reads_follows_although_the_node_dies_that_it_asks_for_keys(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path / "cluster") as nodes:
        client: Any = connect_async(nodes.url)
        streams = [f"stream-{number}" for number in range(20)]
        for stream in streams:
            await client.xadd(stream, {"a": "b"})
        asked = client.nodes_manager.default_node
        dying = next(node for node in nodes.masters if node.port == asked.port)
        followed = [one for one in streams if nodes.master_of(client.keyslot(one)) is not dying]
        await client.xread({followed[0]: "0"})
        dying.kill()

        async def read(stream: str) -> bool:
            try:
                return bool(await client.xread({stream: "0"}))
            except RedisError:
                return False

        await until(lambda: read(followed[0]))
        await client.aclose()


@pytest.mark.heavy
def test_what_a_failover_loses_is_what_was_not_replicated_and_nothing_counts_twice(tmp_path: Path) -> None:
    published = many(900)
    with cluster(tmp_path / "cluster") as nodes, connect(nodes.url) as redis:
        with (
            running("worker", nodes.url, tmp_path / "worker.log", SETTINGS),
            running("aggregator", nodes.url, tmp_path / "aggregator.log", SETTINGS),
            InteractionProducer(nodes.url, partitions=PARTITIONS) as producer,
        ):
            publish_until_confirmed(producer, published[:400])
            wait_until(lambda: n_scored(redis) == 400)
            wait_until(lambda: finished(redis))
            # From here on the replica of one master learns nothing: what this master is told will be lost.
            slot = int(redis.keyslot(LAYOUT.all()[0].metrics))
            master = nodes.master_of(slot)
            replica = nodes.replicas[list(nodes.masters).index(master)]
            replica.signal(signal.SIGSTOP)
            master.client.execute_command("CLIENT KILL TYPE replica")
            publish_until_confirmed(producer, published[400:600])
            wait_until(lambda: n_scored(redis) == 600)
            wait_until(lambda: finished(redis))
            doomed = {
                one.interaction_id
                for one in published[400:600]
                if nodes.master_of(int(redis.keyslot(LAYOUT.of(one.pipeline, one.interaction_id).metrics))) is master
            }
            master.kill()
            replica.signal(signal.SIGCONT)
            wait_until(lambda: nodes.is_master(replica))
            publish_until_confirmed(producer, published[600:])
            survivors = 900 - len(doomed)
            wait_until(lambda: n_scored(redis) >= survivors)
            wait_until(lambda: finished(redis))
            ids = [event.interaction_id for event in scored(redis)]
            assert sorted(ids) == sorted({one.interaction_id for one in published} - doomed)
            assert counted(nodes.url) == survivors, "those lost are no longer counted, those left once"
            assert 0 < len(doomed) < 200
            # The producer sends its last interactions again: ids make that safe, and what was lost is there again.
            publish_until_confirmed(producer, published[400:600])
            wait_until(lambda: n_scored(redis) >= 900)
            wait_until(lambda: finished(redis))
        ids = [event.interaction_id for event in scored(redis)]
        assert sorted(ids) == sorted(one.interaction_id for one in published)
        assert counted(nodes.url) == 900
