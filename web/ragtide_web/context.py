"""The objects that the routes share, and the clients of requests."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_offline.agreement.kept import LabelerKappa
from ragtide_producers.ingest.receiver import TraceReceiver
from ragtide_producers.publishing.publish_command import Routing
from ragtide_roles.doctor.finding import Finding
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import Access
from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints
from ragtide_schemas import Estimate

from .access import Client, Clients
from .capturing import Capture
from .page.attempts import Attempts
from .page.background import BackgroundRead
from .page.deploys import Deploys
from .page.experiment_reading import ExperimentsReading
from .page.hiding import TextHiding
from .page.letter_index import LetterIndex
from .page.live import LiveHub
from .page.rule_replays import RuleReplays
from .page.sparklines import Sparklines
from .page.trends import Trends
from .telemetry import HttpTelemetry


@dataclass(slots=True)
class Context:
    """The objects that the routes share, for the life of the service."""

    settings: Settings
    """With the alert rules that are in force."""
    redis: Redis
    clients: Clients
    routing: Routing
    receiver: TraceReceiver
    deployment: Deployment
    endpoints: RoleEndpoints
    telemetry: HttpTelemetry
    hub: LiveHub
    letters: LetterIndex
    sparklines: Sparklines
    trends: Trends
    deploys: Deploys
    hiding: TextHiding
    checks: BackgroundRead[list[Finding]]
    """The checks of `ragtide doctor`."""
    paired: BackgroundRead[list[Estimate]]
    """Estimates from pairs of two labelers."""
    kappas: BackgroundRead[list[LabelerKappa]]
    """Agreement of two labelers on kept items."""
    experiments: ExperimentsReading
    rule_replays: RuleReplays
    capture: Capture | None = None
    """Writes requests of traces to files, if asked for."""
    attempts: Attempts = field(default_factory=Attempts)
    """Limits attempts to guess a token on the login page."""
    decoding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One large body is decoded at a time, because decoded it takes several times its bytes."""

    def take_rules(self, settings: Settings) -> None:
        """Go on with the alert rules of other settings, and their budget."""
        self.settings = self.settings.model_copy(update={"alerts": settings.alerts, "budget": settings.budget})
        self.deployment.take_rules(settings)


# FastAPI calls a dependency that is no coroutine in a thread. The thread costs more than the dependency itself, and the
# limits of a client are for one thread.
async def context_of(request: Request) -> Context:
    """Return the shared objects."""
    return cast("Context", request.app.state.context)


Shared = Annotated[Context, Depends(context_of)]


def _admitting(wanted: Access) -> Callable[[Request, Context], Awaitable[Client]]:
    async def admitted(request: Request, shared: Shared) -> Client:
        return shared.clients.admitted(request.headers, wanted)

    return admitted


Reader = Annotated[Client, Depends(_admitting("read"))]
Writer = Annotated[Client, Depends(_admitting("write"))]
