"""Lists of specimens: the worst, the sample, those of a rule or an alert."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from redis.asyncio import Redis
from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotations import StoredAnnotations
from ragtide_producers.ingest.closing import forget_spans
from ragtide_runtime.redis.keys import SPECIMEN_NEWEST, SPECIMEN_SAMPLE, beyond_list, parts_of_worst, worst_list
from ragtide_runtime.redis.session_turns import forget_turns
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Alert, Specimen
from ragtide_schemas.printable import printable

from .console import err, warn
from .fitting import Column, Notes, fitted, heading
from .listings import forget_letters
from .with_redis import with_redis

QUESTION_CHARS: Final = 200
"""Most characters of a question in the table; `--json` prints all."""


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Specimens of one list of a pipeline, or of an alert."""

    pipeline: str
    name: str
    """Name of the list; `alert` for an alert."""
    metric: str | None
    """Metric of the list."""
    labeler: str | None
    """Labeler of the list."""
    specimens: Sequence[Specimen]

    def score(self, specimen: Specimen) -> float | None:
        """Return the score of the list's metric; None without one."""
        if self.metric is None:
            return None
        tables = [labeling.scores for labeling in specimen.labelings if self.labeler in (None, labeling.labeler)]
        return next((scores[self.metric] for scores in tables if self.metric in scores), None)


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
    found, by = metric_of_list(name)
    if found is None or by is None or name != worst_list(found, by):
        return False
    return (metric is None or metric in (found, found.rpartition(".")[2])) and labeler in (None, by)


def metric_of_list(name: str) -> tuple[str | None, str | None]:
    """Return metric and labeler of a list of the worst; None for another list."""
    return parts_of_worst(name) or (None, None)


def group_of_list(
    pipeline: str, name: str, specimens: Sequence[Specimen], *, metric: str | None, labeler: str | None
) -> ItemGroup:
    """Return the specimens of a list, with the metric whose scores it shows.

    The newest have the scores of the wanted metric, or of the first one with bands.
    """
    of_list, by = metric_of_list(name)
    if name != SPECIMEN_NEWEST:
        return ItemGroup(pipeline, name, of_list, by, specimens)
    names = {score for specimen in specimens for labeling in specimen.labelings for score in labeling.scores}
    wanted = [score for score in METRICS if score in names and metric in (score, score.rpartition(".")[2])]
    banded = [score for score in METRICS if score in names and METRICS[score].bands is not None]
    shown = next(iter(wanted), metric) if metric is not None else next(iter(banded), None)
    return ItemGroup(pipeline, name, shown, labeler, specimens)


async def alert_of_id(redis: Redis, settings: Settings, alert_id: str) -> Alert:
    """Return an alert, or end the command if there is none."""
    deployment = Deployment(redis, settings)
    found = next((alert for alert in await deployment.alerts() if alert.alert_id == alert_id), None)
    if found is None:
        warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
        raise typer.Exit(1)
    return found


async def items_of_alert(kept: KeptSpecimens, alert: Alert) -> ItemGroup:
    """Return the specimens that an alert names, in its order; say which are not kept."""
    found = {name: await kept.find(name, alert.pipeline) for name in alert.worst_interaction_ids}
    missing = [name for name, specimens in found.items() if not specimens]
    if missing:
        warn(f"Not kept: {', '.join(map(printable, missing))}")
    specimens = [specimen for specimens in found.values() for specimen in specimens]
    return ItemGroup(alert.pipeline, "alert", alert.metric, alert.labeler, specimens)


def forget_item(settings: Settings, interaction_id: str, pipeline: str | None) -> None:
    """Delete the specimens, annotations, dead letters and spans of an interaction, and its turn of an open session."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, int, int, int]:
        await StoredAnnotations(redis, settings.prefix).forget(interaction_id, pipeline)
        items = await KeptSpecimens(redis, settings.layout).forget(interaction_id, pipeline)
        turns = await forget_turns(redis, settings.layout, interaction_id, pipeline)
        hold_ms = int(settings.ingest.hold_s * 1000)
        traces = await forget_spans(redis, settings.layout, interaction_id, hold_ms)
        return items, turns, traces, await forget_letters(redis, settings, interaction_id, pipeline)

    items, turns, traces, letters = with_redis(settings, body)
    if not items + turns + traces + letters:
        warn(f"Neither an item nor a dead letter of {printable(interaction_id)} is kept")
        raise typer.Exit(1)
    of_sessions = f", {turns:,} turns of open sessions" if turns else ""
    of_traces = f", spans of {traces:,} traces" if traces else ""
    err.print(f"{items:,} items and {letters:,} dead letters{of_sessions}{of_traces} deleted", highlight=False)


def lines_of_items(group: ItemGroup) -> list[dict[str, Any]]:
    """Return each specimen of a group as values that JSON can hold."""
    return [
        {
            "pipeline": group.pipeline,
            "list": group.name,
            "metric": group.metric,
            "labeler": group.labeler,
            "score": group.score(specimen),
            "interaction_id": specimen.interaction.interaction_id,
            "specimen": specimen.model_dump(mode="json"),
        }
        for specimen in group.specimens
    ]


def items_view(found: Sequence[ItemGroup | dict[str, Any]], width: int) -> RenderableType:
    """Return groups of specimens, or counts of lists, as a table."""
    if not found:
        return Text("No items are kept for this.", style="bright_black")
    groups = [group for group in found if isinstance(group, ItemGroup)]
    if not groups:
        return lists_view([entry for entry in found if isinstance(entry, dict)], width)
    above, at = {}, 0
    for group in groups:
        parts = [group.pipeline, group.name]
        if group.name == SPECIMEN_NEWEST and group.metric is not None:
            parts.append(group.metric)
        above[at] = ([Text()] if at else []) + [heading(parts, width)]
        at += len(group.specimens)
    each = [(group, specimen) for group in groups for specimen in group.specimens]
    columns = [
        Column("id", [specimen.interaction.interaction_id for _, specimen in each]),
        Column("score", [_score(group.score(specimen)) for group, specimen in each], right=True),
        Column("answered", [f"{specimen.interaction.occurred_at:%m-%d %H:%M}" for _, specimen in each], yields=2),
        Column(
            "question",
            [_short(specimen.interaction.question) for _, specimen in each],
            yields=1,
            shortest=20,
            stacks=True,
        ),
    ]
    return fitted(columns, width, Notes(above))


def lists_view(rows: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the lists of items of each pipeline as a table."""
    columns = [
        Column("pipeline", [row["pipeline"] for row in rows], yields=2, shortest=12),
        Column("list", [row["list"] for row in rows], yields=1, shortest=24),
        Column("items", [f"{row['items']:,}" for row in rows], right=True),
    ]
    return fitted(columns, width)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUESTION_CHARS else f"{line[: QUESTION_CHARS - 3]}..."
