"""Runs labelers over labeled rows, and finds the traffic at which they are compared."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from redis import RedisError
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.present_traffic import present_traffic
from ragtide_offline.agreement.predictions import read_predictions
from ragtide_offline.runs import CostPlan, planned_cost
from ragtide_offline.trust.running import LabeledRows, LabelerTrial, TrialRun, take_score_file
from ragtide_offline.trust.worth import LabelerWorth, PipelineTraffic
from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.redis.measured_slopes import read_slopes, store_slopes
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.slopes import Slope

from ..printing import warn
from .laboratory import label_rows, refuse_cost
from .progress import interruptible
from .redis import with_redis

ALONE: Final = "local"
"""The labeler that is measured beside every other, because it costs nothing."""


def labelers_to_try(settings: Settings, named: Sequence[str]) -> list[str]:
    """Return the labelers that are measured: those that are named, else the local one and those of the settings."""
    return [*dict.fromkeys(named or (ALONE, *settings.labelers))]


def read_trial(paths: Sequence[Path], rows: LabeledRows | None, scores: Sequence[Path]) -> tuple[LabelerTrial, int]:
    """Return a trial with the scores that files have, and the number of rows with labels.

    Args:
        paths: files of scores with gold scores, if there are no rows.
        rows: with labels, and the scores of other judges in them.
        scores: files of scores for these rows, as `ragtide score --json` writes them.

    Raises:
        RagtideError: a file cannot be read, or has no score of any row.
    """
    trial = LabelerTrial()
    if rows is None:
        return trial, sum(take_score_file(path, trial) for path in paths)
    rows.take_judges(trial)
    items = [row.interaction for row, _ in rows.rows if row.interaction is not None]
    for path in scores:
        if not sum([trial.take_predictions(predictions, items) for predictions in read_predictions(path)]):
            raise ConfigurationError(
                f"--scores {path} has no score of a row with a label: its lines need the interaction_id of the rows"
            )
    return trial, len(rows.rows)


def plan_trial(settings: Settings, rows: LabeledRows, labelers: Sequence[str]) -> dict[str, CostPlan]:
    """Return the planned cost of the judge, by its name; empty if it is not asked."""
    judged = [name for name in labelers if name == "judge"]
    return {name: asyncio.run(TrialRun(settings.with_labeler(name), rows, LabelerTrial()).plan()) for name in judged}


def ask_labelers(
    settings: Settings, rows: LabeledRows, trial: LabelerTrial, labelers: Sequence[str], max_cost_usd: float
) -> list[TrialRun]:
    """Label the rows with every labeler, and return the runs. The cost is stated before the first call.

    Raises:
        RagtideError: a labeler cannot be built, or may cost more than allowed.
    """
    for plan in plan_trial(settings, rows, labelers).values():
        refuse_cost(plan, max_cost_usd, "trial", "fewer --rows, --labeler local")
    runs = []
    for name in labelers:
        run = TrialRun(settings.with_labeler(name), rows, trial)
        runs.append(run)
        with interruptible(lambda: "Give the same command again: the answers of a judge are kept."):
            label_rows(run, f"asking {name}", total=len(rows.rows), max_cost_usd=max_cost_usd)
        if name == "judge":
            _estimate_price(run, rows, trial)
    return runs


def _estimate_price(run: TrialRun, rows: LabeledRows, trial: LabelerTrial) -> None:
    # Answers from the cache cost nothing now, and they would in the traffic.
    fresh = asyncio.run(planned_cost(run.settings, (row for row, _ in rows.rows), keeps_answers=False))
    if fresh.has_price and fresh.rows:
        trial.prices[run.result.labeler] = fresh.calls.cost_usd / fresh.rows


def traffic_of(settings: Settings, given: float | None, pipeline: str | None) -> PipelineTraffic | None:
    """Return the traffic: the given one, else that of a pipeline of a running deployment; None without one.

    Args:
        settings: of the deployment.
        given: answers a day; None to look at the deployment.
        pipeline: whose traffic counts; by default that with the most.

    Raises:
        ConfigurationError: the deployment has no traffic of this pipeline.
    """
    if given is not None:
        return PipelineTraffic(given)
    if not settings.redis_address and not EmbeddedRedis.runs_in(settings.data_dir):
        if pipeline is not None:
            raise ConfigurationError(
                "--pipeline is for the traffic of a deployment, and none runs here: give --traffic"
            )
        return None

    async def body(redis: Redis, _: RedisHandle) -> dict[str, float]:
        return await present_traffic(Deployment(redis, settings))

    try:
        traffic = with_redis(settings, body)
    except (RagtideError, RedisError) as error:
        if pipeline is not None:
            raise
        warn(f"The traffic of now is not known: {error}")
        return None
    if pipeline is not None and pipeline not in traffic:
        raise ConfigurationError(f"--pipeline {pipeline} has no traffic now: give --traffic, in answers a day")
    name = pipeline or max(traffic, key=lambda name: traffic[name], default=None)
    return None if name is None else PipelineTraffic(traffic[name], name)


def store_worths(settings: Settings, worths: Sequence[LabelerWorth]) -> int:
    """Store the slopes of labelers for the deployment, beside those of other failures; return their number.

    Raises:
        RedisUnavailable: Redis cannot be read or written.
    """
    by_version: defaultdict[tuple[str, str], dict[str, Slope]] = defaultdict(dict)
    for worth in worths:
        if worth.slope is not None and worth.labeler.version:
            by_version[worth.labeler.name, worth.labeler.version][worth.metric] = worth.slope

    async def store(redis: Redis, _: RedisHandle) -> None:
        stored = await read_slopes(redis, settings.prefix)
        for (name, version), slopes in by_version.items():
            known = dict(stored.get((name, version), {}))
            for metric, slope in slopes.items():
                others = (other for other in known.get(metric, ()) if other.failure != slope.failure)
                known[metric] = (*others, slope)
            await store_slopes(redis, settings.prefix, name, version, known)

    with_redis(settings, store)
    return sum(map(len, by_version.values()))


def trust_record(
    runs: Sequence[TrialRun], labeled: int, rows: LabeledRows | None, traffic: PipelineTraffic | None, **facts: Any
) -> dict[str, Any]:
    """Return what programs are told about a trial, without the worth of the labelers."""
    counts = {} if rows is None else rows.result.counts
    return {
        "rows": labeled,
        "without_labels": counts.get("without_labels", 0),
        "problems": counts.get("problems", 0) + sum(run.result.counts["problems"] for run in runs),
        "traffic_a_day": None if traffic is None else traffic.answers_a_day,
        "pipeline": None if traffic is None else traffic.pipeline,
        "cost_usd": sum(run.result.cost_usd for run in runs),
        **facts,
    }
