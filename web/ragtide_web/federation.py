"""Other deployments: the worst pipelines of each, read from its HTTP service while a page asks for them."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from ragtide_runtime.service_client import FEDERATED_TIMEOUT_S, ServiceError, federated_service
from ragtide_runtime.settings.serve import FederatedSettings
from ragtide_schemas import utc_now
from ragtide_schemas.details import FLEET, FederatedDeployment

from .reading.background import BackgroundRead

SHOWN: Final = 20
"""Most pipelines of a deployment that are shown, the worst ones."""
FRESH_S: Final = 10.0
"""Seconds for which the answer of a deployment is shown before it is read again."""


class Federation:
    """Reads the deployments of `serve.federate`, all at once, for all open pages together.

    Args:
        deployments: of the settings.

    Raises:
        ConfigurationError: a token cannot be used.
    """

    def __init__(self, deployments: Sequence[FederatedSettings]) -> None:
        self._deployments = [_AskedDeployment(deployment) for deployment in deployments]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the connections."""
        for deployment in self._deployments:
            await self._stack.enter_async_context(deployment.service)
            self._stack.push_async_callback(deployment.reading.aclose)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def read(self) -> list[FederatedDeployment]:
        """Return every deployment in the order of the settings, one that does not answer with its problem."""
        return list(await asyncio.gather(*(deployment.read() for deployment in self._deployments)))


class _AskedDeployment:
    """One deployment."""

    def __init__(self, settings: FederatedSettings) -> None:
        self.service = federated_service(settings)
        self.reading = BackgroundRead(
            f"deployment {settings.name}", self._asked, FRESH_S, wait_s=2 * FEDERATED_TIMEOUT_S
        )
        self._name = settings.name
        self._answered_at: datetime | None = None

    async def read(self) -> FederatedDeployment:
        result = await self.reading.read()
        if result.value is None or result.failed:
            return self._without_numbers("its answer cannot be shown: the log of this service has the cause")
        return result.value

    async def _asked(self) -> FederatedDeployment:
        try:
            found = await self.service.get("/v1/fleet", FLEET, limit=SHOWN + 1)
        except ServiceError as error:
            return self._without_numbers(str(error))
        self._answered_at = utc_now()
        return FederatedDeployment(
            name=self._name,
            url=self.service.url,
            answered_at=self._answered_at,
            pipelines=tuple(found[:SHOWN]),
            has_more=len(found) > SHOWN,
        )

    def _without_numbers(self, problem: str) -> FederatedDeployment:
        return FederatedDeployment(
            name=self._name, url=self.service.url, answered_at=self._answered_at, problem=problem
        )
