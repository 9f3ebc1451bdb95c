"""A damaged field of a checkpoint is named with its remedy, and a command drops it without a trace on the others."""

import asyncio
import struct
from shlex import quote
from typing import Any

import pytest
from tests.aggregator.test_not_aggregatable import EVENTS, STATE, STREAMS, caught_up, publish, running
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta
from typer.testing import CliRunner

from ragtide import Alert, ConfigurationError
from ragtide.cli.app import cli
from ragtide.cli.printing.live import sentences
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.events.keys import LATENCY, EstimateKey
from ragtide_aggregator.maintenance.repair import repair
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.settings.model import Settings

KEY = EstimateKey("shop", None, None, "trace.adherence", "ragbench", "test", "1").encode()
OTHER = EstimateKey("shop", None, None, LATENCY, "ragbench", "test", "1").encode()
FIELD = f"estimate:{KEY}"
SETTINGS = Settings(windows=("1m",))


@pytest.fixture
async def committed(async_redis: Any) -> dict[str, bytes]:
    """Fields of a checkpoint with an alert that is firing."""
    await publish(async_redis, EVENTS)
    async with running(async_redis) as task:
        await until(lambda: caught_up(async_redis, task))
    return {name.decode(): data for name, data in (await async_redis.hgetall(STREAMS.checkpoint)).items()}


KINDS = ["estimate:", "rule_state:", "pane:", "processed:", "quantiles:", "clock", "seen_ids:count"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_damaged_field_ends_an_aggregator_with_its_name_and_the_remedy(
    async_redis: Any, committed: dict[str, bytes], kind: str
) -> None:
    field = next(name for name in committed if name.startswith(kind))
    await async_redis.hset(STREAMS.checkpoint, field, b"\xffgarbage!")
    async with running(async_redis) as task:
        await until(task.done)
    with pytest.raises(CheckpointError, match="is damaged") as caught:
        task.result()
    assert field in str(caught.value)
    assert str(caught.value).endswith(f"ragtide doctor --repair {quote(field)}")
    await repair(async_redis, SETTINGS, field)
    more = adherence(beta(0.8, 5, 3), first=500, latency_s=0.1)
    await publish(async_redis, more)
    async with running(async_redis) as task:
        await until(lambda: caught_up(async_redis, task))
    state = (await load_checkpoint(async_redis, STREAMS, STATE)).state
    n = {estimate.metric: estimate.n for estimate in estimates(state) if estimate.window == "all"}
    damaged_key = kind == "estimate:"
    kept = KEY if f"estimate:{KEY}" != field else OTHER
    assert n[EstimateKey.decode(kept).metric] == len(EVENTS) + len(more)
    if damaged_key:
        assert sorted(n.values()) == [len(more), len(EVENTS) + len(more)]


async def test_a_state_with_an_impossible_number_is_damaged_and_its_count_is_told(
    async_redis: Any, committed: dict[str, bytes]
) -> None:
    data = bytearray(committed[FIELD])
    struct.pack_into("<q", data, 40 + 1 + 8 + 3 * 8, -(2**40))  # the sum of squared deviations
    await async_redis.hset(STREAMS.checkpoint, FIELD, bytes(data))
    with pytest.raises(CheckpointError, match=r"estimate:.*impossible for any values"):
        await load_checkpoint(async_redis, STREAMS, STATE)
    ((streams, dropped),) = await repair(async_redis, SETTINGS, KEY)
    mean = sum(event.scores["trace.adherence"] for event in EVENTS) / len(EVENTS)
    assert dropped.n == len(EVENTS)
    assert dropped.mean == pytest.approx(mean)
    text = "\n".join(sentences(streams, dropped))
    assert f"lost: {len(EVENTS)} values with mean {mean:.6g}" in text
    assert f"the newest of {EVENTS[-1].occurred_at:%Y-%m-%d %H:%M:%S} UTC" in text
    left = {name.decode() for name in await async_redis.hgetall(STREAMS.checkpoint)}
    assert left == {name for name in committed if not name.endswith((KEY, KEY[1:]))}
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]
    assert [alert.status for alert in alerts] == ["firing", "resolved"]
    assert alerts[0].alert_id == alerts[1].alert_id
    assert not await async_redis.exists(STREAMS.lease)


async def test_nothing_is_repaired_while_an_aggregator_owns_the_partition(
    async_redis: Any, committed: dict[str, bytes]
) -> None:
    await Lease(async_redis, STREAMS, holder="somewhere", lease_s=60).acquire()
    with pytest.raises(ConfigurationError, match=r"partition 0 is owned by \d+:somewhere.*: stop that aggregator"):
        await repair(async_redis, SETTINGS, FIELD)
    assert await async_redis.hget(STREAMS.checkpoint, FIELD) == committed[FIELD]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("key", "words"),
    [("position", "needs this field"), ("estimate:[]", "copy it whole"), ("steps", "delete the checkpoint")],
)
async def test_what_cannot_be_dropped_is_refused_in_words(async_redis: Any, key: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        await repair(async_redis, SETTINGS, key)


@pytest.mark.usefixtures("committed")
async def test_the_command_repairs_and_doctor_names_the_damage(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    await async_redis.hset(STREAMS.checkpoint, FIELD, b"garbage")
    runner, base = CliRunner(), ["--redis-url", redis_url]
    found = await asyncio.to_thread(runner.invoke, cli, [*base, "doctor"])
    assert found.exit_code == 1
    assert "--repair" in found.output
    assert "is damaged" in found.output
    fixed = await asyncio.to_thread(runner.invoke, cli, [*base, "doctor", "--repair", FIELD])
    assert fixed.exit_code == 0, fixed.output
    assert f"dropped {FIELD}" in fixed.output
    assert "an unreadable number of values" in fixed.output
    assert (await asyncio.to_thread(runner.invoke, cli, [*base, "doctor"])).exit_code == 0
