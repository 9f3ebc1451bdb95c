"""What the page has of the laboratory. The command line hands it over; without it the page has no such screens."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction


class PageReader(Protocol):
    """What ends with the service."""

    async def aclose(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class Laboratory:
    """Screens of the laboratory, and its functions behind other screens."""

    routers: Sequence[APIRouter]
    folders: Sequence[tuple[str, str]]
    """Package and folder of the files beside the code of each screen."""
    experiments: Callable[[str, Settings], PageReader]
    """Begins the reading of experiments, by the URL of Redis."""
    compare: Callable[[Redis, Deployment, str, str], Awaitable[Sequence[Any]]]
    """Returns the differences of two pipelines."""
    examples: Callable[[], Sequence[RagInteraction]]
    """Returns interactions by whose texts the price of a criterion is estimated."""
    rule_replay: str
    """Python of the process that replays the rule of an alert."""
