"""`ragtide dataset`: writes kept items as a data set, for experiments and tests."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotated import chosen_of_annotations, chosen_of_opinions
from ragtide_offline.annotation.annotations import HIGHEST, LOWEST, StoredAnnotations
from ragtide_offline.datasets.choosing import ChosenSpecimens, chosen_of_alert, chosen_of_sample, chosen_of_worst
from ragtide_offline.datasets.new_files import write_new
from ragtide_offline.datasets.rows import json_lines, rows
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable

from .command_groups import command_group
from .common import PipelineOption, given
from .console import err, warn
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with

STDOUT: Final = "-"
"""The value of --output that selects standard output."""

MOST: Final = 10_000
"""Most items that are read of each list."""

dataset = command_group(
    "Write kept items as a data set, for experiments and tests. Each row has its provenance.", no_args_is_help=True
)

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write, or - for standard output, the default.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
LimitOption = Annotated[int | None, typer.Option(min=1, max=MOST, help="Most rows.")]


@dataset.command("from-alert")
def from_alert(
    context: typer.Context,
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the alert.")],
    limit: LimitOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the items that an alert names, in its order."""
    settings = settings_with(context, workspace)

    async def choose(redis: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        found = next((one for one in await Deployment(redis, settings).alerts() if one.alert_id == alert_id), None)
        if found is None:
            warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
            raise typer.Exit(1)
        return await chosen_of_alert(kept, found, limit)

    _write(settings, choose, output, limit=limit, force=force)


@dataset.command("from-worst")
def from_worst(
    context: typer.Context,
    metric: Annotated[str | None, typer.Option(help="Only this metric, such as trace.adherence.")] = None,
    labeler: Annotated[str | None, typer.Option(help="Only scores of this labeler.")] = None,
    pipeline: PipelineOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the worst items of each metric, the worst first.

    An item that is among the worst of several metrics is one row.
    """
    settings = settings_with(context, workspace)

    async def choose(_: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        pipelines = await _pipelines(kept, pipeline)
        return await chosen_of_worst(kept, pipelines, limit, metric=metric, labeler=labeler, most=MOST)

    _write(settings, choose, output, limit=limit, force=force)


@dataset.command("from-sample")
def from_sample(
    context: typer.Context,
    pipeline: PipelineOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the uniform sample of the traffic, the latest items first.

    Each row tells the probability with which an interaction of the traffic is in the sample.
    """
    settings = settings_with(context, workspace)

    async def choose(_: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        return await chosen_of_sample(kept, await _pipelines(kept, pipeline), limit)

    _write(settings, choose, output, limit=limit, force=force)


@dataset.command("from-annotations")
def from_annotations(
    context: typer.Context,
    selected: Annotated[
        bool,
        typer.Option("--selected", help="Disputed items and the worst, which stand for no traffic; not the sample."),
    ] = False,
    saw_scores: Annotated[
        bool,
        typer.Option(
            "--saw-scores", help="Items that people rated who saw the scores, the last rated first; no gold scores."
        ),
    ] = False,
    lowest: Annotated[
        int | None, typer.Option(min=LOWEST, max=HIGHEST, help="With --saw-scores: lowest rating.")
    ] = None,
    highest: Annotated[
        int | None, typer.Option(min=LOWEST, max=HIGHEST, help="With --saw-scores: highest rating.")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Only answers of this person.")] = None,
    pipeline: PipelineOption = None,
    limit: LimitOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Write items of the sample that people annotated, with their gold scores.

    Of several people who annotated an item, the first counts.
    """
    settings = given(context).settings()
    if not saw_scores and (lowest is not None or highest is not None):
        raise ConfigurationError("--lowest and --highest need --saw-scores: add it")
    if saw_scores and selected:
        raise ConfigurationError("--selected and --saw-scores choose different items: give one of them")
    least, most = lowest or LOWEST, highest or HIGHEST
    if least > most:
        raise ConfigurationError(f"--lowest is {least} and --highest is {most}: no rating is between them")

    async def choose(redis: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        annotations = await StoredAnnotations(redis, settings.prefix).read(saw_scores=saw_scores)
        if saw_scores:
            return await chosen_of_opinions(
                kept, annotations, lowest=least, highest=most, annotator=annotator, pipeline=pipeline, limit=limit
            )
        return await chosen_of_annotations(
            kept, annotations, selected=selected, annotator=annotator, pipeline=pipeline, limit=limit
        )

    _write(settings, choose, output, limit=limit, force=force)
    if selected:
        warn("These items were selected because of their scores: means and agreement are about these items alone")


async def _pipelines(kept: KeptSpecimens, pipeline: str | None) -> list[str]:
    return await kept.pipelines() if pipeline is None else [pipeline]


def _write(
    settings: Settings,
    choose: Callable[[Redis, KeptSpecimens], Awaitable[ChosenSpecimens]],
    output: Path | None,
    *,
    limit: int | None,
    force: bool,
) -> None:
    """Write the chosen specimens, and tell in words what was written and what is missing."""
    to_file = None if output is None or str(output) == STDOUT else output
    if to_file is not None and to_file.exists() and not force:
        raise ConfigurationError(_exists(to_file))

    async def body(redis: Redis, _: RedisHandle) -> tuple[ChosenSpecimens, int]:
        kept = KeptSpecimens(redis, settings.layout)
        found = await choose(redis, kept)
        warn(*filter(None, [kept.unreadable.warning()]))
        return found, kept.gone

    found, gone = with_redis(settings, body)
    if found.missing:
        warn(f"No longer kept, so not in the data set: {', '.join(map(printable, found.missing))}")
    if gone:
        warn(f"{gone:,} {'item' if gone == 1 else 'items'} of these lists had expired and are not in the data set")
    if not found.chosen:
        warn("No items are kept for this, so nothing was written: ragtide items counts those that are kept")
        raise typer.Exit(1)
    text = json_lines(rows(found.chosen))
    if to_file is None:
        typer.echo(text, nl=False)
    else:
        try:
            write_new(to_file, text, force=force)
        except FileExistsError:
            raise ConfigurationError(_exists(to_file)) from None
        except OSError as error:
            raise ConfigurationError(f"{to_file} cannot be written ({error.strerror}): give another --output") from None
    err.print(_summary(found, to_file), markup=False, highlight=False, soft_wrap=True)
    if limit is not None and len(found.chosen) < limit:
        warn(
            f"--limit is {limit:,} and only {len(found.chosen):,} are kept for this: specimens.worst_n "
            f"({settings.specimens.worst_n:,}) is the number of the worst of each metric and labeler, and "
            f"specimens.sample_n ({settings.specimens.sample_n:,}) that of the sample; they count from now on"
        )


def _exists(path: Path) -> str:
    return f"{path} exists: give another --output, or --force to replace it"


def _summary(found: ChosenSpecimens, path: Path | None) -> str:
    interactions = [one.specimen.interaction for one in found.chosen]
    times = sorted(one.occurred_at for one in interactions)
    names = sorted({one.pipeline for one in interactions})
    pipelines = f"pipeline {names[0]}" if len(names) == 1 else f"{len(names):,} pipelines"
    count = f"{len(interactions):,} {'row' if len(interactions) == 1 else 'rows'}"
    kinds = sorted({one.specimen.redacted_by for one in found.chosen}, reverse=True)
    redacted = " or ".join(f"redacted by {', '.join(names)}" if names else "not redacted" for names in kinds)
    return (
        f"{count} of {pipelines}, answered from {times[0]:%Y-%m-%d %H:%M} to {times[-1]:%Y-%m-%d %H:%M} UTC"
        f"{'' if path is None else f', written to {path}'}. They contain texts of users, {redacted}."
    )
