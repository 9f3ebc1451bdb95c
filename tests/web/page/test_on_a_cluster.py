"""The screens of operation on a Redis Cluster, whose partitions are on different nodes."""

from pathlib import Path

import pytest
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.support.redis_processes import cluster
from tests.web.page.test_dead_letters import GOOD, letter
from tests.web.page.test_judge import some_calls

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.calls.endpoint_states import count_calls
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, Streams
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_web.guard.orders import read_orders
from ragtide_web.page.judge.route import read_endpoints
from ragtide_web.page.system.reading import read_system
from ragtide_web.reading.letter_index import LetterIndex

pytestmark = [pytest.mark.heavy, pytest.mark.processes]


async def test_the_screens_read_every_partition(tmp_path: Path) -> None:
    with cluster(tmp_path, replicas=0) as servers:
        settings = Settings(redis_url=servers.url, partitions=6)
        async with connect_async(servers.url) as redis:
            for number, (owner, streams) in enumerate(zip(owners(redis, settings), settings.layout.all(), strict=True)):
                await owner.commit(*adherence([0.5] * 3, pipeline=f"shop-{number}"))
                await redis.xadd(streams.interactions, {DATA_FIELD: b"{}"})
                found = letter(number, {"pipeline": f"shop-{number}", **GOOD}, stream=streams.interactions)
                await redis.xadd(streams.dead_letters, {DATA_FIELD: found.encode()})
            await redis.xgroup_create(settings.layout.all()[2].interactions, LABEL_GROUP, id="0")
            call = count_calls(Streams("ragtide", 0), "judge", some_calls(), at=utc_now(), process="a", batch=1)
            assert await run_script(redis, call)
            facts = await read_system(redis, settings)
            assert (facts.owned, facts.waiting, len(facts.servers)) == (6, 6, 3)
            assert len({server.name for server in facts.servers}) == 3
            indexed = await LetterIndex(redis, settings.layout.all()).read()
            assert {one.pipeline for one in indexed.letters} == {f"shop-{number}" for number in range(6)}
            (judge,) = await read_endpoints(redis, Deployment(redis, settings), settings)
            assert judge.total.outcomes == {"answered": 1}
            assert (await read_orders(redis, settings)).orders == []
