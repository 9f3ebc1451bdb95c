"""What a deployment needs for a stated traffic: processors, memory and network, from unit costs. No I/O.

Every figure is a sum of parts. The parts of interactions and events are linear in the rate. A commit writes each
changed key once, however many events changed it, so the part of keys rises less than the rate (`changed_keys`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, expm1
from typing import Any, Final

from ragtide_consumers.specimens.keeping import PARTITION_BYTES
from ragtide_roles.doctor.server import RECORD_BYTES, projected_bytes
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from .unit_costs import AggregatorCosts, KeyCost, StageCosts, UnitCosts

UTILIZATION: Final = 0.7
"""Share of a processor that a process may use on average; the rest is for peaks and restarts."""
MEMORY_SHARE: Final = 0.7
"""Share of the memory of Redis that data may take; the rest is for fragmentation and for the copies of a fork."""
TRIMMED_S: Final = 2.0
"""Seconds for which a finished interaction is still in its stream: aggregators trim streams every second."""
READS_PER_S: Final = 20.0
"""Reads of a partition each second; an aggregator that has time reads more often, and finds fewer events each time."""
NEWEST_PER_S: Final = 1.0
"""Specimens of a pipeline that a worker keeps each second, because they are new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTraffic:
    """The traffic of a deployment."""

    rate: float
    """Interactions a second."""
    documents: float = 5.0
    """Documents of an interaction."""
    document_kib: float = 1.0
    """KiB of text of a document."""
    pipelines: int = 1
    """Number of pipelines, all with the same rate."""
    keys: float | None = None
    """Keys of each pipeline: metrics times one more than its segment values; None takes those of the unit costs."""
    local_share: float = 1.0
    """Share of the interactions that the labeler `local` labels."""
    judge_share: float = 0.0
    """Share of the interactions that the judge labels."""

    @property
    def kib(self) -> float:
        """KiB of the documents of an interaction."""
        return self.documents * self.document_kib


@dataclass(frozen=True, slots=True)
class WorkPart:
    """The processor time of one kind of work."""

    role: str
    """Role whose processes do it: `producer`, `worker`, `aggregator` or `redis`."""
    work: str
    processors: float
    """Seconds of processor time in each second."""


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """A limit of the settings or of one process, and how much of it the traffic uses."""

    limit: str
    used: float
    """Share of the limit; the limit is exceeded above 1."""
    exceeded: str
    """What happens above 1, and the remedy."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a deployment needs."""

    work: tuple[WorkPart, ...]
    memory: Mapping[str, float]
    """Bytes of Redis by kind of data, in the steady state."""
    limits: tuple[CapacityLimit, ...]
    """The limits, the fullest first."""
    received_bytes: float
    """Bytes that Redis receives in a second."""
    sent_bytes: float
    """Bytes that Redis sends in a second."""
    commits: float
    """Commits of all partitions in a second."""
    backlog_bytes: float
    """Memory that Redis takes besides for an hour without workers."""
    partitions: int
    """Partitions of the settings, for which all this holds."""
    partitions_of_keys: int
    """Fewest partitions that have room for all keys."""

    def processors(self, role: str) -> float:
        """Return the seconds of processor time of a role in each second."""
        return sum(part.processors for part in self.work if part.role == role)

    def processes(self, role: str) -> int:
        """Return the processes of a role, at least 1, each with the share `UTILIZATION` of a processor in use."""
        return max(ceil(self.processors(role) / UTILIZATION), 1)

    @property
    def memory_bytes(self) -> float:
        """Memory that the data take."""
        return sum(self.memory.values())

    @property
    def maxmemory_bytes(self) -> float:
        """Memory that Redis should have."""
        return self.memory_bytes / MEMORY_SHARE

    @property
    def partitions_needed(self) -> int:
        """Fewest partitions with room for the keys, and for the processes: one works on a partition at a time."""
        return max(self.processes("aggregator"), self.processes("redis"), self.partitions_of_keys)

    def as_dict(self) -> dict[str, Any]:
        """Return the needs as JSON fields."""
        roles = dict.fromkeys(part.role for part in self.work)
        return {
            "utilization": UTILIZATION,
            "memory_share": MEMORY_SHARE,
            "roles": {role: {"processors": self.processors(role), "processes": self.processes(role)} for role in roles},
            "work": [asdict(part) for part in self.work],
            "memory": [{"content": content, "bytes": size} for content, size in self.memory.items()],
            "memory_bytes": self.memory_bytes,
            "maxmemory_bytes": self.maxmemory_bytes,
            "limits": [asdict(limit) for limit in self.limits],
            "backlog_bytes_of_an_hour": self.backlog_bytes,
            "received_bytes_per_s": self.received_bytes,
            "sent_bytes_per_s": self.sent_bytes,
            "partitions": self.partitions,
            "partitions_needed": self.partitions_needed,
        }


def changed_keys(traffic: PlannedTraffic, keys: float, interval_s: float) -> float:
    """Return how many keys a second all commits write.

    Assumes: the interactions of a pipeline arrive independently of each other (a Poisson process), so that the share
    1 - exp(-rate x interval) of the pipelines has an interaction between two commits.

    Args:
        traffic: its rate is spread over the pipelines.
        interval_s: seconds between two commits; 0 commits after each event.
    """
    return keys * _with_events(traffic.pipelines, traffic.rate, interval_s)


def _with_events(count: int, rate: float, interval_s: float) -> float:
    if interval_s == 0:
        return rate
    return count * -expm1(-rate / count * interval_s) / interval_s


def kept_specimens(traffic: PlannedTraffic, settings: Settings) -> float:
    """Return how many specimens a second are kept: the random sample, and the newest of each pipeline.

    The worst of each metric are left out: there are few once a pipeline has some interactions.
    """
    if not settings.keeps_specimens:
        return 0.0
    newest = min(NEWEST_PER_S * traffic.pipelines, traffic.rate) if settings.specimens.newest_n else 0.0
    return min(settings.specimens.sample * traffic.rate + newest, traffic.rate)


def capacity_of(traffic: PlannedTraffic, settings: Settings, costs: UnitCosts) -> Capacity:
    """Return what a deployment with these settings needs for a traffic.

    Args:
        settings: partitions, windows of known ids, commits, specimens.
        costs: measured on a machine; processors are processors of that machine.

    Raises:
        ConfigurationError: the partitions alone take a worker's whole processor.
    """
    stages = _Stages(traffic, settings, costs)
    workers = [
        WorkPart("worker", "reading and finishing", stages.of(costs.finish, lambda stage: stage.processor_us.of)),
        WorkPart("worker", "labeler local", traffic.local_share * stages.labels("local")),
        WorkPart("worker", "labeler judge", traffic.judge_share * stages.labels("judge")),
        WorkPart("worker", "specimens", stages.kept * costs.specimen.processor_us.of(*stages.texts) / 1e6),
    ]
    idle = settings.partitions * costs.worker_idle_us / 1e6
    if idle >= UTILIZATION:
        raise ConfigurationError(
            f"{settings.partitions:,} partitions take {idle:.1f} processors of each worker, before any work: lower "
            "partitions"
        )
    # Every worker reads every partition.
    processes = max(ceil(sum(part.processors for part in workers) / (UTILIZATION - idle)), 1)
    redis = [
        WorkPart("redis", "publishing", stages.of(costs.publish, lambda stage: stage.redis_us.of)),
        WorkPart("redis", "reading and finishing", stages.of(costs.finish, lambda stage: stage.redis_us.of)),
        WorkPart("redis", "specimens", stages.kept * costs.specimen.redis_us.of(*stages.texts) / 1e6),
        WorkPart("redis", "aggregating", stages.aggregating(lambda aggregator: aggregator.redis_us) / 1e6),
    ]
    of_aggregator = costs.aggregate.processor_us
    aggregators = [
        WorkPart(
            "aggregator",
            "metric events",
            (traffic.rate * of_aggregator.event + stages.turns * of_aggregator.turn) / 1e6,
        ),
        WorkPart("aggregator", "changed keys", stages.changed * of_aggregator.key / 1e6),
        WorkPart(
            "aggregator",
            "reads, commits",
            (stages.reads * of_aggregator.read + stages.commits * of_aggregator.step) / 1e6,
        ),
        WorkPart("aggregator", "looking at partitions", settings.partitions * of_aggregator.idle / 1e6),
    ]
    limits = _limits(stages, idle, _processors(aggregators), _processors(redis))
    return Capacity(
        work=(
            WorkPart("producer", "publishing", stages.of(costs.publish, lambda stage: stage.processor_us.of)),
            *(part for part in workers if part.processors),
            WorkPart("worker", "looking at partitions", processes * idle),
            *aggregators,
            *(part for part in redis if part.processors),
        ),
        memory=_memory(stages),
        limits=tuple(sorted(limits, key=lambda limit: -limit.used)),
        received_bytes=stages.network(lambda stage: stage.received_bytes.of, lambda stage: stage.received_bytes),
        sent_bytes=stages.network(lambda stage: stage.sent_bytes.of, lambda stage: stage.sent_bytes),
        commits=stages.commits,
        backlog_bytes=3600 * traffic.rate * costs.stored.interaction.of(*stages.texts),
        partitions=settings.partitions,
        partitions_of_keys=ceil(stages.all_keys / settings.partition_keys_cap),
    )


def ten_times(traffic: PlannedTraffic, costs: UnitCosts) -> dict[str, PlannedTraffic]:
    """Return the traffic with each of its sizes ten times as large, by the name of the size.

    Args:
        costs: have the keys of a pipeline, unless the traffic states them.
    """
    keys = costs.keys if traffic.keys is None else traffic.keys
    return {
        "rate": replace(traffic, rate=10 * traffic.rate),
        "docs": replace(traffic, documents=10 * traffic.documents),
        "pipelines": replace(traffic, pipelines=10 * traffic.pipelines),
        "keys": replace(traffic, keys=10 * keys),
    }


def _processors(parts: Iterable[WorkPart]) -> float:
    return sum(part.processors for part in parts)


TextCosts = Callable[[StageCosts], Callable[[float, float], float]]
"""Chooses a cost of a stage."""
KeyCosts = Callable[[AggregatorCosts], KeyCost]
"""Chooses a cost of aggregating."""


class _Stages:
    """The amounts that costs are multiplied by."""

    def __init__(self, traffic: PlannedTraffic, settings: Settings, costs: UnitCosts) -> None:
        self.traffic, self.settings, self.costs = traffic, settings, costs
        self.texts = (traffic.documents, traffic.kib)
        self.keys = costs.keys if traffic.keys is None else traffic.keys
        self.all_keys = min(self.keys, settings.keys_cap) * traffic.pipelines
        self.kept = kept_specimens(traffic, settings)
        self.changed = changed_keys(traffic, self.keys, settings.commit_interval_s)
        self.commits = _with_events(settings.partitions, traffic.rate, settings.commit_interval_s)
        self.turns = max(self.commits, settings.partitions * traffic.rate / traffic.pipelines)
        self.turns = min(self.turns, traffic.rate)
        self.reads = min(READS_PER_S * settings.partitions, traffic.rate)

    def of(self, stage: StageCosts, choose: TextCosts) -> float:
        """Return the seconds of processor time that a stage takes each second."""
        return self.traffic.rate * choose(stage)(*self.texts) / 1e6

    def labels(self, labeler: str) -> float:
        """Return the seconds of processor time each second if a labeler labels everything."""
        return self.traffic.rate * self.costs.labelers_us[labeler].of(*self.texts) / 1e6

    def aggregating(self, choose: KeyCosts) -> float:
        """Return a cost of aggregating in each second."""
        cost = choose(self.costs.aggregate)
        events = self.traffic.rate * cost.event + self.changed * cost.key
        commits = self.turns * cost.turn + self.reads * cost.read + self.commits * cost.step
        return events + commits + self.settings.partitions * cost.idle

    def network(self, choose: TextCosts, aggregating: KeyCosts) -> float:
        """Return bytes in each second."""
        costs, texts = self.costs, self.texts
        each = choose(costs.publish)(*texts) + choose(costs.finish)(*texts)
        return self.traffic.rate * each + self.kept * choose(costs.specimen)(*texts) + self.aggregating(aggregating)


def _limits(stages: _Stages, idle: float, aggregators: float, redis: float) -> list[CapacityLimit]:
    """Return the limits of the settings, and of the processes that more partitions would spread.

    Args:
        stages: the amounts.
        idle: processors that each worker needs to look at all partitions.
        aggregators: processors of the aggregators.
        redis: processors of Redis.
    """
    traffic, settings = stages.traffic, stages.settings
    # The hash of its name puts a pipeline into one partition, unless it is split.
    spread = settings.partitions if settings.splits else min(settings.partitions, traffic.pipelines)
    more = "set more partitions" if spread == settings.partitions else "split the pipelines over the partitions"
    limits = [
        CapacityLimit(
            "one Redis server", redis / UTILIZATION, "its thread falls behind: use a Cluster with more masters"
        ),
        CapacityLimit(
            "aggregator of a partition", aggregators / spread / UTILIZATION, f"estimates fall behind: {more}"
        ),
        CapacityLimit(
            "looking at partitions", idle / UTILIZATION, "a worker has no time for its work: set fewer partitions"
        ),
        CapacityLimit(
            "keys of a pipeline",
            stages.keys / settings.keys_cap,
            "further segment values count as other: use fewer values, or raise keys_cap",
        ),
        CapacityLimit(
            "keys of a partition",
            stages.all_keys / spread / settings.partition_keys_cap,
            "further pipelines count in the pipeline other: set more partitions, or raise partition_keys_cap",
        ),
    ]
    if settings.history.enabled:
        used = stages.costs.keys * traffic.pipelines / settings.partitions / settings.history.series_max
        limits.append(
            CapacityLimit(
                "history of a partition",
                used,
                "further pipelines have no history: set more partitions, or raise history.series_max",
            )
        )
    return limits


def _memory(stages: _Stages) -> dict[str, float]:
    traffic, settings, stored = stages.traffic, stages.settings, stages.costs.stored
    history, specimens = settings.history, settings.specimens
    series = min(stages.costs.keys * traffic.pipelines, history.series_max * settings.partitions)
    kept = min(specimens.count, specimens.newest_n + specimens.sample_n + specimens.worst_n * stages.costs.keys)
    of_pipeline = min(kept * stored.specimen.of(*stages.texts), specimens.bytes)
    return {
        "known ids": projected_bytes(traffic.rate, settings),
        "interactions": TRIMMED_S * traffic.rate * stored.interaction.of(*stages.texts),
        "metric events": settings.partitions * settings.events_keep * stored.event,
        "checkpoints": min(stages.all_keys, settings.partition_keys_cap * settings.partitions) * stored.key,
        "history": series * history.panes * RECORD_BYTES if history.enabled else 0.0,
        "specimens": min(traffic.pipelines * of_pipeline, settings.partitions * PARTITION_BYTES)
        if settings.keeps_specimens
        else 0.0,
    }
