"""`ragtide repartition`: changes the number of partitions of a deployment while no role runs."""

from typing import Annotated

import typer

from ragtide_aggregator.maintenance.repartition import Repartition
from ragtide_runtime.settings.model import Settings

from .common import given
from .console import err
from .with_redis import with_redis


def repartition(
    context: typer.Context,
    partitions: Annotated[int, typer.Argument(min=1, max=1024, help="The new number of partitions.")],
    split: Annotated[
        list[str] | None, typer.Option(help="A split pipeline, such as shop=4; repeat it for every split.")
    ] = None,
) -> None:
    """Change the number of partitions while no role runs.

    Stop every producer, too. Afterwards set RAGTIDE_PARTITIONS everywhere.
    """
    settings = given(context).settings()
    splits = dict(_split(text) for text in split or [])
    wanted = settings.model_copy(update={"partitions": partitions, "splits": splits})
    # Check that they fit together. Fields that were not given are left out: a destination takes those of its kind only.
    Settings.model_validate(wanted.model_dump(exclude_unset=True))
    moved = with_redis(settings, lambda redis, _: Repartition(redis, settings, wanted.layout).run(), any_layout=True)
    err.print(
        f"{partitions} partitions now, {moved:,} metric events moved: set RAGTIDE_PARTITIONS={partitions}"
        + (" and RAGTIDE_SPLITS" if splits else "")
        + " everywhere, then start the roles and the producers",
        highlight=False,
    )


def _split(text: str) -> tuple[str, int]:
    pipeline, _, parts = text.rpartition("=")
    if not pipeline or not parts.isdigit():
        raise typer.BadParameter(f"{text!r} is not a split: give pipeline=parts, such as shop=4")
    return pipeline, int(parts)
