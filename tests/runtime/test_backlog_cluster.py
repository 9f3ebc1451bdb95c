from pathlib import Path

from tests.support.redis_processes import cluster

from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.telemetry.role_endpoints import BacklogCollector


async def test_a_cluster_is_read_partition_by_partition(tmp_path: Path) -> None:
    with cluster(tmp_path, masters=3, replicas=0) as nodes:
        async with connect_async(nodes.url) as redis:
            for streams in Layout("ragtide", 4).all():
                for _ in range(streams.partition):
                    await redis.xadd(streams.interactions, {DATA_FIELD: b"{}"})
            collector = BacklogCollector(redis, "ragtide", 4)
            await collector.refresh()
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in collector.collect()
                for sample in family.samples
            }
    assert found["ragtide_redis_up",] == 1
    assert [found["ragtide_interactions_waiting", str(partition)] for partition in range(4)] == [0, 1, 2, 3]
