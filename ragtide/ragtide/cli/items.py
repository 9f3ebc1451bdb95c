"""`ragtide items`: lists specimens: the worst, the sample, those of a rule or an alert; or deletes one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from redis.asyncio import Redis
from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotations import StoredAnnotations
from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, beyond_list, parts_of_worst, worst_list
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Specimen
from ragtide_schemas.printable import printable

from .common import JsonOption, PipelineOption
from .console import err, out, print_json, warn
from .fitting import Column, Notes, fitted, heading
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with

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
        tables = [one.scores for one in specimen.labelings if self.labeler in (None, one.labeler)]
        return next((scores[self.metric] for scores in tables if self.metric in scores), None)


def items(
    context: typer.Context,
    worst: Annotated[bool, typer.Option("--worst", help="The worst items of each metric.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="The uniform sample, the latest first.")] = False,
    alert: Annotated[str | None, typer.Option(metavar="ID", help="The items that an alert names.")] = None,
    rule: Annotated[str | None, typer.Option(metavar="NAME", help="Items beyond the line of an alert rule.")] = None,
    metric: Annotated[str | None, typer.Option(help="With --worst: only this metric, such as trace.adherence.")] = None,
    labeler: Annotated[str | None, typer.Option(help="With --worst: only scores of this labeler.")] = None,
    pipeline: PipelineOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most items of each list.")] = 10,
    forget: Annotated[str | None, typer.Option(metavar="ID", help="Delete the item with this id.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List kept items: the worst, a sample, or those of an alert.

    Without an option it counts them. With --json each item is one line.
    """
    chosen = [name for name, given in _views(worst, sample, alert, rule, forget).items() if given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} exclude each other: give one of them")
    if (metric or labeler) and not worst:
        raise typer.BadParameter("--metric and --labeler choose among the worst: add --worst")
    settings = settings_with(context, workspace)
    if forget is not None:
        _forget(settings, forget, pipeline)
        return

    async def body(redis: Redis, _: RedisHandle) -> list[ItemGroup] | list[dict[str, Any]]:
        kept = KeptSpecimens(redis, settings.layout)
        if alert is not None:
            groups = [await _of_alert(kept, await _alert(redis, settings, alert))]
        else:
            pipelines = await kept.pipelines() if pipeline is None else [pipeline]
            counts = {name: await kept.lists(name) for name in pipelines}
            if not chosen:
                return [
                    {"pipeline": name, "list": one, "items": n}
                    for name, found in counts.items()
                    for one, n in found.items()
                ]
            groups = [
                ItemGroup(
                    name, one, *_metric_of(one), [found.specimen for found in await kept.listed(name, one, limit)]
                )
                for name, lists in counts.items()
                for one in lists
                if _is_wanted(one, worst=worst, rule=rule, metric=metric, labeler=labeler)
            ]
        warn(*filter(None, [kept.unreadable.warning()]))
        return [group for group in groups if group.specimens]

    found = with_redis(settings, body)
    if as_json:
        for one in found:
            for line in _lines(one) if isinstance(one, ItemGroup) else [one]:
                print_json(line)
    else:
        out.print(_view(found, out.width))


def _views(worst: bool, sample: bool, alert: str | None, rule: str | None, forget: str | None) -> dict[str, bool]:
    return {
        "--worst": worst,
        "--sample": sample,
        "--alert": alert is not None,
        "--rule": rule is not None,
        "--forget": forget is not None,
    }


def _is_wanted(name: str, *, worst: bool, rule: str | None, metric: str | None, labeler: str | None) -> bool:
    if not worst:
        return name == (SPECIMEN_SAMPLE if rule is None else beyond_list(rule))
    found, by = _metric_of(name)
    if found is None or by is None or name != worst_list(found, by):
        return False
    return (metric is None or metric in (found, found.rpartition(".")[2])) and labeler in (None, by)


def _metric_of(name: str) -> tuple[str | None, str | None]:
    return parts_of_worst(name) or (None, None)


async def _alert(redis: Redis, settings: Settings, alert_id: str) -> Alert:
    deployment = Deployment(redis, settings)
    found = next((one for one in await deployment.alerts() if one.alert_id == alert_id), None)
    if found is None:
        warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
        raise typer.Exit(1)
    return found


async def _of_alert(kept: KeptSpecimens, alert: Alert) -> ItemGroup:
    """Return the specimens that an alert names, in its order; say which are not kept."""
    found = {one: await kept.find(one, alert.pipeline) for one in alert.worst_interaction_ids}
    missing = [one for one, specimens in found.items() if not specimens]
    if missing:
        warn(f"Not kept: {', '.join(map(printable, missing))}")
    specimens = [one for specimens in found.values() for one in specimens]
    return ItemGroup(alert.pipeline, "alert", alert.metric, alert.labeler, specimens)


def _forget(settings: Settings, interaction_id: str, pipeline: str | None) -> None:
    async def body(redis: Redis, _: RedisHandle) -> int:
        await StoredAnnotations(redis, settings.prefix).forget(interaction_id, pipeline)
        return await KeptSpecimens(redis, settings.layout).forget(interaction_id, pipeline)

    forgotten = with_redis(settings, body)
    if not forgotten:
        warn(f"No specimen of {printable(interaction_id)} is kept")
        raise typer.Exit(1)
    err.print(f"{forgotten:,} deleted", highlight=False)


def _lines(group: ItemGroup) -> list[dict[str, Any]]:
    return [
        {
            "pipeline": group.pipeline,
            "list": group.name,
            "metric": group.metric,
            "labeler": group.labeler,
            "score": group.score(one),
            "interaction_id": one.interaction.interaction_id,
            "specimen": one.model_dump(mode="json"),
        }
        for one in group.specimens
    ]


def _view(found: Sequence[ItemGroup | dict[str, Any]], width: int) -> RenderableType:
    if not found:
        return Text("No items are kept for this.", style="bright_black")
    groups = [one for one in found if isinstance(one, ItemGroup)]
    if not groups:
        return lists_view([one for one in found if isinstance(one, dict)], width)
    above, at = {}, 0
    for group in groups:
        above[at] = ([Text()] if at else []) + [heading([group.pipeline, group.name], width)]
        at += len(group.specimens)
    each = [(group, one) for group in groups for one in group.specimens]
    columns = [
        Column("id", [one.interaction.interaction_id for _, one in each]),
        Column("score", [_score(group.score(one)) for group, one in each], right=True),
        Column("answered", [f"{one.interaction.occurred_at:%m-%d %H:%M}" for _, one in each], yields=2),
        Column("question", [_short(one.interaction.question) for _, one in each], yields=1, shortest=20, stacks=True),
    ]
    return fitted(columns, width, Notes(above))


def lists_view(rows: Sequence[dict[str, Any]], width: int) -> RenderableType:
    """Return the lists of items of each pipeline as a table."""
    columns = [
        Column("pipeline", [one["pipeline"] for one in rows], yields=2, shortest=12),
        Column("list", [one["list"] for one in rows], yields=1, shortest=24),
        Column("items", [f"{one['items']:,}" for one in rows], right=True),
    ]
    return fitted(columns, width)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUESTION_CHARS else f"{line[: QUESTION_CHARS - 3]}..."
