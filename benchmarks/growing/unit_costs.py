"""Measures the unit costs of `ragtide capacity`: a few points of each stage, and the costs that fit them best."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil
from processes import judge_server, role, until

from ragtide import LocalLabeler, MetricEvent, __version__
from ragtide.testing import FakeLabeler
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_offline.capacity.judging import example_interactions
from ragtide_offline.capacity.unit_costs import AggregatorCosts, KeyCost, StageCosts, StoredBytes, TextCost, UnitCosts
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_schemas import utc_now

from .fitting import fitted
from .inputs import metric_events
from .label_cost import label_cost, label_us
from .stages import NO_SPECIMENS, Bench, StageCost, processor_s

KEYS = 6
"""Keys of a pipeline: five scores of the labeler `local`, and its time."""
SCORES = {f"trace.{name}": 0.5 for name in ("context_relevance", "context_utilization", "adherence")}


@dataclass(frozen=True)
class TextPoint:
    """The costs of an interaction with some documents, by stage."""

    documents: int
    kib: float
    """Of each document."""
    stages: dict[str, StageCost] = field(default_factory=dict)
    interaction_bytes: float = 0.0
    """Memory of the interaction in its stream."""
    event_bytes: float = 0.0


@dataclass(frozen=True)
class KeyPoint:
    """The costs of aggregating some events."""

    keys: int
    events: int
    steps: int
    reads: int
    """Reads that have found events."""
    turns: float
    """Events of one pipeline, one after the other, in all steps."""
    changed: float
    """Keys that all steps have written."""
    cost: StageCost
    """Of all events together."""
    checkpoint_bytes: int

    @property
    def each(self) -> StageCost:
        """The cost of an event."""
        return self.cost.of_each(self.events)


def text_point(bench: Bench, documents: int, kib: float, count: int, *, local: LocalLabeler | None) -> TextPoint:
    """Measure publishing, finishing and labeling of interactions of one size, without specimens."""
    plain = bench.with_settings(specimens=NO_SPECIMENS)
    rows = example_interactions(count, documents=documents, kib=kib)
    plain.empty()
    stages = {"publish": plain.publish(rows)}
    (streams,) = plain.settings.layout.all()
    interaction_bytes = plain.redis.memory_usage(streams.interactions, samples=0) / count
    stages["finish"] = plain.label(FakeLabeler(SCORES), count)
    event_bytes = plain.redis.memory_usage(streams.metrics, samples=0) / count
    if local is not None:
        stages["local"] = StageCost(label_us(local, rows), 0.0, 0.0, 0.0)
    return TextPoint(documents, kib, stages, interaction_bytes, event_bytes)


def key_point(bench: Bench, pipelines: int, count: int) -> KeyPoint:
    """Measure aggregating of events that change keys which are there already."""
    new = max(pipelines, 1000)
    return _aggregated(
        bench, metric_events(new, pipelines=pipelines), metric_events(count, pipelines=pipelines, first=new), pipelines
    )


def session_point(bench: Bench, sessions: int, count: int) -> KeyPoint:
    """Measure aggregating of events of 10 pipelines, while so many sessions are open."""
    pipelines, each, new = 10, sessions // 10, max(sessions, 1000)
    return _aggregated(
        bench,
        metric_events(new, pipelines=pipelines, sessions=each),
        metric_events(count, pipelines=pipelines, sessions=each, first=new),
        pipelines,
    )


def steady_points(
    bench: Bench, loads: Sequence[tuple[int, float, float]], seconds: float, folder: Path
) -> tuple[list[KeyPoint], StageCost]:
    """Measure a process of `ragtide aggregator` at steady rates, and what it costs in a second without events.

    Args:
        bench: with an empty Redis.
        loads: pipelines, metric events a second, and seconds between two arrivals, of each point.
        seconds: of a point.
        folder: for the log.
    """
    bench.empty()
    (streams,) = bench.settings.layout.all()
    found: list[KeyPoint] = []
    settings = {"RAGTIDE_REDIS_URL": bench.settings.redis_url or ""}
    with role("aggregator", settings, folder / "aggregator.log") as started:
        process = psutil.Process(started.pid)
        watched = Bench(bench.servers, bench.settings, lambda: processor_s(process))
        first = _settled(watched, loads[0][0], 0)
        before = watched.so_far()
        time.sleep(seconds)
        idle = (watched.so_far() - before).of_each(seconds)
        for pipelines, rate, tick_s in loads:
            first = _settled(watched, pipelines, first)
            count, size = round(rate * seconds), max(round(rate * tick_s), 1)
            payloads = [event.encode() for event in metric_events(count, pipelines=pipelines, first=first)]
            first += count
            adding = _added(watched, UNREAD, payloads, size)
            bench.redis.delete(UNREAD)
            done, began, before = commits(watched), time.perf_counter(), watched.so_far()
            _added(watched, streams.metrics, payloads, size, pause_s=size / rate)
            until(watched.is_aggregated)
            cost, lasted = watched.so_far() - before, time.perf_counter() - began
            cost = cost - StageCost(0.0, adding.redis_us, adding.received, adding.sent) - idle.of_each(1 / lasted)
            point = _point(watched, cost, count, max(commits(watched) - done, 1), pipelines)
            found.append(replace(point, reads=count // size))
    return found, idle


UNREAD = "ragtide-benchmark:unread"
"""A stream that no aggregator reads."""


def _settled(bench: Bench, pipelines: int, first: int) -> int:
    """Make the keys of pipelines, wait until the aggregator has nothing to do, and return the next event's number."""
    (streams,) = bench.settings.layout.all()
    count = max(3 * pipelines, 300)
    payloads = [event.encode() for event in metric_events(count, pipelines=pipelines, first=first)]
    _added(bench, streams.metrics, payloads, 500)
    until(bench.is_aggregated)
    time.sleep(2.0)
    return first + count


def _added(bench: Bench, stream: str, payloads: Sequence[bytes], size: int, *, pause_s: float = 0.0) -> StageCost:
    """Add metric events, so many at once, and return what that costs Redis."""
    before, due = bench.so_far(), time.perf_counter()
    for start in range(0, len(payloads), size):
        with bench.redis.pipeline(transaction=False) as pipe:
            for payload in payloads[start : start + size]:
                pipe.xadd(stream, {DATA_FIELD: payload})
            pipe.execute()
        due += pause_s
        time.sleep(max(due - time.perf_counter(), 0.0))
    return bench.so_far() - before


def _aggregated(bench: Bench, new: Sequence[MetricEvent], then: Sequence[MetricEvent], pipelines: int) -> KeyPoint:
    bench.empty()
    bench.aggregate(new)
    before, count = commits(bench), len(then)
    cost = bench.aggregate(then)
    total = StageCost(cost.us * count, cost.redis_us * count, cost.received * count, cost.sent * count)
    return _point(bench, total, count, max(commits(bench) - before, 1), pipelines)


def _point(bench: Bench, cost: StageCost, count: int, steps: int, pipelines: int) -> KeyPoint:
    """Return the point of events whose pipelines take turns, spread evenly over the steps."""
    each = count / steps
    turns, changed = count / max(min(pipelines, each), 1.0), steps * min(pipelines, each) * KEYS
    return KeyPoint(
        estimate_keys(bench), count, steps, steps, turns, changed, cost, sum(bench.checkpoint_bytes().values())
    )


def commits(bench: Bench) -> int:
    """Return the number of commits so far."""
    return sum(int(bench.redis.hget(of.checkpoint, CheckpointField.STEPS) or 0) for of in bench.settings.layout.all())


def estimate_keys(bench: Bench) -> int:
    """Return the number of keys of all checkpoints."""
    prefix = str(CheckpointField.ESTIMATE).encode()
    names = [name for of in bench.settings.layout.all() for name in bench.redis.hkeys(of.checkpoint)]
    return sum(name.startswith(prefix) for name in names)


ROUNDS = 2
"""Measures of a cost from which another is subtracted; the cheaper counts."""


def cheapest(points: Sequence[TextPoint], stage: str) -> TextPoint:
    """Return the point with the cheapest stage."""
    return min(points, key=lambda point: point.stages[stage].us)


def specimen_points(bench: Bench, sizes: Sequence[tuple[int, float]], count: int) -> list[tuple[TextPoint, TextPoint]]:
    """Measure what a specimen costs: finishing where all are kept, without finishing where none is."""
    found = []
    for documents, kib in sizes:
        without = cheapest([text_point(bench, documents, kib, count, local=None) for _ in range(ROUNDS)], "finish")
        costs = []
        for _ in range(ROUNDS):
            bench.empty()
            bench.publish(example_interactions(count, documents=documents, kib=kib))
            before = bench.used_bytes()
            costs.append(bench.label(FakeLabeler(SCORES), count))
        cost = min(costs, key=lambda found: found.us)
        (streams,) = bench.settings.layout.all()
        kept = sum(1 for _ in bench.redis.scan_iter(match=streams.specimen("*"), count=1000))
        grown = (bench.used_bytes() - before - count * without.event_bytes) / max(kept, 1)
        extra = (cost - without.stages["finish"]).of_each(kept / count)
        found.append((without, TextPoint(documents, kib, {"specimen": extra}, grown)))
    return found


def judge_points(bench: Bench, sizes: Sequence[tuple[int, float]], count: int) -> list[TextPoint]:
    """Measure what the judge's calls cost a worker, with a judge that answers at once."""
    found = []
    with judge_server(0.0) as url:
        judge = JudgeSettings(model="m", base_url=url, cache_ttl_s=0)
        asked = bench.with_settings(labeler="judge", judge=judge, specimens=NO_SPECIMENS)
        for documents, kib in sizes:
            without = cheapest([text_point(bench, documents, kib, count, local=None) for _ in range(ROUNDS)], "finish")
            costs = []
            for _ in range(ROUNDS):
                bench.empty()
                bench.publish(example_interactions(count, documents=documents, kib=kib))
                costs.append(asked.label_with(lambda: labeler_of(asked.settings, None), count))
            cost = min(costs, key=lambda cost: cost.us) - without.stages["finish"]
            found.append(TextPoint(documents, kib, {"judge": cost}))
    return found


def text_cost(points: Sequence[TextPoint], amount: Callable[[TextPoint], float]) -> TextCost:
    """Return the cost that fits points best, in relative errors; no part is negative."""
    rows = [(1.0, point.documents, point.documents * point.kib) for point in points]
    return TextCost(
        **dict(zip(("each", "document", "kib"), fitted(rows, [amount(point) for point in points]), strict=True))
    )


def stage_costs(points: Sequence[TextPoint], stage: str) -> StageCosts:
    """Return the costs of a stage."""

    def of(kind: str) -> TextCost:
        return text_cost(points, lambda point: getattr(point.stages[stage], kind))

    return StageCosts(
        processor_us=of("us"), redis_us=of("redis_us"), received_bytes=of("received"), sent_bytes=of("sent")
    )


def aggregator_costs(points: Sequence[KeyPoint], idle: StageCost) -> AggregatorCosts:
    """Return the costs of aggregating; `idle` is that of a partition in a second."""
    rows = [(point.events, point.turns, point.reads, point.steps, point.changed) for point in points]

    def of(kind: str) -> KeyCost:
        event, turn, read, step, key = fitted(rows, [getattr(point.cost, kind) for point in points])
        return KeyCost(
            event=event, turn=turn, read=read, step=step, key=key, idle=round(max(getattr(idle, kind), 0.0), 1)
        )

    return AggregatorCosts(
        processor_us=of("us"), redis_us=of("redis_us"), received_bytes=of("received"), sent_bytes=of("sent")
    )


@dataclass(frozen=True)
class Measured:
    """All points of which unit costs are made."""

    texts: list[TextPoint]
    specimens: list[TextPoint]
    judge: list[TextPoint]
    keys: list[KeyPoint]
    """Of a backlog."""
    steady: list[KeyPoint]
    """At steady rates."""
    aggregator_idle: StageCost
    """Of a partition in a second."""
    worker_idle: StageCost


def unit_costs(found: Measured, redis_version: str) -> UnitCosts:
    """Return the unit costs that fit the points."""
    fewest, most = (choose(found.keys, key=lambda point: point.keys) for choose in (min, max))
    return UnitCosts(
        measured_on=f"{utc_now():%Y-%m-%d}",
        machine=machine(),
        versions=f"ragtide {__version__}, Python {platform.python_version()}, {redis_version}",
        publish=stage_costs(found.texts, "publish"),
        finish=stage_costs(found.texts, "finish"),
        specimen=stage_costs(found.specimens, "specimen"),
        labelers_us={
            "local": label_cost(
                {
                    (point.documents, point.kib): point.stages["local"].us
                    for point in found.texts
                    if "local" in point.stages
                }
            ),
            "judge": text_cost(found.judge, lambda point: point.stages["judge"].us),
        },
        aggregate=aggregator_costs(found.steady, found.aggregator_idle),
        worker_idle_us=round(found.worker_idle.us, 1),
        stored=StoredBytes(
            interaction=text_cost(found.texts, lambda point: point.interaction_bytes),
            event=round(float(np.mean([point.event_bytes for point in found.texts])), 1),
            key=round((most.checkpoint_bytes - fewest.checkpoint_bytes) / (most.keys - fewest.keys), 1),
            specimen=text_cost(found.specimens, lambda point: point.interaction_bytes),
        ),
        keys=KEYS,
    )


def fit_errors(found: Measured, costs: UnitCosts) -> dict[str, float]:
    """Return the largest relative difference between the points of a stage and its fitted processor time."""

    def of_texts(points: Sequence[TextPoint], stage: str, cost: TextCost) -> float:
        return max(
            abs(cost.of(point.documents, point.documents * point.kib) / point.stages[stage].us - 1)
            for point in points
            if stage in point.stages
        )

    of = costs.aggregate.processor_us
    sums = [
        of.event * point.events
        + of.turn * point.turns
        + of.read * point.reads
        + of.step * point.steps
        + of.key * point.changed
        for point in found.steady
    ]
    aggregated = [abs(total / point.cost.us - 1) for total, point in zip(sums, found.steady, strict=True)]
    return {
        "publish": of_texts(found.texts, "publish", costs.publish.processor_us),
        "read and finish": of_texts(found.texts, "finish", costs.finish.processor_us),
        "labeler local": of_texts(found.texts, "local", costs.labelers_us["local"]),
        "labeler judge": of_texts(found.judge, "judge", costs.labelers_us["judge"]),
        "a specimen": of_texts(found.specimens, "specimen", costs.specimen.processor_us),
        "aggregating": max(aggregated),
    }


def machine() -> str:
    """Return the processor of this machine, and its number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"
