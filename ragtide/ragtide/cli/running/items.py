"""Kept items that commands list, or delete."""

from collections.abc import Sequence

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_producers.ingest.closing import forget_spans
from ragtide_roles.kept.annotations import StoredAnnotations
from ragtide_runtime.redis.keys import (
    SPECIMEN_NEWEST,
    SPECIMEN_SAMPLE,
    beyond_list,
    parts_of_worst,
    worst_list,
)
from ragtide_runtime.redis.session_turns import forget_turns
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Alert, Specimen
from ragtide_schemas.printable import printable

from ..printing import err, warn
from ..printing.live import ItemGroup
from .alerts import read_alerts
from .letters import forget_letters
from .redis import with_redis


def views_of_items(
    *, worst: bool, newest: bool, sample: bool, alert: str | None, rule: str | None, forget: str | None
) -> dict[str, bool]:
    """Return the options that choose a view, and whether each is given."""
    return {
        "--worst": worst,
        "--newest": newest,
        "--sample": sample,
        "--alert": alert is not None,
        "--rule": rule is not None,
        "--forget": forget is not None,
    }


def is_wanted_list(
    name: str, *, worst: bool, newest: bool, rule: str | None, metric: str | None, labeler: str | None
) -> bool:
    """Return whether a list of items is chosen."""
    if newest:
        return name == SPECIMEN_NEWEST
    if not worst:
        return name == (SPECIMEN_SAMPLE if rule is None else beyond_list(rule))
    list_metric, by = metric_of_list(name)
    if list_metric is None or by is None or name != worst_list(list_metric, by):
        return False
    return (metric is None or metric in (list_metric, list_metric.rpartition(".")[2])) and labeler in (None, by)


def metric_of_list(name: str) -> tuple[str | None, str | None]:
    """Return metric and labeler of a list of the worst; None for another list."""
    return parts_of_worst(name) or (None, None)


def group_of_list(
    pipeline: str, name: str, specimens: Sequence[Specimen], *, metric: str | None, labeler: str | None
) -> ItemGroup:
    """Return the specimens of a list, with the metric whose scores it shows.

    The newest have the scores of the wanted metric, or of the first one with bands.
    """
    list_metric, by = metric_of_list(name)
    if name != SPECIMEN_NEWEST:
        return ItemGroup(pipeline, name, list_metric, by, specimens)
    names = {score for specimen in specimens for labeling in specimen.labelings for score in labeling.scores}
    wanted = [score for score in METRICS if score in names and metric in (score, score.rpartition(".")[2])]
    banded = [score for score in METRICS if score in names and METRICS[score].bands is not None]
    shown_metric_name = next(iter(wanted), metric) if metric is not None else next(iter(banded), None)
    return ItemGroup(pipeline, name, shown_metric_name, labeler, specimens)


async def alert_of_id(redis: Redis, settings: Settings, alert_id: str) -> Alert:
    """Return an alert, or end the command if there is none."""
    match = next((alert for alert in await read_alerts(redis, settings) if alert.alert_id == alert_id), None)
    if match is None:
        warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
        raise typer.Exit(1)
    return match


async def items_of_alert(kept: KeptSpecimens, alert: Alert) -> ItemGroup:
    """Return the specimens that an alert names, in its order; say which are not kept."""
    kept_by_id = {name: await kept.find(name, alert.pipeline) for name in alert.worst_interaction_ids}
    missing = [name for name, specimens in kept_by_id.items() if not specimens]
    if missing:
        warn(f"Not kept: {', '.join(map(printable, missing))}")
    specimens = [specimen for specimens in kept_by_id.values() for specimen in specimens]
    return ItemGroup(alert.pipeline, "alert", alert.metric, alert.labeler, specimens)


def forget_item(settings: Settings, interaction_id: str, pipeline: str | None) -> None:
    """Delete the specimens, annotations, dead letters and spans of an interaction, and its turn of an open session."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, int, int, int]:
        await StoredAnnotations(redis, settings.prefix).forget(interaction_id, pipeline)
        items = await KeptSpecimens(redis, settings.layout).forget(interaction_id, pipeline)
        turns = await forget_turns(redis, settings.layout, interaction_id, pipeline)
        traces = await forget_spans(redis, settings.layout, interaction_id)
        return items, turns, traces, await forget_letters(redis, settings, interaction_id, pipeline)

    items, turns, traces, letters = with_redis(settings, body)
    if not items + turns + traces + letters:
        warn(f"Neither an item nor a dead letter of {printable(interaction_id)} is kept")
        raise typer.Exit(1)
    of_sessions = f", {turns:,} turns of open sessions" if turns else ""
    of_traces = f", spans of {traces:,} traces" if traces else ""
    err.print(f"{items:,} items and {letters:,} dead letters{of_sessions}{of_traces} deleted", highlight=False)
