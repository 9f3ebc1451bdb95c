"""The role `serve`: an HTTP server, and the reader of traces beside it."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final

import structlog
import uvicorn
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_producers.ingest.receiver import TraceReceiver
from ragtide_producers.ingest.service import run_ingest
from ragtide_producers.ingest.span_store import SpanStore
from ragtide_producers.ingest.telemetry import IngestTelemetry
from ragtide_producers.publishing.routes import InteractionRoute
from ragtide_roles.doctor.examination import examine
from ragtide_roles.doctor.finding import LEVELS, Finding
from ragtide_roles.running import in_background
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.listening import listening_socket
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.url import redact
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import DEFAULT_PORT, ServeSettings
from ragtide_runtime.settings.watch import PAGE, SettingsWatch
from ragtide_runtime.telemetry.health import Health, Heartbeat, ProcessTelemetry
from ragtide_runtime.telemetry.logs import say_role
from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints, observing

from .app import application
from .guard.access import Clients
from .guard.connections import protocol
from .guard.telemetry import ROLE, HeadlineCollector, HttpTelemetry
from .page.judge.route import KAPPA_FRESH_S, read_kappas, read_paired
from .reading.background import BackgroundRead, ReadingThread
from .reading.context import Context
from .reading.headlines import ShownHeadlines
from .reading.hiding import TextHiding
from .reading.laboratory import Laboratory, PageReader
from .reading.letter_index import LetterIndex
from .reading.live import LiveHub
from .reading.rule_replays import RuleReplays
from .reading.sparklines import Sparklines
from .routes.traces import Capture

HEADERS_MAX_BYTES: Final = 65_536
"""Most bytes of the head of a request."""
PORTS_TRIED: Final = 20
"""Ports that are tried from the one that is wanted on, before any free one is taken."""
PORT_MAX: Final = 65_535
SHUTDOWN_S: Final = 10
"""Seconds in which running requests are answered when the role ends."""

log = structlog.get_logger("ragtide.web")


def listen(settings: ServeSettings) -> socket.socket:
    """Return a socket at the address of the settings.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    return listening_socket(settings.host, _port_of(settings), "RAGTIDE_SERVE_PORT")


def listen_near(settings: ServeSettings) -> socket.socket:
    """Return a socket at the address of the settings; where its port is taken, at the next free one.

    Raises:
        ConfigurationError: no port of the address can be used.
    """
    port = _port_of(settings)
    for near in range(port, min(port + PORTS_TRIED, PORT_MAX + 1)):
        with suppress(ConfigurationError):
            return listen(settings.model_copy(update={"port": near}))
    return listen(settings.model_copy(update={"port": 0}))


def _port_of(settings: ServeSettings) -> int:
    return DEFAULT_PORT if settings.port is None else settings.port


def address_of(listening: socket.socket, root_path: str = "") -> str:
    """Return the URL at which a browser of this machine reaches the service.

    Args:
        listening: its socket.
        root_path: its setting; the page is below it without a proxy, too.
    """
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared only
        host = "localhost"
    return f"http://[{host}]:{port}{root_path}/" if ":" in host else f"http://{host}:{port}{root_path}/"


async def serve_http(
    settings: Settings,
    url: str,
    stop: asyncio.Event,
    *,
    endpoints: RoleEndpoints,
    process: ProcessTelemetry,
    listening: socket.socket,
    capture: Capture | None = None,
    rules: SettingsWatch | None = None,
    findings: Callable[[Settings], Awaitable[list[Finding]]] | None = None,
    laboratory: Laboratory | None = None,
) -> None:
    """Answer requests, and turn traces into interactions, until `stop` is set.

    Args:
        settings: of the process.
        url: of Redis.
        stop: ends the role; running requests are answered.
        endpoints: answers of the process about itself.
        process: health and metrics.
        listening: socket of `listen`; the role closes it.
        capture: writes requests of traces to files.
        rules: gives new alert rules; None leaves them as they are in the settings.
        findings: examines what only the command line knows.
        laboratory: its screens and functions; None leaves them out.
    """
    say_role(ROLE)
    async with connect_async(url, connections=CONNECTIONS + settings.serve.connections // 10) as redis:
        ingest = IngestTelemetry(process)
        store = SpanStore(redis, settings.layout, settings.ingest)
        deployment = Deployment(redis, settings)
        hub = LiveHub(deployment, redis, settings)
        hiding = TextHiding(settings)
        thread = ReadingThread(url, settings)
        # The deployment has the alert rules that are in force.
        checks = BackgroundRead("checks", partial(thread.run, partial(_examine, deployment, redact(url), findings)))
        paired = BackgroundRead("pairs", partial(thread.run, read_paired))
        kappas = BackgroundRead("kappas", partial(thread.run, read_kappas), KAPPA_FRESH_S)
        experiments = None if laboratory is None else laboratory.experiments(url, settings)
        rule_replays = RuleReplays(hub.replays_changed, "" if laboratory is None else laboratory.rule_replay)
        headlines = HeadlineCollector(deployment, settings.prometheus, process)
        endpoints.refresh_by(headlines.refresh)
        context = Context(
            settings=settings,
            redis=redis,
            clients=Clients(settings.serve),
            routing=InteractionRoute.of(settings),
            receiver=TraceReceiver(store, ingest),
            deployment=deployment,
            endpoints=endpoints,
            telemetry=HttpTelemetry(process),
            hub=hub,
            letters=LetterIndex(redis, settings.layout.all()),
            sparklines=Sparklines(deployment),
            shown=ShownHeadlines(deployment),
            hiding=hiding,
            checks=checks,
            paired=paired,
            kappas=kappas,
            rule_replays=rule_replays,
            laboratory=laboratory,
            capture=None if capture is None else capture.write,
        )
        server = _HttpServer(context, experiments)
        heartbeat = Heartbeat("HTTP")
        async with AsyncExitStack() as stack:
            for close in (listening.close, hiding.close, headlines.close):
                stack.callback(close)
            if rules is not None:
                stack.enter_context(rules.giving(context.take_settings, PAGE))
            for reader in filter(None, (thread, experiments, rule_replays, checks, paired, kappas)):
                stack.push_async_callback(reader.aclose)
            if settings.serve.grpc_port is not None:
                from .routes.grpc_server import grpc_service  # noqa: PLC0415 - an extra of its own

                await stack.enter_async_context(grpc_service(context))
            stack.enter_context(process.health.reporting(ROLE, heartbeat))
            stack.enter_context(heartbeat.idle("answering requests"))
            port = listening.getsockname()[1]
            log.info("serving", address=settings.serve.host, port=port, tokens=len(settings.serve.tokens))
            if any(token.is_guessable for token in settings.serve.tokens):
                log.warning("a token of serve.tokens has fewer than 16 characters: take 32 at random")
            ended = asyncio.Event()
            reading = asyncio.create_task(run_ingest(settings, redis, ended, ingest))
            answering = asyncio.create_task(server.serve([listening]))
            stopping = asyncio.create_task(stop.wait())
            watching = asyncio.create_task(hub.run())
            try:
                await asyncio.wait((reading, answering, stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                server.should_exit = True
                # Open pages would hold the server up: their connections never end by themselves.
                hub.close()
                await end(watching)
                stopping.cancel()
                await asyncio.wait((answering,))
                ended.set()
                await asyncio.wait((reading,))
        for task in (answering, reading):
            task.result()


async def _examine(
    deployment: Deployment,
    description: str,
    further: Callable[[Settings], Awaitable[list[Finding]]] | None,
    redis: Redis,
    _: Deployment,
) -> list[Finding]:
    findings = await examine(redis, deployment.settings, description, check_labeler=False, further=further)
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, because the roles of a process end together."""

    def __init__(self, context: Context, experiments: PageReader | None) -> None:
        settings = context.settings.serve
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # its lines about bad requests are counted as metrics
        super().__init__(
            uvicorn.Config(
                application(context, experiments),
                http=protocol(settings),
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADERS_MAX_BYTES,
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process."""
        yield


@asynccontextmanager
async def page_beside(settings: Settings, url: str, laboratory: Laboratory | None = None) -> AsyncIterator[str]:
    """Serve the page for the body of an `async with`, and yield its address.

    The port is that of the settings, or the next free one.
    """
    listening = listen_near(settings.serve)
    process, stop = ProcessTelemetry(Health(ROLE)), asyncio.Event()
    async with observing(settings, url, process) as endpoints:
        served = serve_http(
            settings, url, stop, endpoints=endpoints, process=process, listening=listening, laboratory=laboratory
        )
        async with in_background(served, stop=stop):
            yield address_of(listening, settings.serve.root_path)
