"""The objects that the routes share, and the clients of requests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_offline.agreement.kept import LabelerKappa
from ragtide_producers.ingest.receiver import TraceReceiver
from ragtide_producers.publishing.routes import InteractionRoute
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import Access
from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints
from ragtide_schemas import Estimate

from .access import Client, Clients
from .capturing import Capture
from .memory import Memory
from .page.alerts.rule_replays import RuleReplays
from .page.background import BackgroundRead
from .page.dead_letters.hiding import TextHiding
from .page.dead_letters.letter_index import LetterIndex
from .page.experiments.reading import ExperimentsReading
from .page.fleet.history import Sparklines
from .page.live.changes import LiveHub
from .page.shown_headlines import ShownHeadlines
from .telemetry import HttpTelemetry

if TYPE_CHECKING:
    from .federation import Federation


@dataclass
class Context:
    """The objects that the routes share, for the life of the service."""

    settings: Settings
    """With the alert rules that are in force."""
    redis: Redis
    clients: Clients
    routing: InteractionRoute
    receiver: TraceReceiver
    deployment: Deployment
    endpoints: RoleEndpoints
    telemetry: HttpTelemetry
    hub: LiveHub
    letters: LetterIndex
    sparklines: Sparklines
    shown: ShownHeadlines
    hiding: TextHiding
    checks: BackgroundRead[list[Finding]]
    """The checks of `ragtide doctor`."""
    paired: BackgroundRead[list[Estimate]]
    """Estimates from pairs of two labelers."""
    kappas: BackgroundRead[list[LabelerKappa]]
    """Agreement of two labelers on kept items."""
    experiments: ExperimentsReading
    rule_replays: RuleReplays
    federation: "Federation | None" = None
    """Reads other deployments, if the settings name any."""
    capture: Capture | None = None
    """Writes requests of traces to files, if asked for."""
    decoding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One large body is decoded at a time, because then it takes several times its bytes."""

    @cached_property
    def memory(self) -> Memory:
        """The memory of bodies."""
        return Memory(self.settings.serve.bodies_bytes)

    def take_settings(self, settings: Settings) -> None:
        """Use other settings, in which those have changed that the running service takes."""
        self.settings = settings
        self.deployment.take_rules(settings)


# FastAPI calls a dependency that is no coroutine in a thread. The thread costs more than the dependency itself, and the
# limits of a client are for one thread.
async def context_of(request: Request) -> Context:
    """Return the shared objects."""
    return cast("Context", request.app.state.context)


Shared = Annotated[Context, Depends(context_of)]


def addresses_of_request(request: Request, shared: Context) -> Sequence[str]:
    """Return the addresses by which wrong tokens of a request are counted."""
    return shared.clients.addresses(request.client.host if request.client else None, request.headers)


def client_of(request: Request, shared: Context, wanted: Access) -> Client:
    """Return the client of a request, which counts as running until its answer ends.

    Raises:
        HttpProblem: 401 without a known token, 403 without the right, 429 beyond a limit.
    """
    client = shared.clients.admitted(request.headers, wanted, addresses_of_request(request, shared))
    shared.clients.hold(request.scope["state"], client.key)
    return client


def _admitting(wanted: Access) -> Callable[[Request, Context], Awaitable[Client]]:
    async def admitted(request: Request, shared: Shared) -> Client:
        return client_of(request, shared, wanted)

    return admitted


Reader = Annotated[Client, Depends(_admitting("read"))]
Writer = Annotated[Client, Depends(_admitting("write"))]
