"""The growth of costs with keys, partitions, workers, documents, rules, open traces, viewers and open sessions."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil
from ingesting.measures import EXPORTERS, LONG, PIPELINE, PROTOBUF, SETTLE_S, STREAMS, TRACES
from ingesting.requests import one_span_traces, trace_requests
from ingesting.sending import request, send, service
from page import PERIOD_S, Tally, Traffic, follow
from processes import role, until

from ragtide import AlertRule, InteractionProducer
from ragtide.testing import FakeLabeler
from ragtide_offline.capacity.judging import example_interactions
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS

from .inputs import metric_events
from .stages import NO_SPECIMENS, Bench, processor_s
from .unit_costs import SCORES, KeyPoint, TextPoint, key_point, session_point

Rows = list[tuple[float, ...]]


@dataclass(frozen=True)
class Axis:
    """A size that grows, and the costs at each size."""

    name: str
    title: str
    columns: tuple[str, ...]
    """The size, then the costs."""
    rows: Rows
    drawn: int = 1
    """Number of costs that the picture shows, from the first; they have one unit."""
    note: str = ""
    """What the axis measures, and why a curve bends."""


def keys_axis(points: Sequence[KeyPoint]) -> Axis:
    """Aggregating by the number of keys."""
    rows: Rows = [
        (
            point.keys,
            point.each.us,
            point.steps,
            point.cost.us / point.changed,
            point.each.redis_us,
            point.each.received / 1024,
            point.checkpoint_bytes / point.keys,
        )
        for point in points
    ]
    columns = (
        "keys", "aggregator, µs an event", "commits", "aggregator, µs a changed key", "Redis, µs an event",
        "KiB to Redis an event", "checkpoint, bytes a key",
    )  # fmt: skip
    note = (
        "Events of a backlog, whose pipelines take turns, with a commit after each read of at most 1,000: with few "
        "keys, a commit writes a key once for hundreds of events; with many, each event changes every key of its "
        "pipeline, and an aggregator bounds the keys of a commit by their time."
    )
    return Axis("keys", "Keys", columns, rows, 1, note)


def documents_axis(points: Sequence[TextPoint]) -> Axis:
    """Publishing, finishing and labeling by the text of the documents."""
    rows: Rows = []
    for point in sorted(points, key=lambda point: (point.documents * point.kib, point.documents)):
        stages = point.stages
        redis_us = stages["publish"].redis_us + stages["finish"].redis_us
        kib = point.documents * point.kib
        costs = (stages["publish"].us, stages["finish"].us, stages["local"].us)
        rows.append((kib, point.documents, *costs, redis_us, point.interaction_bytes / 1024))
    columns = (
        "KiB of text", "documents", "publish, µs", "finish, µs", "labeler local, µs", "Redis, µs", "Redis, KiB",
    )  # fmt: skip
    note = (
        "An interaction of each size, without specimens. No curve bends: above a fixed part each stage is linear in "
        "the text. Publishing encodes it, finishing validates it, and the labeler compares its words with the answer."
    )
    return Axis("documents", "Documents", columns, rows, 5, note)


def partitions_axis(bench: Bench, sizes: Sequence[int], count: int, idle_s: float) -> Axis:
    """All stages by the number of partitions, with work and without."""
    rows: Rows = []
    for partitions in sizes:
        spread = bench.with_settings(partitions=partitions, specimens=NO_SPECIMENS)
        spread.measure_start()
        spread.empty()
        publish = spread.publish(example_interactions(count, documents=2, pipelines=256))
        finish = spread.label(FakeLabeler(SCORES), count)
        spread.empty()
        spread.aggregate(metric_events(256, pipelines=256))
        aggregated = spread.aggregate(metric_events(count, pipelines=256, first=256))
        spread.empty()
        idle = spread.with_settings(commit_interval_s=Settings().commit_interval_s)
        worker, aggregator = idle.idle(idle_s, "worker"), idle.idle(idle_s, "aggregator")
        redis_us = publish.redis_us + finish.redis_us + aggregated.redis_us
        costs = (publish.us, finish.us, aggregated.us, redis_us)
        rows.append((partitions, *costs, worker.us / 1000, aggregator.us / 1000))
    columns = (
        "partitions", "publish, µs", "finish, µs", "aggregate, µs", "Redis, µs", "idle worker, ms/s",
        "idle aggregator, ms/s",
    )  # fmt: skip
    note = (
        f"{count:,} interactions of 256 pipelines in one backlog, by one process of each role. The idle columns are "
        "milliseconds of processor time in each second without traffic: each partition has a lease, a reader and "
        "a look at its streams every second."
    )
    return Axis("partitions", "Partitions", columns, rows, 3, note)


def workers_axis(bench: Bench, sizes: Sequence[int], count: int, folder: Path) -> Axis:
    """Labeling by the number of worker processes."""
    rows: Rows = []
    url = bench.settings.redis_url or ""
    (streams,) = bench.settings.layout.all()
    for workers in sizes:
        bench.empty()
        settings = {"RAGTIDE_REDIS_URL": url, "RAGTIDE_WORKER_PROCESSES": str(workers)}
        with role("worker", settings, folder / "worker.log") as started, InteractionProducer(url) as producer:
            until(lambda: bench.redis.exists(streams.interactions))
            until(partial(_all_read, bench.redis, streams.interactions, workers))
            # The first interactions load what a labeler needs.
            producer.publish_many(example_interactions(50 * workers))
            until(partial(_has_labeled, bench, 50 * workers))
            process = psutil.Process(started.pid)
            before, redis_before = processor_s(process), bench.so_far()
            producer.publish_many(example_interactions(count, first=50 * workers))
            until(partial(_has_labeled, bench, 50 * workers + count))
            used, redis = processor_s(process) - before, bench.so_far() - redis_before
        rows.append((workers, 1e6 * used / count, redis.redis_us / count))
    note = (
        "`ragtide worker --processes` with the labeler `local`, on one stream of interactions (5 documents of 1 KiB). "
        "Processor time of all processes together, so a flat curve is a rate that grows with the processes. Redis "
        "includes publishing."
    )
    return Axis("workers", "Workers", ("processes", "workers, µs", "Redis, µs"), rows, 2, note)


def _all_read(redis: Any, stream: str, workers: int) -> bool:
    return len(redis.xinfo_consumers(stream, LABEL_GROUP)) >= workers


def _has_labeled(bench: Bench, count: int) -> bool:
    return bench.labeled() >= count


RULED_PIPELINES: Final = 20


def rules_axis(bench: Bench, sizes: Sequence[int], count: int) -> Axis:
    """Aggregating by the number of alert rules."""
    rows: Rows = []
    for rules in sizes:
        alerts = tuple(
            AlertRule(
                name=f"rule-{number}",
                kind="drift",
                metric="trace.adherence",
                pipeline=f"pipeline-{number % RULED_PIPELINES}",
                min_effect=0.02 + 0.0001 * number,
            )
            for number in range(rules)
        )
        ruled = bench.with_settings(alerts=alerts)
        ruled.empty()
        ruled.aggregate(metric_events(300 * RULED_PIPELINES, pipelines=RULED_PIPELINES))
        cost = ruled.aggregate(metric_events(count, pipelines=RULED_PIPELINES, first=300 * RULED_PIPELINES))
        each = max(rules / RULED_PIPELINES, 1.0 if rules else 0.0)
        rows.append((rules, cost.us, cost.redis_us, each, sum(ruled.checkpoint_bytes().values()) / 1024))
    columns = (
        "rules", "aggregator, µs an event", "Redis, µs an event", "rules a pipeline", "checkpoint, KiB",
    )  # fmt: skip
    note = (
        f"Drift rules on one metric of {RULED_PIPELINES} pipelines, with learned baselines. Each rule looks at each "
        "value of its pipeline, so the cost of an event is linear in the rules of its pipeline, not in all rules."
    )
    return Axis("rules", "Alert rules", columns, rows, 1, note)


def sessions_axis(bench: Bench, sizes: Sequence[int], count: int) -> Axis:
    """Aggregating by the number of open sessions."""
    rows: Rows = []
    for sessions in sizes:
        point = session_point(bench, sessions, count)
        rows.append((sessions, point.each.us, point.each.redis_us, point.checkpoint_bytes / 1024))
    columns = ("open sessions", "aggregator, µs an event", "Redis, µs an event", "checkpoint, KiB")
    note = (
        "Sessions of 10 pipelines that are all open; the measured events continue them in turn. `clusters.open_cap` "
        "bounds the sessions of a pipeline."
    )
    return Axis("sessions", "Open sessions", columns, rows, 2, note)


async def traces_axis(url: str, sizes: Sequence[int], spans: int, log: Path) -> Axis:
    """Taking spans by the number of traces that are open."""
    rows: Rows = []
    settings = {**LONG, "RAGTIDE_INGEST_SETTLE_S": str(SETTLE_S), "RAGTIDE_INGEST_DEFAULT_PIPELINE": PIPELINE}
    async with connect_async(url) as redis:
        for opened in sizes:
            await redis.flushall()
            async with service(url, log, **settings) as serving:
                fill = [request("POST", TRACES, body, PROTOBUF) for body in one_span_traces(opened, 1)]
                await send(serving.port, fill, connections=EXPORTERS)
                warm = [request("POST", TRACES, body, PROTOBUF) for body in trace_requests(500, 3)]
                await send(serving.port, warm, connections=EXPORTERS)
                await _until_open(redis, opened)
                before_bytes = int(await redis.get(STREAMS.traces_bytes) or 0)
                bodies = [request("POST", TRACES, body, PROTOBUF) for body in trace_requests(spans, 2)]
                used, redis_us = serving.processor_s(), await _redis_us(redis)
                await send(serving.port, bodies, connections=EXPORTERS)
                await _until_open(redis, opened)
                used, redis_us = serving.processor_s() - used, await _redis_us(redis) - redis_us
            rows.append((opened, 1e6 * used / spans, redis_us / spans, before_bytes / 2**20))
    columns = ("open traces", "serve, µs a span", "Redis, µs a span", "spans in Redis, MiB")
    note = (
        "Traces of one span whose root never comes are open; then whole traces of six applications are sent and become "
        "interactions. `ingest.traces_cap` bounds open traces."
    )
    return Axis("traces", "Open traces", columns, rows, 2, note)


async def _until_open(redis: Any, count: int) -> None:
    """Wait until no more than so many traces are open."""
    while await redis.zcard(STREAMS.open_traces) > count:  # noqa: ASYNC110 - another process reads them
        await asyncio.sleep(0.05)


async def _redis_us(redis: Any) -> float:
    found = await redis.info("cpu")
    return 1e6 * float(found["used_cpu_user"] + found["used_cpu_sys"])


async def viewers_axis(url: str, sizes: Sequence[int], seconds: float, folder: Path) -> Axis:
    """Showing a page by the number of its viewers, while every number changes four times a second."""
    rows: Rows = []
    metrics = sorted(METRICS)[:5]
    traffic = Traffic(20, metrics)
    commits = {"RAGTIDE_REDIS_URL": url}
    async with connect_async(url) as redis:
        await redis.flushall()
        with role("aggregator", commits, folder / "aggregator.log"):
            async with service(url, folder / "serve.log") as serving:
                for _ in range(50):
                    await traffic.publish(redis)
                publishing = asyncio.create_task(traffic.keep_publishing(redis))
                await asyncio.sleep(3)
                live = f"http://127.0.0.1:{serving.port}/live?view=fleet"
                connector = aiohttp.TCPConnector(limit=0)
                async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as session:
                    for viewers in sizes:
                        tally = Tally()
                        tasks = [asyncio.create_task(follow(session, live, tally)) for _ in range(viewers)]
                        await asyncio.sleep(2)  # the first answer of each viewer is everything
                        used, received, redis_us = serving.processor_s(), tally.received, await _redis_us(redis)
                        await asyncio.sleep(seconds)
                        used = serving.processor_s() - used
                        redis_us = await _redis_us(redis) - redis_us
                        kib = (tally.received - received) / 1024 / seconds / max(viewers, 1)
                        of_redis = redis_us / seconds / 1000
                        rows.append((viewers, 1000 * used / seconds, of_redis, kib, serving.resident_bytes() / 2**20))
                        for task in tasks:
                            task.cancel()
                        await asyncio.gather(*tasks, return_exceptions=True)
                publishing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await publishing
    columns = ("viewers", "serve, ms/s", "Redis, ms/s", "KiB/s to a viewer", "serve, MiB")
    note = (
        f"Open pages of a fleet of 20 pipelines whose numbers all change every {PERIOD_S:g} s; milliseconds of "
        "processor time in each second. Redis includes the traffic. Pages with the same address share their drawing."
    )
    return Axis("viewers", "Viewers of the page", columns, rows, 2, note)


def key_points(bench: Bench, sizes: Sequence[int], count: int, show: Callable[[str], None]) -> list[KeyPoint]:
    """Measure aggregating at each number of pipelines."""
    found = []
    for pipelines in sizes:
        found.append(key_point(bench, pipelines, max(count, pipelines)))
        show(f"{found[-1].keys:,} keys: {found[-1].each.us:,.0f} us an event")
    return found
