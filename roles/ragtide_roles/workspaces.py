"""How a process joins a workspace: it waits for it, takes the options of its experiment, and trusts few of them."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_consumers.labelers.own_metrics import own_metrics
from ragtide_consumers.labelers.plugins import installed_labelers
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_consumers.metrics.custom import CustomMetric
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.waiting import sleep_or_stop
from ragtide_runtime.redis.keys import DATA_FIELD, Streams, workspace_of
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.settings.alerting import StallSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import find_workspace, settings_of_workspace
from ragtide_schemas import InvalidEntryError
from ragtide_schemas.experiments import Begun, Plan, decode_entry

UNBOUNDED: Final = 2**40
"""Entries that the streams of a workspace may hold: an experiment is finite, and none of its entries may be dropped."""

LOOK_S = 0.2
"""Seconds between two checks whether a workspace exists."""

log = structlog.get_logger("ragtide.experiment")


def settings_of_experiment(settings: Settings, plan: Plan) -> Settings:
    """Return the settings of a deployment changed for an experiment: its own keys, no alerts, nothing dropped.

    The criterion of its metric is asked as the plan has it, whatever became of it since.
    """
    own = settings_of_workspace(settings, plan.run)
    if plan.criterion is not None:
        others = (criterion for criterion in own.judge.criteria if criterion.metric != plan.criterion.metric)
        judge = own.judge.model_copy(update={"criteria": (*others, plan.criterion)})
        own = own.model_copy(update={"judge": judge})
    return own.model_copy(
        update={
            "labeler": plan.labeler,
            "evaluators": (),
            "interactions_cap": UNBOUNDED,
            "events_cap": UNBOUNDED,
            "alerts": (),
            "windows": (),
            "stall": StallSettings.none(),
        }
    )


async def wait_for_workspace(redis: Redis, settings: Settings, stop: asyncio.Event) -> None:
    """Wait until the workspace of the settings exists, or until stopped; live traffic has no workspace.

    A worker that starts before the experiment would label the experiment's first answers without its metrics.
    """
    workspace = workspace_of(settings.prefix)
    waiting = False
    while workspace is not None and not stop.is_set() and await find_workspace(redis, settings, workspace) is None:
        if not waiting:
            log.info("waiting for the workspace", workspace=workspace)
        waiting = True
        await sleep_or_stop(stop, LOOK_S)


async def join_experiment(redis: Redis, settings: Settings) -> tuple[Settings, Sequence[CustomMetric]]:
    """Return settings and custom metrics for a role: those of the experiment, if the settings name its workspace."""
    if workspace_of(settings.prefix) is None:
        return settings, ()
    plan = await read_plan(redis, Streams(settings.prefix, 0))
    if plan is None:
        return settings, ()
    http = {"http_port": settings.http_port}
    return settings_of_experiment(settings, plan).model_copy(update=http), own_metrics(plan)


async def read_plan(redis: Redis, streams: Streams) -> Plan | None:
    """Return the plan of a workspace's experiment; None if the workspace has no experiment.

    Raises:
        ConfigurationError: the beginning of the experiment cannot be read.
    """
    entries = await read_range(redis, streams.experiment, count=1)
    try:
        begun = decode_entry(entries[0].fields.get(DATA_FIELD, b"")) if entries else None
    except InvalidEntryError as error:
        raise ConfigurationError(
            f"the beginning of experiment {workspace_of(streams.prefix)} cannot be read ({error}): use the release of "
            "ragtide that began it"
        ) from None
    return begun.plan if isinstance(begun, Begun) else None


def check_labeler(named: str, local: Settings, workspace: str) -> None:
    """Check that this process may load the labeler of a workspace.

    Args:
        named: the labeler in the options of the workspace.
        local: settings of this process.
        workspace: its name, for the message.

    Raises:
        ConfigurationError: loading the labeler would import code that only Redis names.
    """
    if named == local.labeler or named in BUILT_IN or named in installed_labelers():
        return
    raise ConfigurationError(
        f"workspace {workspace!r} names the labeler {named!r}, and this process imports no code that only Redis names: "
        f"if you trust this labeler, set RAGTIDE_LABELER={named!r} for this process"
    )


def check_judge(named: str | None, local: Settings, workspace: str) -> None:
    """Check that the judge's model of a workspace is the model of the local settings, for which this process pays.

    Raises:
        ConfigurationError: the local settings name another model, or none.
    """
    if named is None or named == local.judge.model:
        return
    raise ConfigurationError(
        f"workspace {workspace!r} names the judge model {named!r}, and the local settings name {local.judge.model!r}: "
        f"this process pays only for a model of its own settings; to take part, set RAGTIDE_JUDGE_MODEL={named!r}"
    )
