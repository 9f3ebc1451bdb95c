from typing import Any

import pytest

from ragtide import ConfigurationError
from ragtide.cli.repartition import _at_rest
from ragtide_schemas import RECORD_GROUP, Streams

STREAMS = Streams("ragtide", 0)


async def test_partitions_are_not_changed_before_everything_is_recorded(async_redis: Any) -> None:
    await async_redis.xgroup_create(STREAMS.alerts, RECORD_GROUP, id="0", mkstream=True)
    await _at_rest(async_redis, STREAMS)
    await async_redis.set(STREAMS.recorder_lease, "1:host-5")
    with pytest.raises(ConfigurationError, match="has the recorder 1:host-5: stop all roles"):
        await _at_rest(async_redis, STREAMS)
    await async_redis.delete(STREAMS.recorder_lease)
    last = await async_redis.xadd(STREAMS.alerts, {"data": "{}"}, id="5-0")
    with pytest.raises(ConfigurationError, match="not recorded: run ragtide recorder and stop it"):
        await _at_rest(async_redis, STREAMS)
    await async_redis.xgroup_setid(STREAMS.alerts, RECORD_GROUP, last)
    await _at_rest(async_redis, STREAMS)
