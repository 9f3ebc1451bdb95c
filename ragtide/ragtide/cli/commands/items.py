"""`ragtide items`: kept items, listed, shown, followed, or annotated."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..printing import fitted, out, print_json, warn
from ..running import JsonOption, PipelineOption, WorkspaceOption, given, settings_with, user_name
from . import command, command_group

if TYPE_CHECKING:
    from ragtide_runtime.settings.model import Settings

items = command_group("items")


@command(
    "ragtide items i-17",
    "ragtide items --worst --metric trace.adherence",
    "ragtide items --newest --pipeline shop --limit 100",
    "ragtide items --sample --pipeline shop --json",
    "ragtide items --forget i-17",
    exits="1 if there is no such alert, or no such item is kept",
    runs=items,
)
def show_items(
    context: typer.Context,
    interaction_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id of one interaction, to show all that is kept of it.")
    ] = None,
    worst: Annotated[bool, typer.Option("--worst", help="The worst items of each metric.")] = False,
    newest: Annotated[
        bool, typer.Option("--newest", help="The newest items, whatever their scores; of much traffic one a second.")
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="The uniform sample, the latest first.")] = False,
    alert: Annotated[str | None, typer.Option(metavar="ID", help="The items that an alert names.")] = None,
    rule: Annotated[str | None, typer.Option(metavar="NAME", help="Items beyond the line of an alert rule.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="With --worst or --newest: this metric, such as trace.adherence.")
    ] = None,
    labeler: Annotated[
        str | None, typer.Option(help="With ID, --worst or --newest: marks and scores of this labeler.")
    ] = None,
    pipeline: PipelineOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most items of each list.")] = 10,
    forget: Annotated[
        str | None, typer.Option(metavar="ID", help="Delete the item with this id, and dead letters about it.")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List kept items, or show one: marked sentences and scores.

    Without an option it counts them. With --json each item is one line. Of one item, sentences are marked as relevant,
    used or supported, and each formula is filled in.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_runtime.redis.url import RedisHandle

    from ..printing.live import LIST_COLUMNS, ItemGroup, items_view, lines_of_items
    from ..running.items import alert_of_id, forget_item, group_of_list, is_wanted_list, items_of_alert, views_of_items
    from ..running.redis import with_redis

    views = views_of_items(worst=worst, newest=newest, sample=sample, alert=alert, rule=rule, forget=forget)
    chosen = [name for name, given in {"ID": interaction_id is not None, **views}.items() if given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} exclude each other: give one of them")
    if (metric or labeler) and not (worst or newest or (interaction_id is not None and metric is None)):
        raise typer.BadParameter("--metric and --labeler choose the scores of --worst or --newest: add one of these")
    if interaction_id is not None:
        _show_item(settings, interaction_id, pipeline, labeler, as_json=as_json)
        return
    if forget is not None:
        forget_item(settings, forget, pipeline)
        return

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[ItemGroup], list[dict[str, Any]]]:
        kept = KeptSpecimens(redis, settings.layout)
        if alert is not None:
            groups = [await items_of_alert(kept, await alert_of_id(redis, settings, alert))]
        else:
            pipelines = await kept.pipelines() if pipeline is None else [pipeline]
            counts = {name: await kept.lists(name) for name in pipelines}
            if not chosen:
                return [], [
                    {"pipeline": name, "list": list_name, "items": n}
                    for name, lists in counts.items()
                    for list_name, n in lists.items()
                ]
            groups = [
                group_of_list(
                    name,
                    list_name,
                    [entry.specimen for entry in await kept.listed(name, list_name, limit)],
                    metric=metric,
                    labeler=labeler,
                )
                for name, lists in counts.items()
                for list_name in lists
                if is_wanted_list(list_name, worst=worst, newest=newest, rule=rule, metric=metric, labeler=labeler)
            ]
        warn(*filter(None, [kept.unreadable.warning()]))
        return [group for group in groups if group.specimens], []

    groups, counts = with_redis(settings, body)
    if as_json:
        for line in (*counts, *(line for group in groups for line in lines_of_items(group))):
            print_json(line)
    elif groups:
        out.print(items_view(groups, out.width))
    elif counts:
        out.print(fitted(LIST_COLUMNS, counts, out.width))
    else:
        out.print("No items are kept for this.", style="bright_black")


def _show_item(
    settings: "Settings", interaction_id: str, pipeline: str | None, labeler: str | None, *, as_json: bool
) -> None:
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_consumers.specimens.marks import labeling_to_show
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Specimen
    from ragtide_schemas.printable import printable

    from ..printing.live import fields_of_item, item_view
    from ..running.redis import with_redis

    async def body(redis: Redis, _: RedisHandle) -> list[Specimen]:
        kept = KeptSpecimens(redis, settings.layout)
        specimens = await kept.find(interaction_id, pipeline)
        warn(*filter(None, [kept.unreadable.warning()]))
        return specimens

    specimens = with_redis(settings, body)
    if not specimens:
        warn(
            f"No specimen of {printable(interaction_id)} is kept: workers keep the worst, a sample, and items beyond a "
            "rule's line, for a limited time; ragtide items lists them"
        )
        raise typer.Exit(1)
    if len(specimens) > 1:
        names = ", ".join(sorted(printable(candidate.interaction.pipeline) for candidate in specimens))
        warn(f"Several pipelines have this id: name one with --pipeline ({names})")
        raise typer.Exit(1)
    (specimen,) = specimens
    labeling = labeling_to_show(specimen, labeler)
    if labeling is None:
        names = ", ".join(entry.labeler for entry in specimen.labelings)
        raise typer.BadParameter(f"the item was labeled by {names}", param_hint="--labeler")
    if as_json:
        print_json(fields_of_item(specimen, labeler))
    else:
        out.print(item_view(specimen, labeling))


@command(
    "ragtide items trace i-17",
    "ragtide items trace i-17 --pipeline shop --json",
    exits="1 if the id is not known",
    of=items,
)
def trace(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of the interaction or trace.")],
    pipeline: Annotated[str | None, typer.Option(help="Its pipeline; faster.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow one interaction: published, taken, labeled, aggregated.

    With --json each fact is one line.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.reading.interaction_trace import SCANNED, InteractionTrace
    from ragtide_aggregator.statistics.tables.windows import window
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.details import TraceStation
    from ragtide_schemas.printable import printable

    from ..printing.live import stations_table
    from ..running.redis import with_redis

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[TraceStation], list[str]]:
        deployment = Deployment(redis, settings)
        windows = [window(name) for name in settings.windows]
        names = [pipeline] if pipeline else await deployment.pipelines()
        stations = await InteractionTrace(redis, settings.layout, identity, windows).follow(sorted(names))
        backlogs = [] if stations else await deployment.backlog()
        return stations, [f"{count:,} {why}" for backlog in backlogs for why, count in sorted(backlog.dropped.items())]

    stations, dropped = with_redis(settings, body)
    if as_json:
        for station in stations:
            print_json(
                {**station.model_dump(mode="json"), "at": None if station.at is None else station.at.isoformat()}
            )
    else:
        out.print(stations_table(stations))
    if not stations:
        warn(
            f"{printable(identity)} is not known. It was never published here; or it was dropped before "
            f"({', '.join(dropped) or 'no drop is counted'}); or it was scored longer ago than dedupe_window_s; or its "
            f"pipeline has no estimate yet and it is not among the newest {SCANNED:,} interactions: give --pipeline"
        )
        raise typer.Exit(1)


@command(
    "ragtide items annotate",
    "ragtide items annotate --from sample --rate context_relevance --annotator ann --json",
    of=items,
)
def annotate(
    context: typer.Context,
    annotator: Annotated[
        str | None, typer.Option(help="Your name on the page; default: the user of this machine.")
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Source of items: sample, disputed or worst; may be repeated. Default: all. Only the sample counts.",
        ),
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(help="Rate this metric from 1 to 5, too: context_relevance, context_utilization or completeness."),
    ] = None,
    pipeline: PipelineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the kept items that wait for your answers on the page.

    It prints the address, too. The page asks sentence by sentence, blind to the scores. Answers about the uniform
    sample are published as feedback with their probability, so estimates use them. Answers about disputed items and the
    worst are stored and count in no estimate.
    """
    settings = given(context).settings()
    from urllib.parse import urlencode

    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_roles.kept.annotations import StoredAnnotations
    from ragtide_roles.kept.questions import ADHERENCE, RATINGS
    from ragtide_roles.kept.queue import ItemSource, ItemToAnnotate, QueueOptions, left, queue_of
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_runtime.settings.serve import DEFAULT_PORT
    from ragtide_schemas.suggestions import unknown

    from ..running.redis import with_redis

    rated = tuple(name if name.startswith("trace.") else f"trace.{name}" for name in rate or ())
    for names, known, option in ((sources or (), [*ItemSource], "--from"), (rated, list(RATINGS), "--rate")):
        for name in names:
            if name not in known:
                raise typer.BadParameter(unknown(option.removeprefix("--"), name, known), param_hint=option)
    chosen = tuple(map(ItemSource, sources or ItemSource))
    options = QueueOptions(chosen, 1.0, (ADHERENCE, *rated), rated, settings.feedback_window_s)

    async def load(redis: Redis, _: RedisHandle) -> list[ItemToAnnotate]:
        kept = KeptSpecimens(redis, settings.layout)
        annotations = await StoredAnnotations(redis, settings.prefix).read()
        queue = await queue_of(kept, await kept.pipelines() if pipeline is None else [pipeline], options, annotations)
        warn(*filter(None, [kept.unreadable.warning()]))
        return left(queue, annotations, annotator or user_name())

    waiting = with_redis(settings, load)
    serve = settings.serve
    address = settings.notify.public_url or f"http://{serve.host}:{serve.port or DEFAULT_PORT}{serve.root_path}"
    fields = [("pipeline", pipeline)] if pipeline else []
    fields += [*(("from", name) for name in sources or ()), *(("rate", name) for name in rated)]
    page = f"{address.rstrip('/')}/label" + (f"?{urlencode(fields)}" if fields else "")
    counted = sum(item.inclusion_probability is not None for item in waiting)
    if as_json:
        print_json({"items": len(waiting), "sample": counted, "selected": len(waiting) - counted, "page": page})
        return
    out.print(
        f"{len(waiting):,} items wait for you: {counted:,} of the sample, whose answers count, and "
        f"{len(waiting) - counted:,} selected for their scores.",
        highlight=False,
    )
    out.print(page, markup=False, highlight=False, soft_wrap=True)
