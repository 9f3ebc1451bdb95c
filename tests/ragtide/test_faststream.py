"""A user's own FastStream application gets alerts, events and estimates, on a real Redis."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from faststream import FastStream
from faststream.redis import RedisBroker, RedisClusterBroker, RedisSentinelBroker, TestRedisBroker
from faststream.specification import AsyncAPI
from tests.end_to_end.test_sentinel import watched
from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.metric_events import START, adherence, event
from tests.support.redis_processes import RedisProcess, cluster
from tests.support.roles import running

from ragtide import Alert, ConfigurationError, Estimate, MetricEvent
from ragtide.faststream import alerts_of, estimates_of, events_of
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout, encode_layout, layout_key, partition_of
from ragtide_runtime.settings.model import Settings

pytestmark = pytest.mark.processes

STREAM = Streams("ragtide", 0).alerts
ONE_OF_EACH = {partition_of(name, 2): name for name in ("shop", "help", "docs", "wiki", "bank")}
"""A pipeline of each of two partitions."""


@asynccontextmanager
async def started(app: FastStream) -> AsyncGenerator[None]:
    await app.start()
    try:
        yield
    finally:
        await app.stop()


def application(url: str, got: list[Any], handle: Callable[[Alert], None] | None = None, **options: Any) -> FastStream:
    """Return an application that collects alerts."""
    app = FastStream(RedisBroker(url))

    @alerts_of(app, group="team", **options)
    async def on_alert(found: Alert) -> None:
        if handle is not None:
            handle(found)
        got.append(found)

    return app


def pending(redis: Any, stream: str = STREAM) -> int:
    return int(redis.xpending(stream, "team")["pending"])


async def test_alerts_of_the_aggregator_come_as_alerts_from_every_partition(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    assert sorted(ONE_OF_EACH) == [0, 1]
    rule = {"name": "floor", "kind": "threshold", "metric": "trace.adherence", "target": 0.9, "run_length": 100}
    extra = {"RAGTIDE_ALERTS": json.dumps([{**rule, "min_effect": 0.0}]), "RAGTIDE_PARTITIONS": "2"}
    got: list[Any] = []
    app = application(redis_url, got, settings=Settings(partitions=2))
    # The start of a role blocks this loop, and a blocked loop loses the reply of a read until it is claimed.
    with running("aggregator", redis_url, tmp_path / "log", extra):
        async with started(app):
            with redis.pipeline() as pipeline:
                for partition, name in ONE_OF_EACH.items():
                    for scored in adherence([0.1] * 400, pipeline=name):
                        pipeline.xadd(Streams("ragtide", partition).metrics, {"data": scored.encode()})
                pipeline.execute()
            await until(lambda: {found.pipeline for found in got} == {*ONE_OF_EACH.values()})
            alerts = [Streams("ragtide", partition).alerts for partition in ONE_OF_EACH]
            await until(lambda: not any(pending(redis, stream) for stream in alerts))
    assert {(type(found), found.rule, found.status) for found in got} == {(Alert, "floor", "firing")}


async def test_what_cannot_be_read_is_acknowledged_and_the_application_continues(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Any] = []
    for fields in ({"data": b"\xff\xfe"}, {"other": b"\xff"}, {"data": "{}"}, {"data": '{"schema_version": 99}'}):
        redis.xadd(STREAM, fields)
    redis.xadd(STREAM, {"data": alert("a").encode()})
    async with started(application(redis_url, got, from_start=True)):
        await until(lambda: got and pending(redis) == 0)
        redis.xadd(STREAM, {"data": "no JSON"})
        redis.xadd(STREAM, {"data": alert("b").encode()})
        await until(lambda: len(got) == 2 and pending(redis) == 0)
        told = caplog.text  # before the end, at which FastStream may log that its connection was closed
    assert [found.alert_id for found in got] == ["a", "b"]
    assert "cannot be read" in told
    assert "Traceback" not in told


async def test_an_alert_whose_handler_raised_comes_again(redis: Any, redis_url: str) -> None:
    got: list[Any] = []
    tries: list[str] = []

    def handle(found: Alert) -> None:
        tries.append(found.alert_id)
        if tries == ["a"]:
            raise RuntimeError("the pager is away")

    redis.xadd(STREAM, {"data": alert("a").encode()})
    redis.xadd(STREAM, {"data": alert("b").encode()})
    async with started(application(redis_url, got, handle, from_start=True, claim_idle_s=0.5)):
        await until(lambda: len(got) == 2 and pending(redis) == 0)
    assert sorted(found.alert_id for found in got) == ["a", "b"]
    assert tries.count("a") == 2


PROGRAM = """
import asyncio, sys, time
from faststream import FastStream
from faststream.redis import RedisBroker
from ragtide import Alert
from ragtide.faststream import alerts_of

app = FastStream(RedisBroker(sys.argv[1]))

@alerts_of(app, group="team", from_start=True)
async def on_alert(alert: Alert) -> None:
    print("got", alert.alert_id, flush=True)
    time.sleep(600)

asyncio.run(app.run())
"""


def killed_in_the_handler(url: str) -> None:
    command = [sys.executable, "-c", PROGRAM, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert "got a\n" in iter(process.stdout.readline, "")  # FastStream logs there, too
        finally:
            process.kill()


async def test_an_alert_whose_process_was_killed_goes_to_another(redis: Any, redis_url: str) -> None:
    redis.xadd(STREAM, {"data": alert("a").encode()})
    await asyncio.to_thread(killed_in_the_handler, redis_url)
    assert pending(redis) == 1
    got: list[Any] = []
    async with started(application(redis_url, got, claim_idle_s=0.1)):
        await until(lambda: got and pending(redis) == 0)
    assert [found.alert_id for found in got] == ["a"]


async def test_an_application_survives_a_restart_of_redis(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        got: list[Any] = []
        async with started(application(server.url, got)):
            server.client.xadd(STREAM, {"data": alert("a").encode()})
            await until(lambda: got and pending(server.client) == 0)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            server.client.xadd(STREAM, {"data": alert("b").encode()})
            await until(lambda: len(got) == 2 and pending(server.client) == 0)
    assert [found.alert_id for found in got] == ["a", "b"]


async def test_a_new_group_begins_with_the_next_alert_and_in_a_new_partition_with_the_first(
    redis: Any, redis_url: str
) -> None:
    got: list[Any] = []
    redis.xadd(STREAM, {"data": alert("before").encode()})
    async with started(application(redis_url, got)):
        redis.xadd(STREAM, {"data": alert("next").encode()})
        await until(lambda: got and pending(redis) == 0)
    redis.xadd(Streams("ragtide", 1).alerts, {"data": alert("new").encode()})
    async with started(application(redis_url, got, settings=Settings(partitions=2))):
        await until(lambda: len(got) == 2)
    assert [found.alert_id for found in got] == ["next", "new"]


async def test_an_application_with_other_partitions_than_the_deployment_does_not_start(
    redis: Any, redis_url: str
) -> None:
    redis.set(layout_key("ragtide"), encode_layout(Layout("ragtide", 4)))
    with pytest.raises(ConfigurationError, match="this deployment has 4 partitions"):
        await application(redis_url, []).start()


async def test_events_and_estimates_come_as_their_models(redis: Any, redis_url: str, tmp_path: Path) -> None:
    got: list[Any] = []
    app = FastStream(RedisBroker(redis_url))

    @events_of(app, group="team")
    async def on_event(found: MetricEvent) -> None:
        got.append(found)

    @estimates_of(app, group="team")
    async def on_estimate(found: Estimate) -> None:
        got.append(found)

    with running("aggregator", redis_url, tmp_path / "log", {"RAGTIDE_ESTIMATES_INTERVAL_S": "0.1"}):
        async with started(app):
            metrics = Streams("ragtide", 0).metrics
            redis.xadd(
                metrics, {"data": MetricEvent.tick("shop", None, occurred_at=START, scored_until=START).encode()}
            )
            redis.xadd(metrics, {"data": event(1, {"trace.adherence": 0.5}).encode()})
            await until(lambda: {type(found) for found in got} == {MetricEvent, Estimate})
            await until(lambda: not pending(redis, metrics))
    assert {found.pipeline for found in got} == {"shop"}
    assert [found.interaction_id for found in got if isinstance(found, MetricEvent)] == ["i-1"]


@pytest.mark.parametrize("apply_types", [True, False])
async def test_the_test_broker_of_faststream_brings_an_alert_once(apply_types: bool) -> None:
    broker = RedisBroker(apply_types=apply_types)
    app = FastStream(broker)
    got: list[Any] = []

    @alerts_of(app, group="team")
    async def on_alert(found: Alert) -> None:
        got.append(found)

    async with TestRedisBroker(broker):
        await broker.publish(alert("a"), stream=STREAM)
    assert [found.alert_id for found in got] == ["a"]


def test_the_document_of_the_application_has_each_stream_once(redis_url: str) -> None:
    app = application(redis_url, [], settings=Settings(partitions=2))
    assert app.broker is not None
    document = AsyncAPI(app.broker).to_specification().to_jsonable()
    addresses = [channel["address"] for channel in document["channels"].values()]
    assert sorted(address.partition(":On")[0] for address in addresses) == [
        Streams("ragtide", partition).alerts for partition in range(2)
    ]
    assert "alert_id" in json.dumps(document["components"]["schemas"])


@for_each(
    "group, options, words",
    [
        ("notify", {}, "belongs to ragtide"),
        ("two words", {}, "without spaces"),
        ("team", {"claim_idle_s": 0}, "claim_idle_s is 0"),
    ],
)
def test_a_wrong_argument_is_named(group: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        alerts_of(FastStream(RedisBroker()), group=group, **options)


def test_an_application_without_redis_is_refused() -> None:
    with pytest.raises(ValueError, match="no broker of Redis"):
        alerts_of(FastStream(), group="team")


@pytest.mark.heavy
async def test_a_cluster_brings_the_alerts_of_every_partition(tmp_path: Path) -> None:
    with cluster(tmp_path, replicas=0) as nodes, connect(nodes.url) as redis:
        app = FastStream(RedisClusterBroker(nodes.url.replace("redis+cluster", "redis").partition(",")[0]))
        got: list[str] = []

        @alerts_of(app, group="team", settings=Settings(partitions=3))
        async def on_alert(found: Alert) -> None:
            got.append(found.alert_id)

        async with started(app):
            for partition in range(3):
                redis.xadd(Streams("ragtide", partition).alerts, {"data": alert(f"p{partition}").encode()})
            await until(lambda: sorted(got) == ["p0", "p1", "p2"])


@pytest.mark.heavy
async def test_the_master_that_sentinels_name_brings_alerts(tmp_path: Path) -> None:
    with watched(tmp_path / "redis") as ((master, _), url):
        nodes = [node.rpartition(":") for node in url.removeprefix("redis+sentinel://").partition("/")[0].split(",")]
        places = [(host, int(port)) for host, _, port in nodes]
        app = FastStream(RedisSentinelBroker(sentinels=places, sentinel_master_name="shop"))
        got: list[str] = []

        @alerts_of(app, group="team")
        async def on_alert(found: Alert) -> None:
            got.append(found.alert_id)

        async with started(app):
            master.client.xadd(STREAM, {"data": alert("a").encode()})
            await until(lambda: got == ["a"] and pending(master.client) == 0)


def test_without_faststream_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['faststream'] = None\nimport ragtide.faststream"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert "pip install 'ragtide[faststream]'" in result.stderr
