"""`ragtide dataset`: kept items written as a data set, and sets that are drawn from answers."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from ..printing import warn
from ..running import (
    ConfidenceOption,
    FailIfOption,
    FormatOption,
    JsonOption,
    MapOption,
    PipelineOption,
    PipelinesOption,
    SinceOption,
    UntilOption,
    WorkspaceOption,
    given,
    settings_with,
)
from . import command, command_group

MOST: Final = 10_000
"""Most items that are read of each list."""


dataset = command_group(
    "dataset",
    "Write data sets of kept or drawn answers, and show their status.",
)


DataSetArgument = Annotated[Path, typer.Argument(metavar="FILE", help="File of the data set.")]


@dataclass(frozen=True, slots=True)
class DataSetFile:
    """The options about the file of a data set."""

    limit: Annotated[int | None, typer.Option(min=1, max=MOST, help="Most rows.")] = None
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, or - for standard output, the default.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False


@command(
    "ragtide dataset from-alert adherence-drift-0a1b2c3d4e5f --output failures.jsonl",
    exits="1 if there is no such alert, or none of its items is kept",
    of=dataset,
)
def from_alert(
    context: typer.Context,
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the alert.")],
    file: DataSetFile = DataSetFile(),
    workspace: WorkspaceOption = None,
) -> None:
    """Write the items that an alert names, in its order."""
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.alerts.contributors import CONTRIBUTORS_KEPT
    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_roles.kept.choosing import ChosenSpecimens, chosen_of_alert
    from ragtide_schemas.printable import printable

    from ..running.data_sets import write_data_set

    async def choose(redis: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        match = next(
            (alert for alert in await Deployment(redis, settings).alerts() if alert.alert_id == alert_id), None
        )
        if match is None:
            warn(f"There is no alert {printable(alert_id)}: ragtide alerts --json shows the ids")
            raise typer.Exit(1)
        return await chosen_of_alert(kept, match, file.limit)

    keeps = f"an alert names at most {CONTRIBUTORS_KEPT} interactions; from-worst and from-sample have more"
    write_data_set(context, settings, choose, file.output, limit=file.limit, force=file.force, keeps=keeps)


@command(
    "ragtide dataset from-worst --metric trace.adherence --limit 50 --output worst.jsonl",
    exits="1 if no item is kept for this",
    of=dataset,
)
def from_worst(
    context: typer.Context,
    metric: Annotated[str | None, typer.Option(help="Only this metric, such as trace.adherence.")] = None,
    labeler: Annotated[str | None, typer.Option(help="Only scores of this labeler.")] = None,
    pipeline: PipelineOption = None,
    file: DataSetFile = DataSetFile(),
    workspace: WorkspaceOption = None,
) -> None:
    """Write the worst items of each metric, the worst first.

    An item that is among the worst of several metrics is one row.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_roles.kept.choosing import ChosenSpecimens, chosen_of_worst

    from ..running.data_sets import write_data_set

    async def choose(_: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        pipelines = await kept.pipelines() if pipeline is None else [pipeline]
        return await chosen_of_worst(kept, pipelines, file.limit, metric=metric, labeler=labeler, most=MOST)

    keeps = (
        f"the worst {settings.specimens.worst_n:,} of each pipeline, metric and labeler are kept (specimens.worst_n; a "
        "larger number counts from now on)"
    )
    write_data_set(context, settings, choose, file.output, limit=file.limit, force=file.force, keeps=keeps)


@command(
    "ragtide dataset from-sample --pipeline shop --output sample.jsonl --force",
    exits="1 if no item is kept for this",
    of=dataset,
)
def from_sample(
    context: typer.Context,
    pipeline: PipelineOption = None,
    file: DataSetFile = DataSetFile(),
    workspace: WorkspaceOption = None,
) -> None:
    """Write the uniform sample of the traffic, the latest items first.

    Each row has the probability with which an interaction of the traffic is in the sample.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_roles.kept.choosing import ChosenSpecimens, chosen_of_sample

    from ..running.data_sets import write_data_set

    async def choose(_: Redis, kept: KeptSpecimens) -> ChosenSpecimens:
        return await chosen_of_sample(kept, await kept.pipelines() if pipeline is None else [pipeline], file.limit)

    keeps = (
        f"a share of {settings.specimens.sample:.2%} of each pipeline is kept, at most {settings.specimens.sample_n:,} "
        "items (specimens.sample and specimens.sample_n; larger numbers count from now on)"
    )
    write_data_set(context, settings, choose, file.output, limit=file.limit, force=file.force, keeps=keeps)


@command(
    "ragtide dataset from-annotations --output gold.jsonl",
    "ragtide dataset from-annotations --saw-scores --highest 2 --output bad.jsonl",
    exits="1 if no annotated item is kept",
    of=dataset,
)
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
    lowest: Annotated[int | None, typer.Option(min=1, max=5, help="With --saw-scores: lowest rating.")] = None,
    highest: Annotated[int | None, typer.Option(min=1, max=5, help="With --saw-scores: highest rating.")] = None,
    annotator: Annotated[str | None, typer.Option(help="Only answers of this person.")] = None,
    pipeline: PipelineOption = None,
    file: DataSetFile = DataSetFile(),
) -> None:
    """Write items of the sample that people annotated, with their gold scores.

    Of several people who annotated an item, the first counts.
    """
    settings = given(context).settings()
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.specimens import KeptSpecimens
    from ragtide_roles.kept.annotated import chosen_of_annotations, chosen_of_opinions
    from ragtide_roles.kept.annotations import HIGHEST, LOWEST, StoredAnnotations
    from ragtide_roles.kept.choosing import ChosenSpecimens
    from ragtide_runtime.errors import ConfigurationError

    from ..running.data_sets import write_data_set

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
                kept, annotations, lowest=least, highest=most, annotator=annotator, pipeline=pipeline, limit=file.limit
            )
        return await chosen_of_annotations(
            kept, annotations, selected=selected, annotator=annotator, pipeline=pipeline, limit=file.limit
        )

    keeps = "people have annotated no more, or the others are no longer kept"
    write_data_set(context, settings, choose, file.output, limit=file.limit, force=file.force, keeps=keeps)
    if selected:
        warn("These items were selected because of their scores: means and agreement are about these items alone")


@command(
    "ragtide dataset draw answers.jsonl --rows 200 --output golden.jsonl",
    "ragtide dataset draw recording --by segment:lang --by score:adherence --by disagreement -o golden.jsonl",
    "ragtide dataset draw answers.jsonl scores.jsonl --rows 50 --by feedback --most-per user=2 --json -o golden.jsonl",
    "ragtide dataset draw --kept --rows 100 --seed 7 --output golden.jsonl",
    of=dataset,
)
def draw(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Folder or URL of a recording; or files: of interactions, of their scores, of feedback.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=MOST, help="Number of rows.")] = 200,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="What makes strata: segment:NAME, score:METRIC, disagreement (of two labelers) or feedback; may be "
            "repeated. Default: score:trace.adherence."
        ),
    ] = None,
    kept: Annotated[bool, typer.Option("--kept", help="Draw from the kept sample of the traffic.")] = False,
    most_per: Annotated[
        str | None, typer.Option(metavar="user=K", help="Most rows of a user, or of a session (session=K).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw; the same seed draws the same rows.")] = 0,
    labeler: Annotated[
        str | None, typer.Option(help="Labeler whose scores decide. Default: local, which scores what has no score.")
    ] = None,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Let near duplicates of a question be rows, too.")
    ] = False,
    pipeline: PipelinesOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    file_format: FormatOption = None,
    columns: MapOption = None,
    add_to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the rows to this data set; its other rows stay.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, or - for standard output, the default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw rows that stand for the traffic, each with its probability.

    Strata that are less certain get more rows. Every answer has a known probability, and estimates of score, experiment
    and gate weight rows by it. Of near duplicates one is drawn for all. Answers without a score are scored by the local
    labeler.
    """
    from ragtide_offline.datasets.drawn_set import SCORE, DrawOptions
    from ragtide_offline.replay.selection import selection
    from ragtide_producers import FileOptions

    from ..running.data_sets import STDOUT, check_is_new
    from ..running.drawing import draw_from, most_of, show_draw, source_to_draw, write_drawn
    from ..running.files import columns_of

    if kept == bool(sources):
        raise typer.BadParameter("give a recording, files, or --kept", param_hint="SOURCE")
    path = add_to if output is None else None if str(output) == STDOUT else output
    if as_json and path is None:
        raise typer.BadParameter(
            "the rows are on standard output without --output: give it a file", param_hint="--json"
        )
    check_is_new(path, force=force or (add_to is not None and output is None))
    settings = given(context).settings()
    files = FileOptions(None, format=file_format, columns=columns_of(columns))
    source = source_to_draw(settings, sources or (), files, selection(since, until, pipeline))
    options = DrawOptions(rows, tuple(by or [SCORE]), most_of(most_per), seed, labeler, keep_duplicates)
    drawn = draw_from(settings, source, options)
    written = write_drawn(context, drawn, path, add_to)
    show_draw(drawn, path, len(written), as_json=as_json, rows_are_shown=path is None)


@command(
    "ragtide dataset status golden.jsonl",
    "ragtide dataset status golden.jsonl --against recording/ --last 7d --expires-after 30d",
    "ragtide dataset status golden.jsonl --against answers.jsonl --json",
    exits="1 if there is no traffic to compare with",
    of=dataset,
)
def status(
    context: typer.Context,
    file: DataSetArgument,
    against: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Recording or file of interactions; default: the kept sample."),
    ] = None,
    last: Annotated[str, typer.Option(help="Length of the traffic that is compared, up to its last answer.")] = "7d",
    expires_after: Annotated[
        str, typer.Option(help="Time after which a row expires whose documents do not appear in the traffic.")
    ] = "30d",
    pipeline: PipelineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show versions, age and labels of a data set, and how it differs from the traffic.

    Segments, lengths and words of questions, and scores are compared, weighted by the probabilities of the rows. It
    names expired rows, and the commands that add and remove rows.
    """
    settings = given(context).settings()
    from ..running.data_set_status import length_of, show_status

    show_status(
        settings,
        file,
        against,
        last=length_of(last, "--last"),
        expires_after=length_of(expires_after, "--expires-after"),
        pipeline=pipeline,
        as_json=as_json,
    )


@command(
    "ragtide dataset power golden.jsonl --metric trace.adherence --fall 0.05 --power 0.9",
    "ragtide dataset power golden.jsonl --fail-if 'trace.adherence < 0.8' --json",
    of=dataset,
)
def power(
    context: typer.Context,
    file: DataSetArgument,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Metric that is compared with a baseline, such as trace.adherence; may be repeated."),
    ] = None,
    fail_if: FailIfOption = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Earlier output of ragtide score on the same rows, for the spread of scores.")
    ] = None,
    fall: Annotated[
        list[float] | None,
        typer.Option(min=0.0001, max=1, help="Fall, as a part of the metric's range; may be repeated. [0.05, 0.03]"),
    ] = None,
    wanted: Annotated[
        float, typer.Option("--power", min=0.5, max=0.999, help="Probability with which the first fall is to be found.")
    ] = 0.9,
    confidence: ConfidenceOption = None,
    file_format: FormatOption = None,
    columns: MapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which falls a gate finds with the rows of a data set, and how many more rows it takes.

    The gate's own interval and condition are simulated, with the spread of the scores that are known of the rows.
    """
    from ragtide_offline.gates.foresight import FALLS
    from ragtide_producers import FileOptions

    from ..running.files import columns_of
    from ..running.foreseeing import show_power

    conditions = [*(f"{name}.difference < 0" for name in metric or ()), *(fail_if or ())]
    if not conditions:
        raise typer.BadParameter("give a metric, such as trace.adherence, or a condition", param_hint="--metric")
    settings = given(context).settings()
    show_power(
        settings,
        file,
        FileOptions(None, format=file_format, columns=columns_of(columns)),
        conditions,
        baseline=baseline,
        falls=fall or FALLS,
        wanted=wanted,
        confidence=confidence or settings.confidence,
        as_json=as_json,
    )


@command(
    "ragtide dataset remove golden.jsonl i-17 i-21",
    exits="1 if a row is not in the set",
    of=dataset,
)
def remove(
    context: typer.Context,
    file: DataSetArgument,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of rows, or - to read them from standard input.")],
) -> None:
    """Remove rows from a data set, as its next version."""
    from ..running.data_set_status import remove_rows

    remove_rows(context, file, sys.stdin.read().splitlines() if ids == ["-"] else ids)
