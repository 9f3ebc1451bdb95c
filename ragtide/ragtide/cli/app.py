"""The commands. Each reads its settings, opens Redis, runs, and says what went wrong in one sentence."""

import asyncio
import socket
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from redis import RedisError
from redis.asyncio import Redis
from rich.table import Table
from rich.text import Text

from ragtide.roles import cancelled_by_signal, serve, until_signal
from ragtide.version import __version__
from ragtide_consumers.subscriber import AlertSubscriber
from ragtide_producers import FileOptions, InteractionProducer
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.health import Health
from ragtide_runtime.logs import configure_logging
from ragtide_runtime.observed import Observed
from ragtide_runtime.redis_url import RedisHandle, resolve_redis
from ragtide_runtime.settings import Settings
from ragtide_runtime.tracing import exporting
from ragtide_schemas import Alert, Estimate

from . import demo as demonstration
from .agree import agree
from .common import Given, JsonOption, PipelineOption, err, given, out, print_json, with_redis
from .doctor import Finding, examine, examine_role
from .estimates import compare, estimates
from .experiment import experiment
from .feedback import feedback
from .of_run import RunOption, settings_with
from .publish import publish_file
from .reading import read_alerts, read_dead_letters, retry_dead_letters
from .recordings import forget_recorder, recordings
from .repartition import repartition
from .replay import replay
from .report import report
from .runs import runs
from .score import score
from .tables import alert_panel, alerts_view, dead_letters_table
from .watch import Screen
from .watch import watch as watch_screen

cli = typer.Typer(
    help="Live scores, honest intervals and drift alerts for RAG pipelines, on Redis Streams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
dead_letters = typer.Typer(help="Show entries nobody could use, with the reason; or try them again.")
cli.add_typer(dead_letters, name="dead-letters")
cli.add_typer(experiment, name="experiment")
cli.add_typer(runs, name="runs")


class Role(StrEnum):
    """Roles that run until they are stopped."""

    WORKER = "worker"
    AGGREGATOR = "aggregator"
    RECORDER = "recorder"


def main() -> None:
    """Run the command line."""
    try:
        cli()
    except (RagtideError, RedisError) as error:
        err.print(f"ragtide: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        sys.stderr.close()
        sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def common(
    context: typer.Context,
    redis_url: Annotated[str | None, typer.Option(help="Redis to use [RAGTIDE_REDIS_URL].")] = None,
    prefix: Annotated[str | None, typer.Option(help="First part of every key [RAGTIDE_PREFIX].")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where a Redis started by ragtide keeps its data [RAGTIDE_DATA_DIR].")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Number of partitions of the deployment [RAGTIDE_PARTITIONS].")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Settings that every command takes."""
    del version
    context.obj = Given(redis_url, prefix, data_dir, partitions)


def _serve(settings: Settings, *names: Role) -> None:
    configure_logging(settings.log_level)

    # Late, because a web server is what no other command needs.
    from ragtide_runtime.endpoints import serving  # noqa: PLC0415

    async def run(url: str) -> None:
        stop = asyncio.Event()
        observed = Observed(Health(*names))
        async with serving(settings, url, observed):
            roles = serve(
                settings,
                url,
                stop,
                worker=Role.WORKER in names,
                aggregator=Role.AGGREGATOR in names,
                recorder=Role.RECORDER in names,
                observed=observed,
            )
            await until_signal(roles, stop=stop)

    with (
        exporting(names[0] if len(names) == 1 else "up"),
        resolve_redis(settings.redis_address, settings.data_dir) as handle,
    ):
        err.print(f"using {handle.description}", style="bright_black", markup=False, highlight=False, soft_wrap=True)
        asyncio.run(run(handle.url))


@cli.command()
def up(context: typer.Context) -> None:
    """Run all roles in one process, until SIGTERM or Ctrl-C; the recorder too where recorder.url is set."""
    settings = given(context).settings()
    recorder = [] if settings.recorder.url is None else [Role.RECORDER]
    _serve(settings, Role.WORKER, Role.AGGREGATOR, *recorder)


@cli.command()
def worker(context: typer.Context, run: RunOption = None) -> None:
    """Label interactions, until SIGTERM or Ctrl-C. Run as many as you like."""
    _serve(settings_with(context, run), Role.WORKER)


@cli.command()
def aggregator(context: typer.Context, run: RunOption = None) -> None:
    """Keep estimates and raise alerts, until SIGTERM or Ctrl-C. A second one stands by."""
    _serve(settings_with(context, run), Role.AGGREGATOR)


@cli.command()
def recorder(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(help="Folder, or URL that fsspec knows, to record to [RAGTIDE_RECORDER_URL].")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Stop for good: nothing waits in Redis to be recorded any more.")
    ] = False,
) -> None:
    """Archive what is on the streams as files, until SIGTERM or Ctrl-C. A second one stands by."""
    settings = given(context).settings()
    if forget:
        with_redis(settings, lambda redis, _: forget_recorder(redis, settings))
        err.print("nothing waits for a recorder any more; what is recorded stays", highlight=False)
        return
    if url is not None:
        changed = settings.recorder.model_copy(update={"url": url})
        settings = settings.model_copy(update={"recorder": changed})
    _serve(settings, Role.RECORDER)


@cli.command()
def publish(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            help="Interactions: JSON Lines, CSV, Parquet; RAGBench rows; RAGChecker's JSON; hf:owner/name?split=test."
        ),
    ],
    pipeline: Annotated[str | None, typer.Option(help="Pipeline of rows that name none.")] = None,
    run: Annotated[str | None, typer.Option(help="Offline run to put the rows into, with its size known.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Interactions per second; as fast as they go if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of interactions. Publishing it again adds only what is not there yet."""
    with InteractionProducer(settings=given(context).settings()) as producer:
        counts = publish_file(producer, file, FileOptions(pipeline, run), rate=rate, console=err)
    if as_json:
        print_json(counts)
    else:
        err.print(
            f"{counts['published']:,} published, {counts['duplicates']:,} there already, "
            f"{counts['dropped']:,} dropped, {counts['bad']:,} bad rows",
            highlight=False,
        )
    if counts["bad"]:
        raise typer.Exit(1)


cli.command()(score)
cli.command()(agree)
cli.command()(feedback)
cli.command()(estimates)
cli.command()(compare)
cli.command()(repartition)
cli.command()(replay)
cli.command()(recordings)
cli.command()(report)


@cli.command()
def watch(
    context: typer.Context,
    pipeline: PipelineOption = None,
    segments: Annotated[bool, typer.Option("--segments", help="Every segment value too.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Draw one screen and end.")] = False,
    run: RunOption = None,
) -> None:
    """Watch estimates, intervals, trends and alerts live, until Ctrl-C."""
    settings = settings_with(context, run)

    async def body(redis: Redis, _: RedisHandle) -> None:
        def keep(estimate: Estimate) -> bool:
            return pipeline in (None, estimate.pipeline) and (segments or estimate.segment is None)

        screen = Screen(redis, settings, keep=keep)
        if once:
            await screen.refresh()
            out.print(screen.render(out.width))
        else:
            await cancelled_by_signal(watch_screen(out, screen, interval_s=interval))

    with_redis(settings, body)


@cli.command()
def alerts(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    firing: Annotated[bool, typer.Option("--firing", help="Only those that are firing now.")] = False,
    run: RunOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show alerts; as JSON one object a line."""
    settings = settings_with(context, run)

    def show(alert: Alert) -> None:
        if as_json:
            print_json(alert.model_dump(mode="json"))
        else:
            out.print(alert_panel(alert))

    async def tail() -> None:
        async with AlertSubscriber(settings=settings, from_start=True) as subscriber:
            async for alert in subscriber:
                if alert.status == "firing" or not firing:
                    show(alert)

    if follow:
        asyncio.run(cancelled_by_signal(tail()))
        return
    found = with_redis(settings, lambda redis, _: read_alerts(redis, settings))
    found = [alert for alert in found if alert.status == "firing" or not firing]
    if as_json:
        for alert in found:
            show(alert)
    else:
        out.print(alerts_view(found))


@dead_letters.callback(invoke_without_command=True)
def list_dead_letters(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as not_json.")] = None,
    run: RunOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show entries nobody could use, with the reason; as JSON one object a line, payload included."""
    if context.invoked_subcommand is not None:
        return
    settings = settings_with(context, run)
    found = [
        stored
        for stored in with_redis(settings, lambda redis, _: read_dead_letters(redis, settings))
        if reason in (None, stored.letter.reason)
    ]
    if as_json:
        for stored in found:
            print_json({"id": stored.letter_id, "partition": stored.partition, **stored.letter.model_dump(mode="json")})
    else:
        out.print(dead_letters_table(found))


@dead_letters.command()
def retry(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    run: RunOption = None,
) -> None:
    """Publish dead interactions again, after their cause was mended."""
    if bool(ids) == every:
        raise typer.BadParameter("give ids of dead letters, or --all")
    settings = settings_with(context, run)

    async def body(redis: Redis, _: RedisHandle) -> int:
        stored = await read_dead_letters(redis, settings)
        return await retry_dead_letters(
            redis, settings, [item for item in stored if every or item.letter_id in (ids or [])]
        )

    err.print(f"{with_redis(settings, body):,} published again", highlight=False)


@cli.command()
def doctor(
    context: typer.Context,
    role: Annotated[
        Role | None, typer.Option(help="Only whether this role works on this host: a container's health check.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether this deployment is fit to be trusted; exit code 1 if there is a problem."""
    settings = given(context).settings()

    async def body(redis: Redis, handle: RedisHandle) -> list[Finding]:
        if role is not None:
            return await examine_role(redis, settings, role.value, socket.gethostname())
        return await examine(redis, settings, handle.description)

    findings = with_redis(settings, body)
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        marks = {"ok": Text("✓", "green"), "warning": Text("!", "yellow"), "problem": Text("✗", "red")}
        table = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            advice = Text(f" → {finding.advice}" if finding.advice else "", "yellow")
            table.add_row(marks[finding.level], finding.subject, Text.assemble(finding.found, advice))
        out.print(table)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


@cli.command()
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="As fast as it goes, without the live table.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data, to look into with the other commands.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run everything on a Redis of its own over real questions, until quality falls and an alert fires."""
    configure_logging("error")
    result = demonstration.run(fast=fast, keep=keep, live=not as_json, out=out, err=err)
    if as_json:
        print_json(result.as_dict())
    if not result.alerts:
        raise typer.Exit(1)
