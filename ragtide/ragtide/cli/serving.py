"""`ragtide up`, `worker`, `aggregator` and `recorder`: run roles until SIGTERM or Ctrl-C."""

import asyncio
from typing import Annotated

import typer

from ragtide_roles.running import until_signal
from ragtide_roles.serving import serve
from ragtide_roles.trusted import check_judge, check_labeler
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Health
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.process import ProcessTelemetry
from ragtide_runtime.telemetry.tracing import exporting

from .common import Role, given
from .console import err
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


def up(context: typer.Context) -> None:
    """Run all roles in one process, until Ctrl-C.

    The roles are a worker, an aggregator and, if recorder.url is set, a recorder. SIGTERM ends them, too.
    """
    settings = given(context).settings()
    recorder = [] if settings.recorder.url is None else [Role.RECORDER]
    _serve(settings, Role.WORKER, Role.AGGREGATOR, *recorder)


def worker(context: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Run a worker: it labels interactions.

    Any number of workers may run. SIGTERM or Ctrl-C ends it.
    """
    settings = settings_with(context, workspace)
    if workspace is not None:
        local = given(context).settings()
        check_labeler(settings.labeler, local, workspace)
        check_judge(settings.judge.model, local, workspace)
    _serve(settings, Role.WORKER)


def aggregator(context: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Run an aggregator: it computes estimates and raises alerts.

    A second aggregator stands by. SIGTERM or Ctrl-C ends it.
    """
    _serve(settings_with(context, workspace), Role.AGGREGATOR)


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
    _serve(settings, Role.RECORDER)


def _serve(settings: Settings, *names: Role) -> None:
    configure_logging(settings.log_level, names[0] if len(names) == 1 else "up")

    # Imported late, because no other command needs a web server.
    from ragtide_runtime.telemetry.endpoints import serving  # noqa: PLC0415

    async def run(url: str) -> None:
        stop = asyncio.Event()
        process = ProcessTelemetry(Health(*names))
        async with serving(settings, url, process):
            roles = serve(
                settings,
                url,
                stop,
                worker=Role.WORKER in names,
                aggregator=Role.AGGREGATOR in names,
                recorder=Role.RECORDER in names,
                process=process,
            )
            await until_signal(roles, stop=stop)

    with (
        exporting(names[0] if len(names) == 1 else "up"),
        resolve_redis(settings.redis_address, settings.data_dir, convert=True) as handle,
    ):
        err.print(f"using {handle.description}", style="bright_black", markup=False, highlight=False, soft_wrap=True)
        asyncio.run(run(handle.url))
