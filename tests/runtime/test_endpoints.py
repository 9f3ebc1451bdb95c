import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from ragtide import Deployment
from ragtide.bridge.telemetry import BridgeTelemetry
from ragtide_aggregator.service.telemetry import AggregatorTelemetry
from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry
from ragtide_consumers.notify.telemetry import NotifyTelemetry
from ragtide_consumers.recorder.telemetry import RecorderTelemetry
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_roles.serving import rules_counter
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry import endpoints
from ragtide_runtime.telemetry.catalogue import CATALOGUE
from ragtide_runtime.telemetry.health import Health, Heartbeat, ProcessTelemetry
from ragtide_runtime.telemetry.role_endpoints import observing
from ragtide_web.guard.telemetry import HeadlineCollector, HttpTelemetry

pytestmark = pytest.mark.processes


@asynccontextmanager
async def serving(settings: Settings, url: str, process: ProcessTelemetry) -> AsyncIterator[int | None]:
    async with observing(settings, url, process) as answers, endpoints.serving(settings, answers) as port:
        yield port


def settings(**changes: Any) -> Settings:
    return Settings(**{"http_port": 0, "partitions": 2, **changes})


async def get(port: int | None, path: str, **headers: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as reply:
        return reply.status, reply.headers["content-type"], await reply.text()


async def until_status(port: int | None, path: str, status: int) -> str:
    async with asyncio.timeout(120):
        while True:
            found, _, body = await get(port, path)
            if found == status:
                return body
            await asyncio.sleep(0.05)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return each sample of a scrape by its name and label values."""
    return {(sample.name, *sample.labels.values()): sample.value for family in parse(text) for sample in family.samples}


async def test_without_a_port_nothing_is_served(async_redis: Any, redis_url: str) -> None:
    async with serving(settings(http_port=None), redis_url, ProcessTelemetry()) as port:
        assert port is None


async def test_a_scrape_shows_what_redis_says_of_every_partition(async_redis: Any, redis_url: str) -> None:
    for _ in range(3):
        await async_redis.xadd(Streams("ragtide", 1).interactions, {DATA_FIELD: b"{}"})
    await async_redis.hset(Streams("ragtide", 0).dropped, "full", 4)
    async with serving(settings(), redis_url, ProcessTelemetry()) as port:
        status, content_type, text = await get(port, "/metrics")
    found = samples(text)
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert found["ragtide_redis_up",] == 1
    assert found["ragtide_interactions_waiting", "0"] == 0
    assert found["ragtide_interactions_waiting", "1"] == 3
    assert found["ragtide_stream_entries", "1", "interactions"] == 3
    assert found["ragtide_dropped_total", "0", "full"] == 4
    assert found["ragtide_partition_has_owner", "1"] == 0
    assert found["process_resident_memory_bytes",] > 0


async def test_openmetrics_is_served_to_who_asks_for_it(async_redis: Any, redis_url: str) -> None:
    process = ProcessTelemetry()
    WorkerTelemetry(process).outcomes("local", ["emitted"])["emitted"].inc(2)
    async with serving(settings(), redis_url, process) as port:
        _, content_type, text = await get(port, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
    assert [sample.value for sample in families["ragtide_labelings"].samples if sample.name.endswith("_total")] == [2]
    assert families["ragtide_redis_up"].samples[0].value == 1


async def test_every_metric_of_the_catalogue_is_scraped_under_its_name(async_redis: Any, redis_url: str) -> None:
    process = ProcessTelemetry()
    WorkerTelemetry(process)
    LabelerTelemetry(process)
    IngestTelemetry(process)
    HttpTelemetry(process)
    NotifyTelemetry(1, ("team",), process)
    BridgeTelemetry(process)
    rules_counter(process)
    HeadlineCollector(Deployment(async_redis, settings()), settings().prometheus, process)
    for telemetry in (AggregatorTelemetry, RecorderTelemetry):
        telemetry(1, process)
    async with serving(settings(), redis_url, process) as port:
        _, _, text = await get(port, "/metrics")
    metrics = [metric for metrics in CATALOGUE.values() for metric in metrics]
    families = {family.name: family for family in parse(text)}
    for metric in metrics:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
    ours = {name for name in families if name.startswith("ragtide_")}
    assert ours <= {metric.name.removesuffix("_total") for metric in metrics}  # no series `_created` among them


async def test_head_is_answered_as_get_without_a_body(async_redis: Any, redis_url: str) -> None:
    process = ProcessTelemetry(Health("worker"))
    async with serving(settings(), redis_url, process) as port, aiohttp.ClientSession() as session:
        await until_status(port, "/healthz", 200)
        for path, status in (("/healthz", 200), ("/readyz", 503), ("/metrics", 200)):
            url = f"http://127.0.0.1:{port}{path}"
            async with session.get(url) as got, session.head(url) as headed:
                assert (got.status, headed.status) == (status, status), path
                assert headed.headers["content-type"] == got.headers["content-type"]
                assert headed.headers.keys() == got.headers.keys()
                assert await got.read() != b""
                assert await headed.read() == b""


async def test_two_runs_in_one_process_do_not_mix(async_redis: Any, redis_url: str) -> None:
    first, second = ProcessTelemetry(), ProcessTelemetry()
    WorkerTelemetry(first).reclaimed.inc()
    WorkerTelemetry(second)
    async with serving(settings(), redis_url, first) as one, serving(settings(), redis_url, second) as other:
        assert samples((await get(one, "/metrics"))[2])["ragtide_reclaimed_total",] == 1
        assert samples((await get(other, "/metrics"))[2])["ragtide_reclaimed_total",] == 0


async def test_without_redis_a_scrape_says_so_and_shows_the_rest(tmp_path: Any) -> None:
    process = ProcessTelemetry(Health("worker"))
    WorkerTelemetry(process).reclaimed.inc()
    heartbeat = Heartbeat("loop")
    with process.health.reporting("worker", heartbeat):
        heartbeat.beat("turning")
        async with serving(settings(), f"unix://{tmp_path}/nothing.sock", process) as port:
            status, _, text = await get(port, "/metrics")
            assert status == 200
            found = samples(text)
            assert (found["ragtide_redis_up",], found["ragtide_reclaimed_total",]) == (0, 1)
            assert not [name for name, *_ in found if name.startswith("ragtide_interactions")]
            assert "redis: does not answer" in await until_status(port, "/readyz", 503)
            assert (await get(port, "/healthz"))[0] == 200


async def test_ready_means_redis_answers_and_the_role_works(async_redis: Any, redis_url: str) -> None:
    process = ProcessTelemetry(Health("worker"))
    async with serving(settings(), redis_url, process) as port:
        assert "worker: not running yet" in await until_status(port, "/readyz", 503)
        heartbeat = Heartbeat("loop")
        with process.health.reporting("worker", heartbeat):
            heartbeat.beat("turning")
            assert '"loop": "turning"' in await until_status(port, "/readyz", 200)
            heartbeat.failed("the group is gone")
            assert '"missing": ["loop: the group is gone"]' in await until_status(port, "/readyz", 503)
            assert (await get(port, "/healthz"))[0] == 200


async def test_a_port_that_is_in_use_is_one_sentence(async_redis: Any, redis_url: str) -> None:
    async with serving(settings(), redis_url, ProcessTelemetry()) as port:
        with pytest.raises(ConfigurationError, match=rf"127.0.0.1:{port} .*: set RAGTIDE_HTTP_PORT to a free port"):
            async with serving(settings(http_port=port), redis_url, ProcessTelemetry()):
                pass


async def test_a_host_that_is_none_is_one_sentence(async_redis: Any, redis_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot serve on 192\.0\.2\.1"):
        async with serving(settings(http_host="192.0.2.1"), redis_url, ProcessTelemetry()):
            pass
