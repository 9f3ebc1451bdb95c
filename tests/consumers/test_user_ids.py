"""The user id of a plain XADD becomes a pseudonym before the worker uses the interaction."""

from typing import Any

import pytest
from tests.consumers.test_worker import STREAMS, events, is_now, read, working
from tests.support.conditions import until
from tests.support.stored import everything_in

from ragtide import hashed_user_id
from ragtide.testing import FakeLabeler
from ragtide_runtime.redis.keys import DATA_FIELD

PLAIN = (
    '{"pipeline": "shop", "question": "q", "documents": ["d"], "response": "fine", "user_id": "alice@example.com",'
    ' "session_id": "s-1", "turn": 3, "cluster": "batch-7"}'
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, hashed_user_id("alice@example.com")),
        ({"user_id_salt": "0123456789abcdef"}, hashed_user_id("alice@example.com", b"0123456789abcdef")),
        ({"hash_user_ids": False}, "alice@example.com"),
    ],
)
async def test_the_metric_event_and_the_labeler_have_what_the_settings_say(
    settings: dict[str, Any], expected: str, async_redis: Any, redis: Any
) -> None:
    labeler = FakeLabeler({"trace.adherence": 1.0})
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: PLAIN})
    async with working(async_redis, labeler, **settings) as worker:
        await worker.take(await read(async_redis))
        await until(lambda: is_now(async_redis.xlen(STREAMS.metrics), 1))
    (event,) = await events(async_redis)
    assert (event.user_id, event.session_id, event.turn, event.cluster) == (expected, "s-1", 3, "batch-7")
    assert [one.user_id for one in labeler.labeled] == [expected]
    redis.delete(STREAMS.interactions)  # it holds what its writer wrote
    assert ("alice" in everything_in(redis)) == (expected == "alice@example.com")
