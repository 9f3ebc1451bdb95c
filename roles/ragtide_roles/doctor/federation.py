"""Findings of `ragtide doctor` about the other deployments that the page shows."""

import asyncio

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.serve import FederatedSettings, ServeSettings
from ragtide_schemas.details import FLEET

from .finding import Finding


async def federation_findings(settings: ServeSettings) -> list[Finding]:
    """Return a finding about each deployment of `serve.federate`: whether its service answers with its pipelines.

    Args:
        settings: of the HTTP service; without deployments there is no finding.
    """
    return await asyncio.gather(*map(_finding, settings.federate))


async def _finding(deployment: FederatedSettings) -> Finding:
    from ragtide_runtime.service_client import (  # noqa: PLC0415 - an import of 0.15 s
        ServiceError,
        federated_service,
    )

    subject = f"deployment {deployment.name}"
    try:
        async with federated_service(deployment) as service:
            await service.get("/v1/fleet", FLEET, limit=1)
    except (ConfigurationError, ServiceError) as error:
        return Finding("problem", subject, str(error), "its numbers are missing on the page until it answers")
    return Finding("ok", subject, deployment.url)
