"""Runs roles in this process until SIGTERM or Ctrl-C."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError

from ragtide_roles.running import until_signal
from ragtide_roles.serving import serve as run_roles
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import TokenSettings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.tracing import exporting
from ragtide_schemas.base import describe

from .console import err
from .options import Role

if TYPE_CHECKING:
    from ragtide_runtime.settings.rules_watch import RulesWatch
    from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, for `serve.tokens`."""
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
