"""`ragtide up`, `worker`, `aggregator`, `recorder` and `serve`: run roles until SIGTERM or Ctrl-C."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from ragtide_roles.running import until_signal
from ragtide_roles.serving import serve as run_roles
from ragtide_roles.workspaces import check_judge, check_labeler
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import ServeSettings, TokenSettings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.tracing import exporting
from ragtide_schemas.base import describe

from .common import Role, given
from .console import err, out
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with

if TYPE_CHECKING:
    from ragtide_runtime.settings.rules_watch import RulesWatch
    from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints


def up(context: typer.Context) -> None:
    """Run all roles in one process, until Ctrl-C.

    The roles are a worker and an aggregator; a recorder if recorder.url is set; the HTTP service if serve.port is set;
    and a notifier if there are notify.destinations. SIGTERM ends them, too.
    """
    settings = given(context).settings()
    recorder = [] if settings.recorder.url is None else [Role.RECORDER]
    http = [] if settings.serve.port is None else [Role.SERVE]
    notifier = [Role.NOTIFY] if settings.notify.destinations else []
    run_until_signal(settings, Role.WORKER, Role.AGGREGATOR, *recorder, *http, *notifier)


def worker(context: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Run a worker: it labels interactions.

    Any number of workers may run. SIGTERM or Ctrl-C ends it.
    """
    settings = settings_with(context, workspace)
    if workspace is not None:
        local = given(context).settings()
        check_labeler(settings.labeler, local, workspace)
        check_judge(settings.judge.model, local, workspace)
    run_until_signal(settings, Role.WORKER)


def aggregator(context: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Run an aggregator: it computes estimates and raises alerts.

    A second aggregator stands by. SIGTERM or Ctrl-C ends it.
    """
    run_until_signal(settings_with(context, workspace), Role.AGGREGATOR)


def recorder(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(help="Folder or URL to write to, such as s3://bucket/folder [RAGTIDE_RECORDER_URL].")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="End recording for good: Redis no longer keeps entries for a recorder.")
    ] = False,
) -> None:
    """Run a recorder: it writes the live streams to files.

    A second recorder stands by. SIGTERM or Ctrl-C ends it. ragtide inspect shows the files, and ragtide replay
    reads them.
    """
    settings = given(context).settings()
    if forget:
        from ragtide_consumers.recorder.fence import forget_recorder  # noqa: PLC0415 - only here

        with_redis(settings, lambda redis, _: forget_recorder(redis, settings.layout))
        err.print("Redis no longer keeps entries for a recorder; the recording stays", highlight=False)
        return
    if url is not None:
        changed = settings.recorder.model_copy(update={"url": url})
        settings = settings.model_copy(update={"recorder": changed})
    run_until_signal(settings, Role.RECORDER)


def serve(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port; 0 takes a free one; default: 8080 [RAGTIDE_SERVE_PORT]."),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [RAGTIDE_SERVE_HOST].")] = None,
    capture: Annotated[
        Path | None, typer.Option(help="Folder to write the first requests of traces to, for ragtide ingest explain.")
    ] = None,
    hash_token: Annotated[
        bool, typer.Option("--hash-token", help="Read a token, print its SHA-256 for serve.tokens, and end.")
    ] = False,
) -> None:
    """Run the HTTP service, for interactions and traces.

    It takes feedback, too, and gives estimates, alerts and dead letters. Any number of these processes may run. Without
    serve.tokens it answers to this machine only.
    """
    if hash_token:
        out.print(_token_hash(typer.prompt("token", hide_input=True)), highlight=False)
        return
    settings = given(context).settings()
    changes = {name: value for name, value in (("port", port), ("host", host)) if value is not None}
    try:
        # Validated again, because an address may need tokens.
        http = ServeSettings.model_validate({**dict(settings.serve), **changes})
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--host") from None
    run_until_signal(settings.model_copy(update={"serve": http}), Role.SERVE, capture=capture)


def _token_hash(token: str) -> str:
    try:
        return TokenSettings.model_validate({"token": token}).digest.hex()
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="token") from None


def run_until_signal(settings: Settings, *names: Role, capture: Path | None = None) -> None:
    """Run roles in this process until SIGTERM or Ctrl-C.

    Args:
        settings: of the process.
        names: the roles.
        capture: for the HTTP service, folder for the first requests of traces.
    """
    configure_logging(settings.log_level, names[0] if len(names) == 1 else "up")

    # Imported late, because no other command needs a web server.
    from ragtide_runtime.telemetry.role_endpoints import observing  # noqa: PLC0415

    async def run(url: str) -> None:
        stop = asyncio.Event()
        process = ProcessTelemetry(Health(*names))
        async with AsyncExitStack() as stack:
            endpoints = None
            if settings.http_port is not None or Role.SERVE in names:
                endpoints = await stack.enter_async_context(observing(settings, url, process))
            if endpoints is not None and settings.http_port is not None:
                from ragtide_runtime.telemetry.endpoints import serving  # noqa: PLC0415 - as above

                await stack.enter_async_context(serving(settings, endpoints))
            others = []
            if endpoints is not None and Role.SERVE in names:
                others.append(_http_role(url, stop, endpoints, process, capture))
            roles = run_roles(
                settings,
                url,
                stop,
                worker=Role.WORKER in names,
                aggregator=Role.AGGREGATOR in names,
                recorder=Role.RECORDER in names,
                notifier=Role.NOTIFY in names,
                others=others,
                process=process,
            )
            await until_signal(roles, stop=stop)

    with (
        exporting(names[0] if len(names) == 1 else "up"),
        # The roles wait for a Redis that does not answer yet.
        resolve_redis(settings.redis_address, settings.data_dir, convert=True, ask=False) as handle,
    ):
        err.print(f"using {handle.description}", style="bright_black", markup=False, highlight=False, soft_wrap=True)
        if Role.AGGREGATOR in names and Role.WORKER in names and Role.SERVE not in names:
            err.print("there is no page: RAGTIDE_SERVE_PORT=8080 serves it", style="bright_black", highlight=False)
        asyncio.run(run(handle.url))


def _http_role(
    url: str, stop: asyncio.Event, endpoints: "RoleEndpoints", process: ProcessTelemetry, folder: Path | None
) -> Callable[[Settings, "RulesWatch | None"], Coroutine[Any, Any, None]]:
    try:
        from ragtide_web.capturing import Capture  # noqa: PLC0415 - only here
        from ragtide_web.server import address_of, listen, serve_http  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise needs_web(error) from None
    capture = None if folder is None else Capture(folder)

    def serve_page(settings: Settings, rules: "RulesWatch | None") -> Coroutine[Any, Any, None]:
        listening = listen(settings.serve)
        say_page(address_of(listening, settings.serve.root_path))
        return serve_http(
            settings, url, stop, endpoints=endpoints, process=process, listening=listening, capture=capture, rules=rules
        )

    return serve_page


def say_page(address: str) -> None:
    """Print the address of the page."""
    err.print(f"the page is at {address}", style="bright_black", markup=False, highlight=False, soft_wrap=True)


def needs_web(error: ModuleNotFoundError) -> ConfigurationError:
    """Return the error about an extra that is not installed."""
    return ConfigurationError(f"the HTTP service needs {error.name}: pip install 'ragtide[service,web]'")
