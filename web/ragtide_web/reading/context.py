"""The objects that the routes share, and the clients of requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, cast

from fastapi import Depends, Request

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_producers.ingest.receiver import TraceReceiver
from ragtide_producers.publishing.routes import InteractionRoute
from ragtide_producers.traces.otlp import Encoding
from ragtide_roles.doctor.finding import Finding
from ragtide_roles.kept.kappas import LabelerKappa
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints
from ragtide_schemas import Estimate

from ..guard.admission import GuardContext
from ..guard.memory import Memory
from ..guard.telemetry import HttpTelemetry
from .background import BackgroundRead
from .headlines import ShownHeadlines
from .hiding import TextHiding
from .laboratory import Laboratory
from .letter_index import LetterIndex
from .live import LiveHub
from .rule_replays import RuleReplays
from .sparklines import Sparklines


@dataclass
class Context(GuardContext):
    """The objects that the routes share, for the life of the service."""

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
    rule_replays: RuleReplays
    laboratory: Laboratory | None = None
    capture: Callable[[bytes, Encoding], None] | None = None
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
