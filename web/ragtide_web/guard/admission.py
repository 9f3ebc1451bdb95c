"""Who asks: the clients of requests, each with its rights and limits."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from redis.asyncio import Redis

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import Access

from .access import Client, Clients


@dataclass
class GuardContext:
    """What tells who asks, and what they may do, for the life of the service."""

    settings: Settings
    """With the alert rules that are in force."""
    redis: Redis
    clients: Clients


# FastAPI calls a dependency that is no coroutine in a thread. The thread costs more than the dependency itself, and the
# limits of a client are for one thread.
async def guard_context_of(request: Request) -> GuardContext:
    """Return what tells who asks."""
    return cast("GuardContext", request.app.state.context)


def addresses_of_request(request: Request, shared: GuardContext) -> Sequence[str]:
    """Return the addresses by which wrong tokens of a request are counted."""
    return shared.clients.addresses(request.client.host if request.client else None, request.headers)


def client_of(request: Request, shared: GuardContext, wanted: Access) -> Client:
    """Return the client of a request, which counts as running until its answer ends.

    Raises:
        HttpProblem: 401 without a known token, 403 without the right, 429 beyond a limit.
    """
    client = shared.clients.admitted(request.headers, wanted, addresses_of_request(request, shared))
    shared.clients.hold(request.scope["state"], client.key)
    return client


def _admitting(wanted: Access) -> Callable[[Request, GuardContext], Awaitable[Client]]:
    async def admitted(request: Request, shared: Annotated[GuardContext, Depends(guard_context_of)]) -> Client:
        return client_of(request, shared, wanted)

    return admitted


Reader = Annotated[Client, Depends(_admitting("read"))]
Writer = Annotated[Client, Depends(_admitting("write"))]
