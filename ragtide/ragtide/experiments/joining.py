"""What a process needs to take part in an experiment: its settings and its own metrics, from its plan in Redis."""

from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from ragtide_consumers.metrics.custom import CustomMetric
from ragtide_consumers.metrics.own import own_metrics
from ragtide_runtime.own_metrics import know_metrics
from ragtide_runtime.runs import settings_of_run
from ragtide_runtime.settings import Settings
from ragtide_runtime.stream_reads import read_range
from ragtide_schemas import DATA_FIELD, Streams, deployment_prefix
from ragtide_schemas.experiments import Begun, Plan, decode_entry

UNBOUNDED: Final = 2**40
"""Entries that a run's streams may hold: an experiment is finite, and nothing of it may be dropped."""


def settings_of_experiment(settings: Settings, plan: Plan) -> Settings:
    """Return the settings of a deployment as they are for an experiment: its own keys, no alerts, nothing dropped."""
    own = settings_of_run(settings, plan.run)
    return own.model_copy(
        update={
            "labeler": plan.labeler,
            "interactions_cap": UNBOUNDED,
            "events_cap": UNBOUNDED,
            "alerts": (),
            "windows": (),
            "stall": own.stall.model_copy(update={"labeling_s": None, "traffic_s": None, "quiet_s": None}),
        }
    )


async def taking_part(redis: Redis, settings: Settings) -> tuple[Settings, Sequence[CustomMetric]]:
    """Return the settings and metrics of a role: those of the experiment whose keys the settings name, if any."""
    if deployment_prefix(settings.prefix) == settings.prefix:
        return settings, ()
    plan = await read_plan(redis, Streams(settings.prefix, 0))
    if plan is None:
        return settings, ()
    know_metrics(plan)
    http = {"http_port": settings.http_port}
    return settings_of_experiment(settings, plan).model_copy(update=http), own_metrics(plan)


async def read_plan(redis: Redis, streams: Streams) -> Plan | None:
    """Return the plan of a run's experiment; None if it has none."""
    entries = await read_range(redis, streams.experiment, count=1)
    begun = decode_entry(entries[0].fields[DATA_FIELD]) if entries else None
    return begun.plan if isinstance(begun, Begun) else None
