"""The list of names is what a walk through the checkpoint finds, or it counts for nothing."""

import re
from importlib.resources import files
from typing import Any

import pytest
from tests.aggregator.test_change_log import SETTINGS, start_of_steps, step_of
from tests.support.metric_events import adherence
from tests.support.owners import Owner, owners

from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.checkpoint.name_index import LISTED, listed_names, missing_names
from ragtide_aggregator.checkpoint.options import reader_options
from ragtide_aggregator.reading.field_names import FieldNames
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)


async def names_in(redis: Any, streams: Streams) -> set[str]:
    """Return the names of the listed kinds among all fields of a checkpoint."""
    names = [name.decode() for name in await redis.hkeys(streams.checkpoint)]
    return {name for name in names if name[: name.find(":") + 1] in LISTED}


async def listed(redis: Any, streams: Streams = STREAMS) -> set[str] | None:
    """Return the names in the list; None if it counts for nothing."""
    known = await listed_names(redis, streams)
    return None if known is None else known[1]


async def an_owner(redis: Any) -> Owner:
    (owner,) = owners(redis, Settings())
    await owner.commit(*adherence([0.9, 0.5]))
    return owner


@pytest.mark.parametrize("given", SETTINGS, ids=["windows", "sessions", "split"])
async def test_the_list_has_every_name_after_every_step(async_redis: Any, given: dict[str, Any]) -> None:
    settings = Settings(**given)
    committing, start = owners(async_redis, settings), start_of_steps()
    for number in range(12):
        for owner in committing:
            mine = [one for one in step_of(number, start) if owner.streams in settings.layout.all_of(one.pipeline)]
            await owner.commit(*mine)
            assert await listed(async_redis, owner.streams) == await names_in(async_redis, owner.streams), number


def test_commits_list_the_kinds_that_readers_look_for() -> None:
    script = files("ragtide_runtime.redis").joinpath("scripts", "shared", "field_names.lua").read_text()
    assert set(re.findall(r"\[CHECKPOINT_(\w+)\] = true", script)) == {kind.name for kind in LISTED}


@pytest.mark.parametrize("adds", [True, False])
async def test_a_new_name_is_listed_even_if_the_step_does_not_say_so(async_redis: Any, adds: bool) -> None:
    owner = await an_owner(async_redis)
    token = (await async_redis.get(STREAMS.lease)).decode()
    rows = {f"estimate:é\n{number}": b"x" * number for number in range(1, 2500)} | {"pane:1": b"y"}
    rows = {name.replace("\n", "\\n"): value for name, value in rows.items()}
    await Committer(async_redis, STREAMS).commit(Step(1, "0-0", rows=rows, adds=adds), token)
    assert await listed(async_redis) == await names_in(async_redis, STREAMS)
    size = await async_redis.strlen(STREAMS.field_names)
    await Committer(async_redis, STREAMS).commit(Step(2, "0-0", rows=rows, adds=adds), token)
    assert await async_redis.strlen(STREAMS.field_names) == size, "a known name is not listed again"
    assert owner.streams == STREAMS


async def test_a_removed_field_leaves_a_name_that_no_reader_minds(async_redis: Any) -> None:
    await an_owner(async_redis)
    token = (await async_redis.get(STREAMS.lease)).decode()
    gone = min(await names_in(async_redis, STREAMS))
    await Committer(async_redis, STREAMS).commit(Step(1, "0-0", gone=[gone]), token)
    assert await listed(async_redis) == await names_in(async_redis, STREAMS) | {gone}
    await Committer(async_redis, STREAMS).commit(Step(2, "0-0", rows={gone: b"again"}), token)
    assert await listed(async_redis) == await names_in(async_redis, STREAMS)


async def change_checkpoint(redis: Any) -> None:
    await redis.hset(STREAMS.checkpoint, "estimate:other", b"1")


async def change_list(redis: Any) -> None:
    await redis.append(STREAMS.field_names, "estimate:other\n")


async def lose_list(redis: Any) -> None:
    await redis.delete(STREAMS.field_names)


async def have_no_list(redis: Any) -> None:
    await redis.hdel(STREAMS.checkpoint, "names")


@pytest.mark.parametrize("change", [change_checkpoint, change_list, lose_list, have_no_list])
async def test_another_change_makes_readers_walk_until_the_next_owner_writes_the_list_anew(
    async_redis: Any, change: Any
) -> None:
    owner = await an_owner(async_redis)
    await change(async_redis)
    for number in range(2):
        assert await listed(async_redis) is None
        reader = await FieldNames(async_redis).read(STREAMS, LISTED)
        names = {name for of_kind in reader.names.values() for name in of_kind}
        assert names == await names_in(async_redis, STREAMS)
        await owner.commit(*adherence([0.9], first=10 * number + 10, pipeline=f"bank{number}"))
    await async_redis.hdel(STREAMS.checkpoint, "estimate:other")
    checkpoint = await load_checkpoint(async_redis, STREAMS, reader_options(Settings()), owned=True)
    assert checkpoint.names is not None
    token = (await async_redis.get(STREAMS.lease)).decode()
    step = Step(checkpoint.steps, "0-0", rows={"estimate:new": b"1"}, names=checkpoint.names)
    await Committer(async_redis, STREAMS).commit(step, token)
    assert await listed(async_redis) == await names_in(async_redis, STREAMS)


async def test_an_owner_writes_the_list_anew_only_if_it_is_wrong_or_twice_as_long_as_needed(async_redis: Any) -> None:
    await an_owner(async_redis)
    fields = {name.decode(): data for name, data in (await async_redis.hgetall(STREAMS.checkpoint)).items()}
    assert await missing_names(async_redis, STREAMS, fields) is None
    text = await async_redis.get(STREAMS.field_names)
    await async_redis.append(STREAMS.field_names, 2 * text)
    fields["names"] = b"%d %d" % (3 * len(text), len(fields))
    short = await missing_names(async_redis, STREAMS, fields)
    assert short is not None
    assert set(short.split()) == set(text.split())
