"""`ragtide item`: shows one specimen with its marked sentences and the formula of each score."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import labeling_to_show, marked
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas import Specimen
from ragtide_schemas.printable import printable

from .common import JsonOption
from .console import out, print_json, warn
from .item_views import item_view
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


def item(
    context: typer.Context,
    interaction_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the interaction.")],
    pipeline: Annotated[str | None, typer.Option(help="Its pipeline, if several pipelines have this id.")] = None,
    labeler: Annotated[
        str | None,
        typer.Option(help="Labeler whose marks are shown, such as local; default: the judge, if there is one."),
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one kept item: marked sentences and scores.

    Sentences are marked as relevant, used or supported, and each formula is filled in.
    """
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> list[Specimen]:
        kept = KeptSpecimens(redis, settings.layout)
        found = await kept.find(interaction_id, pipeline)
        warn(*filter(None, [kept.unreadable.warning()]))
        return found

    found = with_redis(settings, body)
    if not found:
        warn(
            f"No specimen of {printable(interaction_id)} is kept: workers keep the worst, a sample, and items beyond a "
            "rule's line, for a limited time; ragtide items lists them"
        )
        raise typer.Exit(1)
    if len(found) > 1:
        names = ", ".join(sorted(printable(one.interaction.pipeline) for one in found))
        warn(f"Several pipelines have this id: name one with --pipeline ({names})")
        raise typer.Exit(1)
    (specimen,) = found
    labeling = labeling_to_show(specimen, labeler)
    if labeling is None:
        names = ", ".join(one.labeler for one in specimen.labelings)
        raise typer.BadParameter(f"the item was labeled by {names}", param_hint="--labeler")
    if as_json:
        print_json(fields_of_item(specimen, labeler))
    else:
        out.print(item_view(specimen, labeling))


def fields_of_item(specimen: Specimen, labeler: str | None = None) -> dict[str, Any]:
    """Return a specimen as values that JSON can hold, with its marked sentences and the formulas of its scores.

    Args:
        specimen: to show.
        labeler: whose marks are shown; by default those of the judge, if it labeled.
    """
    labeling = labeling_to_show(specimen, labeler)
    marks = None if labeling is None else {"labeler": labeling.labeler, **asdict(marked(specimen, labeling))}
    formulas = {one.labeler: filled_formulas(one) for one in specimen.labelings}
    return {**specimen.model_dump(mode="json"), "marks": marks, "formulas": formulas}
