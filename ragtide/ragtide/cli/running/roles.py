"""Runs roles, in this process or in several, until SIGTERM or Ctrl-C."""

import asyncio
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from ragtide_roles.running import until_signal
from ragtide_roles.serving import serve as run_roles
from ragtide_roles.start_check import check_start
from ragtide_roles.supervising import Ending, ProcessPlace, Work, process_context, supervise
from ragtide_roles.worker_processes import load_before_fork
from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.processes.listening import listening_socket
from ragtide_runtime.redis.server.data_directory import MEMORY
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import DEFAULT_PORT, TokenSettings
from ragtide_runtime.settings.watch import with_live_settings_of_now
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.telemetry.process_reports import ReportSlot
from ragtide_runtime.telemetry.tracing import exporting
from ragtide_schemas.base import describe

from ..printing import err
from . import Role, sentence_of

if TYPE_CHECKING:
    from ragtide_runtime.settings.watch import SettingsWatch
    from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, for `serve.tokens`."""
    try:
        return TokenSettings.model_validate({"token": token}).digest.hex()
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="token") from None


def with_version_from(settings: Settings, version_from: str | None) -> Settings:
    """Return the settings with the option `--version-from`; None leaves them as they are."""
    if version_from is None:
        return settings
    try:
        ingest = IngestSettings.model_validate({**dict(settings.ingest), "version_from": version_from})
    except ValidationError as error:
        raise typer.BadParameter(describe(error), param_hint="--version-from") from None
    return settings.model_copy(update={"ingest": ingest})


@dataclass(frozen=True, slots=True)
class RoleRun:
    """The roles of one process, and what they need."""

    settings: Settings
    names: tuple[Role, ...]
    command: str
    """Name of the command, for logs and traces."""
    url: str = ""
    """Of Redis."""
    capture: Path | None = None
    """For the HTTP service, folder for the first requests of traces."""
    listening: socket.socket | None = None
    """For the HTTP service, its socket, whose address was printed; None opens and prints it when Redis answers."""
    opened_page: str | None = None
    """Address that a browser opens when the process starts."""
    workers: Mapping[str, ReportSlot] = field(default_factory=dict)
    """Reports of the worker processes that this process answers for."""
    is_first: bool = True
    """Whether it warns of settings that all processes of the command have."""


def run_until_signal(
    settings: Settings,
    *names: Role,
    capture: Path | None = None,
    listening: socket.socket | None = None,
    opened_page: str | None = None,
    processes: int = 0,
    is_checked: bool = False,
) -> None:
    """Run roles until SIGTERM or Ctrl-C.

    Args:
        settings: of the process.
        names: the roles.
        capture: for the HTTP service, folder for the first requests of traces.
        listening: its socket, whose address was printed; None opens and prints it when Redis answers.
        opened_page: address of the page if a browser shall open it.
        processes: in which the worker labels; 0 for this process.
        is_checked: whether `check_here` was called.
    """
    command = names[0] if len(names) == 1 else "up"
    configure_logging(settings.log_level, command)
    if settings.redis_address is None and not (settings.data_dir / MEMORY).exists():  # a mistake leaves none
        if not is_checked:
            check_here(settings, *names, processes=processes)
        if Role.SERVE in names and listening is None:
            listening = page_socket(settings)
    # The roles wait for a Redis that does not answer yet.
    with resolve_redis(settings.redis_address, settings.data_dir, convert=True, ask=False) as handle:
        err.print(f"using {handle.description}", style="bright_black", markup=False, highlight=False, soft_wrap=True)
        run = RoleRun(settings, names, command, handle.url, capture, listening, opened_page)
        ending = supervised(run, processes) if processes else None
        if ending is None:
            run_here(run)
    if ending is not None and ending.sentence:
        err.print(f"ragtide: {ending.sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
    if ending is not None and ending.code:
        raise typer.Exit(ending.code)


def check_here(settings: Settings, *names: Role, processes: int) -> None:
    """Build what roles need and close it again, so that a start that fails prints no address and leaves nothing.

    Args:
        settings: of the process.
        names: the roles.
        processes: in which the worker labels; 0 for this process.

    Raises:
        ConfigurationError: a role cannot start.
    """
    check_start(settings, names, apart=processes > 0)
    if Role.BRIDGE in names:
        from ...bridge.links import link_class  # noqa: PLC0415 - no role needs it
        from ...bridge.service import bridge_addresses  # noqa: PLC0415

        for address in bridge_addresses(settings.bridge).values():
            link_class(address.kind)
    if settings.http_port:
        listening_socket(settings.http_host, settings.http_port, "RAGTIDE_HTTP_PORT").close()


def supervised(run: RoleRun, processes: int) -> Ending:
    """Run the worker in processes of its own, and in one more the other roles and the endpoints.

    Args:
        run: all roles of the command.
        processes: in which the worker labels.
    """
    context = process_context()
    if context.get_start_method() == "fork":
        load_before_fork(run.settings)
    names = [f"worker process {number + 1}" for number in range(processes)]
    others = tuple(name for name in run.names if name is not Role.WORKER)
    rest = "the process of the other roles" if others else "the process of the endpoints"
    slots = {name: ReportSlot(context) for name in (rest, *names)}
    works: dict[str, Work] = {}
    has_endpoints = run.settings.http_port is not None or Role.SERVE in others
    if others or has_endpoints:
        workers = {name: slots[name] for name in names} if has_endpoints else {}
        works[rest] = partial(run_member, replace(run, names=others, workers=workers))
    for number, name in enumerate(names):
        settings = run.settings.of_process(number, processes)
        member = RoleRun(settings, (Role.WORKER,), "worker", run.url, is_first=not works)
        works[name] = partial(run_member, member, reports=has_endpoints)
    return supervise(works, slots, context=context, stdin_is_terminal=sys.stdin.isatty())


def run_member(run: RoleRun, place: ProcessPlace, *, reports: bool = False) -> None:
    """Run roles as one of several processes.

    Args:
        run: the roles.
        place: of the process.
        reports: whether another process answers for it.

    Raises:
        RagtideError: a user's mistake, in one sentence.
    """
    configure_logging(run.settings.log_level, run.command)
    if run.listening is not None and Role.SERVE not in run.names:
        run.listening.close()
    if place.is_restarted:
        run = replace(run, settings=with_live_settings_of_now(run.settings), opened_page=None)
    try:
        run_here(run, place, reports=reports)
    except (OSError, RuntimeError) as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise RagtideError(sentence) from error


def run_here(run: RoleRun, place: ProcessPlace | None = None, *, reports: bool = False) -> None:
    """Run roles in this process.

    Args:
        run: the roles.
        place: of the process among those of a command; None for the only one.
        reports: whether another process answers for it.
    """
    # Imported late, because no other command needs a web server.
    from ragtide_runtime.telemetry.role_endpoints import observed, observing  # noqa: PLC0415

    settings, names = run.settings, run.names

    async def roles() -> None:
        stop = asyncio.Event()
        process = ProcessTelemetry(Health(*names))
        async with AsyncExitStack() as stack:
            endpoints = None
            if place is not None and reports:
                await stack.enter_async_context(observed(run.url, process, place.slot))
            elif settings.http_port is not None or Role.SERVE in names:
                endpoints = await stack.enter_async_context(observing(settings, run.url, process, run.workers))
            if endpoints is not None and settings.http_port is not None:
                from ragtide_runtime.telemetry.endpoints import serving  # noqa: PLC0415 - as above

                await stack.enter_async_context(serving(settings, endpoints))
            others = {}
            if endpoints is not None and Role.SERVE in names:
                others[Role.SERVE.value] = _http_role(run, stop, endpoints, process)
            if Role.BRIDGE in names:
                from ...bridge.service import run_bridge  # noqa: PLC0415 - as above

                others[Role.BRIDGE.value] = lambda settings, _: run_bridge(settings, run.url, stop, process)
            running = (
                run_roles(
                    settings,
                    run.url,
                    stop,
                    worker=Role.WORKER in names,
                    aggregator=Role.AGGREGATOR in names,
                    recorder=Role.RECORDER in names,
                    notifier=Role.NOTIFY in names,
                    others=others,
                    process=process,
                    warn=run.is_first,
                )
                if names
                else stop.wait()
            )
            await until_signal(running, stop=stop, parent=None if place is None else place.parent)

    if run.opened_page is not None:
        # A browser that runs in a terminal does not return before it is closed.
        threading.Thread(target=webbrowser.open, args=(run.opened_page,), daemon=True).start()
    with exporting(run.command):
        asyncio.run(roles())


def _http_role(
    run: RoleRun, stop: asyncio.Event, endpoints: "RoleEndpoints", process: ProcessTelemetry
) -> Callable[[Settings, "SettingsWatch | None"], Coroutine[Any, Any, None]]:
    try:
        from ragtide_offline.pages.laboratory import LABORATORY  # noqa: PLC0415 - only here
        from ragtide_web.routes.traces import Capture  # noqa: PLC0415
        from ragtide_web.server import serve_http  # noqa: PLC0415

        from ...bridge.findings import bridge_findings  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise needs_web(error) from None
    capture = None if run.capture is None else Capture(run.capture)

    def serve_page(settings: Settings, rules: "SettingsWatch | None") -> Coroutine[Any, Any, None]:
        return serve_http(
            settings,
            run.url,
            stop,
            endpoints=endpoints,
            process=process,
            listening=run.listening or page_socket(settings),
            capture=capture,
            rules=rules,
            findings=bridge_findings,
            laboratory=LABORATORY,
        )

    return serve_page


def page_socket(settings: Settings) -> socket.socket:
    """Return the socket of the HTTP service, and print the address of its page.

    Raises:
        ConfigurationError: the extra is missing, or the address cannot be used.
    """
    try:
        from ragtide_web.server import address_of, listen  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        raise needs_web(error) from None
    listening = listen(settings.serve)
    say_page(address_of(listening, settings.serve.root_path))
    return listening


def listen_for_page(settings: Settings, *, is_asked_for: bool) -> tuple[socket.socket, str] | None:
    """Return the page of `ragtide up`, and print its address and the ways to send interactions to it.

    Args:
        settings: of the process.
        is_asked_for: whether the user asked for the page, so that it must be there.

    Returns:
        its socket and its address; None without the extra `web`, unless the page is asked for.

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
        place = address.rstrip("/")
        endpoint = "" if port == DEFAULT_PORT else f', endpoint="{place}"'
        for line in (
            f"OpenTelemetry: OTEL_EXPORTER_OTLP_ENDPOINT={place}",
            f'LangChain, LlamaIndex: ragtide.otel.configure(pipeline="shop"{endpoint})',
            f"HTTP: POST {place}/v1/interactions; Python: InteractionProducer().submit()",
        ):
            err.print(f"  {line}", style="bright_black", markup=False, highlight=False, soft_wrap=True)
    return listening, address


def say_page(address: str, note: str = "") -> None:
    """Print the address of the page."""
    err.print(Text.assemble("the page is at ", (address, "bold cyan"), note), highlight=False, soft_wrap=True)


def needs_web(error: ModuleNotFoundError) -> ConfigurationError:
    """Return the error about an extra that is not installed."""
    return ConfigurationError(f"the HTTP service needs {error.name}: pip install 'ragtide[service,web]'")
