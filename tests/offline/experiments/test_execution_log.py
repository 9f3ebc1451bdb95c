"""The execution log of an experiment, and its limits."""

from typing import Any

from tests.offline.experiments.items import ITEM
from tests.support.experiment_plans import plan

from ragtide_offline.experiments import Answer
from ragtide_offline.experiments.answers import interaction_of
from ragtide_offline.experiments.execution_log import ExecutionLog
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas.experiments import Config, Execution, Limits


async def test_an_execution_is_written_once_with_its_answer(async_redis: Any) -> None:
    streams = Streams("ragtide.run.e", 0)
    executions = ExecutionLog(async_redis, streams, dedupe_window_s=60)
    interaction = interaction_of(plan(), Config(name="c"), 4, item=ITEM, answer=Answer(["a"], "b"), scores={})
    answered = Execution(config="c", item=4, item_id="q1", interaction_id="item-4")
    failed = Execution(config="c", item=5, item_id="q2", failure="no")
    assert await executions.write(answered, interaction)
    # Sent again after a lost reply, or by a process that should have been dead: nothing is added.
    assert not await executions.write(answered, interaction)
    assert not await executions.write(answered.model_copy(update={"interaction_id": None, "failure": "late"}), None)
    assert await executions.write(failed, None)
    written = await async_redis.xrange(streams.executions)
    assert [Execution.decode(fields[DATA_FIELD]) for _, fields in written] == [answered, failed]
    assert await async_redis.xlen(streams.interactions) == 1
    assert await executions.answer("c", 4) == interaction
    assert await executions.answer("c", 5) is None
    assert await executions.answer("d", 4) is None


def test_limits_are_reached_by_cost_or_tokens() -> None:
    assert Limits(max_cost_usd=1, max_tokens=100).reached(0.6, 40) is None
    assert "raise max_cost_usd" in (Limits(max_cost_usd=1, max_tokens=100).reached(1.0, 60) or "")
    assert "raise max_tokens" in (Limits(max_tokens=100).reached(1.0, 100) or "")
    assert Limits().reached(1.0, 100) is None
