"""`ragtide demo`, `up`, `doctor`, `docs`, and the roles of a deployment."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from ..printing import err, fitted, folded, out, print_json, warn
from ..running import JsonOption, Role, WorkspaceOption, given, settings_with
from ..running.labeler_options import LabelerOptions
from . import command
from .experiments import capacity

VersionFromOption = Annotated[
    str | None,
    typer.Option(
        "--version-from",
        metavar="NAME",
        help="Attribute of traces with the version of the application; auto: service.version or the revision of the "
        "source; off: none; default: auto [RAGTIDE_INGEST_VERSION_FROM].",
    ),
]


@command("ragtide demo", "ragtide demo --fast --json", exits="1 if no alert fires")
def demo(
    fast: Annotated[bool, typer.Option("--fast", help="As fast as possible, without the live table.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data, so that other commands can show them.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run all roles over example data until an alert fires.

    The demo starts a Redis of its own. Real answers to real questions come first; then answers are swapped.
    """
    import asyncio
    import shutil
    import tempfile

    from rich.text import Text

    from ragtide_offline.demo import demo_settings
    from ragtide_runtime.redis.server.embedded import EmbeddedRedis
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..running.demonstrating import print_demo, run_on_screen

    configure_logging("error")
    data_dir = Path(tempfile.mkdtemp(prefix="ragtide-demo-"))
    try:
        with EmbeddedRedis.open(data_dir) as server:
            settings = demo_settings(server.url, data_dir)
            if not as_json:
                out.print(Text.assemble(("ragtide demo", "bold cyan"), f" on {server.binary}"))
            result = asyncio.run(run_on_screen(settings, fast=fast, live=not as_json, open_page=open_page))
    finally:
        if not keep:
            shutil.rmtree(data_dir, ignore_errors=True)
    if as_json:
        print_json({**result.as_dict(), "data_dir": str(data_dir) if keep else None})
    elif not open_page:  # otherwise it is printed above the sentence about the page
        print_demo(result)
    if keep:
        command = f"ragtide --data-dir {data_dir} estimates"
        err.print(f"The data are kept. Show them with: {command}", highlight=False, soft_wrap=True)
    if not result.alerts:
        raise typer.Exit(1)


@command("ragtide doctor", "ragtide doctor --role worker", exits="1 if a check finds a problem")
def doctor(
    context: typer.Context,
    role: Annotated[
        Role | None,
        typer.Option(help="Check only that this role runs on this host; made for the health check of a container."),
    ] = None,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Drop this damaged field of a checkpoint, and start its count again. Stop every aggregator first.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the deployment, and say how to repair each problem. The exit code is 1 if there is a problem."""
    settings = given(context).settings()
    import socket

    from redis.asyncio import Redis

    from ragtide_roles.doctor.examination import examine, examine_role
    from ragtide_roles.doctor.finding import Finding
    from ragtide_runtime.redis.url import RedisHandle

    from ...bridge.findings import bridge_findings
    from ..printing.live import FINDING_COLUMNS
    from ..running.redis import with_redis

    if repair is not None:
        from ragtide_aggregator.maintenance.repair import repair as repair_field

        from ..printing.live import print_repairs

        print_repairs(with_redis(settings, lambda redis, _: repair_field(redis, settings, repair)), as_json=as_json)
        return

    async def body(redis: Redis, handle: RedisHandle) -> list[Finding]:
        if role is not None:
            return await examine_role(redis, settings, role.value, socket.gethostname())
        return await examine(redis, settings, handle.description, further=bridge_findings)

    findings = with_redis(settings, body)
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        out.print(folded(FINDING_COLUMNS, findings))
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


@command(
    "ragtide docs",
    "ragtide docs troubleshooting",
    "ragtide docs --search 'thumbs feedback'",
    exits="1 if there is no such page, or the search finds nothing",
)
def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page, such as settings; default: list all.")] = None,
    words: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", help="List the sections, of one page or all, that have every word."),
    ] = None,
) -> None:
    """Read the documentation of this version.

    A pipe or a file gets the page as Markdown.
    """
    from ragtide_schemas.suggestions import unknown

    from ..printing.pages import (
        PAGE_COLUMNS,
        TEXT_WIDTH,
        DocumentationPage,
        for_terminal,
        found_lines,
        page_name,
        pages,
        search,
    )

    known = pages()
    name = None if page is None else page_name(page)
    if name is not None and name not in known:
        warn(unknown("page", name, known, listed_by="ragtide docs"))
        raise typer.Exit(1)
    if words is not None:
        sections = search(words, known if name is None else {name: known[name]})
        if not sections:
            warn(f"no section has {words!r}: search for fewer words, or parts of words")
            raise typer.Exit(1)
        for line in found_lines(sections[:_FOUND_SHOWN], words, out.width):
            out.print(line, highlight=False)
        more = f"{len(sections) - _FOUND_SHOWN:,} more sections: add a word. " if len(sections) > _FOUND_SHOWN else ""
        out.print(f"{more}To read a page: ragtide docs PAGE", style="bright_black", highlight=False)
        return
    if name is None:
        out.print(fitted(PAGE_COLUMNS, [page for page in known.items() if "/" not in page[0]], out.width))
        out.print(
            "ragtide docs PAGE shows a page, ragtide docs --search WORD finds one. A first page: concepts.",
            style="bright_black",
            highlight=False,
        )
        return
    text = for_terminal(known[name].read_text(encoding="utf-8"), name, known)
    if not out.is_terminal:
        typer.echo(text)
        return
    out.print(DocumentationPage(text, code_theme="ansi_dark", hyperlinks=False), width=min(out.width, TEXT_WIDTH))
    out.print()
    out.print("To read a page that is named here: ragtide docs PAGE", style="bright_black", highlight=False)


_FOUND_SHOWN: Final = 20
"""Most sections that a search lists."""


@command(
    "ragtide up",
    "ragtide up --open",
    "ragtide up --labeler model --model cross-encoder/nli-deberta-v3-xsmall",
    "ragtide up --judge",
    "ragtide up --processes 4",
    "RAGTIDE_LABELER=cascade ragtide --redis-url redis://redis:6379 up",
)
def up(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port of the page; 0 takes a free one; default: 8080, or the next free one [RAGTIDE_SERVE_PORT].",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    no_page: Annotated[bool, typer.Option("--no-page", help="Run no HTTP service, and so no page.")] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1024,
            help="Processes that label, beside one for the other roles; 0 runs all in one; default: by the processors "
            "that are left [RAGTIDE_WORKER_PROCESSES].",
        ),
    ] = None,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Before that, let a judge score a sample, as ragtide judge setup --yes, unless one does."
        ),
    ] = False,
    version_from: VersionFromOption = None,
    chosen: LabelerOptions = LabelerOptions(),
) -> None:
    """Run all roles until Ctrl-C.

    The roles are a worker, an aggregator, and the HTTP service with the page; a recorder if recorder.url is set; and a
    notifier, which waits until there are notify.destinations. SIGTERM ends them, too.
    """
    from ragtide_roles.worker_processes import process_count
    from ragtide_runtime.processes.processors import own_limits, own_processors

    from ..running.roles import check_here, listen_for_page, run_until_signal, with_version_from

    if no_page and (open_page or port is not None):
        raise typer.BadParameter("--no-page goes with neither --open nor --port: leave out one of them")
    if judge and chosen.labeler is not None:
        raise typer.BadParameter("--judge sets the labeler in the settings file: leave out --labeler")
    if judge:
        from ..running.judge_setup import set_up_judge

        set_up_judge(given(context).settings_to_write())
    settings = chosen.settings(partial(given(context).settings, worker_processes=processes))
    count = process_count(settings, own_processors() - 1, own_limits().memory_bytes)
    if port is not None:
        serve = settings.serve.model_copy(update={"port": port})
        settings = settings.model_copy(update={"serve": serve})
    settings = with_version_from(settings, version_from)
    recorder = [] if settings.recorder.url is None else [Role.RECORDER]
    check_here(settings, Role.WORKER, Role.AGGREGATOR, *recorder, processes=count)
    is_asked_for = open_page or settings.serve.port is not None
    page = None if no_page else listen_for_page(settings, is_asked_for=is_asked_for)
    listening, address = (None, None) if page is None else page
    http = [] if listening is None else [Role.SERVE]
    run_until_signal(
        settings,
        *(Role.WORKER, Role.AGGREGATOR, *recorder, *http, Role.NOTIFY),
        listening=listening,
        opened_page=address if open_page else None,
        processes=count,
        is_checked=True,
    )


@command("ragtide worker", "ragtide worker --processes 4", "ragtide worker --workspace try")
def worker(
    context: typer.Context,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            help="Processes that label; default: by the processors and the labeler [RAGTIDE_WORKER_PROCESSES].",
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    chosen: LabelerOptions = LabelerOptions(),
) -> None:
    """Run a worker: it labels interactions.

    Any number of workers may run. SIGTERM or Ctrl-C ends it.
    """
    settings = chosen.settings(partial(settings_with, context, workspace, roles=True))
    from ragtide_roles.worker_processes import process_count
    from ragtide_runtime.processes.processors import own_limits, own_processors

    from ..running.roles import run_until_signal

    if workspace is not None:
        from ragtide_roles.workspaces import check_judge, check_labeler

        local = given(context).settings()
        check_labeler(settings.labeler, local, workspace)
        check_judge(settings.judge.model, local, workspace)
    if processes is not None:
        settings = settings.model_copy(update={"worker_processes": processes})
    count = process_count(settings, own_processors(), own_limits().memory_bytes)
    run_until_signal(settings, Role.WORKER, processes=count if count > 1 else 0)


@command("ragtide aggregator")
def aggregator(context: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Run an aggregator: it computes estimates and raises alerts.

    A second aggregator stands by. SIGTERM or Ctrl-C ends it.
    """
    settings = settings_with(context, workspace, roles=True)
    from ..running.roles import run_until_signal

    run_until_signal(settings, Role.AGGREGATOR)


@command("ragtide serve", "ragtide serve --port 4318")
def serve(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port; 0 takes a free one; default: 8080 [RAGTIDE_SERVE_PORT]."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [RAGTIDE_SERVE_HOST].")] = None,
    capture: Annotated[
        Path | None, typer.Option(help="Folder to write the first requests of traces to, for ragtide publish explain.")
    ] = None,
    hash_token: Annotated[
        bool, typer.Option("--hash-token", help="Read a token, print its SHA-256 for serve.tokens, and end.")
    ] = False,
    version_from: VersionFromOption = None,
) -> None:
    """Run the HTTP service, for interactions and traces.

    It takes feedback, too, and gives estimates, alerts and dead letters. Any number of these processes may run. Without
    serve.tokens it answers to this machine only.
    """
    settings = None if hash_token else given(context).settings()
    from pydantic import ValidationError

    from ragtide_runtime.settings.serve import ServeSettings
    from ragtide_schemas.base import describe

    from ..running.roles import run_until_signal, token_hash, with_version_from

    if settings is None:
        out.print(token_hash(typer.prompt("token", hide_input=True)), highlight=False)
        return
    given_options = {"port": port, "host": host}
    changes = {name: value for name, value in given_options.items() if value is not None}
    try:
        # Validated again, because an address may need tokens.
        http = ServeSettings.model_validate({**dict(settings.serve), **changes})
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--host") from None
    settings = with_version_from(settings, version_from)
    run_until_signal(settings.model_copy(update={"serve": http}), Role.SERVE, capture=capture)


@command(
    "ragtide bridge --from nats://broker/rag.answers --to-alerts nats://broker/ragtide.alerts",
    "ragtide bridge --from otlp+kafka://broker/otlp_spans",
)
def bridge(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            help="Topic of interactions: kafka, mqtt, nats, amqp or redis, as nats://host/topic; otlp+ before it for "
            "spans [RAGTIDE_BRIDGE_SOURCE].",
        ),
    ] = None,
    alerts: Annotated[
        str | None,
        typer.Option("--to-alerts", metavar="URL", help="Topic to send alerts to [RAGTIDE_BRIDGE_ALERTS]."),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option("--to-events", metavar="URL", help="Topic to send metric events to [RAGTIDE_BRIDGE_EVENTS]."),
    ] = None,
    estimates: Annotated[
        str | None,
        typer.Option("--to-estimates", metavar="URL", help="Topic to send estimates to [RAGTIDE_BRIDGE_ESTIMATES]."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Name of the consumer at the broker [RAGTIDE_BRIDGE_GROUP].")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="End sending for good: Redis no longer keeps entries for these topics.")
    ] = False,
) -> None:
    """Run a bridge to Kafka, MQTT, NATS, RabbitMQ or another Redis.

    A message is acknowledged after its interactions are in Redis. Alerts, metric events and estimates are sent at least
    once. Any number of bridges may run. SIGTERM or Ctrl-C ends it.
    """
    settings = given(context).settings()
    from pydantic import ValidationError

    from ragtide_runtime.settings.bridge import BridgeSettings
    from ragtide_schemas.base import describe

    from ...bridge.service import bridge_addresses, forget_bridge
    from ..running.redis import with_redis
    from ..running.roles import run_until_signal

    changes = {"source": source, "alerts": alerts, "events": events, "estimates": estimates, "group": group}
    try:
        changed = BridgeSettings.model_validate(
            {**dict(settings.bridge), **{name: value for name, value in changes.items() if value is not None}}
        )
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--group") from None
    settings = settings.model_copy(update={"bridge": changed})
    bridge_addresses(changed)
    if forget:
        removed = with_redis(settings, lambda redis, _: forget_bridge(redis, settings))
        err.print(f"Redis no longer keeps entries for these topics; {removed} groups were removed", highlight=False)
        return
    run_until_signal(settings, Role.BRIDGE)


@command("ragtide capacity repartition 4 --split shop=2", of=capacity)
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
    from ragtide_aggregator.maintenance.repartition import Repartition
    from ragtide_runtime.settings.model import Settings

    from ..running.redis import with_redis

    splits = {}
    for text in split or ():
        pipeline, _, parts = text.rpartition("=")
        if not pipeline or not parts.isdigit():
            raise typer.BadParameter(f"{text!r} is not a split: give pipeline=parts, such as shop=4")
        splits[pipeline] = int(parts)
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
