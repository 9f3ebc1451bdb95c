"""Runs roles in this process until SIGTERM or Ctrl-C."""

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from ragtide_roles.running import until_signal
from ragtide_roles.serving import serve as run_roles
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import DEFAULT_PORT, TokenSettings
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


def run_until_signal(
    settings: Settings,
    *names: Role,
    capture: Path | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Run roles in this process until SIGTERM or Ctrl-C.

    Args:
        settings: of the process.
        names: the roles.
        capture: for the HTTP service, folder for the first requests of traces.
        listening: its socket, whose address was printed; None opens and prints it when Redis answers.
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
                others.append(_http_role(url, stop, endpoints, process, folder=capture, opened=listening))
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
        asyncio.run(run(handle.url))


def _http_role(
    url: str,
    stop: asyncio.Event,
    endpoints: "RoleEndpoints",
    process: ProcessTelemetry,
    *,
    folder: Path | None,
    opened: socket.socket | None,
) -> Callable[[Settings, "RulesWatch | None"], Coroutine[Any, Any, None]]:
    try:
        from ragtide_web.capturing import Capture  # noqa: PLC0415 - only here
        from ragtide_web.server import address_of, listen, serve_http  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise needs_web(error) from None
    capture = None if folder is None else Capture(folder)

    def serve_page(settings: Settings, rules: "RulesWatch | None") -> Coroutine[Any, Any, None]:
        listening = opened
        if listening is None:
            listening = listen(settings.serve)
            say_page(address_of(listening, settings.serve.root_path))
        return serve_http(
            settings, url, stop, endpoints=endpoints, process=process, listening=listening, capture=capture, rules=rules
        )

    return serve_page


def listen_for_page(settings: Settings, *, is_asked_for: bool, open_page: bool) -> socket.socket | None:
    """Return the socket of the page of `ragtide up`, and print its address and the ways to send interactions to it.

    Args:
        settings: of the process.
        is_asked_for: whether the user asked for the page, so that it must be there.
        open_page: whether to open it in a browser.

    Returns:
        the socket; None without the extra `web`, unless the page is asked for.

    Raises:
        ConfigurationError: the extra is missing and the page is asked for, or the address cannot be used.
    """
    try:
        from ragtide_web.server import address_of, listen, listen_near  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        if is_asked_for:
            raise needs_web(error) from None
        err.print("there is no page: pip install 'ragtide[service,web]'", style="bright_black", markup=False)
        return None
    listening = listen_near(settings.serve) if settings.serve.port is None else listen(settings.serve)
    address = address_of(listening, settings.serve.root_path)
    port = listening.getsockname()[1]
    is_taken = settings.serve.port is None and port != DEFAULT_PORT
    say_page(address, f"; port {DEFAULT_PORT} is taken" if is_taken else "")
    if err.is_terminal:
        _say_ways_in(address.rstrip("/"), "" if port == DEFAULT_PORT else f', endpoint="{address.rstrip("/")}"')
    if open_page:
        # A browser that runs in a terminal does not return before it is closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    return listening


def _say_ways_in(address: str, endpoint: str) -> None:
    for line in (
        f"OpenTelemetry: OTEL_EXPORTER_OTLP_ENDPOINT={address}",
        f'LangChain, LlamaIndex: ragtide.otel.configure(pipeline="shop"{endpoint})',
        f"HTTP: POST {address}/v1/interactions; Python: InteractionProducer().submit()",
    ):
        err.print(f"  {line}", style="bright_black", markup=False, highlight=False, soft_wrap=True)


def say_page(address: str, note: str = "") -> None:
    """Print the address of the page."""
    err.print(Text.assemble("the page is at ", (address, "bold cyan"), note), highlight=False, soft_wrap=True)


def needs_web(error: ModuleNotFoundError) -> ConfigurationError:
    """Return the error about an extra that is not installed."""
    return ConfigurationError(f"the HTTP service needs {error.name}: pip install 'ragtide[service,web]'")
