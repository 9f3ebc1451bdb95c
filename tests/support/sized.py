"""Deployments with a given number of entries of each list of the page, written in few round trips."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tests.support.alerts import alert
from tests.web.page.test_dead_letters import letter
from tests.web.page.test_item import specimen

from ragtide_runtime.redis.keys import (
    DATA_FIELD,
    SPECIMEN_SAMPLE,
    Streams,
    deployment_prefix,
    interaction_digest,
    pipeline_digest,
)
from ragtide_schemas import Workspace, utc_now

STREAMS = Streams("ragtide", 0)
WORKSPACES = Streams(deployment_prefix("ragtide"), 0).workspaces
AT_ONCE = 1000
PIPELINE = "shop"


def _alerts(pipe: Any, number: int) -> None:
    fired = utc_now() - timedelta(minutes=number)
    state = {} if number % 100 == 0 else {"status": "resolved", "resolved_at": fired + timedelta(minutes=30)}
    one = alert(f"A-{number}", rule=f"floor-{number % 7}", pipeline=PIPELINE, fired_at=fired, **state)
    pipe.xadd(STREAMS.alerts, {DATA_FIELD: one.encode()})


def _letters(pipe: Any, number: int) -> None:
    pipe.xadd(STREAMS.dead_letters, {DATA_FIELD: letter(number, {"pipeline": PIPELINE, "question": 7}).encode()})


def _runs(pipe: Any, number: int) -> None:
    one = Workspace(run=f"replay-{number}", kind="replay", source="recording/", population_size=100 + number)
    pipe.hset(WORKSPACES, one.run, one.encode())


def _items(pipe: Any, number: int) -> None:
    one = specimen(f"i-{number}", PIPELINE)
    digest = interaction_digest(PIPELINE, one.interaction.interaction_id)
    pipe.set(STREAMS.specimen(digest), one.to_stored())
    pipe.zadd(STREAMS.specimen_pipelines, {PIPELINE: 1e15})
    pipe.sadd(STREAMS.specimen_lists(pipeline_digest(PIPELINE)), SPECIMEN_SAMPLE)
    pipe.zadd(STREAMS.specimens_of(PIPELINE, SPECIMEN_SAMPLE), {digest: number})


LISTS: Mapping[str, tuple[Callable[[Any, int], None], str]] = {
    "alerts": (_alerts, "/a"),
    "dead": (_letters, "/dead"),
    "experiments": (_runs, "/x"),
    "items": (_items, f"/t?pipeline={PIPELINE}&list={SPECIMEN_SAMPLE}"),
    "label": (_items, f"/label?pipeline={PIPELINE}"),
}
"""Writes one entry of a list, and the path of its screen."""


async def fill(redis: Any, name: str, count: int) -> str:
    """Write entries of a list, and return the path of its screen."""
    write, path = LISTS[name]
    for start in range(0, count, AT_ONCE):
        async with redis.pipeline(transaction=False) as pipe:
            for number in range(start, min(start + AT_ONCE, count)):
                write(pipe, number)
            await pipe.execute()
    return path
