"""The calls of a judge are in Redis by hour and day: outcomes, seconds, dollars, and answers from the cache."""

from typing import Any

import pytest
from redis import ConnectionError as RedisConnectionError
from tests.consumers.judge.asking import TOWER, settings
from tests.consumers.judge.test_money import PRICES

from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.state import CallWriter
from ragtide_runtime.calls.call_counts import CallCounts
from ragtide_runtime.calls.endpoint_states import read_calls
from ragtide_runtime.redis.keys import workspace_prefix
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import utc_now


async def test_live_calls_and_runs_are_counted_with_their_price(server: ScriptedJudge, async_redis: Any) -> None:
    live = settings(server, cache_ttl_s=60, prices=PRICES)
    async with labeler_of(live, async_redis) as labeler:
        labeling = await labeler.label(TOWER)
    again = live.model_copy(update={"prefix": workspace_prefix(live.prefix, "again")})
    async with labeler_of(again, async_redis) as labeler:
        assert (await labeler.label(TOWER)).counters == {"cache_hits": 1}
    total = (await read_calls(async_redis, "ragtide", "judge", now=utc_now())).total
    assert total.outcomes == {"answered": len(server.requests)}
    assert labeling.cost_usd > 0
    assert total.by_purpose == {"live": pytest.approx(labeling.cost_usd)}
    assert list(total.by_model) == [live.judge.model]
    assert total.by_pipeline == {TOWER.pipeline: total.cost_usd}
    assert total.whole["cache_hits"] == 1
    assert total.dollars["saved_usd"] > 0
    assert total.latency_s(0.5) is not None


async def test_a_batch_without_an_answer_is_sent_again_and_counts_once(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = CallCounts()
    writer = CallWriter(async_redis, "ragtide", "judge", counts)

    async def unanswered(redis: Any, call: Any) -> Any:
        await run_script(redis, call)
        raise RedisConnectionError

    counts.answered(0.1)
    monkeypatch.setattr("ragtide_consumers.labelers.remote.state.run_script", unanswered)
    with pytest.raises(RedisConnectionError):
        await writer.write()
    monkeypatch.undo()
    counts.failed("timeout")
    for _ in range(3):
        await writer.write()
    total = (await read_calls(async_redis, "ragtide", "judge", now=utc_now())).total
    assert total.outcomes == {"answered": 1, "timeout": 1}
